"""Proving a kernel's outputs right against the independent reference, on NumPy arrays or torch tensors.

`inputs` makes the data, `expected` the bounds around the reference, `compare` holds outputs against them, `zones` finds
writes out of place, `tolerance` has the numbers.
"""
