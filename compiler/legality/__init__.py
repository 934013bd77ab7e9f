"""Rules: one module a subject, one function a rule, every refusal a Violation."""

from compiler.legality import (
    bulk,
    bulk_copy,
    circular_buffer,
    descriptor,
    domains,
    launch,
    memory,
    parallel,
    reads,
    reductions,
    structure,
    tensor_map,
    tile_placement,
    tmem,
    vectorization,
    vectorize,
    warp_specialization,
)
from compiler.legality.rules import Schedule, check

__all__ = [
    "Schedule",
    "bulk",
    "bulk_copy",
    "check",
    "circular_buffer",
    "descriptor",
    "domains",
    "launch",
    "memory",
    "parallel",
    "reads",
    "reductions",
    "structure",
    "tensor_map",
    "tile_placement",
    "tmem",
    "vectorization",
    "vectorize",
    "warp_specialization",
]
