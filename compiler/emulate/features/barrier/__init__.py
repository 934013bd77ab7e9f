"""The barriers of a block."""
