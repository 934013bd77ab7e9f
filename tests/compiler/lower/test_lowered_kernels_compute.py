"""Generated kernels, run by the interpreter, compute what their fusions mean: small fusions, every path there is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as some

from compiler.pipeline import Generated, generate
from compiler.wire import bind
from fusetune.wire import parse_binding, parse_fusion
from search.space.schedulers import schedulers_for
from tests.cards import card_of
from tests.compiler.lower.interpreted_values import Array, decoded
from tests.compiler.lower.interpreter import run
from tests.compiler.lower.small_fusions import SMALL_FUSIONS
from tests.compiler.lower.small_kernels import (
    ARCH,
    SM_COUNT,
    Path,
    check_points,
    is_interpreted,
    points_by_path,
    random_inputs,
    reference,
    shared_out_paths,
    turns_of_ring,
)
from tests.sdk.fusion_strategies import COMPILED, Document, documents, sizes_for
from tests.shares import shared


@pytest.mark.parametrize("name", shared(SMALL_FUSIONS, 4))
def test_kernels_compute_their_fusion(name: str) -> None:
    """A point of every path that is this fusion's share, of any if none is; the long run has all paths of all."""
    paths = points_by_path(name)
    rng = np.random.default_rng(len(name))
    some = [list(paths)[i] for i in rng.permutation(len(paths))[:1]]
    chosen = shared_out_paths()[name] or some
    points = ((paths[p].scheduler, point) for p in chosen for point in paths[p].draw(1, rng, turns_of_ring(p)))
    assert check_points(name, points) >= len(chosen) > 0


@pytest.mark.long
@pytest.mark.parametrize("name", SMALL_FUSIONS)
def test_kernels_of_every_path_compute_their_fusion(name: str) -> None:
    """Two points of every path that the fusion allows."""
    rng = np.random.default_rng(2)
    every = points_by_path(name).items()
    points = (
        (p.scheduler, point)
        for path, p in every
        for turns in (1, turns_of_ring(path))
        for point in p.draw(1, rng, turns)
    )
    assert check_points(name, points) >= len(every) > 0


def test_persistent_blocks_go_round_their_rings() -> None:
    """Each stage of a ring is filled again, and waited for in both parities, in some kernel of every path."""
    shares = [(points_by_path(name)[p], p) for name, paths in shared_out_paths().items() for p in paths]
    assert [path for points, path in shares if points.turns.max() < turns_of_ring(path)] == []


@given(document=documents(COMPILED, ["f32", "f16", "bf16"]), seed=some.integers(0, 1000))
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_kernels_of_random_fusions_compute_them(document: Document, seed: int) -> None:
    """Tiny fusions of any operators. Bounds are loose: rounding errors may grow from one operator to the next."""
    fusion = bind(parse_fusion(document), parse_binding({"sizes": sizes_for(document)}))
    schedulers = [(s, s.space(fusion, ARCH)) for s in schedulers_for(fusion, card_of(ARCH, SM_COUNT))]
    drawn = [(s, [p for p in space.sample(8, seed) if is_interpreted(p)]) for s, space in schedulers]
    points = [(s, able[0]) for s, able in drawn if able]
    assume(points)
    storages = random_inputs(fusion, any_bits=False)
    wanted = reference(fusion, storages)
    for scheduler, point in points:
        outputs = run_launches(generate(scheduler.trace(fusion, point), ARCH), storages)
        for name, bits, want in zip(fusion.outputs, outputs, wanted, strict=True):
            found = decoded(bits.copy(), fusion.value(name).dtype).astype(np.float64)
            # Beyond the range of f16, reference and kernel may part: the reference never rounds.
            ordinary = np.isfinite(found) & (np.abs(want) < 1e4)
            assert (np.isnan(want) <= np.isnan(found)).all()
            np.testing.assert_allclose(found[ordinary], want[ordinary], rtol=0.05, atol=0.05)


def run_launches(made: Generated, storages: Sequence[Array]) -> list[Array]:
    """The outputs' bits, after every launch in order: each reads inputs and what earlier ones wrote."""
    there = dict(zip(made.trace.fusion.inputs, storages, strict=True))
    for launch in made.launches:
        written = run(launch.kernel, launch.trace.fusion, [there[name] for name in launch.reads])
        there |= zip(launch.writes, (bits.reshape(-1) for bits in written), strict=True)
    return [there[name].reshape(made.trace.fusion.value(name).shape) for name in made.trace.fusion.outputs]


def test_the_fusions_allow_every_path_there_is() -> None:
    """A path that no fusion of the table allows would be one that nothing here runs."""
    assert {path for paths in shared_out_paths().values() for path in paths} == every_path()


def every_path() -> set[Path]:
    """The paths that the schedulers are meant to offer, written down apart from their constraints."""
    ways = ("vector", "tma", "bulk")
    spans = ("32B", "64B", "128B")
    once, ring = [("False", "1"), ("True", "1")], [("True", str(n)) for n in (2, 3, 4)]
    paths: set[Path] = set()
    for view, load, store in product(("1d", "2d"), ways, ways):
        paths |= {("flat", view, load, store, *grid) for grid in (once if load == "vector" else once + ring)}
        paths |= {("flat", view, "cp_async", store, *grid) for grid in ring}
    for store, store_layout in [("vector", "none"), *product(["tma"], ["none", *spans])]:
        shifts = ("False", "True") if store == "vector" else ("False",)
        for layout, shift in product(("none", *spans), shifts):
            paths |= {
                ("tile2d", "tma", store, "vector", layout, store_layout, "False", shift, *g) for g in once + ring[:2]
            }
        for layout, shift in product(("none", "pad", *spans, "block"), shifts):
            copied = [("cp_async", once + ring[:2])] if store_layout == "none" else []
            for load, grids in [("vector", once), *copied]:
                paths |= {("tile2d", load, store, "vector", layout, store_layout, "False", shift, *g) for g in grids}
                if layout in ("none", "pad"):
                    paths |= {("tile2d", load, store, "vector", layout, store_layout, "True", shift, *g) for g in grids}
        for shift in shifts:
            for layout in ("odd", "banks"):
                paths |= {("tile2d", "vector", store, "vector", layout, store_layout, "False", shift, *g) for g in once}
            for load, grids in [("vector", once), *copied]:
                shifted = ("phases", store_layout, "True", shift)
                paths |= {("tile2d", load, store, "vector", *shifted, *g) for g in grids}
        if store == "tma":
            paths |= {("tile2d", "direct", store, "vector", "none", store_layout, "False", "False", *g) for g in once}
    for store, store_layout in (("vector", "none"), ("tma", "none"), ("tma", "64B")):
        stored = (store_layout, "False", "False")
        paths |= {("tile2d", "tma", store, "matrix", span, *stored, *g) for span, g in product(spans, once + ring[:2])}
        if store == "tma":
            paths |= {("tile2d", "direct", store, "matrix", "none", *stored, *g) for g in once}
        copied = [("cp_async", once + ring[:2])] if store_layout == "none" else []
        for (load, grids), layout in product([("vector", once), *copied], ("128B", "matrices")):
            if (store, layout) != ("vector", "128B"):
                paths |= {("tile2d", load, store, "matrix", layout, *stored, *g) for g in grids}
    return paths
