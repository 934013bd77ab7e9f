"""Axes and indices: one graph of axes over all tensors, and what follows from it."""
