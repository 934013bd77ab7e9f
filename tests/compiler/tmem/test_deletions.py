"""Every wait, fence, barrier and deallocation is needed: without any one of them the emulator finds a fault."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from compiler.analysis.tmem.patterns import SHAPES
from compiler.dtypes import DType
from compiler.emulate.launch import Completion, Options
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from compiler.explicit.elements import inputs_of
from compiler.explicit.emulated import launch_of
from compiler.explicit.generate import GeneratedExplicit, generate_explicit
from compiler.ir.ops import OpKind
from compiler.nvrtc import CompilePool
from tests.compiler.analysis.test_tmem_patterns import scheduled
from tests.compiler.analysis.tmem_cases import split, types
from tests.compiler.schedules import unary
from tests.compiler.tmem.kernels import (
    LEGAL,
    Document,
    beside_wider_threads,
    copy_of,
    exchanged,
    of_type,
    shifted,
    sum_of_two,
    tiles,
    transposed_in_turns,
    twice_through,
    widths,
)
from tests.compiler.tmem.left_out import not_needed
from tests.compiler.tmem.traces import kept_flat, of_trace, row_kept, rows_scaled

_LEGAL = {c["name"].removeprefix("TMemTutorialR."): c for c in LEGAL}
CASES: dict[str, Document] = {
    **{name: _LEGAL[name] for name in ("WarpXYZ", "WarpGroupXYZ", "WarpGroupXColYZ", "Transpose")},
    "turns": transposed_in_turns(3),
    "widths": widths(8, 64),
    "tail": copy_of(1281),
    "two tensors": sum_of_two(128, same_region=True),
    "one warp of a wider block": beside_wider_threads(split(1, 32), split(0, 1), *types(None, "TIDy", None, "TIDx")),
    "narrow": of_type("int8", 16),
    "columns used again": twice_through(8),
    "tiles in turns": tiles(8, turns=3),
    "shifted in turns": shifted(8, turns=3),
}


TRACES = {
    "a row kept": (rows_scaled(2, 1024), row_kept(4)),
    "a tile cut": (unary((4096 + 12,), OpKind.NEG), kept_flat(4, 2)),
    "halves": (unary((2048 + 24,), OpKind.NEG, DType.BF16), kept_flat(8, 2)),
}


def patterns() -> Iterator[Any]:
    """Stores by each pattern and loads by each: from warp to warp, and by one warp alone."""
    for n, store in enumerate(SHAPES):
        alone = scheduled(store, 4, warps=0)
        yield pytest.param(alone, id=f"{store.pattern} of one warp", marks=() if n == 3 else pytest.mark.long)
        for m, load in enumerate(SHAPES):
            few = m == (n + 1) % len(SHAPES)
            yield pytest.param(
                exchanged(store, load),
                id=f"{store.pattern} to {load.pattern}",
                marks=() if few else pytest.mark.long,
            )


@pytest.mark.parametrize("name", TRACES)
def test_nothing_of_a_trace_can_be_left_out(name: str, pool: CompilePool) -> None:
    _expect_all_needed(of_trace(*TRACES[name]), pool)


def cases() -> Iterator[Any]:
    """Those by name; in `make test` one that is cut, or has many words, is enough."""
    for name, case in CASES.items():
        yield pytest.param(case, id=name, marks=pytest.mark.long if name in ("widths", "narrow", "two tensors") else ())


@pytest.mark.parametrize("case", [*cases(), *patterns()])
def test_nothing_can_be_left_out(case: Document, pool: CompilePool) -> None:
    _expect_all_needed(generate_explicit(case), pool)


def _expect_all_needed(made: GeneratedExplicit, pool: CompilePool) -> None:
    ptx = pool.submit(made.source, made.arch.name).result().ptx
    given = {n: inputs_of(made.fusion.value(n), i) for i, n in enumerate(made.fusion.inputs)}

    def is_faulty(text: str) -> bool:
        program, orders = parse(text), (Completion.EAGER, Completion.LAZY)
        return all(emulate(program, launch_of(made, given), Options(completion=one)).faults for one in orders)

    assert not_needed(ptx, is_faulty) == []


@pytest.mark.parametrize("name", CASES)
def test_the_permit_to_allocate_is_given_up_after_the_one_allocation(name: str, pool: CompilePool) -> None:
    made = generate_explicit(CASES[name])
    ptx = pool.submit(made.source, made.arch.name).result().ptx
    assert list(re.findall(r"tcgen05\.(alloc|relinquish_alloc_permit|dealloc)\.", ptx)) == [
        "alloc",
        "relinquish_alloc_permit",
        "dealloc",
    ]
