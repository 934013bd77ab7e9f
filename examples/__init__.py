"""Small fusions, and what can be done with them."""
