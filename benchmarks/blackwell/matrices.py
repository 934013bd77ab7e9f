"""Matrices of bytes: ldmatrix m16n16 and stmatrix m16n8, whose layouts the manual has in figures alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.blackwell.code import PRELUDE
from benchmarks.blackwell.fragments import WARP
from benchmarks.blackwell.question import ENTRY, HardwareQuestion

_ROW = 16
"""Bytes of a row of a matrix."""

Place = tuple[int, int]
ByteLayout = Callable[[int, int, int], Place]

LOADS: dict[str, ByteLayout] = {
    "a register has two rows of columns c and c + 8": lambda t, r, b: (
        16 * (r // 2) + 4 * (t % 4) + 2 * (r % 2) + b % 2,
        t // 4 + 8 * (b // 2),
    ),
    "a register has four rows of one column": lambda t, r, b: (16 * (r // 2) + 4 * (t % 4) + b, t // 4 + 8 * (r % 2)),
}
"""Row and byte of byte `b` of register `r` of lane `t`, by ldmatrix.m16n16.trans.b8."""

STORES: dict[str, ByteLayout] = {
    "a register has two rows of columns c and c + 8": lambda t, r, b: (
        8 * r + 2 * (t % 4) + b % 2,
        t // 4 + 8 * (b // 2),
    ),
    "a register has columns c and c + 8 of two rows": lambda t, r, b: (
        8 * r + 2 * (t % 4) + b // 2,
        t // 4 + 8 * (b % 2),
    ),
}
"""The same of stmatrix.m16n8.trans.b8."""


def questions() -> Iterator[HardwareQuestion]:
    """All of this module."""
    for count in (1, 2):
        yield _loads(count)
    for count in (1, 2, 4):
        yield _stores(count)


def _loads(count: int) -> HardwareQuestion:
    rows, registers = 16 * count, 2 * count
    x = np.random.default_rng(count).integers(0, 1 << 32, rows * _ROW // 4, np.uint32)
    given, answers = x.view(np.uint8).reshape(rows, _ROW), {}
    for name, place in LOADS.items():
        found = np.zeros((WARP, registers, 4), np.uint8)
        for t, r, b in np.ndindex(found.shape):
            found[t, r, b] = given[place(t, r, b)]
        answers[name] = found.view(np.uint32)[..., 0]
    outs = ", ".join(f'"=r"(r[{k}])' for k in range(registers))
    regs = ", ".join(f"%{k}" for k in range(registers))
    name = f"ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.b8"
    body = f"""\
  asm volatile("{name} {{{regs}}}, [%{registers}];" : {outs} : "r"(SMEM(s + 4 * (t % {rows}))) : "memory");
  for (int k = 0; k < {registers}; ++k) y[{registers} * t + k] = r[k];
"""
    asks = "which bytes of its matrices ldmatrix.m16n16.b8 gives a lane"
    return HardwareQuestion(
        f"ldmatrix m16n16.x{count}.b8", asks, _program(rows, registers, body), x, answers, threads=WARP
    )


def _stores(count: int) -> HardwareQuestion:
    rows = 8 * count
    first = rows * _ROW // 4
    x = np.random.default_rng(count).integers(0, 1 << 32, first + WARP * count, np.uint32)
    given, answers = x[first:].view(np.uint8).reshape(WARP, count, 4), {}
    for name, place in STORES.items():
        found = np.zeros((rows, _ROW), np.uint8)
        for t, r, b in np.ndindex(given.shape):
            found[place(t, r, b)] = given[t, r, b]
        answers[name] = found.view(np.uint32)
    ins = ", ".join(f'"r"(r[{k}])' for k in range(count))
    regs = ", ".join(f"%{k + 1}" for k in range(count))
    name = f"stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8"
    body = f"""\
  for (int k = 0; k < {count}; ++k) r[k] = x[{first} + {count} * t + k];
  asm volatile("{name} [%0], {{{regs}}};" :: "r"(SMEM(s + 4 * (t % {rows}))), {ins} : "memory");
  __syncwarp();
  for (u32 k = t; k < {first}; k += {WARP}) y[k] = s[k];
"""
    asks = "where stmatrix.m16n8.b8 puts the bytes of a lane"
    return HardwareQuestion(f"stmatrix m16n8.x{count}.b8", asks, _program(rows, count, body), x, answers, threads=WARP)


def _program(rows: int, registers: int, body: str) -> str:
    words = rows * _ROW // 4
    return f"""{PRELUDE}
extern "C" __global__ void {ENTRY}(const u32* x, u32* y) {{
  __shared__ __align__(128) u32 s[{words}];
  u32 t = threadIdx.x, r[{registers}];
  for (u32 k = t; k < {words}; k += {WARP}) s[k] = x[k];
  __syncwarp();
{body}}}
"""
