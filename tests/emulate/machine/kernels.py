"""Small kernels in PTX, run on arrays: `x` is an input of u32, `y` an output of u32, both as long as the test says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.launch import EmulatedOutcome, EmulatedTensor, Launch, Options, TensorArgument
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate

HEAD = """
.version 8.5
.target sm_90a
.address_size 64
"""

KERNEL = """
.visible .entry k(.param .u64 p_x, .param .u64 p_y)
{{
  .reg .pred %p<8>;
  .reg .b32 %r<32>;
  .reg .b64 %rd<16>;
  {variables}
  ld.param.u64 %rd1, [p_x];
  ld.param.u64 %rd2, [p_y];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mad.lo.u32 %r4, %r2, %r3, %r1;
  mul.wide.u32 %rd3, %r4, 4;
  add.u64 %rd4, %rd1, %rd3;
  add.u64 %rd5, %rd2, %rd3;
{body}
}}
"""
"""%r1 thread, %r2 block, %r3 threads a block, %r4 index in the grid; %rd4 and %rd5 point to x[%r4] and y[%r4]."""


@dataclass(frozen=True)
class Ran:
    """What came of a run: the outcome and the output."""

    outcome: EmulatedOutcome
    y: npt.NDArray[np.uint32]

    @property
    def kinds(self) -> list[str]:
        """The kinds of the faults, in order."""
        return [str(f.kind) for f in self.outcome.faults]


def run(
    body: str,
    *,
    blocks: int = 1,
    threads: int = 32,
    x: npt.NDArray[Any] | None = None,
    elements: int | None = None,
    variables: str = "",
    before: str = "",
    options: Options | None = None,
    poison: bool = True,
) -> Ran:
    """Runs KERNEL with `body`; `before` stands ahead of it at module scope. `y` has `elements` u32 (default: a thread's
    each), poisoned unless told otherwise: then it starts as zeros."""
    count = blocks * threads if elements is None else elements
    x = np.arange(count, dtype=np.uint32) if x is None else x
    y = np.zeros(count, np.uint32)
    tensors = {
        "x": EmulatedTensor("x", "u32", x.shape, x.astype(np.uint32).view(np.uint8).copy()),
        "y": EmulatedTensor("y", "u32", y.shape, y.view(np.uint8), np.zeros(y.nbytes, np.bool_) if poison else None),
    }
    module = parse(HEAD + before + KERNEL.format(body=body, variables=variables))
    launch = Launch(
        "k",
        "sm_90a",
        (blocks, 1, 1),
        (threads, 1, 1),
        (TensorArgument("x"), TensorArgument("y")),
        tensors,
    )
    return Ran(emulate(module, launch, options), y)
