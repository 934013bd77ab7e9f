"""Tensor memory: lanes, columns, access patterns and who may reach what."""
