"""PTX arithmetic as pure functions of NumPy arrays, one element a lane."""
