"""Threads: who reads what others wrote, circular buffers, and the parts of a block."""
