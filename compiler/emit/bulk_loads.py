"""Loads by the copy engine as CUDA C++: a tile or a run, to one block or to all blocks of a cluster."""

from __future__ import annotations

from compiler.emit.address import address
from compiler.emit.text import total
from compiler.lower.kernel_ir import BulkLoad, TmaLoad


def bulk_load(s: TmaLoad | BulkLoad, target: str, barrier: str, unrolled: frozenset[str]) -> str:
    """The call that asks for the copy, to shared address `target`, counted on the mbarrier at `barrier`.

    A multicast names its blocks by a mask: all of a cluster (PTX ISA, cp.async.bulk: ctaMask).
    """
    mask = f", {(1 << s.blocks) - 1:#x}u" if s.blocks > 1 else ""
    if isinstance(s, BulkLoad):
        name = "ft_bulk_multicast" if mask else "ft_bulk_load"
        return f"{name}({target}, {address(s.tensor, s.offset, unrolled)}, {s.nbytes}u, {barrier}{mask});"
    coordinates = ", ".join(f"::i32({total(c)})" for c in s.coordinates)
    name = f"ft_tma_{'multicast' if mask else 'load'}_{len(s.coordinates)}d"
    return f"{name}({target}, &{s.tensor_map}, {barrier}{mask}, {coordinates});"
