"""Products of explicit schedules: two chained through registers, and what a document may not say of one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.emulate.launch import Options
from compiler.errors import Unsupported
from compiler.explicit.artifact import explicit_artifact
from compiler.explicit.emulated import run_explicit
from compiler.explicit.generate import generate_explicit
from compiler.lower.kernel_ir import SharedLoad, SharedStore, Shuffle
from compiler.lower.mma_ir import Mma, MmaAsync
from compiler.lower.operands import Reg
from compiler.lower.sync_ir import Sync
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.schedule.explicit import MalformedCase, read_start
from tests.compiler.explicit.cases import case, on, op, tensor
from tests.compiler.explicit.chained import chained, chained_groups, rows_held

AMPERE, HOPPER = arch_named("sm_80"), arch_named("sm_90a")


def test_two_products_are_chained_through_registers(pool: CompilePool) -> None:
    """What the first one's lanes hold is the second one's operand as it lies: nothing goes by way of memory."""
    made = generate_explicit(chained(32, 48, 32, 24), AMPERE)
    body = tuple(walk(made.kernel.body))
    assert sum(isinstance(s, Mma) for s in body) == 2
    assert not any(isinstance(s, SharedLoad | SharedStore | Shuffle | Sync) for s in body)

    ran = run_explicit(made, Options(races=True), pool)
    assert not ran.outcome.faults, [(f.kind, f.message) for f in ran.outcome.faults]
    assert [c.max_error for c in ran.compared] == [0.0]
    assert ran.is_right


def test_registers_in_another_order_are_no_operand() -> None:
    with pytest.raises(Unsupported, match="mma_operands_are_fragments"):
        generate_explicit(chained(32, 48, 32, 24, exchanged=True), AMPERE)


def test_two_products_of_warp_groups_are_chained_through_registers(pool: CompilePool) -> None:
    """The second one's rows are what the threads hold of the first; rows that are not there are not stored."""
    made = generate_explicit(chained_groups(100, 128, 64, 24), HOPPER)
    body = tuple(walk(made.kernel.body))
    first, second = (s for s in body if isinstance(s, MmaAsync))
    assert not isinstance(first.left, Reg)
    assert isinstance(second.left, Reg)
    assert second.left.name == "operand"
    assert not any(isinstance(s, SharedLoad | SharedStore | Shuffle) for s in body)
    assert "ft_wgmma_m64n24k16_bf16_held<0>(&sums[0u], &operand[" in made.source

    ran = run_explicit(made, Options(races=True), pool)
    assert not ran.outcome.faults, [(f.kind, f.message) for f in ran.outcome.faults]
    assert ran.is_right, [str(c) for c in ran.compared]


@pytest.mark.parametrize("taken", ["ft_mma_fence();", "ft_mma_wait<0>();"])
@pytest.mark.parametrize("which", [1, 2])
def test_a_chain_without_its_fence_or_wait_is_found(taken: str, which: int, pool: CompilePool) -> None:
    """One statement less, of the first product or of the second: the kernel above without it is no longer faultless."""
    made = generate_explicit(chained_groups(64, 64, 64, 24), HOPPER)
    head, *rest = made.source.split(taken)
    assert len(rest) == 2
    source = "".join([head, *(("" if n == which else taken) + part for n, part in enumerate(rest, 1))])
    ran = run_explicit(replace(made, source=source), Options(races=True), pool)
    assert ran.outcome.faults


@pytest.mark.parametrize(
    ("dtype", "nbytes", "summed"),
    [
        pytest.param("float16", 2, "float32", id="f16"),
        pytest.param("int8", 1, "int32", id="i8"),
        pytest.param("float8_e4m3", 1, "float32", id="f8"),
    ],
)
def test_rows_that_a_warp_group_holds(dtype: str, nbytes: int, summed: str, pool: CompilePool) -> None:
    ran = run_explicit(generate_explicit(rows_held(dtype, nbytes, summed), HOPPER), Options(races=True), pool)
    assert not ran.outcome.faults, [(f.kind, f.message) for f in ran.outcome.faults]
    assert ran.is_right, [str(c) for c in ran.compared]


@pytest.mark.parametrize(
    ("case_", "rule"),
    [
        pytest.param(
            chained_groups(64, 64, 64, 24, exchanged=True),
            "mma_operands_are_fragments",
            id="registers-in-another-order",
        ),
        pytest.param(chained_groups(64, 72, 64, 24), "summed_tails_are_zero", id="more-scores-than-there-are"),
        pytest.param(
            rows_held("bfloat16", 2, "float32", columns_held=True),
            "mma_columns_of_groups_lie_in_shared_memory",
            id="columns-in-registers",
        ),
    ],
)
def test_what_a_warp_group_cannot_take_from_registers(case_: dict[str, Any], rule: str) -> None:
    with pytest.raises(Unsupported, match=rule):
        generate_explicit(case_, HOPPER)


def matmul(**changed: Any) -> dict[str, Any]:
    """[16, 24] @ [24, 8] by threads of one row each. `changed`: fields of the operator, or of its result."""
    fields = {"dtype": "float32", "reduction_axes": [2], **{k: v for k, v in changed.items() if k != "in"}}
    inputs = changed.get("in", ["x", "w"])
    shape = [16, 8, 24]
    return case(
        "product",
        {
            "x": tensor(*shape, broadcast_axes=[1], dtype="bfloat16"),
            "w": tensor(*shape, broadcast_axes=[0], dtype="bfloat16"),
            "h": tensor(*shape, broadcast_axes=[0], dtype="float16"),
            "sums": tensor(*shape, memory="local", **fields),
            "y": tensor(16, 8),
        },
        [op("matmul", "sums", *inputs), op("set", "y", "sums")],
        on("sums", 0, "TIDx"),
        on("y", 0, "TIDx"),
    )


def test_a_product_without_its_instruction_is_right(pool: CompilePool) -> None:
    made = generate_explicit(matmul(), AMPERE)
    ran = run_explicit(made, Options(races=True), pool)
    assert not ran.outcome.faults
    assert ran.is_right, [str(c) for c in ran.compared]
    with pytest.raises(Unsupported, match="timing matmul"):
        explicit_artifact(made, pool.submit(made.source, AMPERE.name).result())


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        pytest.param({"in": ["x"]}, "in: found", id="one-operand"),
        pytest.param({"in": ["x", "w", "x"]}, "in: found", id="three-operands"),
        pytest.param({"in": ["x", "h"]}, "of one type, not of bf16 and f16", id="two-types"),
        pytest.param({"dtype": "bfloat16"}, "f32, in which sums of bf16 are made", id="sums-of-16-bits"),
        pytest.param({"reduction_axes": [1]}, "the last axis", id="sums-along-columns"),
        pytest.param({"reduction_axes": []}, "the last axis", id="sums-along-nothing"),
    ],
)
def test_what_is_no_product_is_refused(changed: dict[str, Any], place: str) -> None:
    with pytest.raises(MalformedCase, match=place):
        read_start(matmul(**changed))
