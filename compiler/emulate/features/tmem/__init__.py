"""Tensor memory."""
