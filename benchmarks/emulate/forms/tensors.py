"""Copies of boxes through tensor maps: ranks, swizzles, element strides, fills, stores and reductions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from benchmarks.emulate.form import FormTolerance, InstructionForm
from benchmarks.emulate.forms.copies import START
from benchmarks.emulate.forms.frame import Array, form, kernel, numbers, words
from benchmarks.emulate.values import specials
from compiler.emulate.launch import EmulatedTensorMap

_BYTES = {"u8": 1, "u16": 2, "f16": 2, "bf16": 2, "u32": 4, "i32": 4, "f32": 4, "u64": 8, "i64": 8, "f64": 8,
          "FLOAT32_FTZ": 4}  # fmt: skip


@dataclass(frozen=True)
class Box:
    """A box of a tensor: everything innermost first. `at` is its first element."""

    label: str
    dims: tuple[int, ...]
    box: tuple[int, ...]
    at: tuple[int, ...]
    dtype: str = "f32"
    steps: tuple[int, ...] = ()
    swizzle: str = "NONE"
    fill: str = "zero"
    pad_bytes: int = 0

    @property
    def rank(self) -> int:
        """Dimensions."""
        return len(self.dims)

    @property
    def element_strides(self) -> tuple[int, ...]:
        """Every how-manieth element is copied."""
        return self.steps or (1,) * self.rank

    @property
    def strides_bytes(self) -> tuple[int, ...]:
        """Of dimensions 1 and up: dense, rounded up to 16 bytes, and `pad_bytes` more."""
        strides, step = [], self.dims[0] * _BYTES[self.dtype]
        for size in self.dims[1:]:
            step = -(-step // 16) * 16 + self.pad_bytes
            strides.append(step)
            step *= size
        return tuple(strides)

    @property
    def tensor_bytes(self) -> int:
        """From the first byte of the tensor to its last, in whole rows."""
        return (self.strides_bytes[-1] * self.dims[-1]) if self.rank > 1 else self.dims[0] * _BYTES[self.dtype]

    @property
    def tile_bytes(self) -> int:
        """Of the box in shared memory."""
        counts = [-(-b // s) for b, s in zip(self.box, self.element_strides, strict=True)]
        return prod(counts) * _BYTES[self.dtype]

    def map(self, tensor: str) -> EmulatedTensorMap:
        """The tensor map."""
        return EmulatedTensorMap(
            tensor,
            self.dtype,
            self.dims,
            self.strides_bytes,
            self.box,
            self.element_strides,
            self.swizzle,
            oob_fill=self.fill,
        )


_PLAIN = (
    Box("1-D", (1000,), (64,), (96,)),
    Box("2-D", (96, 40), (16, 8), (32, 5)),
    Box("3-D", (32, 10, 9), (8, 4, 3), (8, 3, 2)),
    Box("4-D", (16, 7, 5, 6), (8, 3, 2, 2), (4, 2, 1, 3)),
    Box("5-D", (8, 5, 4, 3, 3), (8, 2, 2, 2, 2), (0, 1, 1, 1, 1)),
)
_BEYOND = (
    Box("1-D past the end", (1000,), (64,), (960,)),
    Box("1-D before the start", (1000,), (64,), (-16,)),
    Box("2-D past both ends", (96, 40), (16, 8), (88, 36)),
    Box("2-D before the start", (96, 40), (16, 8), (-8, -3)),
    Box("2-D wholly outside", (96, 40), (16, 8), (200, 100)),
    Box("3-D corner", (30, 10, 9), (8, 4, 3), (28, 8, -1)),
    Box("5-D corner", (8, 5, 4, 3, 3), (8, 2, 2, 2, 2), (4, 4, -1, 2, -1)),
)
_STEPPED = (
    Box("2-D steps 2", (96, 40), (16, 8), (32, 5), steps=(1, 2)),
    Box("2-D steps 3", (96, 40), (16, 8), (32, 5), steps=(1, 3)),
    Box("2-D steps 8", (96, 40), (16, 16), (32, 5), steps=(1, 8)),
    Box("2-D steps over the end", (96, 40), (16, 12), (32, 31), steps=(1, 4)),
    Box("2-D steps before the start", (96, 40), (16, 12), (32, -5), steps=(1, 4)),
    Box("3-D steps", (32, 10, 9), (8, 4, 6), (8, 3, 2), steps=(1, 2, 3)),
)
_TYPED = tuple(Box(f"2-D {k}", (64, 20), (16, 8), (16, 3), dtype=k) for k in _BYTES)
_FILLED = tuple(
    Box(f"2-D nan {k}", (60, 20), (16, 8), (48, 15), dtype=k, fill="nan") for k in ("f16", "bf16", "f32", "f64")
)
_SWIZZLED = tuple(
    Box(f"2-D {swizzle} {k}", (128, 40), (span // _BYTES[k], rows), (16, 3), dtype=k, swizzle=swizzle)
    for swizzle, span in (("32B", 32), ("64B", 64), ("128B", 128))
    for k, rows in (("u8", 32), ("bf16", 16), ("f32", 16))
)
_SWIZZLED_BEYOND = tuple(
    replace(b, label=b.label + " past the end", at=(112, 30)) for b in _SWIZZLED if b.dtype == "f32"
)
_ODD = (
    Box("2-D odd rows", (97, 41), (16, 8), (84, 35)),
    Box("2-D sizes of one", (4, 1), (4, 1), (0, 0)),
    Box("2-D padded rows", (24, 16), (8, 8), (8, 4), pad_bytes=48),
    Box("2-D 256 rows", (16, 300), (8, 256), (8, 20)),
)


def forms() -> Iterator[InstructionForm]:
    """All of this module."""
    for box in (*_PLAIN, *_BEYOND, *_STEPPED, *_TYPED, *_FILLED, *_SWIZZLED, *_SWIZZLED_BEYOND, *_ODD):
        yield _load(box)
    for box in (*_PLAIN, *_STEPPED[:4], *_TYPED, *_SWIZZLED, *_ODD):
        yield _store(box)
    for box in (
        Box("1-D past the end", (1000,), (64,), (960,)),
        Box("2-D past both ends", (94, 40), (16, 8), (88, 36)),
    ):
        yield _store(box)
    flushed = _store(Box("2-D special values FLOAT32_FTZ", (64, 20), (16, 8), (16, 3), dtype="FLOAT32_FTZ"))
    yield replace(flushed, inputs={**flushed.inputs, "x": _elements("", "FLOAT32_FTZ", 512).view(np.uint8)})
    yield _load(_PLAIN[1], ".L2::cache_hint")
    yield _store(_PLAIN[1], ".L2::cache_hint")
    yield _load(_PLAIN[1], target="shared::cta")
    yield _prefetched(_PLAIN[1])
    for op, kinds in _REDUCTIONS:
        for kind in kinds:
            yield _reduce(op, kind)
    yield _multicast(_PLAIN[1])
    yield _shifted()


_REDUCTIONS = (
    ("add", ("u32", "i32", "u64", "f32", "f16", "bf16")),
    *((op, ("u32", "i32", "u64", "i64", "f16", "bf16")) for op in ("min", "max")),
    ("inc", ("u32",)),
    ("dec", ("u32",)),
    *((op, ("u32", "u64")) for op in ("and", "or", "xor")),
)


def _elements(name: str, dtype: str, nbytes: int) -> Array:
    count = nbytes // _BYTES[dtype]
    if dtype in ("f16", "f32", "f64"):
        return numbers(name, count, f"float{8 * _BYTES[dtype]}")
    if dtype == "FLOAT32_FTZ":
        return np.resize(specials("f32").astype(np.uint32), count)
    if dtype == "bf16":
        return (numbers(name, count).view(np.uint32) >> 16).astype(np.uint16)
    return words(name, count, f"uint{8 * _BYTES[dtype]}")


def _coordinates(box: Box, first: int) -> tuple[str, str]:
    places = ", ".join(f"%{first + k}" for k in range(box.rank))
    return places, ", ".join(f'"r"({c})' for c in box.at)


def _tile(box: Box) -> str:
    return f"  __shared__ __align__(1024) unsigned char s[{max(box.tile_bytes, 128)}];\n"


_POLICY = '  u64 policy;\n  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));\n'


def _load(box: Box, hint: str = "", target: str = "shared::cluster") -> InstructionForm:
    places, values = _coordinates(box, 3)
    last, extra = (f", %{3 + box.rank}", ', "l"(policy)') if hint else ("", "")
    text = (
        f"{_tile(box)}{START}{_POLICY if hint else ''}  if (t == 0) {{\n    MBAR_EXPECT(bar, {box.tile_bytes});\n"
        f'    asm volatile("cp.async.bulk.tensor.{box.rank}d.{target}.global.tile.mbarrier::complete_tx::bytes{hint} '
        f'[%0], [%1, {{{places}}}], [%2]{last};" ::"r"(SMEM(s)), "l"(&x), "r"(SMEM(&bar)), {values}{extra} : '
        '"memory");\n'
        f"  }}\n  MBAR_WAIT(bar, 0);\n  for (u32 k = t; k < {box.tile_bytes}; k += 128) y[k] = s[k];"
    )
    name = f"cp.async.bulk.tensor load {box.label}{hint}{'' if target.endswith('cluster') else ' ' + target}"
    source = kernel("const __grid_constant__ TensorMap x, unsigned char* y", text)
    inputs = {"x": _elements(name, box.dtype, box.tensor_bytes)}
    # NaN fill has a bit pattern of its own: compared as bits.
    return form(name, "tensor load", source, inputs, {"y": box.tile_bytes}, args=(box.map("x"), "y"))


def _store(box: Box, hint: str = "") -> InstructionForm:
    places, values = _coordinates(box, 2)
    last, extra = (f", %{2 + box.rank}", ', "l"(policy)') if hint else ("", "")
    text = (
        f"{_tile(box)}{_POLICY if hint else ''}  for (u32 k = t; k < {box.tile_bytes}; k += 128) s[k] = x[k];\n"
        "  FENCE_ASYNC();\n  __syncthreads();\n  if (t == 0) {\n"
        f'    asm volatile("cp.async.bulk.tensor.{box.rank}d.global.shared::cta.tile.bulk_group{hint} [%0, '
        f'{{{places}}}], [%1]{last};" ::"l"(&y), "r"(SMEM(s)), {values}{extra} : "memory");\n'
        "    BULK_COMMIT();\n    BULK_WAIT(0);\n  }"
    )
    name = f"cp.async.bulk.tensor store {box.label}{hint}"
    source = kernel("const unsigned char* x, const __grid_constant__ TensorMap y", text)
    inputs = {"x": words(name, box.tile_bytes, "uint8"), "y": words(name + " y", box.tensor_bytes, "uint8")}
    return form(name, "tensor store", source, inputs, {}, args=("x", box.map("y")), changed=("y",))


def _reduce(op: str, dtype: str) -> InstructionForm:
    box = Box("", (32, 20), (16, 8), (16, 14), dtype=dtype)
    name = f"cp.reduce.async.bulk.tensor.2d.{op} {dtype}"
    text = (
        f"{_tile(box)}  for (u32 k = t; k < {box.tile_bytes}; k += 128) s[k] = x[k];\n"
        "  FENCE_ASYNC();\n  __syncthreads();\n  if (t == 0) {\n"
        f'    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.{op}.tile.bulk_group [%0, {{%2, %3}}], '
        '[%1];" ::"l"(&y), "r"(SMEM(s)), "r"(16), "r"(14) : "memory");\n'
        "    BULK_COMMIT();\n    BULK_WAIT(0);\n  }"
    )
    source = kernel("const unsigned char* x, const __grid_constant__ TensorMap y", text)
    inputs = {"x": _elements(name, dtype, box.tile_bytes), "y": _elements(name + " y", dtype, box.tensor_bytes)}
    tolerance = FormTolerance(dtype) if dtype in ("f16", "bf16", "f32") else FormTolerance()
    args = ("x", box.map("y"))
    return form(name, "tensor reduce", source, inputs, {}, args=args, changed=("y",), tolerance=tolerance)


def _prefetched(box: Box) -> InstructionForm:
    made = _load(box)
    prefetch = (
        '  if (t == 0) asm volatile("prefetch.tensormap [%0];\\ncp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, '
        '{%1, %2}];"'
        ' ::"l"(&x), "r"(32), "r"(5) : "memory");\n'
    )
    kernel_text = made.kernel.replace("  if (t == 0) {\n    MBAR_EXPECT", prefetch + "  if (t == 0) {\n    MBAR_EXPECT")
    return replace(made, name="cp.async.bulk.prefetch.tensor.2d", kernel=kernel_text)


def _multicast(box: Box) -> InstructionForm:
    text = (
        f"{_tile(box)}  __shared__ u64 bar;\n  u32 rank;\n"
        '  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));\n'
        f"  if (t == 0) {{ MBAR_INIT(bar, 1); MBAR_FENCE(); if (rank != 2) MBAR_EXPECT(bar, {box.tile_bytes}); }}\n  "
        "CLUSTER_SYNC();\n"
        "  if (t == 0 && rank == 0) asm "
        'volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster '
        '[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(SMEM(s)), "l"(&x), "r"(SMEM(&bar)), "r"(32), "r"(5), "h"((u16)11) : '
        '"memory");\n'
        f"  if (rank != 2) {{\n    MBAR_WAIT(bar, 0);\n    for (u32 k = t; k < {box.tile_bytes}; k += 128) "
        f"y[{box.tile_bytes} * (rank - rank / 3) + k] = s[k];\n  }}\n"
        "  CLUSTER_SYNC();"
    )
    name = "cp.async.bulk.tensor multicast to 3 of 4"
    source = kernel("const __grid_constant__ TensorMap x, unsigned char* y", text)
    inputs = {"x": _elements(name, box.dtype, box.tensor_bytes)}
    outputs = {"y": 3 * box.tile_bytes}
    return form(name, "tensor load", source, inputs, outputs, args=(box.map("x"), "y"), grid=4, cluster=4)


def _shifted() -> InstructionForm:
    """A swizzled tile whose shared memory is aligned to 128 bytes only: the pattern goes by address."""
    box = Box("2-D 128B at 384", (128, 40), (32, 8), (16, 3), swizzle="128B")
    made = _load(box)
    text = made.kernel.replace(
        "unsigned char s[1024];", "unsigned char whole[1024 + 384];\n  unsigned char* s = whole + 384;"
    )
    return replace(made, kernel=text)
