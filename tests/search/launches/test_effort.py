"""How long it takes to find launches for fusions of up to 256 operators, and that this gives what it gave before."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from itertools import combinations
from operator import add

import pytest

from compiler.ir.fusion import Fusion
from compiler.ir.pinned import pinned
from compiler.ir.touched import moved_bytes
from fusetune import FusionBuilder
from search.cost.roofline import launch_us
from search.launches import cut_at
from search.launches.cut import part_of
from search.launches.orders import orders
from search.launches.places import MOST_PLACES, every_place, places_of
from search.launches.pricing import Pricing
from search.launches.recompute import policies
from search.space.schedulers import _every
from search.space.schedulers.launches import launches_for
from tests.bound import dense
from tests.cards import H200
from tests.search.random_fusions.cases import MANY, case_of_many
from tests.shares import shared

MOST_SECONDS = 4.0
"""Of the processor, which others may slow down; alone it takes at most 0.6 s (a worker's core of 2026)."""


def adamw(count: int, *, clips: bool) -> Fusion:
    """A step of AdamW on so many parameters; with all gradients scaled by their common norm where it `clips`."""
    f, shape = FusionBuilder(), (1024, 1024)
    each = [[f.input(f"{c}{n}", shape, "f32") for c in "pgmv"] for n in range(count)]
    squares = [f.sum(g * g, dims=(0, 1)) for _, g, _, _ in each] if clips else []
    factor = f.rsqrt(reduce(add, squares) + 1e-6) if clips else None
    for n, (p, g, m, v) in enumerate(each):
        if factor is not None:
            g = g * factor.broadcast_to(shape, dims=())
        m, v = m * 0.9 + g * 0.1, v * 0.999 + g * g * 0.001
        p = p * 0.9999 - m * 1.01 / (f.sqrt(v * 1.001) + 1e-8) * 1e-3
        for name, x in (("p", p), ("m", m), ("v", v)):
            f.output(x, name=f"{name}{n}_new")
    return dense(f)


def layer_norms_backward(count: int) -> Fusion:
    """The gradients of so many layer norms that have nothing to do with each other."""
    f, shape = FusionBuilder(), (4096, 1024)
    for n in range(count):
        x, dy = (f.input(f"{name}{n}", shape, "bf16").cast("f32") for name in ("x", "dy"))
        w = f.input(f"w{n}", shape[1:], "f32")
        away = x - f.mean(x, dims=(1,)).broadcast_to(shape, dims=(0,))
        scale = f.rsqrt(f.mean(away * away, dims=(1,)) + 1e-5).broadcast_to(shape, dims=(0,))
        unit, g = away * scale, dy * w.broadcast_to(shape, dims=(1,))
        a, b = (f.mean(y, dims=(1,)).broadcast_to(shape, dims=(0,)) for y in (g, g * unit))
        f.output(((g - a - unit * b) * scale).cast("bf16"), name=f"dx{n}")
        f.output(f.sum(dy * unit, dims=(0,)), name=f"dw{n}")
        f.output(f.sum(dy, dims=(0,)), name=f"db{n}")
    return dense(f)


FUSIONS: dict[str, Callable[[], Fusion]] = {
    "adamw-1": partial(adamw, 1, clips=False),
    "adamw-13": partial(adamw, 13, clips=False),
    "adamw-11-clipped": partial(adamw, 11, clips=True),
    "layer-norm-backward-1": partial(layer_norms_backward, 1),
    "layer-norm-backward-2": partial(layer_norms_backward, 2),
    "layer-norm-backward-8": partial(layer_norms_backward, 8),
}


def random_of(most_ops: int, seed: int) -> Fusion:
    limits = replace(MANY, most_inputs=16, most_moves=most_ops, most_ops=most_ops - 4)
    return case_of_many(seed, limits).bound()


def answered(fusion: Fusion) -> list[tuple[str, object]]:
    """The launches of a fusion, found anew, in at most so many seconds of the processor."""
    launches_for.cache_clear()
    begun = time.process_time()
    found = launches_for(pinned(fusion), H200, _every)
    assert time.process_time() - begun < MOST_SECONDS
    return [(one.name, one.cut.stores) for one in found]


@pytest.mark.parametrize("name", shared(FUSIONS, 2))
def test_launches_of_large_fusions_are_found_soon(name: str) -> None:
    fusion = FUSIONS[name]()
    assert answered(fusion) == answered(fusion)


@pytest.mark.parametrize("most_ops", [50, 100, 256])
@pytest.mark.parametrize("seed", range(3))
def test_launches_of_large_random_fusions_are_found_soon(most_ops: int, seed: int) -> None:
    answered(random_of(most_ops, seed))


@pytest.mark.long
@pytest.mark.parametrize("most_ops", [50, 100, 256])
@pytest.mark.parametrize("first", range(100, 200, 10))
def test_launches_of_100_large_random_fusions_are_found_soon(most_ops: int, first: int) -> None:
    for seed in range(first, first + 10):
        answered(random_of(most_ops, seed))


def test_what_few_operators_are_cut_into_many_are_too() -> None:
    """Four layer norms take hardly more than four times what one takes alone."""
    alone = launches_for(pinned(layer_norms_backward(1)), H200, _every)
    many = launches_for(pinned(layer_norms_backward(4)), H200, _every)
    assert min(one.cut.us(H200) for one in many) <= 1.1 * 4 * alone[0].cut.us(H200)


@pytest.mark.parametrize("seed", shared(range(6), 3))
def test_a_segment_costs_what_its_launch_moves(seed: int) -> None:
    """All segments of all orders, with slices among them and without."""
    fusion = pinned(case_of_many(seed, replace(MANY, most_moves=10)).bound())
    for ops in orders(fusion):
        for again in policies(fusion):
            places = every_place(ops)
            prices = Pricing(fusion, H200, ops, again, places, len(places))
            for first, end in combinations(range(len(places)), 2):
                names, us = prices.written((first, end)), prices.us[first][end - first - 1]
                if not names:
                    assert us == 0
                    continue
                part = part_of(fusion, names, prices.stored_before(first))
                assert frozenset(part.reads) == prices.read((first, end))
                assert us == pytest.approx(launch_us(moved_bytes(part.fusion), H200))


def test_few_operators_are_cut_anywhere_and_many_at_few_places() -> None:
    few, many = layer_norms_backward(1), adamw(13, clips=False)
    assert places_of(few, few.ops) == tuple(range(len(few.ops) + 1))
    places = places_of(many, many.ops)
    assert (places[0], places[-1]) == (0, len(many.ops))
    assert len(places) <= MOST_PLACES < len(many.ops)
    assert cut_at(many, [many.outputs]).parts
