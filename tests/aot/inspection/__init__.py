"""Tests of looking at what was built."""
