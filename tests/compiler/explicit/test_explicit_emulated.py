"""Explicit schedules are lowered as given, and right in the emulator under all of its checks."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.emulate.launch import Completion, Options
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from compiler.errors import IllegalSchedule, Unsupported
from compiler.explicit.elements import inputs_of
from compiler.explicit.emulated import launch_of, run_explicit
from compiler.explicit.generate import generate_explicit
from compiler.explicit.smaller import smaller
from compiler.nvrtc import CompilePool
from tests.compiler.explicit.cases import BUFFERED, HOPPER, case, multicast_bias, on, op, ping_pong, tensor
from tests.shares import shared


@pytest.mark.parametrize(
    "case", shared((pytest.param(c, id=c["name"]) for c in (*HOPPER, *BUFFERED, multicast_bias())), 4)
)
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


@pytest.mark.parametrize("stages", [2, 3, 4, 5])
def test_groups_that_take_stages_in_turns_stay_within_a_phase(stages: int, pool: CompilePool) -> None:
    """Of three stages, the next use of one is another group's: without a meeting, a copy that comes late lets the first
    group take the phase before last for its own. On an H200 that broke the context; here some orders show it."""
    case = ping_pong(3)
    case["schedule"][-1]["stages"] = stages
    made = generate_explicit(case)
    kernel = made.source.partition('extern "C"')[2]
    assert ("ft_sync_part" in kernel) == (stages % 2 != 0)
    for seed in range(6):
        ran = run_explicit(made, Options(completion=Completion.RANDOM, seed=seed), pool)
        assert not ran.outcome.faults, [(f.kind, f.message) for f in ran.outcome.faults]
        assert ran.is_right


def test_groups_need_a_stage_each() -> None:
    case = ping_pong(3)
    case["schedule"][-1]["stages"] = 1
    with pytest.raises((Unsupported, IllegalSchedule)):
        generate_explicit(case)


def test_the_swizzled_transpose_has_no_bank_conflict(pool: CompilePool) -> None:
    (case,) = (c for c in HOPPER if "BankConflictFree" in c["name"])
    shared = run_explicit(generate_explicit(smaller(case) or case), pool=pool).outcome.counters["shared"]
    for way in ("load", "store"):
        assert shared[way]["wavefronts"] == shared[way]["ideal_wavefronts"] > 0


def elementwise(kind: str, dtype: str, count: int) -> dict[str, Any]:
    """An operator on so many tensors of this type, or a copy of one."""
    names = [f"tv{i}" for i in range(count + 1)]
    tensors = {name: tensor(6, 64, dtype=dtype) for name in names}
    return case(kind, tensors, [op(kind, names[-1], *names[:-1])], on(names[-1], 0, "BIDx"), on(names[-1], 1, "TIDx"))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
@pytest.mark.parametrize("kind", ["add", "mul", "minimum"])
def test_integers_are_computed_with(kind: str, dtype: str, pool: CompilePool) -> None:
    assert run_explicit(generate_explicit(elementwise(kind, dtype, 2)), pool=pool).is_right


@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e5m2"])
def test_floats_of_8_bits_are_copied_and_not_computed_with(dtype: str, pool: CompilePool) -> None:
    assert run_explicit(generate_explicit(elementwise("set", dtype, 1)), pool=pool).is_right
    with pytest.raises(Unsupported, match=f"tv2: add of f8{dtype[-4:]}"):
        generate_explicit(elementwise("add", dtype, 2))
