"""Tests of the verification of cached kernels."""
