"""Regions with the products around them, as another way to compute both: what is done with a product's result before
memory has it, and what is made of fewer bytes for a product alone, such as weights of 8 bits.

A library computes a product alone faster than, or as fast as, anybody. What a kernel of both saves is the way through
memory between. Whether that is more is measured: these are ways beside the regions, never in their places at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from fusetune.graph import why_not
from fusetune.graph.precision import precision_of_f32
from fusetune.torch_compile.regions.bits import SAME_BITS
from fusetune.torch_compile.regions.limits import edges_of, fits, solid_reads, solid_users
from fusetune.torch_compile.regions.memory import within_eager
from fusetune.torch_compile.regions.operators import bytes_made, name_of
from fusetune.torch_compile.regions.order import RegionsInACycle, steps_of
from fusetune.torch_compile.regions.region import Region
from fusetune.torch_compile.regions.trimming import region_of
from fusetune.torch_compile.regions.units import Role, Unit, UnitGraph

PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm"})

TYPES = (torch.bfloat16, torch.float16)
"""Of results: what tensor cores multiply as fast as a library does. Products of f32 are exact, and slow, where torch's
switches do not allow tf32."""

MOST_PRODUCTS = 2
"""A gate and what it scales. Three, as queries, keys and values, would be several kernels again."""


@dataclass(frozen=True)
class WithProducts:
    """A region that has products in it. `covers`: the places, among the regions that it was made of, of those that it
    stands for; a single operator behind a product is no region by itself."""

    region: Region
    covers: tuple[int, ...]


def with_products(flow: UnitGraph, regions: Sequence[Region], least_bytes: int) -> tuple[WithProducts, ...]:
    """The ways that the graph has, in its order. No two have a unit in common, and with all of them in place the graph
    needs no more memory than eager."""
    found = list(_found(flow, regions))
    found = _in_order(flow, regions, [x for x in found if x.region.moved_bytes >= least_bytes])
    if not found:
        return ()
    parts = {id(x.region): [regions[n] for n in x.covers] for x in found}
    every = _in_place(regions, found)
    kept = {id(region) for region in within_eager(flow, every, lambda region: parts.get(id(region), ()))}
    return tuple(x for x in found if id(x.region) in kept)


def _in_place(regions: Sequence[Region], ways: Sequence[WithProducts]) -> list[Region]:
    """The regions, those that ways cover replaced by these."""
    covered = {n for x in ways for n in x.covers}
    every = [*(region for n, region in enumerate(regions) if n not in covered), *(x.region for x in ways)]
    return sorted(every, key=lambda region: region.units[0].index)


def _in_order(flow: UnitGraph, regions: Sequence[Region], ways: list[WithProducts]) -> list[WithProducts]:
    """The ways that some order of the graph has. What a region reads may have to follow a product though it reads
    nothing of it: random numbers are drawn, and memory is written, behind what reads it."""
    if _is_ordered(flow, _in_place(regions, ways)):
        return ways
    kept: list[WithProducts] = []
    for way in ways:
        if _is_ordered(flow, _in_place(regions, [*kept, way])):
            kept.append(way)
    return kept


def _is_ordered(flow: UnitGraph, regions: Sequence[Region]) -> bool:
    try:
        steps_of(flow, regions)
    except RegionsInACycle:
        return False
    return True


def _found(flow: UnitGraph, regions: Sequence[Region]) -> Iterator[WithProducts]:
    at = {unit.index: n for n, region in enumerate(regions) for unit in region.units if _is_plain(region)}
    behind: dict[tuple[int, ...], list[Unit]] = {}
    alone: list[Unit] = []
    for unit in flow.units:
        if not _is_product(unit):
            continue
        readers = _readers(flow, unit)
        group = readers and _one_place(flow, regions, at, readers)
        if group:
            behind.setdefault(group, []).append(unit)
        else:
            alone.append(unit)
    taken = {unit for group in behind for unit in group}  # what follows a product is not brought to the next one
    for group, products in behind.items():
        if len(products) <= MOST_PRODUCTS:
            yield from _way(flow, regions, at, products, group, taken - {*group})
    for product in alone:
        yield from _way(flow, regions, at, [product], (), taken)


def _way(
    flow: UnitGraph,
    regions: Sequence[Region],
    at: dict[int, int],
    products: Sequence[Unit],
    behind: tuple[int, ...],
    taken: set[int],
) -> Iterator[WithProducts]:
    """The products with what is `behind` them, and what is made for them alone; nothing where there is neither. What
    is made for them is read by nobody else, so that no two ways have it."""
    whole = {*behind, *(unit.index for unit in products)}
    before = {
        unit
        for product in products
        for node in solid_reads(flow, product.index)
        for unit in _one_place(flow, regions, at, {flow.unit_of[node]})
    } - whole
    if before and not before & taken and _is_made_for(flow, before, products):
        whole |= before
    if len(whole) == len(products) or not fits(flow, whole) or len({flow.units[n].device for n in whole}) != 1:
        return
    yield WithProducts(region_of(flow, whole), tuple(sorted({at[n] for n in whole if n in at})))


def _is_plain(region: Region) -> bool:
    return region.columns is None and not region.written


def _is_product(unit: Unit) -> bool:
    head = unit.head
    if name_of(head) not in PRODUCTS or unit.role is not Role.FOREIGN or SAME_BITS in head.meta:
        return False
    types = TYPES if precision_of_f32() is None else (*TYPES, torch.float32)
    return head.meta["val"].dtype in types and why_not(head) is None


def _readers(flow: UnitGraph, unit: Unit) -> set[int]:
    """The units that read a product, but for the end of the graph."""
    users = {user for node in unit.makes for user in solid_users(flow, node)}
    return {user for user in users if flow.units[user].head.op != "output"}


def _one_place(flow: UnitGraph, regions: Sequence[Region], at: dict[int, int], units: set[int]) -> tuple[int, ...]:
    """The units of the one region that these are of, or the one unit that is of none; empty if there is no such."""
    if len(units) == 1 and not units & at.keys():
        (one,) = units
        is_in_any = any(unit.index == one for region in regions for unit in region.units)
        return (one,) if flow.units[one].role is Role.COMPUTE and not is_in_any else ()
    places = {at.get(n) for n in units}
    place = next(iter(places))
    return () if len(places) != 1 or place is None else tuple(unit.index for unit in regions[place].units)


def _is_made_for(flow: UnitGraph, units: set[int], products: Sequence[Unit]) -> bool:
    """Whether units make of fewer bytes what only these products read."""
    edges = edges_of(flow, units)
    inside = units | {product.index for product in products}
    is_theirs = all(solid_users(flow, node) <= inside for node in edges.outputs)
    read = sum(map(bytes_made, edges.inputs))
    return is_theirs and read < sum(map(bytes_made, edges.outputs))
