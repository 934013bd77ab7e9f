"""Blocks of a cluster together: their barrier, and one another's shared memory."""
