"""A family that exists in the tests only: both halves, registered by a test, with no change to anything else."""
