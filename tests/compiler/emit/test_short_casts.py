"""Casts from and to 8-bit floats, u8 and i16 give what torch gives: for every value of 8 and of 16 bits, and for the
numbers of f32 and f64 where a rounding turns. One by one and in vectors; in the emulator, for architectures with and
without instructions for 8-bit floats, and on a GPU against torch's casts there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from compiler.dtypes import FLOAT_FORMATS, FP8, DType
from compiler.emit.functions import COMPUTED_IN, pieces_for
from compiler.emit.pieces import pieces
from compiler.emit.values import ELEMENT, compute, convert
from compiler.ir.expr import const
from compiler.ir.ops import MathGrade, OpKind
from compiler.lower.kernel_ir import Compute, Convert
from compiler.lower.operands import Reg
from compiler.nvrtc import CompilePool
from compiler.reference import fp8_values
from tests.compiler.emit.machines import MACHINES, Array, Machine, machine_of
from tests.shares import shared

DTYPES = tuple(COMPUTED_IN)
TORCH = {
    DType.F64: torch.float64, DType.F32: torch.float32, DType.F16: torch.float16, DType.BF16: torch.bfloat16,
    DType.F8E4M3: torch.float8_e4m3fn, DType.F8E5M2: torch.float8_e5m2, DType.I8: torch.int8, DType.U8: torch.uint8,
    DType.I16: torch.int16, DType.I32: torch.int32, DType.I64: torch.int64, DType.BOOL: torch.bool,
}  # fmt: skip
INTEGERS = (DType.I8, DType.U8, DType.I16, DType.I32, DType.I64)
SHORT = FP8 | {DType.U8, DType.I16}
THREADS, EACH = 64, 16
WIDTHS = (1, 2, 4, 8, 16)
PACKED = FP8 | {DType.F32, DType.F16, DType.BF16}
"""Types between which vectors are cast in pairs."""


@pytest.fixture(scope="module", params=MACHINES)
def machine(request: pytest.FixtureRequest, ptx_pool: CompilePool, machine_pool: CompilePool) -> Machine:
    return machine_of(machine_pool if request.param == "card" else ptx_pool, request.param)


@pytest.fixture
def device(request: pytest.FixtureRequest) -> str:
    return "cuda" if request.node.get_closest_marker("gpu") else "cpu"


def turning_points() -> Array:
    """f64: 8-bit floats, what lies halfway between two of them and on either side of that by an ulp of f32 or less."""
    points = [0.0, 448.0, 464.0, 480.0, 61440.0, 65536.0, 2.0**-150, 1e30, 1e300, np.inf, np.nan]
    for dtype in sorted(FP8):
        known = fp8_values(np.arange(0x7F, dtype=np.uint8), dtype).astype(np.float64)
        known = known[np.isfinite(known)]
        assert known[-1] == FLOAT_FORMATS[dtype].largest
        points += [*known, *((known[1:] + known[:-1]) / 2)]
    exact = np.unique(np.array(points))
    beside = [exact * (1.0 + sign * step) for step in (2.0**-52, 2.0**-40, 2.0**-23, 2.0**-10) for sign in (1, -1)]
    found = np.concatenate([exact, *beside])
    return np.concatenate([found, -found])


def values_of(dtype: DType) -> Array:
    """Every value of up to 16 bits; of larger floats where casts turn, and random bits; integers at all ends."""
    bits = np.random.default_rng(7).integers(0, 2**64, 4096, np.uint64)
    match dtype:
        case DType.F64:
            return np.concatenate([turning_points(), bits.view(np.float64)])
        case DType.F32:
            with np.errstate(all="ignore"):
                return np.concatenate([turning_points().astype(np.float32), bits.view(np.float32)])
        case DType.I64 | DType.I32:
            ends = [x + d for t in INTEGERS for x in t.integer_range for d in (-1, 0, 1)]
            low, high = dtype.integer_range
            near = np.array([x for x in ends if low <= x <= high], np.int64)
            return np.concatenate([near, np.arange(-600, 600), bits.view(np.int64)]).astype(dtype.replace("i", "int"))
        case DType.BOOL:
            return np.array([0, 1], np.uint8)
        case _:
            return np.arange(1 << dtype.nbits).astype(f"u{dtype.nbytes}")


def padded(x: Array) -> Array:
    """Whole blocks of elements."""
    return np.resize(x, -(-len(x) // (THREADS * EACH)) * THREADS * EACH)


def run(machine: Machine, source: DType, targets: list[DType], body: list[str], x: Array) -> list[Array]:
    """What the statements leave in `t0`, `t1`, …, registers of so many targets, for each element of `s`."""
    parameters = [f"const {ELEMENT[source]}* x", *(f"{ELEMENT[t]}* y{i}" for i, t in enumerate(targets))]
    lines = [f"alignas(16) {ELEMENT[source]} s[{EACH}];"]
    lines += [f"alignas(16) {ELEMENT[t]} t{i}[{EACH}];" for i, t in enumerate(targets)]
    lines += [f"const u32 at = (blockIdx.x * {THREADS}u + threadIdx.x) * {EACH}u;"]
    lines += [f"for (u32 i = 0u; i < {EACH}u; ++i) s[i] = x[at + i];", *body]
    lines += [f"for (u32 i = 0u; i < {EACH}u; ++i) y{n}[at + i] = t{n}[i];" for n in range(len(targets))]
    text = pieces(sorted(pieces_for({source, *targets})))
    made = "\n".join(lines)
    kernel = f'{text}\nextern "C" __global__ void k({", ".join(parameters)}) {{\n{made}\n}}\n'
    arrays = {"x": padded(x), **{f"y{i}": np.zeros(len(padded(x)) * t.nbytes, np.uint8) for i, t in enumerate(targets)}}
    machine(kernel, arrays, THREADS, len(arrays["x"]) // (THREADS * EACH))
    return [arrays[f"y{i}"] for i in range(len(targets))]


def torch_of(x: Array, dtype: DType, device: str) -> Any:
    """An array's memory as a tensor."""
    return torch.from_numpy(x.view(np.uint8).copy()).view(TORCH[dtype]).to(device)


def agree(x: Array, source: DType, target: DType, found: Array, device: str, what: str) -> None:
    """Bits equal those of torch, where it has defined ones; any NaN is NaN."""
    given = torch_of(padded(x), source, device)
    want, have = given.to(TORCH[target]).cpu(), torch_of(found, target, "cpu")
    known = torch.ones(len(given), dtype=torch.bool)
    if source.is_float and not target.is_float and target is not DType.BOOL:
        # Past the integers by way of which the low bits are kept C++ leaves it open, and devices differ.
        reach = 63 if target in (DType.I64, DType.U8) else 31
        known = (given.double().abs() < 2.0**reach).cpu()
    if target is DType.F8E4M3 and torch.tensor(480.0).to(TORCH[target]).float().isnan():
        # What torch before 2.13 makes NaN saturates: docs/contracts.md.
        beyond = (given.float().abs() > 464.0).cpu()  # torch goes by way of f32
        assert want[beyond].float().isnan().all()
        top = torch.where(given.double().cpu() < 0, -448.0, 448.0).to(TORCH[target])
        want = torch.where(beyond, top.view(torch.uint8), want.view(torch.uint8)).view(TORCH[target])
    bits = (want.view(torch.uint8).view(len(given), -1) == have.view(torch.uint8).view(len(given), -1)).all(1)
    if target.is_float:
        bits |= want.float().isnan() & have.float().isnan()
    wrong = (known & ~bits).nonzero().flatten()[:5]
    assert not len(wrong), f"{what}: of {given[wrong.to(device)]} {have[wrong]}, torch {want[wrong]}"


@pytest.mark.parametrize("source", shared(DTYPES, 2))
def test_casts_one_by_one_are_torchs(machine: Machine, device: str, source: DType) -> None:
    targets = [t for t in DTYPES if source in SHORT or t in SHORT]
    x = values_of(source)
    lanes = [
        Compute(OpKind.CAST, Reg(f"t{i}", t, const(n)), (Reg("s", source, const(n)),), MathGrade.EXACT)
        for i, t in enumerate(targets)
        for n in range(EACH)
    ]
    body = [f"{s.target.name}[{s.target.offset.const}] = {compute(s)};" for s in lanes]
    for target, found in zip(targets, run(machine, source, targets, body, x), strict=True):
        agree(x, source, target, found, device, f"{source} to {target}")


@pytest.mark.parametrize("every", [31, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("source", sorted(PACKED))
def test_casts_of_vectors_are_torchs(machine: Machine, device: str, source: DType, every: int) -> None:
    """Of 16 bits and more every 31st value, which all are met one by one: their neighbours in a vector are others then,
    too."""
    pairs = [(t, w) for t in sorted(PACKED) for w in WIDTHS if t is not source and FP8 & {source, t}]
    x = values_of(source)[:: every if source.nbytes > 1 else 1]
    body = [
        convert(Convert(Reg(f"t{i}", t, const(n)), Reg("s", source, const(n)), width))
        for i, (t, width) in enumerate(pairs)
        for n in range(0, EACH, width)
    ]
    for (target, width), found in zip(pairs, run(machine, source, [t for t, _ in pairs], body, x), strict=True):
        agree(x, source, target, found, device, f"{width} of {source} to {target}")
