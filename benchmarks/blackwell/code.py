"""Pieces of CUDA for kernels that use tensor memory: one block, `x` read and `y` written by words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.blackwell.question import ENTRY
from benchmarks.emulate.compiling import DEVICE

PRELUDE = DEVICE + Path(__file__).with_name("tensor_memory.cuh").read_text(encoding="utf-8")
"""What every kernel begins with."""

COLUMNS = 32
"""Columns that the kernels fill and show, of all 128 lanes."""


def program(body: str, shared: str = "", columns: int = COLUMNS) -> str:
    """A kernel: warp 0 allocates, `body` sees the thread `t`, its warp `w`, the address `base` and `mine`, that of the
    lanes which the warp may reach."""
    return f"""{PRELUDE}
extern "C" __global__ void {ENTRY}(const u32* x, u32* y) {{
  __shared__ u32 where;
  {shared}
  u32 t = threadIdx.x, w = t / 32;
  if (w == 0) ALLOC(where, {columns});
  __syncthreads();
  u32 base = where, mine = base + ((w % 4 * 32) << 16);
{body}
  __syncthreads();
  if (w == 0) FREE(base, {columns});
}}
"""


def fill(columns: int = COLUMNS) -> str:
    """Row `lane` of x, of `columns` words, to each lane."""
    return _from_memory(columns, f"x + {columns} * (t % 128)") + store("32x32b", columns, columns, "mine")


def show(columns: int = COLUMNS) -> str:
    """Each lane to a row of y."""
    return declared(columns) + load("32x32b", columns, columns, "mine") + _to_memory(columns, f"y + {columns} * t")


def declared(count: int) -> str:
    """The registers r, which nothing has been put into."""
    return f"  u32 r[{count}];\n"


def registers_from_x(count: int, first: int) -> str:
    """Words of x from `first` on, a row of `count` a thread, to the registers r."""
    return _from_memory(count, f"x + {first} + {count} * t")


def registers_to_y(count: int) -> str:
    """The registers r to a row of y."""
    return _to_memory(count, f"y + {count} * t")


def store(shape: str, num: int, count: int, address: str, split: int | None = None, packed: bool = False) -> str:
    """tcgen05.st of `count` registers and its wait; `split` is the immediate of 16x32bx2."""
    name = f"tcgen05.st.sync.aligned.{shape}.x{num}{'.unpack::16b' * packed}.b32"
    middle = "" if split is None else f"{split}, "
    ins = ", ".join(f'"r"(r[{k}])' for k in range(count))
    text = f'"{name} [%{count}], {middle}{_list(count)};" :: {ins}, "r"({address}) : "memory"'
    return f"  asm volatile({text});\n  WAIT_ST();\n"


def load(shape: str, num: int, count: int, address: str, split: int | None = None, packed: bool = False) -> str:
    """tcgen05.ld to `count` registers and its wait."""
    name = f"tcgen05.ld.sync.aligned.{shape}.x{num}{'.pack::16b' * packed}.b32"
    last = "" if split is None else f", {split}"
    outs = ", ".join(f'"=r"(r[{k}])' for k in range(count))
    text = f'"{name} {_list(count)}, [%{count}]{last};" : {outs} : "r"({address}) : "memory"'
    return f"  asm volatile({text});\n  WAIT_LD();\n"


def by_one_thread(instruction: str, operands: Sequence[str]) -> str:
    """An operation beside the threads, issued by thread 0 after what all have done, and waited for by all.

    Needs `u64 bar` in shared memory.
    """
    given = ", ".join(operands)
    return f"""\
  if (t == 0) {{ MBAR_INIT(bar, 1); MBAR_FENCE(); }}
  FENCE_ASYNC();
  BEFORE();
  __syncthreads();
  AFTER();
  if (t == 0) {{
    asm volatile("{instruction}" :: {given} : "memory");
    COMMIT(bar);
  }}
  MBAR_WAIT(bar, 0);
  AFTER();
"""


def block(*pieces: str) -> str:
    """Pieces one after the other, each with registers of its own."""
    return "".join(f"  {{\n{piece}  }}\n" for piece in pieces)


def _list(count: int) -> str:
    return "{" + ", ".join(f"%{k}" for k in range(count)) + "}"


def _from_memory(count: int, place: str) -> str:
    return f"  u32 r[{count}];\n#pragma unroll\n  for (int k = 0; k < {count}; ++k) r[k] = ({place})[k];\n"


def _to_memory(count: int, place: str) -> str:
    return f"#pragma unroll\n  for (int k = 0; k < {count}; ++k) ({place})[k] = r[k];\n"
