"""Kernels with tensor memory as explicit schedules: the tutorial's that are no document cases, and others of its kind;
and what each of them has to be in the emulator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from compiler.analysis.tmem.patterns import Shape
from compiler.emulate.launch import Completion, Options
from compiler.explicit.emulated import EmulatedExplicit, run_explicit
from compiler.explicit.generate import generate_explicit
from compiler.nvrtc import CompilePool
from tests.compiler.analysis.test_tmem_patterns import bit_of
from tests.compiler.analysis.tmem_cases import (
    ALL,
    Step,
    allocate,
    dimsep,
    document,
    inline,
    merge,
    on,
    reorder,
    split,
    types,
    vectorize,
)
from tests.compiler.documents import CASES

Document = dict[str, Any]

LEGAL: list[Document] = [c for c in CASES if c["family"] == "tmem" and c["expect"]["legal"]]
"""Legal cases of the documents with tensor memory."""

_PAGES = json.loads((Path(__file__).parents[3] / "docs" / "concepts" / "cases.json").read_text())
STRIDED_LANES: Document = next(c for c in _PAGES if c["name"] == "16 lanes of every subpartition")
"""The tutorial's figure of an allocation: [BIDx, 4, 16 | BIDy, 8] with strides of 32 and 1 lanes."""

INLINE: Step = {"do": "inline_most"}


def right(case: Document, pool: CompilePool, blocks: tuple[int, ...] | None = None) -> EmulatedExplicit:
    """The case run in the emulator: right, and without a fault however late its operations complete."""
    made = generate_explicit(case)
    for completion in Completion:
        ran = run_explicit(made, Options(completion=completion, blocks=blocks), pool)
        assert not ran.outcome.faults, [(f.kind, f.message) for f in ran.outcome.faults]
        assert all(c.is_right for c in ran.compared), [str(c) for c in ran.compared]
    resources = pool.submit(made.source, made.arch.name).result().resources
    assert resources.spill_store_bytes == resources.stack_bytes == 0
    return ran


def forms(ptx: str) -> set[str]:
    """The forms of loads and stores of tensor memory: shape and how often it is repeated."""
    lines = (line.strip() for line in ptx.splitlines())
    return {
        " ".join(line.split(".")[i] for i in (1, 4, 5))
        for line in lines
        if line.startswith(("tcgen05.ld.", "tcgen05.st."))
    }


def widths(store: int, load: int) -> Document:
    """[128, 256] f32, a lane a thread, words of so many columns: one pair of the tutorial's Vectorization."""
    steps = [*on(ALL, *types("TIDx")), *on(("tv1", "tv2"), split(1, store)), *on(("tv3", "tv4"), split(1, load))]
    steps += [*on(("tv2", "tv3"), vectorize(2)), *on("tv2", allocate(), dimsep(1)), INLINE]
    return document((128, 256), steps, name=f"st {store}, ld {load}")


def of_type(dtype: str, width: int, columns: int | None = None) -> Document:
    """[128, columns] in words of `width` elements."""
    steps = [*on(ALL, *types("TIDx"), split(1, width)), *on(("tv2", "tv3"), vectorize(2))]
    steps += [*on("tv2", allocate(), dimsep(1)), INLINE]
    return document((128, columns or 2 * width), steps, dtype, name=f"{dtype} x{width}")


def copy_of(elems: int) -> Document:
    """One warp a block, a lane a thread."""
    steps = [*on(ALL, split(0, 32), *types("BIDx", "TIDx")), *on("tv2", allocate(), dimsep(-1)), INLINE]
    return document((elems,), steps, name=f"copy of {elems}")


def sum_of_two(elems: int, *, same_region: bool) -> Document:
    """Two inputs go through tensor memory and are added."""
    memories = {"tv0": "global", "tv4": "global", "tv9": "global", "tv2": "tensor", "tv6": "tensor"}
    names = [f"tv{n}" for n in (0, 4, 1, 2, 3, 5, 6, 7, 8, 9)]
    tensors = {n: {"shape": [elems], "dtype": "float32", "memory": memories.get(n, "local")} for n in names}
    ops: list[Document] = []
    for first in (0, 4):
        ops += [
            {"op": "set", "in": [f"tv{first}"], "out": f"tv{first + 1}"},
            {"op": "set", "in": [f"tv{first + 1}"], "out": f"tv{first + 2}", "via": "st_tmem"},
            {"op": "set", "in": [f"tv{first + 2}"], "out": f"tv{first + 3}", "via": "ld_tmem"},
        ]
    ops += [{"op": "add", "in": ["tv3", "tv7"], "out": "tv8"}, {"op": "set", "in": ["tv8"], "out": "tv9"}]
    steps = on([o["out"] for o in ops], split(0, 32), *types("BIDx", "TIDx"))
    steps += [*on(("tv2", "tv6"), allocate(), dimsep(-1)), INLINE]
    case = {"name": "sum of two", "tensors": tensors, "ops": ops, "inputs": ["tv0", "tv4"], "outputs": ["tv9"]}
    return {**case, "schedule": steps} | ({"managed": {"tmem_regions": [["tv2", "tv6"]]}} if same_region else {})


def beside_wider_threads(*rest: Step) -> Document:
    """[2, 33] comes to shared memory by a block of 33 by 2 threads; `rest` schedules the way through tensor memory."""
    memories = ("global", "shared", "local", "tensor", "local", "global")
    tensors = {f"tv{n}": {"shape": [2, 33], "dtype": "float32", "memory": m} for n, m in enumerate(memories)}
    vias = {3: "st_tmem", 4: "ld_tmem"}
    ops = [
        {"op": "set", "in": [f"tv{n - 1}"], "out": f"tv{n}"} | ({"via": vias[n]} if n in vias else {})
        for n in range(1, 6)
    ]
    steps = [*on("tv1", *types("TIDy", "TIDx")), *on(("tv2", "tv3", "tv4", "tv5"), *rest)]
    steps += [*on("tv3", allocate(), dimsep(-1)), INLINE]
    case = {"name": "wider threads", "tensors": tensors, "ops": ops, "inputs": ["tv0"], "outputs": ["tv5"]}
    return {**case, "schedule": steps}


def transposed_in_turns(turns: int, shape: Sequence[int] = (128, 2, 2)) -> Document:
    """Warps read what others have stored, in columns that every turn of a serial loop uses again."""
    given = document((turns, *shape), [], name="transposed in turns")
    given["ops"][2] |= {"op": "permute", "dims": [0, 1, 3, 2]}
    steps = [*on(ALL, *types(None, "TIDx", "TIDy", "TIDz")), *on("tv2", dimsep(2)), *on(ALL[:3], inline(1))]
    return {**given, "schedule": steps}


def exchanged(store: Shape, load: Shape, turns: int = 2) -> Document:
    """[turns, 128, 32] is stored by one pattern and loaded by another, four registers at a time, by eight warps: those
    of each subpartition read what the other one has stored, in columns that every turn uses again."""
    bits = [("l", i) for i in range(6, -1, -1)] + [("c", i) for i in range(4, -1, -1)]

    def loops(names: tuple[str, str], shape: Shape, group: int) -> list[Step]:
        """[turns, warp, thread, loops.., registers], a bit of the columns being the group of four warps."""
        registers = [bit_of(s) for s in reversed(shape.register_steps[:2])]
        threads = [bit_of(s) for s in reversed(shape.thread_steps(4))]
        warps = [("c", group), ("l", 6), ("l", 5)]
        rest = [bit for bit in bits if bit not in (*registers, *threads, *warps)]
        order = {bits.index(bit) + 1: n + 1 for n, bit in enumerate([*warps, *threads, *rest, *registers])}
        merged = [merge(1)] * 2 + [merge(2)] * 4 + [merge(3 + len(rest))]
        vector = on(names, vectorize(3 + len(rest)))
        return [*on(names, reorder(order), *merged, *types(None, "TIDy", "TIDx")), *vector]

    steps = [*on(ALL, *[split(1, 2)] * 6, *[split(8, 2)] * 4), *on("tv2", allocate(), dimsep(8))]
    steps += [*loops(("tv1", "tv2"), store, 3), *loops(("tv3", "tv4"), load, 4), *on(ALL[:3], inline(1))]
    steps = [s for s in steps if not (s.get("type") == "Vectorize" and s["tv"] in ("tv1", "tv4"))]
    return document((turns, 128, 32), steps, name=f"{store.pattern} to {load.pattern}")


def twice_through(columns: int, *more: Step, in_loops: bool = False) -> Document:
    """[128, columns] goes through two tensors in tensor memory, one after the other; `in_loops`: the outer loop of all
    tensors is over halves of the columns."""
    memories = ("global", "local", "tensor", "local", "tensor", "local", "global")
    tensors = {f"tv{n}": {"shape": [128, columns], "dtype": "float32", "memory": m} for n, m in enumerate(memories)}
    vias = {2: "st_tmem", 3: "ld_tmem", 4: "st_tmem", 5: "ld_tmem"}
    ops = [
        {"op": "set", "in": [f"tv{n - 1}"], "out": f"tv{n}"} | ({"via": vias[n]} if n in vias else {})
        for n in range(1, 7)
    ]
    halves = [split(1, columns // 2), reorder({1: 0, 0: 1})] if in_loops else []
    steps = on([str(o["out"]) for o in ops], *types("TIDx"), *halves)
    steps += on(("tv2", "tv4"), *([allocate([1, 0, 2])] if in_loops else []), dimsep(1))
    steps += more
    case = {"name": "twice through", "tensors": tensors, "ops": ops, "inputs": ["tv0"], "outputs": ["tv6"]}
    return {**case, "schedule": steps}


def tiles(columns: int, dtype: str = "float32", turns: int = 1, *, row_bytes: int = 32) -> Document:
    """[turns, 128, columns] comes to shared memory by threads, from there as tiles to tensor memory, in every turn."""
    nbytes = {"float32": 4, "float16": 2, "int8": 1, "float64": 8}[dtype]
    memories = {"x": "global", "s": "shared", "t": "tensor", "q": "local", "y": "global"}
    tensors = {n: {"shape": [turns, 128, columns], "dtype": dtype, "memory": m} for n, m in memories.items()}
    ops = [
        {"op": "set", "in": ["x"], "out": "s"},
        {"op": "set", "in": ["s"], "out": "t", "via": "cp_tmem"},
        {"op": "set", "in": ["t"], "out": "q", "via": "ld_tmem"},
        {"op": "set", "in": ["q"], "out": "y"},
    ]
    row, chunk = row_bytes // nbytes, 16 // nbytes
    # turns, lanes / 8, 8 lanes, rows, 16 bytes, elements
    steps = on("s", split(2, chunk), split(2, row // chunk), split(1, 8), allocate([0, 3, 1, 4, 2, 5]), merge(1))
    steps += [*on("s", *types(None, "TIDx")), *on("t", dimsep(2), split(2, row), reorder({1: 2, 2: 1}))]
    steps += [*on("t", *types(None, None, "Bulk", "Bulk")), *on(("q", "y"), *types(None, "TIDx"), split(2, row))]
    steps += [*on("q", vectorize(3)), *on(("s", "t", "q"), inline(1))]
    return {"name": "tiles", "tensors": tensors, "ops": ops, "inputs": ["x"], "outputs": ["y"], "schedule": steps}


def resize(axis: int, left: int, right: int) -> Step:
    return {"do": "resize", "axis": axis, "left": left, "right": right}


def shifted(columns: int, dtype: str = "float32", turns: int = 1, subpartitions: int = 4) -> Document:
    """31 rows of each subpartition are stored to its lanes 0 to 30, shifted, and loaded from lanes 1 to 31."""
    nbytes = {"float32": 4, "float16": 2, "int8": 1, "float64": 8}[dtype]
    memories = {"x": "global", "r": "local", "t": "tensor", "u": "tensor", "q": "local", "y": "global"}
    shape = [turns, subpartitions, 31, columns]
    tensors = {n: {"shape": shape, "dtype": dtype, "memory": m} for n, m in memories.items()}
    names, vias = list(memories), {"t": "st_tmem", "u": "shift_tmem", "q": "ld_tmem"}
    ops = [
        {"op": "set", "in": [source], "out": name} | ({"via": vias[name]} if name in vias else {})
        for source, name in pairwise(names)
    ]
    lanes = {"do": "set_allocation_domain", "axes": "loop", "contiguity": True, "transforms": [resize(2, 1, 0)]}
    steps = [*on(("r", "t"), resize(2, 0, 1)), *on("t", allocate(), dimsep(3)), *on("u", lanes, dimsep(3))]
    steps += [*on(("q", "y"), resize(2, 1, 0)), *on(("r", "t", "q", "y"), merge(1), *types(None, "TIDx"))]
    steps += on("u", split(3, 32 // nbytes), reorder({3: 2, 2: 3}), *types(None, None, None, "Bulk", "Bulk"))
    steps += on(("t", "q"), split(2, max(1, 4 // nbytes)), vectorize(3))
    steps += on(("r", "t", "u", "q"), inline(1))
    return {"name": "shifted", "tensors": tensors, "ops": ops, "inputs": ["x"], "outputs": ["y"], "schedule": steps}
