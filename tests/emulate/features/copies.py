"""Kernels of asynchronous copies in PTX, run on arrays in the three orders of completion.

`x` is an input, `y` an output; `m_x` and `m_y` are tensor maps of them where a test gives them. Registers: %r1 thread,
%r2 block, %r3 address of 8 KiB of shared memory, %r4 address of 4 mbarriers, %rd1 and %rd2 addresses of x and y,
%rd3 and %rd4 of the maps. %p1 is true in thread 0. mbarrier 0 is initialised for one arrival, and fenced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.launch import (
    Argument,
    Completion,
    EmulatedOutcome,
    EmulatedTensor,
    EmulatedTensorMap,
    Launch,
    Options,
    TensorArgument,
    ValueArgument,
)
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate

ORDERS: dict[str, Options] = {
    "eager": Options(),
    "lazy": Options(Completion.LAZY),
    "random 1": Options(Completion.RANDOM, seed=1),
    "random 2": Options(Completion.RANDOM, seed=2),
}

WITHOUT_RACES: dict[str, Options] = {
    f"{order} without races": replace(ORDERS[order], races=False) for order in ("eager", "lazy")
}
"""Orders in which stores that come to one barrier are one operation."""

TEXT = """
.version 8.6
.target {target}
.address_size 64
.visible .entry k(.param .u64 p_x, .param .u64 p_y, .param .align 64 .b8 m_x[128], .param .align 64 .b8 m_y[128])
{{
  .reg .pred %p<8>;
  .reg .b16 %h<8>;
  .reg .b32 %r<32>;
  .reg .b64 %rd<16>;
  .shared .align 1024 .b8 tile[8192];
  .shared .align 8 .b64 bar[4];
  ld.param.u64 %rd1, [p_x];
  ld.param.u64 %rd2, [p_y];
  mov.b64 %rd3, m_x;
  mov.b64 %rd4, m_y;
  cvta.param.u64 %rd3, %rd3;
  cvta.param.u64 %rd4, %rd4;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, tile;
  mov.u32 %r4, bar;
  setp.eq.u32 %p1, %r1, 0;
  @!%p1 bra STARTED;
  mbarrier.init.shared::cta.b64 [%r4], {count};
  {fence}
STARTED:
  {sync}
{body}
  ret;
}}
"""

FENCE_INIT = "fence.mbarrier_init.release.cluster;"
BLOCK_SYNC = "bar.sync 0;"
CLUSTER_SYNC = "barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;"

WRITE_SHARED = """
  shl.b32 %r5, %r1, 2;
  add.u32 %r5, %r5, %r3;
  mul.wide.u32 %rd5, %r1, 4;
  add.u64 %rd6, %rd1, %rd5;
  ld.global.u32 %r6, [%rd6];
  st.shared.u32 [%r5], %r6;
"""
"""tile[thread] = x[thread], as words."""

READ_SHARED = """
  shl.b32 %r5, %r1, 2;
  add.u32 %r5, %r5, %r3;
  ld.shared.u32 %r6, [%r5];
  mul.wide.u32 %rd5, %r1, 4;
  add.u64 %rd6, %rd2, %rd5;
  st.global.u32 [%rd6], %r6;
"""
"""y[thread] = tile[thread], as words."""


def wait(parity: int | str = 0, barrier: str = "%r4", label: str = "W0") -> str:
    """Waits on an mbarrier for a phase."""
    return f"""
{label}:
  mbarrier.try_wait.parity.shared::cta.b64 %p7, [{barrier}], {parity};
  @!%p7 bra {label};
"""


def first_thread(body: str, label: str = "T0") -> str:
    """What thread 0 does alone."""
    return f"""
  @!%p1 bra {label};
{body}
{label}:
"""


@dataclass(frozen=True)
class Ran:
    """What came of a run: the outcome, the output, the kinds of the faults with the PTX text of their instructions."""

    outcome: EmulatedOutcome
    y: npt.NDArray[Any]

    @property
    def faults(self) -> list[tuple[str, str]]:
        """(kind, instruction up to the first operand), in order."""
        return [(str(f.kind), f.instruction.split(" ")[0]) for f in self.outcome.faults]

    @property
    def kinds(self) -> set[str]:
        """The kinds of the faults."""
        return {str(f.kind) for f in self.outcome.faults}

    @property
    def told(self) -> str:
        """All messages."""
        return "\n".join(f"{f.kind}: {f.instruction}: {f.message}" for f in self.outcome.faults)


def run(
    body: str,
    order: str,
    *,
    x: npt.NDArray[Any] | None = None,
    y: npt.NDArray[Any] | None = None,
    threads: int = 32,
    blocks: int = 1,
    cluster: int = 1,
    count: int = 1,
    fence: str = FENCE_INIT,
    sync: str | None = None,
    target: str = "sm_90a",
    maps: Mapping[str, EmulatedTensorMap] | None = None,
    written: bool = False,
) -> Ran:
    """Runs a kernel. `y` starts unwritten unless `written`; both default to a word a thread, x counting up.

    `sync`: what all threads do after the set-up, by default the barrier of the block, or of the cluster.
    """
    x = np.arange(threads * blocks, dtype=np.uint32) if x is None else x
    y = np.zeros(threads * blocks, np.uint32) if y is None else y.copy()
    tensors = {
        "x": EmulatedTensor("x", "u8", (x.nbytes,), x.view(np.uint8).reshape(-1).copy()),
        "y": EmulatedTensor(
            "y", "u8", (y.nbytes,), y.view(np.uint8).reshape(-1), None if written else np.zeros(y.nbytes, np.bool_)
        ),
    }
    given: list[Argument] = [(maps or {}).get(name) or ValueArgument(bytes(128)) for name in ("x", "y")]
    sync = sync or (BLOCK_SYNC if cluster == 1 else CLUSTER_SYNC)
    module = parse(TEXT.format(body=body, count=count, fence=fence, target=target, sync=sync))
    launch = Launch(
        "k",
        target,
        (blocks, 1, 1),
        (threads, 1, 1),
        (TensorArgument("x"), TensorArgument("y"), *given),
        tensors,
        (cluster, 1, 1),
    )
    return Ran(emulate(module, launch, (ORDERS | WITHOUT_RACES)[order]), y)
