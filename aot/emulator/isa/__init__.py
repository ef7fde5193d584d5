"""The instruction set: what every instruction means, as data and as functions over typed values of 64 lanes."""
