"""Tests of plans, devices, the reference and the bound."""
