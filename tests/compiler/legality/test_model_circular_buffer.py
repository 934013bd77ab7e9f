"""The model's rules on circular buffers: the nearest legal and the nearest illegal schedule of each."""

from dataclasses import replace
from typing import Any

import pytest

from compiler.errors import Stage
from compiler.ir.iter_domain import ParallelType as P
from compiler.ir.tensor import BufferKind, CircularBuffer
from tests.compiler.model import (
    Document,
    breaches,
    buffer,
    copies,
    inline,
    kept,
    op,
    rules,
    schedule,
    scheduled,
    split,
    tensor,
    types,
)

STAGES = "circular_buffer_has_stages_to_fill"
COPY = "circular_buffer_is_filled_by_a_copy"
DEEPER = "circular_buffer_is_computed_where_it_is_allocated"
LOOP = "circular_buffer_has_a_loop"
COMPLETE = "circular_buffer_copies_what_is_complete"
RUNS = "buffered_bulk_runs_have_loading_warps"
AGREE = "buffers_of_one_loop_agree"
FILLS = "pipelined_loop_fills_its_stages"
MBARRIER = "write_after_read_mbarrier_needs_bulk_loads"


def pipelined(loops: int = 8, chain: str = "g s g", symbolic: bool = False, at: int = 1, **options: Any) -> Document:
    """tv0 -> tv1 -> tv2 over 32 elements a step, tv1 buffered by the outer loop."""
    document = copies((loops * 32,), chain, symbolic)
    last = f"tv{len(document['tensors']) - 1}"
    steps = [split(tv, 0, 32) for tv in ("tv1", last)]
    return scheduled(
        document,
        *steps,
        types("tv1", "-", "Bulk" if "=" in chain else "TIDx"),
        types(last, "-", "TIDx"),
        inline("tv1", at),
        buffer("tv1", **({"stages": 4} | options)),
    )


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (pipelined(), ()),
        (pipelined(chain="g l g"), ()),
        (pipelined(chain="g s=tma g"), ()),
        (pipelined(chain="g s=tma g", war_mbarrier=True), ()),
        (pipelined(war_mbarrier=True), (MBARRIER,)),
        (pipelined(chain="g s=bulk1d g"), (RUNS,)),
        (pipelined(loops=4), ()),
        (pipelined(loops=3), (FILLS,)),
        (pipelined(loops=3, symbolic=True), (FILLS,)),
        (pipelined(stages=8, prefetch=-8), ()),
        (pipelined(stages=9), (FILLS,)),
    ],
)
def test_pipelined_loops(document: Document, expected: tuple[str, ...]) -> None:
    found = breaches(document)
    assert tuple(v.rule for v in found) == expected
    assert all(v.stage is (Stage.RUNTIME if v.rule == FILLS else Stage.COMPILE) for v in found)


def test_an_unknown_extent_is_checked_at_every_launch() -> None:
    assert kept(pipelined(symbolic=True))[FILLS] == ("((size[0][0] + 32 - 1) // 32) >= 4",)
    assert FILLS not in kept(pipelined())


@pytest.mark.parametrize(
    ("loop_types", "expected"),
    [
        ((P.SERIAL, P.TIDX), ()),
        ((P.BIDX, P.TIDX), (LOOP,)),
        ((P.UNROLL, P.TIDX), (LOOP,)),
        ((P.UNSWITCH, P.TIDX), ()),
    ],
)
def test_the_buffered_loop(loop_types: tuple[P, P], expected: tuple[str, ...]) -> None:
    assert rules(pipelined(), tv1={"types": loop_types}, tv2={"types": loop_types}) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (CircularBuffer(2, 0), ()),
        (CircularBuffer(2, 2), (STAGES,)),
        (CircularBuffer(2, -1), (STAGES,)),
        (CircularBuffer(1, 0), (STAGES,)),
    ],
)
def test_stages(options: CircularBuffer, expected: tuple[str, ...]) -> None:
    assert rules(pipelined(), tv1={"circular": options}) == expected


def test_it_is_not_computed_deeper() -> None:
    loops = (P.SERIAL, P.SERIAL)
    serial: dict[str, Any] = {"types": loops}
    assert rules(pipelined(), tv1=serial, tv2=serial) == ()
    assert rules(pipelined(), tv1=serial | {"compute_with": 2}, tv2=serial) == (DEEPER,)
    assert rules(pipelined(), tv1=serial | {"compute_with": 1}, tv2=serial) == ()


@pytest.mark.parametrize(
    ("chain", "name", "expected"),
    [
        ("g s l g", "tv1", ()),
        ("g s l g", "tv2", ()),
        ("g l s g", "tv1", ()),
        ("g l s g", "tv2", (COPY,)),
        ("g s s g", "tv2", (COPY,)),
        ("g l l g", "tv2", (COPY,)),
    ],
)
def test_the_memories(chain: str, name: str, expected: tuple[str, ...]) -> None:
    document = scheduled(copies((256,), chain), *[split(tv, 0, 32) for tv in ("tv1", "tv2", "tv3")])
    changed: dict[str, Any] = {name: {"circular": CircularBuffer(4, 3), "compute_at": 1}}
    assert rules(document, **changed) == expected


def test_it_is_filled_by_a_copy() -> None:
    document = pipelined()
    assert rules(document, tv0={"circular": CircularBuffer(2, 1)}) == (COPY, LOOP)
    permuting = {"ops": [op("permute", "tv1", "tv0", dims=[0]), *document["ops"][1:]]}
    assert rules(document | permuting) == rules(document) == ()
    document["ops"][0] = op("exp", "tv1", "tv0")
    bare = document | {"schedule": document["schedule"][:-1]}
    assert rules(bare, tv1={"circular": CircularBuffer(4, 3)}) == (COPY,)


@pytest.mark.parametrize(("at", "is_refused"), [((0, 1), False), ((1, 1), True), ((1, 2), False), ((2, 2), True)])
def test_its_source_is_complete(at: tuple[int, int], is_refused: bool) -> None:
    document = copies((256,), "g s l g")
    loops = [s for tv in ("tv1", "tv2", "tv3") for s in (split(tv, 0, 64), split(tv, 1, 16))]
    loops += [inline("tv1", at[0]), inline("tv2", at[1])]
    found = rules(scheduled(document, *loops), tv2={"circular": CircularBuffer(4, 3)})
    assert found == ((COMPLETE,) if is_refused else ())


def two_loads(first: CircularBuffer, second: CircularBuffer) -> tuple[str, ...]:
    """Two tensors, loaded by tensor maps into the same loop, with these options."""
    names = {n: tensor((256,), "global") for n in ("tv0", "x0", "tv2")}
    names |= {n: tensor((256,), "shared") for n in ("tv1", "x1")}
    ops = [op("set", "tv1", "tv0", via="tma"), op("set", "x1", "x0", via="tma"), op("add", "tv2", "tv1", "x1")]
    inputs = ["tv0", "x0"]
    document = {"name": "2", "tensors": names, "ops": ops, "inputs": inputs, "outputs": ["tv2"], "schedule": []}
    loops = [split(tv, 0, 32) for tv in ("tv1", "x1", "tv2")]
    loops += [*types("tv1", "-", "Bulk"), *types("x1", "-", "Bulk"), inline("tv1", 1), inline("x1", 1)]
    return rules(scheduled(document, *loops), tv1={"circular": first}, x1={"circular": second})


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ()),
        ({"stages": 5}, (AGREE,)),
        ({"prefetch": 2}, (AGREE,)),
        ({"war_mbarrier": True}, (AGREE,)),
        ({"kind": BufferKind.WARP_SPECIALIZED, "on": P.TIDX}, (AGREE,)),
        # A pipelined buffer looks at none of these.
        ({"on": P.TIDX}, ()),
        ({"slice_position": 1}, ()),
    ],
)
def test_buffers_of_one_loop_agree(change: dict[str, Any], expected: tuple[str, ...]) -> None:
    options = CircularBuffer(4, 3)
    found = two_loads(options, replace(options, **change))
    # Threads of whole warp groups are another rule's.
    assert tuple(r for r in found if r != "warp_specialized_block_is_whole_warp_groups") == expected


def test_two_loads_share_their_barriers() -> None:
    document = pipelined(chain="g s=tma g")
    assert schedule(document).shared_bytes.barriers == 4
    assert schedule(pipelined(chain="g s=tma g", war_mbarrier=True)).shared_bytes.barriers == 8
    assert schedule(pipelined()).shared_bytes.barriers == 0
