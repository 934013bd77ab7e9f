"""Scheduling spaces: knobs, the constraints that refuse combinations of them, and the points that are left."""
