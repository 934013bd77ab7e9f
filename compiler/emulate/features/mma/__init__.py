"""Products of tensor cores."""
