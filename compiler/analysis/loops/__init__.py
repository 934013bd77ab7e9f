"""Loops: which tensors share one, the nest they make, and what is folded in them."""
