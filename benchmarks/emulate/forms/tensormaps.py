"""tensormap.replace: a kernel changes one field of a map, publishes the map and loads a box through it.

Each form loads the box that the changed map describes (PTX ISA, "tensormap.replace", "tensormap.cp_fenceproxy").
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.emulate.form import InstructionForm
from benchmarks.emulate.forms.copies import START
from benchmarks.emulate.forms.frame import form, kernel, words
from compiler.emulate.launch import EmulatedTensorMap

_DIMS, _ROW = (96, 64), 384
_BOX = (16, 8)
_TENSOR_WORDS = 96 * 64
_TILE = 1024
"""Bytes shown of shared memory: those the box does not reach hold 0xEE."""

_FIELDS: tuple[tuple[str, str, int], ...] = (
    ("global_address", ".b64 [M], %1", 512),
    ("global_dim 0", ".b32 [M], 0, 40", 512),
    ("global_dim 1", ".b32 [M], 1, 9", 512),
    ("global_stride 0", ".b64 [M], 0, 192", 512),
    ("box_dim 0", ".b32 [M], 0, 8", 256),
    ("box_dim 1", ".b32 [M], 1, 5", 320),
    ("element_stride 1", ".b32 [M], 1, 2", 256),
    ("elemtype u8", ".b32 [M], 0", 128),
    ("elemtype f16", ".b32 [M], 6", 256),
    ("elemtype f32", ".b32 [M], 7", 512),
    ("swizzle_mode 32B", ".b32 [M], 1", 512),
    ("swizzle_mode 64B", ".b32 [M], 2", 512),
    ("swizzle_mode 128B", ".b32 [M], 3", 512),
)
"""Field, its operands, bytes of the box then. Maps have boxes of 64 bytes a row: 32B swizzles take half of it."""

_PUBLISH = (
    '  if (t < 32) asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.'
    'aligned [%0], [%1], 128;" ::"l"(maps), "r"(SMEM(m)) : "memory");\n  __syncthreads();\n'
)


def forms() -> Iterator[InstructionForm]:
    """All of this module."""
    for field, operands, nbytes in _FIELDS:
        box = (8, 8) if field == "swizzle_mode 32B" else _BOX
        yield _replaced(field, operands, nbytes // 2 if box != _BOX else nbytes, box=box)
    yield _replaced("fill_mode nan", ".b32 [M], 1", 512, dtype="f32", at=(88, 60))
    yield _replaced("fill_mode zero", ".b32 [M], 0", 512, dtype="f32", at=(88, 60), fill="nan")
    yield _replaced("rank", ".b32 [M], 0", 64, rank=1)
    yield _in_global()


def _load(rank: int, nbytes: int, at: tuple[int, int]) -> str:
    """The load of a box by the first thread, through the map in global memory."""
    places = ", ".join(f"%{3 + k}" for k in range(rank))
    values = ", ".join(f'"r"({c})' for c in at[:rank])
    return (
        "  if (t == 0) {\n"
        '    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(maps) : "memory");\n'
        f"    MBAR_EXPECT(bar, {nbytes});\n"
        f'    asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes '
        f'[%0], [%1, {{{places}}}], [%2];" ::"r"(SMEM(s)), "l"(maps), "r"(SMEM(&bar)), {values} : "memory");\n'
        f"  }}\n  MBAR_WAIT_AWHILE(bar, 0);\n  for (u32 k = t; k < {_TILE}; k += 128) y[k] = s[k];"
    )


_FILL = (
    f"  __shared__ __align__(1024) unsigned char s[{_TILE}];\n  for (u32 k = t; k < {_TILE}; k += 128) s[k] = 0xEE;\n"
    "  FENCE_ASYNC();\n"
)


def _replaced(
    field: str,
    operands: str,
    nbytes: int,
    *,
    dtype: str = "u32",
    box: tuple[int, int] = _BOX,
    at: tuple[int, int] = (16, 3),
    fill: str = "zero",
    rank: int = 2,
) -> InstructionForm:
    name = field.split()[0]
    value = ', "l"(data + 4096)' if name == "global_address" else ""
    replace = f"tensormap.replace.tile.{name}.shared::cta.b1024{operands.replace('[M]', '[%0]')};"
    text = (
        f"  __shared__ __align__(128) u64 m[16];\n{_FILL}{START}  if (t < 16) m[t] = x.opaque[t];\n  __syncthreads();\n"
        f'  if (t == 0) asm volatile("{replace}" ::"r"(SMEM(m)){value} : "memory");\n  __syncthreads();\n'
        f"{_PUBLISH}{_load(rank, nbytes, at)}"
    )
    return _form(f"tensormap.replace.tile.{field} shared::cta", text, dtype, box, fill)


def _in_global() -> InstructionForm:
    """The map is changed where it lies, and released by a fence."""
    text = (
        f"{_FILL}{START}  if (t < 16) maps[t] = x.opaque[t];\n  __syncthreads();\n  if (t == 0) {{\n"
        '    asm volatile("tensormap.replace.tile.global_dim.global.b1024.b32 [%0], 1, 9;" ::"l"(maps) : "memory");\n'
        '    asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");\n  }\n  __syncthreads();\n'
        f"{_load(2, 512, (16, 3))}"
    )
    return _form("tensormap.replace.tile.global_dim global", text, "u32", _BOX, "zero")


def _form(name: str, text: str, dtype: str, box: tuple[int, int], fill: str) -> InstructionForm:
    parameters = "const __grid_constant__ TensorMap x, const unsigned char* data, u64* maps, unsigned char* y"
    tensor = EmulatedTensorMap("data", dtype, _DIMS, (_ROW,), box, (1, 1), oob_fill=fill)
    inputs = {"data": words(name, _TENSOR_WORDS + 2048), "maps": words(name, 16, "uint64")}
    args = (tensor, "data", "maps", "y")
    return form(name, "tensor map", kernel(parameters, text), inputs, {"y": _TILE}, args=args)
