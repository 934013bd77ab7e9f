"""Small PTX kernels of blocks that work together: `x` is an input and `y` an output of u32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.launch import Completion, EmulatedOutcome, EmulatedTensor, Launch, Options, TensorArgument
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate

Words = npt.NDArray[np.uint32]

KERNEL = """
.version 8.7
.target {target}
.address_size 64
.visible .entry k(.param .u64 p_x, .param .u64 p_y)
{{
  .reg .pred %p<16>;
  .reg .b32 %r<48>;
  .reg .b32 %v<160>;
  .reg .b64 %rd<32>;
  .shared .align 1024 .b8 tile[16384];
  .shared .align 8 .b8 where[16];
  .shared .align 8 .b8 bar[8];
  ld.param.u64 %rd1, [p_x];
  ld.param.u64 %rd2, [p_y];
  mov.u32 %r1, %tid.x;
  shr.u32 %r2, %r1, 5;
  and.b32 %r3, %r1, 31;
  setp.eq.u32 %p1, %r2, 0;
  mov.u32 %r8, %cluster_ctarank;
  setp.eq.u32 %p2, %r1, 0;
{body}
  ret;
}}
"""
"""%r1 thread, %r2 warp, %r3 lane, %r8 rank in the cluster; %p1 for warp 0, %p2 for thread 0; %rd1 x, %rd2 y."""

ALLOC = """
  mov.u32 %r4, where;
  @%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4], {columns};
  bar.sync 0;
  ld.shared.u32 %r5, [where];
  and.b32 %r6, %r2, 3;
  shl.b32 %r6, %r6, 21;
  add.u32 %r6, %r5, %r6;
"""
"""%r5 the address of the allocation, %r6 the same in the quarter of the warp."""

FREE = """
  bar.sync 0;
  @%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, {columns};
"""


def allocated(body: str, columns: int = 512) -> str:
    """`body` between an allocation by warp 0 and its end."""
    return ALLOC.format(columns=columns) + body + FREE.format(columns=columns)


def registers(count: int, first: int = 0) -> str:
    """`{%v0, %v1, …}`."""
    return "{" + ", ".join(f"%v{first + i}" for i in range(count)) + "}"


def load_row(count: int, first: int = 0, row: str = "%r1") -> str:
    """Fills registers from row `row` of x, `count` words a row."""
    lines = [f"  mul.wide.u32 %rd10, {row}, {4 * count};", "  add.u64 %rd11, %rd1, %rd10;"]
    lines += [f"  ld.global.{t} {r}, [%rd11+{4 * i}];" for t, r, i in _pieces(count, first)]
    return "\n".join(lines)


def store_row(count: int, first: int = 0, row: str = "%r1") -> str:
    """Stores registers to row `row` of y, `count` words a row."""
    lines = [f"  mul.wide.u32 %rd12, {row}, {4 * count};", "  add.u64 %rd13, %rd2, %rd12;"]
    lines += [f"  st.global.{t} [%rd13+{4 * i}], {r};" for t, r, i in _pieces(count, first)]
    return "\n".join(lines)


def _pieces(count: int, first: int) -> list[tuple[str, str, int]]:
    """Type, registers and place of the accesses to a row: of 16 bytes where they fit."""
    if count % 4:
        return [("u32", f"%v{first + i}", i) for i in range(count)]
    return [("v4.u32", registers(4, first + i), i) for i in range(0, count, 4)]


@dataclass(frozen=True)
class Ran:
    """What came of a run: the outcome and the output."""

    outcome: EmulatedOutcome
    y: Words

    @property
    def faults(self) -> list[tuple[str, str]]:
        """Kind and first word of the instruction of each fault."""
        return [(str(f.kind), f.instruction.split()[0]) for f in self.outcome.faults]


def run(
    body: str,
    x: npt.NDArray[Any],
    words: int,
    *,
    threads: int = 128,
    blocks: int = 1,
    cluster: int = 1,
    completion: Completion = Completion.EAGER,
    seed: int = 0,
    target: str = "sm_100a",
) -> Ran:
    """Runs KERNEL with `body`; `y` has `words` words."""
    data = np.ascontiguousarray(x).view(np.uint8).reshape(-1).copy()
    y = np.zeros(words, np.uint32)
    tensors = {
        "x": EmulatedTensor("x", "u32", (data.size // 4,), data),
        "y": EmulatedTensor("y", "u32", y.shape, y.view(np.uint8), np.zeros(y.nbytes, np.bool_)),
    }
    launch = Launch(
        "k",
        target,
        (blocks, 1, 1),
        (threads, 1, 1),
        (TensorArgument("x"), TensorArgument("y")),
        tensors,
        cluster=(cluster, 1, 1),
    )
    return Ran(emulate(parse(KERNEL.format(body=body, target=target)), launch, Options(completion, seed)), y)


EVERY_ORDER: Sequence[tuple[Completion, int]] = (
    (Completion.EAGER, 0),
    (Completion.LAZY, 0),
    (Completion.RANDOM, 1),
    (Completion.RANDOM, 2),
)
