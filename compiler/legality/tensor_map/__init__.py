"""Tensor-map copies: what a map is inferred from, and the descriptor that it is encoded into."""

from compiler.legality.tensor_map import encoding, inference

__all__ = ["encoding", "inference"]
