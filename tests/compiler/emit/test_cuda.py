"""The emitted text: nothing of the candidate, the names and the machine stands in it; every statement has its form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler.dtypes import DType
from compiler.emit.cuda import ENTRY, emit, kernel_text
from compiler.ir.expr import Var, const, var
from compiler.ir.fusion import Literal
from compiler.ir.ops import MathGrade, OpKind
from compiler.ir.tensor import CachePolicy
from compiler.lower.kernel_ir import (
    Compute,
    Convert,
    CopyAsync,
    Declare,
    GlobalLoad,
    GlobalStore,
    If,
    Kernel,
    Loop,
    SharedLoad,
    SharedStore,
    Stmt,
)
from compiler.lower.operands import Barrier, Less, Pointer, Reg, Shared
from compiler.lower.sync_ir import Arrive, CommitCopies, WaitCopies
from search.space.schedulers.flat import Flat
from search.space.schedulers.tile2d import Tile2d
from search.tuning.candidates.candidate import Candidate
from tests.compiler.emit.golden_fusions import bias_gelu
from tests.compiler.emit.golden_schedules import GOLDEN
from tests.search.schedulers.points import SM_COUNT, generated, point_of, scheduler_named

ROOT = Path(__file__).parents[3]
SCHEDULERS = (Flat(SM_COUNT).name, Tile2d(SM_COUNT).name)
F32, F16, BF16 = DType.F32, DType.F16, DType.BF16
TX = Var("tx", 32)


FREED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("by a thread", {}, "ft_mbarrier_free"),
    ("by a warp", {"of_warp": True}, "ft_mbarrier_free_by_warp"),
    ("by a warp's instructions", {"of_warp": True, "by_mma": True}, "ft_mma_free_by_warp"),
    ("of two blocks, by a thread", {"blocks": 2}, "ft_mbarrier_free_in_blocks<2u>"),
    ("of two blocks, by a warp", {"of_warp": True, "blocks": 2}, "ft_mbarrier_free_by_warp_in_blocks<2u>"),
    (
        "of two blocks, by a warp's instructions",
        {"of_warp": True, "by_mma": True, "blocks": 2},
        "ft_mma_free_by_warp_in_blocks<2u>",
    ),
)
"""Who says that a stage has been read, and the function that does: ordinary reads are fenced, in every block they are
told of."""


@pytest.mark.parametrize("folder", ["lower", "emit"])
def test_what_writes_kernels_knows_no_scheduler(folder: str) -> None:
    files = sorted(p for p in (ROOT / "compiler" / folder).rglob("*") if p.suffix in (".py", ".cuh"))
    assert len(files) > 5
    for path in files:
        words = set(re.findall(r"\w+", path.read_text(encoding="utf-8").lower()))
        assert not words & set(SCHEDULERS), path


@pytest.mark.parametrize("name", GOLDEN)
def test_no_scheduler_stands_in_a_source(name: str) -> None:
    made = GOLDEN[name].generate()
    assert not set(re.findall(r"\w+", made.source.lower())) & set(SCHEDULERS)
    assert made.source.count(ENTRY) == len(made.launches)


def test_no_identity_stands_in_a_source() -> None:
    """Neither the candidate's key nor the trace's hash, the fusion's fingerprint or its binding."""
    fusion = bias_gelu()
    scheduler = scheduler_named("flat", fusion)
    point: dict[str, Any] = point_of(scheduler, fusion, vector=8)
    made = generated("flat", fusion, **point)
    key = Candidate.of("flat", point).key
    for identity in (key, made.trace.hash, fusion.fingerprint, fusion.binding_hash):
        assert len(identity) == 64
        assert identity[:12] not in made.source


def test_renamed_fusions_give_the_same_source() -> None:
    for chosen in ({"vector": 8}, {"view": "2d", "load": "tma", "vector": 8}):
        one = generated("flat", bias_gelu("x", "b", "out"), **chosen)
        other = generated("flat", bias_gelu("b", "activations", "zz"), **chosen)
        assert one.source.encode() == other.source.encode()
        assert one.trace.hash == other.trace.hash


# Statements -----------------------------------------------------------------------------------------------------------


def kernel_of(*body: Stmt, threads: int = 32, cap: int | None = None, index_bits: int = 32) -> Kernel:
    pointers = (Pointer("i0", F32, 0, False), Pointer("v0", F32, 1, True))
    return Kernel(pointers, (), (4, 1, 1), (threads, 1, 1), 0, 16, cap, index_bits, body)


def lines(*body: Stmt) -> list[str]:
    """The lines of a body, without the declarations of block and thread indices."""
    text = kernel_text(kernel_of(*body)).splitlines()
    assert text[-1] == "}"
    return [line[2:] for line in text[1:-1] if not line.startswith(("  const Index", "  __builtin_assume"))]


def reg(name: str, dtype: DType = F32, at: int = 0) -> Reg:
    return Reg(name, dtype, const(at))


DEFAULT = CachePolicy.DEFAULT
LANE = var(TX) * 4 + var(Var("lane", 4))
STATEMENTS: tuple[tuple[str, Stmt, Sequence[str]], ...] = (
    ("registers", Declare("r", BF16, 8), ["alignas(16) u16 r[8];"]),
    (
        "a vector load",
        GlobalLoad(reg("r"), "i0", var(TX) * 4, 4, CachePolicy.STREAMING),
        ["ft_load_global<16, 2>(&r[0u], i0 + (tx * 4u));"],
    ),
    (
        "a guarded load gives zeros outside",
        GlobalLoad(reg("r"), "i0", var(TX) * 2, 2, DEFAULT, (Less(var(TX) * 2, const(10)),)),
        [
            "r[0u] = 0.0f;",
            "r[1u] = 0.0f;",
            "ft_load_global_if<8, 0>((tx * 2u) < 10u, &r[0u], i0 + (tx * 2u));",
        ],
    ),
    (
        "a vector that the end cuts goes lane by lane",
        GlobalStore(reg("r", F16), "v0", var(TX) * 4, 4, CachePolicy.EVICT_FIRST, (), Less(LANE, const(30))),
        [
            "if ((tx * 4u + 3u) < 30u) {",
            "  ft_store_global<8, 3>(v0 + (tx * 4u), &r[0u]);",
            "} else {",
            "  #pragma unroll",
            "  for (Index lane = 0u; lane < 4u; ++lane) {",
            "    ft_store_global_if<2, 3>((tx * 4u + lane) < 30u, v0 + (tx * 4u) + lane, &r[lane]);",
            "  }",
            "}",
        ],
    ),
    (
        "a vector that begins before its run is loaded lane by lane",
        GlobalLoad(reg("r", F16), "i0", var(TX) * 2, 2, DEFAULT, (), Less(LANE, const(30)), (), Less(const(3), LANE)),
        [
            "r[0u] = 0;",
            "r[1u] = 0;",
            "ft_load_global_if<4, 0>(3u < (tx * 4u) && (tx * 4u + 1u) < 30u, &r[0u], i0 + (tx * 2u));",
            "ft_load_global_if<2, 0>(3u < (tx * 4u) && (tx * 4u) < 30u && !(3u < (tx * 4u) && (tx * 4u + 1u) < 30u), "
            "&r[0u], i0 + (tx * 2u));",
            "ft_load_global_if<2, 0>(3u < (tx * 4u + 1u) && (tx * 4u + 1u) < 30u "
            "&& !(3u < (tx * 4u) && (tx * 4u + 1u) < 30u), &r[1u], i0 + (tx * 2u) + 1u);",
        ],
    ),
    (
        "a copy past the registers",
        CopyAsync(Shared("s", F32, var(TX) * 16), "i0", var(TX) * 4, 4, CachePolicy.EVICT_FIRST),
        ["ft_copy_async<16, 3>(smem + u32(tx * 16u), i0 + (tx * 4u));"],
    ),
    (
        "a guarded copy brings zeros from outside",
        CopyAsync(Shared("s", F32, const(0)), "i0", var(TX), 1, DEFAULT, (Less(var(TX), const(30)),)),
        ["ft_copy_async_if<4, 0>(tx < 30u, smem, i0 + tx);"],
    ),
    (
        "a copy that the end cuts reads the elements inside",
        CopyAsync(Shared("s", F16, const(0)), "i0", var(TX) * 4, 4, DEFAULT, (), Less(LANE, const(30))),
        [
            "ft_copy_async_of<8, 0>((tx * 4u + 3u) < 30u ? 8u : (tx * 4u) < 30u ? u32(30u - tx * 4u) * 2u : 0u,"
            " smem, i0 + (tx * 4u));"
        ],
    ),
    (
        "one of lanes two places apart counts them",
        CopyAsync(Shared("s", F16, const(0)), "i0", var(TX) * 4, 2, DEFAULT, (), Less(LANE * 2, const(30))),
        [
            "ft_copy_async_of<4, 0>(((tx * 8u) < 30u ? 2u : 0u) + ((tx * 8u + 2u) < 30u ? 2u : 0u),"
            " smem, i0 + (tx * 4u));"
        ],
    ),
    ("copies are a group", CommitCopies(), ["ft_copy_commit();"]),
    ("all but the last groups are waited for", WaitCopies(2), ["ft_copy_wait<2>();"]),
    (
        "shared memory is addressed in bytes",
        SharedLoad(reg("r", F16), Shared("s", F16, var(TX) * 8 + 128), 4),
        ["ft_load_shared<8>(&r[0u], smem + u32(tx * 8u + 128u));"],
    ),
    (
        "its start is no sum",
        SharedStore(reg("r"), Shared("s", F32, const(0)), 4),
        ["ft_store_shared<16>(smem, &r[0u]);"],
    ),
    (
        "f32 is computed as it is",
        Compute(OpKind.ADD, reg("t"), (reg("a"), reg("b")), MathGrade.EXACT),
        ["t[0u] = ft_add(a[0u], b[0u]);"],
    ),
    (
        "halves are widened and rounded",
        Compute(OpKind.MUL, reg("t", F16), (reg("a", F16), Literal(0.5)), MathGrade.EXACT),
        ["t[0u] = ft_to_f16(ft_mul(ft_to_f32_f16(a[0u]), 0.5f));"],
    ),
    (
        "a copy keeps the bits",
        Compute(OpKind.COPY, reg("t", BF16), (reg("a", BF16, 3),), MathGrade.EXACT),
        ["t[0u] = a[3u];"],
    ),
    (
        "a cast between the halves goes through f32",
        Compute(OpKind.CAST, reg("t", BF16), (reg("a", F16),), MathGrade.EXACT),
        ["t[0u] = ft_to_bf16(ft_to_f32_f16(a[0u]));"],
    ),
    ("packed widening", Convert(reg("t"), reg("a", BF16), 8), ["ft_widen_bf16<8>(&t[0u], &a[0u]);"]),
    ("packed narrowing", Convert(reg("t", F16), reg("a"), 2), ["ft_narrow_f16<2>(&t[0u], &a[0u]);"]),
    (
        "a loop that stays a loop",
        Loop(Var("k0", 9), const(9), False, (Declare("r", F32, 1),)),
        ["#pragma unroll 1", "for (Index k0 = 0u; k0 < 9u; ++k0) {", "  alignas(16) float r[1];", "}"],
    ),
    (
        "a loop that is unrolled",
        Loop(Var("k0", 2), const(2), True, ()),
        ["#pragma unroll", "for (Index k0 = 0u; k0 < 2u; ++k0) {", "}"],
    ),
    (
        "what an unrolled loop adds to an address is a constant beside the base",
        Loop(
            Var("k0", 2),
            const(2),
            True,
            (GlobalLoad(reg("r"), "i0", var(TX) + var(Var("k0", 2)) * 64 - 4, 1, DEFAULT),),
        ),
        [
            "#pragma unroll",
            "for (Index k0 = 0u; k0 < 2u; ++k0) {",
            "  ft_load_global<4, 0>(&r[0u], i0 + tx + k0 * 64u - 4u);",
            "}",
        ],
    ),
    (
        "what a loop that stays adds is part of the base",
        Loop(
            Var("k0", 2), const(2), False, (GlobalLoad(reg("r"), "i0", var(TX) + var(Var("k0", 2)) * 64, 1, DEFAULT),)
        ),
        [
            "#pragma unroll 1",
            "for (Index k0 = 0u; k0 < 2u; ++k0) {",
            "  ft_load_global<4, 0>(&r[0u], i0 + (k0 * 64u + tx));",
            "}",
        ],
    ),
    (
        "two conditions",
        If((Less(var(TX), const(3)), Less(const(1), var(TX))), (Declare("r", F32, 1),)),
        ["if (tx < 3u && 1u < tx) {", "  alignas(16) float r[1];", "}"],
    ),
    *(
        (f"a stage is free, {who}", Arrive(Barrier(const(64)), **how), [f"{function}(smem + u32(64u));"])
        for who, how, function in FREED
    ),
)


@pytest.mark.parametrize(("statement", "text"), [s[1:] for s in STATEMENTS], ids=[s[0] for s in STATEMENTS])
def test_a_statement_has_this_form(statement: Stmt, text: Sequence[str]) -> None:
    assert lines(statement) == list(text)


GRADED = (
    (OpKind.TANH, MathGrade.EXACT, "ft_tanh"),
    (OpKind.TANH, MathGrade.APPROX, "ft_tanh"),
    (OpKind.TANH, MathGrade.COARSE, "ft_tanh_coarse"),
    (OpKind.EXP, MathGrade.APPROX, "ft_exp_approx"),
    (OpKind.EXP, MathGrade.COARSE, "ft_exp_approx"),
    (OpKind.SILU, MathGrade.APPROX, "ft_silu_approx"),
    (OpKind.SILU, MathGrade.COARSE, "ft_silu_coarse"),
    (OpKind.RELU, MathGrade.COARSE, "ft_relu"),
)


@pytest.mark.parametrize(("kind", "grade", "function"), GRADED, ids=str)
def test_a_function_without_the_grade_takes_the_next_more_exact_form(
    kind: OpKind, grade: MathGrade, function: str
) -> None:
    assert lines(Compute(kind, reg("t"), (reg("a"),), grade)) == [f"t[0u] = {function}(a[0u]);"]


LITERALS = (
    (2.0, "2.0f"),
    (-0.5, "-0.5f"),
    (1e-30, "1e-30f"),
    (3.0e20, "3e+20f"),
    (float("inf"), "__uint_as_float(0x7f800000u)"),
    (float("-inf"), "__uint_as_float(0xff800000u)"),
    (float("nan"), "__uint_as_float(0x7fffffffu)"),
    (-0.0, "-0.0f"),
    (7, "7.0f"),
)


@pytest.mark.parametrize(("value", "text"), LITERALS, ids=[text for _, text in LITERALS])
def test_literals_are_f32(value: float, text: str) -> None:
    assert lines(Compute(OpKind.MUL, reg("t"), (reg("a"), Literal(value)), MathGrade.EXACT)) == [
        f"t[0u] = ft_mul(a[0u], {text});"
    ]


def test_the_signature_says_who_writes_and_how_many_threads_there_are() -> None:
    first = kernel_text(kernel_of()).splitlines()[0]
    parameters = "const float* __restrict__ i0, float* __restrict__ v0"
    assert first == f'extern "C" __global__ void __launch_bounds__(32) {ENTRY}({parameters}) {{'


@pytest.mark.parametrize(
    ("threads", "cap", "bounds"), [(256, 64, "256, 4"), (1024, 64, "1024, 1"), (128, 40, "128, 12")]
)
def test_a_register_cap_is_a_number_of_resident_blocks(threads: int, cap: int, bounds: str) -> None:
    assert f"__launch_bounds__({bounds}) " in kernel_text(kernel_of(threads=threads, cap=cap))


@pytest.mark.parametrize(("bits", "index"), [(32, "u32"), (64, "u64")])
def test_indices_are_unsigned_of_the_width_asked_for(bits: int, index: str) -> None:
    assert f"typedef {index} Index;\n" in emit(kernel_of(index_bits=bits))


def test_only_indices_in_use_are_declared_and_pieces_come_first() -> None:
    text = emit(replace(kernel_of(), grid=(1, 7, 1), block=(32, 1, 1)))
    assert re.findall(r"const Index (\w+) =", text) == ["by", "tx"]
    assert "shared_memory" not in text
    assert "TensorMap" not in text
    assert "#include" not in text
