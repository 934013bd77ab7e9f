"""Proving a kernel's outputs right against the independent reference, on NumPy arrays or torch tensors.

`inputs` and `integers` make the data, `errors` works out how far from the reference a right kernel may be, `expected`
the bounds around it, `compare` holds outputs against them, `zones` finds writes out of place, `tolerance` has the
numbers.
"""
