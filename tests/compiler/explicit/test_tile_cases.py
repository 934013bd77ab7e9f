"""Tiles at the edges of what the documents allow: judged as they say, and right in the emulator in every order."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.emulate.launch import Completion, Options
from compiler.errors import Unsupported
from compiler.explicit.emulated import run_explicit
from compiler.explicit.generate import generate_explicit
from compiler.nvrtc import CompilePool
from compiler.verdict import judge_document
from tests.compiler.documents import DESCRIBED
from tests.compiler.explicit.cases import Document, case, on, op, step, tensor
from tests.compiler.explicit.tile_cases import ILLEGAL, LEGAL, UNSUPPORTED
from tests.shares import shared


def named(cases: list[Any]) -> list[Any]:
    return [pytest.param(*c, id=c[0]["name"]) for c in cases]


@pytest.mark.parametrize(("document", "box", "swizzle"), named(LEGAL))
def test_the_verdict_on_a_legal_schedule(document: Document, box: tuple[int, ...], swizzle: str) -> None:
    found = judge_document(document)
    assert found.legal, found.violations
    (tma,) = found.tma
    assert (tma.dims, tma.box, tma.swizzle) == (len(box), box, swizzle or "none")


@pytest.mark.parametrize(("document", "rule"), named(ILLEGAL))
def test_the_verdict_on_its_illegal_neighbour(document: Document, rule: str) -> None:
    found = judge_document(document)
    assert found.legal is False
    assert rule in {v.rule for v in found.violations}


@pytest.mark.parametrize(
    "document", shared((pytest.param(c, id=c["name"]) for c in (*DESCRIBED, *(c[0] for c in LEGAL))), 4)
)
def test_it_is_right_in_every_order(document: Document, pool: CompilePool) -> None:
    made = generate_explicit(document)
    for completion in Completion:
        ran = run_explicit(made, Options(completion=completion), pool)
        assert not ran.outcome.faults, (completion, [(f.kind, f.message) for f in ran.outcome.faults])
        assert ran.is_right, (completion, [str(c) for c in ran.compared])


def test_holes_of_another_tensors_loops_are_not_read(pool: CompilePool) -> None:
    """A row of 20 lies in tiles of 12 cut by 8; what reads it runs as the loops of the sum, with the same holes."""
    cut = [s for t, at in (("bs", 0), ("bb", 1), ("y", 1)) for s in cut_by_12_and_8(t, at)]
    merged = [step(t, "merge", axis=0) for t in ("bb", "y")]
    moved = [on("bs", 1, "Bulk"), on("bs", 2, "Bulk"), on("y", 0, "TIDx"), step("bb", "inline_at", position=3)]
    tensors = {"a": tensor(3, 20), "b": tensor(20), "bs": tensor(20, memory="shared")}
    tensors |= {"bb": tensor(3, 20, memory="local", broadcast_axes=[0]), "y": tensor(3, 20)}
    ops = [op("set", "bs", "b", via="tma"), op("broadcast", "bb", "bs", broadcast_flags=[True, False])]
    ran = run_explicit(
        generate_explicit(case("sum", tensors, [*ops, op("add", "y", "a", "bb")], *cut, *merged, *moved)), pool=pool
    )
    assert ran.is_right, [(f.kind, f.message) for f in ran.outcome.faults]


def cut_by_12_and_8(tv: str, axis: int) -> list[Document]:
    return [step(tv, "split", axis=axis, factor=12), step(tv, "split", axis=axis + 1, factor=8)]


@pytest.mark.parametrize(("document", "why"), named(UNSUPPORTED))
def test_what_has_no_kernel_says_why(document: Document, why: str) -> None:
    assert judge_document(document).legal
    with pytest.raises(Unsupported, match=why):
        generate_explicit(document)


@pytest.mark.parametrize(("box", "takes"), [(4, 8 * 128), (16, 2 * 128), (32, 128), (64, 256)])
def test_only_tiles_shorter_than_a_unit_are_moved_apart(box: int, takes: int) -> None:
    """A block holds 32 floats, or one box of more, the last of all cut short: no run, but a tile of 128 bytes."""
    block = max(box, 32)
    steps = [s for t in ("tv1", "tv2") for s in (step(t, "split", axis=0, factor=block), on(t, 0, "BIDx"))]
    steps += [*(step(t, "split", axis=1, factor=box) for t in ("tv1", "tv2")), on("tv1", 2, "Bulk")]
    tensors = {"tv0": tensor(250), "tv1": tensor(250, memory="shared"), "tv2": tensor(250)}
    ops = [op("set", "tv1", "tv0", via="tma"), op("set", "tv2", "tv1")]
    document = case("boxes", tensors, ops, *steps)
    assert generate_explicit(document).kernel.smem_bytes == takes + 8
    assert judge_document(document).smem_bytes == block * 4 + 8


def test_tiles_that_lie_inside_larger_ones_stay_together() -> None:
    """Loaded by boxes of 64 bytes and stored by boxes of 128: apart, the larger ones would have holes."""
    by = {"tv1": 16, "tv2": 32}
    steps = [
        s for t, n in by.items() for s in (step(t, "split", axis=0, factor=64), step(t, "split", axis=1, factor=n))
    ]
    steps += [s for t in by for s in (on(t, 0, "BIDx"), on(t, 2, "Bulk"))]
    tensors = {"tv0": tensor(252), "tv1": tensor(252, memory="shared"), "tv2": tensor(252)}
    ops = [op("set", "tv1", "tv0", via="tma"), op("set", "tv2", "tv1", via="tma")]
    with pytest.raises(Unsupported, match="tiles_start_at_units_of_shared_memory"):
        generate_explicit(case("boxes in boxes", tensors, ops, *steps))
