"""What a wave and device memory consist of, in the places where both engines keep it."""
