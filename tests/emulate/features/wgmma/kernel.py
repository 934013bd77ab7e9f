"""Kernels of one warpgroup that multiply what lies in shared memory: x is copied there, D goes to y.

Registers: %r1 thread, %r2 the shared address of `tile`, %rd1 and %rd2 addresses of x and y, %d0… the accumulator, %a0…
A in registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.launch import EmulatedOutcome, EmulatedTensor, Launch, Options, TensorArgument
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate

Array = npt.NDArray[Any]
Words = npt.NDArray[np.uint32]

TILE = 40960

KERNEL = """
.version 8.7
.target {target}
.address_size 64
.visible .entry k(.param .u64 p_x, .param .u64 p_y)
{{
  .reg .pred %p<8>;
  .reg .b32 %r<32>, %d<160>, %a<16>;
  .reg .b64 %rd<32>;
  .shared .align 1024 .b8 tile[40960];
  ld.param.u64 %rd1, [p_x];
  ld.param.u64 %rd2, [p_y];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
{body}
  ret;
}}
"""

FENCE, COMMIT = "  wgmma.fence.sync.aligned;\n", "  wgmma.commit_group.sync.aligned;\n"
PROXY_FENCE, BAR = "  fence.proxy.async.shared::cta;\n", "  bar.sync 0;\n"


def wait(pending: int = 0) -> str:
    """Waits for all groups but some."""
    return f"  wgmma.wait_group.sync.aligned {pending};\n"


@dataclass(frozen=True)
class Descriptor:
    """A descriptor of wgmma but for the address of `tile`: `offset` from there, steps in bytes, the swizzle's code."""

    offset: int
    leading: int
    stride: int
    mode: int = 0

    def moved(self, nbytes: int) -> Descriptor:
        """The same, further on."""
        return Descriptor(self.offset + nbytes, self.leading, self.stride, self.mode)

    def code(self, register: int) -> str:
        """Puts it into %rd`register`."""
        bits = self.leading >> 4 << 16 | self.stride >> 4 << 32 | self.mode << 62
        return (
            f"  add.u32 %r20, %r2, {self.offset};\n  shr.u32 %r20, %r20, 4;\n  cvt.u64.u32 %rd{register}, %r20;\n"
            f"  or.b64 %rd{register}, %rd{register}, {bits:#x};\n"
        )


def filled(nbytes: int) -> str:
    """Copies the first `nbytes` of x to `tile`, with the first 128 threads, through the generic proxy."""
    lines = ["  setp.lt.u32 %p6, %r1, 128;"]
    for start in range(0, nbytes, 128 * 16):
        lines += [
            f"  mad.lo.u32 %r10, %r1, 16, {start};",
            f"  setp.lt.and.u32 %p7, %r10, {nbytes}, %p6;",
            "  cvt.u64.u32 %rd10, %r10;",
            "  add.u64 %rd10, %rd10, %rd1;",
            "  add.u32 %r10, %r10, %r2;",
            "  @%p7 ld.global.v4.u32 {%r11, %r12, %r13, %r14}, [%rd10];",
            "  @%p7 st.shared.v4.u32 [%r10], {%r11, %r12, %r13, %r14};",
        ]
    return "\n".join(lines) + "\n"


def row(names: list[str], direction: str, at: int, base: str) -> str:
    """Loads or stores a word a register: row %r1 of the words from byte `at` of x (%rd1) or y (%rd2)."""
    lines = [f"  mul.wide.u32 %rd11, %r1, {4 * len(names)};", f"  add.u64 %rd11, %rd11, {base};"]
    for i, name in enumerate(names):
        place = f"[%rd11+{at + 4 * i}]"
        lines.append(f"  ld.global.u32 {name}, {place};" if direction == "ld" else f"  st.global.u32 {place}, {name};")
    return "\n".join(lines) + "\n"


def vector(name: str, count: int) -> str:
    """`{%d0, %d1, …}`."""
    return "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"


def names(name: str, count: int) -> list[str]:
    """%d0, %d1, …"""
    return [f"%{name}{i}" for i in range(count)]


@dataclass(frozen=True)
class Ran:
    """What came of a run: the outcome and the output."""

    outcome: EmulatedOutcome
    y: Words

    @property
    def faults(self) -> list[tuple[str, str]]:
        """Kind and the first two words of the instruction of each fault."""
        return [(str(f.kind), ".".join(f.instruction.split()[0].split(".")[:2])) for f in self.outcome.faults]


def run(
    body: str, x: Array, words: int, *, threads: int = 128, options: Options | None = None, target: str = "sm_90a"
) -> Ran:
    """Runs KERNEL with `body` on the bytes of x; y has `words` words."""
    data = np.ascontiguousarray(x).view(np.uint8).reshape(-1)
    data = np.concatenate([data, np.zeros(-len(data) % 16, np.uint8)])
    y = np.zeros(words, np.uint32)
    tensors = {
        "x": EmulatedTensor("x", "u32", (data.size // 4,), data),
        "y": EmulatedTensor("y", "u32", y.shape, y.view(np.uint8), np.zeros(y.nbytes, np.bool_)),
    }
    launch = Launch("k", target, (1, 1, 1), (threads, 1, 1), (TensorArgument("x"), TensorArgument("y")), tensors)
    return Ran(emulate(parse(KERNEL.format(body=body, target=target)), launch, options), y)
