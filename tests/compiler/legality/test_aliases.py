"""Outputs that are written into an input: which reads are over before an element is written, and nobody else's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compiler.dtypes import DType
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion, Op, Value, dense_strides
from compiler.ir.ops import OpKind
from compiler.ir.tensor import CopyVia
from compiler.legality.rules import Schedule, check
from compiler.schedule import steps as st
from compiler.schedule.aliases import aliased_reads, unloaded_reads
from compiler.schedule.start import start
from tests.compiler.legality.cases import Case, breaches
from tests.compiler.schedules import (
    LOCAL,
    SHARED,
    P,
    Steps,
    by_threads,
    from_wire,
    load_by_copies,
    parallel,
    schedule,
    unary,
)

ROWS = (8, 32)


def made(ops: tuple[Op, ...], shape: tuple[int, ...] = ROWS, aliases: tuple[tuple[str, str], ...] = ()) -> Fusion:
    """Operators over f32 inputs `i0` and `i1` of one shape; results that nothing reads are the outputs."""
    read = {x for op in ops for x in op.tensor_inputs}
    names = tuple(dict.fromkeys(x for x in ("i0", "i1") if x in read))
    values = [Value(name, shape, DType.F32, dense_strides(shape)) for name in names]
    sizes: dict[str, tuple[int, ...]] = dict.fromkeys(map(str, names), shape)
    for op in ops:
        before = sizes[op.tensor_inputs[0]]
        folded = op.kind in (OpKind.SUM, OpKind.AMAX)
        after = tuple(n for d, n in enumerate(before) if d not in op.dims) if folded else before
        sizes[op.output] = tuple(before[d] for d in op.dims) if op.kind is OpKind.PERMUTE else after
        if op.kind is OpKind.BROADCAST_TO:
            sizes[op.output] = shape
        values.append(Value(op.output, sizes[op.output], DType.F32, dense_strides(sizes[op.output])))
    outputs = tuple(op.output for op in ops if op.output not in read)
    return Fusion(tuple(values), names, ops, outputs, "f", "b", aliases=aliases)


NEG = (Op(OpKind.NEG, ("i0",), "v0"),)
SUM_AND_SCALED = (
    Op(OpKind.SUM, ("i0",), "v0", (1,)),
    Op(OpKind.BROADCAST_TO, ("v0",), "v1", (0,)),
    Op(OpKind.MUL, ("i0", "v1"), "v2"),
)


def copied(steps: Steps, shape: tuple[int, ...] = (256,)) -> Schedule:
    """i0 copied into itself."""
    return schedule(replace(unary(shape), aliases=(("v0", "i0"),)), steps)


def shared_by(threads: bool) -> Steps:
    """Words come to shared memory by each its thread, or each by all of them."""
    whole = load_by_copies(64, 4)
    return whole if threads else [x for x in whole if x != st.Parallelize("s", 1, P.TIDX)]


def boxes(outer: int, inner: int) -> Steps:
    """Tiles of `inner` elements, cut from blocks of `outer`, come by the copy engine."""
    steps: Steps = [st.CacheInput("i0", "s", SHARED, CopyVia.TMA), st.CacheInput("s", "r", LOCAL)]
    for tv in ("s", "r", "v0"):
        steps += [st.Split(tv, 0, outer), st.Split(tv, 1, inner), st.Parallelize(tv, 0, P.BIDX)]
    return [*steps, st.Parallelize("s", 2, P.BULK), st.InlineAt("r", 3), st.InlineAt("s", 2)]


def rows(*first: st.Step) -> Steps:
    """Rows of [4, 64] come by the copy engine, after these steps."""
    steps: Steps = [st.CacheInput("i0", "s", SHARED, CopyVia.TMA), st.CacheInput("s", "r", LOCAL), *first]
    for tv in ("s", "r", "v0"):
        steps += [st.Split(tv, 1, 64), st.Parallelize(tv, 0, P.BIDX)]
    return [*steps, st.Parallelize("s", 2, P.BULK), st.InlineAt("r", 3), st.InlineAt("s", 1)]


def windows(size: int) -> Steps:
    """Tiles of `size` elements every 16, loaded by threads."""
    return [
        st.CacheInput("i0", "g", LOCAL),
        st.CacheInput("g", "s", SHARED),
        st.CacheInput("s", "r", LOCAL),
        *(st.Window(tv, 0, 16, size, size - 16) if size > 16 else st.Split(tv, 0, 16) for tv in ("g", "s")),
        *(st.Split(tv, 0, 16) for tv in ("r", "v0")),
        *(st.Parallelize(tv, 0, P.BIDX) for tv in ("g", "s", "r", "v0")),
        *(st.Parallelize(tv, 1, P.UNROLL) for tv in ("g", "r")),
        st.InlineAt("g", 1),
        *([st.InlineAt("s", 1)] if size == 16 else []),
        st.InlineAt("r", 1),
    ]


START = (
    ("each element from itself", NEG, (("v0", "i0"),), ""),
    ("from another input too", (Op(OpKind.ADD, ("i0", "i1"), "v0"),), (("v0", "i1"),), ""),
    ("from a fold over the row it is in", SUM_AND_SCALED, (("v2", "i0"),), ""),
    (
        "two outputs of one load",
        (Op(OpKind.NEG, ("i0",), "v0"), Op(OpKind.EXP, ("i0",), "v1")),
        (("v0", "i0"),),
        "",
    ),
    ("transposed twice", (Op(OpKind.PERMUTE, ("i0",), "v0", (1, 0)), Op(OpKind.PERMUTE, ("v0",), "v1", (1, 0))),
     (("v1", "i0"),), ""),
    (
        "the transpose of a square",
        (Op(OpKind.PERMUTE, ("i0",), "v0", (1, 0)),),
        (("v0", "i0"),),
        "other elements than those written at the same places",
    ),
    (
        "itself and its transpose",
        (Op(OpKind.PERMUTE, ("i0",), "v0", (1, 0)), Op(OpKind.ADD, ("i0", "v0"), "v1")),
        (("v1", "i0"),),
        "other elements than those written at the same places",
    ),
    (
        "an output that is made of something else",
        (Op(OpKind.NEG, ("i1",), "v0"), Op(OpKind.EXP, ("i0",), "v1")),
        (("v0", "i0"),),
        "elements of which those of v0 at the same places do not depend",
    ),
)  # fmt: skip


@pytest.mark.parametrize(("name", "ops", "aliases", "stray"), START, ids=[row[0] for row in START])
def test_an_input_is_read_for_what_is_written_there(
    name: str, ops: tuple[Op, ...], aliases: tuple[tuple[str, str], ...], stray: str
) -> None:
    square = (32, 32) if any(op.kind is OpKind.PERMUTE for op in ops) else ROWS
    fusion = made(ops, square, aliases)
    start(replace(fusion, aliases=()))
    if not stray:
        start(fusion)
        return
    with pytest.raises(Unsupported, match=stray):
        start(fusion)


TWO_OUTPUTS = made((Op(OpKind.NEG, ("i0",), "v0"), Op(OpKind.EXP, ("i0",), "v1")), ROWS, (("v0", "i0"),))
STRAY = "elements of which those of v0 at the same places do not depend"


def loaded(*then: st.Step) -> Schedule:
    """Two outputs, each made in registers; one load, or what `then` adds, in the innermost loop."""
    steps: Steps = [st.CacheInput("i0", "r", LOCAL), st.CacheOutput("v0", "a", LOCAL), st.CacheOutput("v1", "b", LOCAL)]
    names = ("r", "a", "b", *(step.out for step in then if isinstance(step, st.Recompute)))
    return schedule(TWO_OUTPUTS, [*steps, *then, *(st.InlineAt(name, 2) for name in names)])


def load_again() -> Schedule:
    return loaded(st.Recompute("r", "b", "again", ()))


def test_loads_are_asked_each_for_itself() -> None:
    """Before there are loads, what reads the input as it is may share one; two loads must both be over."""
    assert [read.stray for read in unloaded_reads(start(TWO_OUTPUTS))] == [""]
    assert [read.stray for read in aliased_reads(loaded().sf)] == [""]
    strays = {read.op.output: read.stray for read in aliased_reads(load_again().sf)}
    assert strays == {"r": "", "again": STRAY}


def statistic(via: CopyVia) -> Schedule:
    """v1 = i1 + the sums of rows of i0, in the memory of i1: a block a row, and all of its threads have the same i1."""
    inputs = [{"name": "x", "shape": [8, 64], "dtype": "f32"}, {"name": "m", "shape": [8], "dtype": "f32"}]
    fold, add = {"op": "sum", "in": ["x"], "out": "s", "dims": [1]}, {"op": "add", "in": ["s", "m"], "out": "y"}
    ops: list[dict[str, Any]] = [fold, add]
    fusion = replace(from_wire(inputs, ops, "y"), aliases=(("v1", "i1"),))
    by_threads = via is CopyVia.CP_ASYNC
    copies: Steps = [st.CacheInput("i1", "c", SHARED, via)] if by_threads else []
    steps: Steps = [st.CacheInput("i0", "r", LOCAL), *copies, st.CacheInput("c" if by_threads else "i1", "m", LOCAL)]
    steps += [st.CacheOutput("v1", "a", LOCAL)]
    steps += [step for tv in ("r", "v0_sum") for step in parallel(tv, P.BIDX, P.TIDX)]
    rest = (*(("c",) if by_threads else ()), "m", "a", "v1")
    steps += [step for tv in rest for step in parallel(tv, P.BIDX)]
    return schedule(fusion, [*steps, *(st.InlineAt(tv, 1) for tv in ("r", "v0_sum", *rest[:-1]))])


OWN = "aliased_inputs_are_read_by_whole_elements_of_their_own"

CASES = (
    Case(
        "what is loaded for another output is loaded once",
        loaded,
        load_again,
        (
            (
                "aliased_inputs_are_read_for_what_is_written_there",
                "again reads i0, where v0 is written",
                STRAY,
                "what the element at the same address is made of",
            ),
        ),
    ),
    Case(
        "a load by threads has an axis on every dimension of threads",
        lambda: copied(shared_by(threads=True)),
        lambda: copied(shared_by(threads=False)),
        (
            (
                "aliased_inputs_are_read_once",
                "s, of an input that is written into",
                "the same in all of TIDx",
                "one load of each element",
            ),
        ),
    ),
    Case(
        "the first thread alone loads what it alone stores",
        lambda: statistic(CopyVia.PLAIN),
        lambda: statistic(CopyVia.CP_ASYNC),
        (
            (
                "aliased_inputs_are_read_once",
                "c, of an input that is written into",
                "the same in all of TIDx",
                "one load of each element",
            ),
        ),
    ),
    Case(
        "a tile is all of its box",
        lambda: copied(boxes(128, 64)),
        lambda: copied(boxes(96, 64)),
        ((OWN, "s, of an input that is written into", "a split of 96 into 2 by 64", "its own elements alone"),),
    ),
    Case(
        "words are aligned",
        lambda: copied(by_threads()),
        lambda: copied([*by_threads(), st.Straddle("r")]),
        ((OWN, "r, of an input that is written into", "words that begin at any element", "its own elements alone"),),
    ),
    Case(
        "tiles do not overlap",
        lambda: copied(windows(16)),
        lambda: copied(windows(20)),
        ((OWN, "g, of an input that is written into", "tiles that overlap", "its own elements alone"),),
    ),
    Case(
        "the copy engine loads rows where they begin",
        lambda: copied(rows(), (4, 64)),
        lambda: copied(rows(st.Shift("s", 1, (0,), (64,), 4)), (4, 64)),
        ((OWN, "s, of an input that is written into", "rows that are shifted", "its own elements alone"),),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_nearest_legal_and_illegal_schedules(case: Case) -> None:
    assert breaches(case.legal()) == ()
    found = breaches(case.illegal())  # what else is wrong with so small a schedule, is no matter here
    assert tuple(one for one in found if one[0].startswith("aliased_")) == case.breaches


def test_without_the_alias_the_illegal_ones_are_not_refused_by_these_rules() -> None:
    for case in CASES:
        s = case.illegal()
        plain = Schedule(replace(s.sf, fusion=replace(s.sf.fusion, aliases=())), s.arch)
        assert not [v.rule for v in check(plain) if v.rule.startswith("aliased_")]
