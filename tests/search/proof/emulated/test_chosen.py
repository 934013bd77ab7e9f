"""Kernels that read where indices say, proven at sizes that nothing else could be: few rows stand for a vocabulary."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compiler.emulate.ptx.parser import parse
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from fusetune import FusionBuilder
from search.proof.emulated.check import verify
from search.proof.emulated.running import ORDERS, run_set
from search.proof.small.binding import small_binding
from search.proof.verify.inputs import RANDOM
from search.tuning.candidates.plan import Plan
from tests.bound import dense
from tests.search.proof.emulated.kernels import CARD, kernels_of
from tests.search.schedulers.choice_fusions import clamped, cross_entropy, embedding_norm, of_sums, scaled_rows

SERVED: dict[str, Callable[[], Fusion]] = {
    "rows": lambda: scaled_rows(128_000, 1024, 4096),
    "embedding and norm": lambda: embedding_norm(30_522, 8, 512, 768),
    "cross-entropy": lambda: cross_entropy(1024, 8000, "bf16", "i64", 0.1),
    "clamped": lambda: clamped(500, 512, 2048),
}


@pytest.mark.parametrize("name", SERVED)
def test_kernels_of_large_tables_are_proven(name: str, pool: CompilePool) -> None:
    for made in kernels_of(SERVED[name](), seed=1):
        built = artifact(made, pool.submit(made.source, made.arch.name).result())
        proof = verify(made, built, pool)
        assert proof.verification is not None, f"{name}: {proof.fault or proof.undone}"


def test_few_rows_stand_for_many() -> None:
    """All others are as a kernel of them."""
    (made,) = kernels_of(scaled_rows(128_000, 1024, 4096), seed=1)
    assert small_binding(made).fusion.value("i0").shape[0] < 10


def test_numbers_that_an_index_is_made_with_keep_what_they_choose_from() -> None:
    (made,) = kernels_of(clamped(500, 512, 2048), seed=1)
    assert (
        small_binding(made).fusion.value("i1" if made.trace.fusion.value("i1").elems > 2048 else "i0").shape[0] == 500
    )


def test_rows_of_what_a_launch_before_has_made(pool: CompilePool) -> None:
    for made in kernels_of(of_sums(60, 6, 512, 700), seed=1):
        built = artifact(made, pool.submit(made.source, made.arch.name).result())
        assert verify(made, built, pool).fault == ""


def picked(rows: int, size: int) -> Fusion:
    """What stands beside a row's greatest element."""
    f = FusionBuilder()
    x, y = f.input("x", (rows, size), "f32"), f.input("y", (rows, size), "bf16")
    f.output(f.gather(y, 1, x.argmax(1, keepdim=True)))
    return dense(f)


@pytest.mark.parametrize("cluster", [1, 2])
def test_every_warp_of_a_row_has_the_place_that_it_looks_at(cluster: int, pool: CompilePool) -> None:
    """Each looks whether there is such a row, with what it has folded: one that had its own part alone stopped the
    kernel."""
    plan = Plan.of(picked(3, 999), CARD)
    points = plan.spaces["row"].sample(200, 0)
    point = next(p for p in points if (p["threads"], p["cluster"]) == (128, cluster))
    made = generate(plan.schedulers["row"].trace(plan.fusion, point), CARD.arch)
    built = artifact(made, pool.submit(made.source, made.arch.name).result())
    assert run_set(plan.fusion, built, parse(built.ptx), RANDOM, ORDERS[-1:]).fault == ""
