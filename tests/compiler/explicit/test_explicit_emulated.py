"""Explicit schedules are lowered as given, and right in the emulator under all of its checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compiler.emulate.launch import Completion, Options
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from compiler.explicit.elements import inputs_of
from compiler.explicit.emulated import launch_of, run_explicit
from compiler.explicit.generate import generate_explicit
from compiler.explicit.smaller import smaller
from compiler.nvrtc import CompilePool
from tests.compiler.explicit.cases import BUFFERED, HOPPER, multicast_bias


@pytest.fixture(scope="module")
def pool() -> Iterator[CompilePool]:
    with CompilePool(workers=1, time_limit_s=60.0) as compilers:
        yield compilers


@pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in (*HOPPER, *BUFFERED, multicast_bias())])
def test_the_case_is_right(case: dict[str, Any], pool: CompilePool) -> None:
    generate_explicit(case)  # at its own sizes too there is a kernel
    ran = run_explicit(generate_explicit(smaller(case) or case), pool=pool)
    assert not ran.outcome.faults, [(f.kind, f.message) for f in ran.outcome.faults]
    assert all(c.is_right for c in ran.compared), [str(c) for c in ran.compared]
    if "buffer" in str(case["schedule"]):
        fusion = ran.generated.fusion
        given = {name: inputs_of(fusion.value(name), i) for i, name in enumerate(fusion.inputs)}
        late = emulate(parse(ran.ptx), launch_of(ran.generated, given), Options(completion=Completion.LAZY))
        assert not late.faults, [(f.kind, f.message) for f in late.faults]


def test_the_swizzled_transpose_has_no_bank_conflict(pool: CompilePool) -> None:
    (case,) = (c for c in HOPPER if "BankConflictFree" in c["name"])
    shared = run_explicit(generate_explicit(smaller(case) or case), pool=pool).outcome.counters["shared"]
    for way in ("load", "store"):
        assert shared[way]["wavefronts"] == shared[way]["ideal_wavefronts"] > 0
