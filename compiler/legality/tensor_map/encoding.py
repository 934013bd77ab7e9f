"""Rules on the descriptor that a tensor-map copy is encoded into: what cuTensorMapEncodeTiled takes, found at launch.

A refused number of the descriptor is one of the binding; what unknown sizes decide is kept as a guard.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from compiler.analysis.id.conditions import are_equal, at_most, is_multiple, kept, settled
from compiler.analysis.tma.tensor_map import MapDim, TensorMapCopy
from compiler.arch import (
    BULK_BYTES,
    TENSOR_MAP_BOX,
    TENSOR_MAP_COORDINATE,
    TENSOR_MAP_ELEMENT_STRIDE,
    TENSOR_MAP_RANK,
    TENSOR_MAP_SIZE,
    TENSOR_MAP_STRIDE_BYTES,
)
from compiler.dtypes import DType
from compiler.errors import Condition, Kept, Stage, Violation
from compiler.ir.size import Size
from compiler.ir.tensor import TensorView
from compiler.legality.rules import Schedule, model_rule, rule

UNNAMED = frozenset((DType.C64, DType.C128, DType.F4E2M1))
"""Element types that no CUtensorMapDataType stands for: 8-bit types go as UINT8 and i16 as UINT16, but a complex number
is two elements, and packed 4-bit types have rules of their own (CUDA driver API, CUtensorMapDataType)."""


_Found = Iterator[Violation | Kept]


def maps(s: Schedule) -> Iterator[tuple[TensorMapCopy, tuple[MapDim, ...]]]:
    """Every copy whose tensor map was inferred, with its dimensions."""
    for c in s.tensor_maps.values():
        if c.dims:
            yield c, c.dims


def each_dim(s: Schedule) -> Iterator[tuple[TensorMapCopy, int, MapDim]]:
    """Every dimension of every inferred tensor map, with its number, innermost first."""
    for c, dims in maps(s):
        for i, d in enumerate(dims):
            yield c, i, d


def at(c: TensorMapCopy, dim: int, field: str) -> str:
    """A field of one dimension, as messages name it."""
    return f"{c.where}: {field}[{dim}]"


def encode_breach(rule: str, where: str, found: int | str, limit: int | str, fix: str) -> Violation:
    """A breach that shows when the tensor map is encoded, at launch."""
    return Violation(rule, where, found, limit, fix, stage=Stage.RUNTIME)


def element_bytes(c: TensorMapCopy) -> Size:
    """Bytes of one element."""
    return Size(c.global_tensor.dtype.nbytes)


def _address(s: Schedule, t: TensorView) -> Condition:
    """The address is a multiple of 16 bytes: known at launch only, where the caller gives it."""
    holds = t.align % BULK_BYTES == 0
    if t.name not in s.sf.inputs:
        return settled(holds, f"{t.align} % {BULK_BYTES} == 0")
    return kept(holds, f"ptr[{s.sf.inputs.index(t.name)}] % {BULK_BYTES} == 0")


def _not_less(stride: Size, least: Size) -> Condition:
    """stride >= least."""
    formula = f"{stride} >= {least}"
    if stride.quotient(least) is not None or (stride.is_constant and least.is_constant):
        return settled(stride.value >= least.value, formula)
    return kept(stride.value >= least.value, formula, stride.value)


@model_rule
def tensor_map_has_1_to_5_dimensions(s: Schedule) -> _Found:
    """A tensor map has 1 to 5 dimensions (CUDA driver API, cuTensorMapEncodeTiled: tensorRank)."""
    for c, dims in maps(s):
        condition = settled(1 <= len(dims) <= TENSOR_MAP_RANK, f"{len(dims)} <= {TENSOR_MAP_RANK}")
        yield from condition.require(
            encode_breach(
                "tensor_map_has_1_to_5_dimensions",
                c.where,
                len(dims),
                f"1 to {TENSOR_MAP_RANK}",
                "Merge contiguous axes.",
            )
        )


@model_rule
def tensor_map_address_is_aligned(s: Schedule) -> _Found:
    """The global tensor starts on a multiple of 16 bytes (CUDA driver API, cuTensorMapEncodeTiled: globalAddress)."""
    for c, _ in maps(s):
        yield from _address(s, c.global_tensor).require(
            encode_breach(
                "tensor_map_address_is_aligned",
                f"{c.where}: address of {c.global_tensor.name}",
                f"a multiple of {c.global_tensor.align} bytes",
                f"a multiple of {BULK_BYTES} bytes",
                "Align the tensor, or copy by threads.",
            )
        )


@model_rule
def tensor_map_sizes_are_1_to_2_to_32(s: Schedule) -> _Found:
    """A dimension has 1 to 2^32 elements (CUDA driver API, cuTensorMapEncodeTiled: globalDim)."""
    for c, i, d in each_dim(s):
        yield from at_most(d.size, TENSOR_MAP_SIZE).require(
            encode_breach(
                "tensor_map_sizes_are_1_to_2_to_32",
                at(c, i, "size"),
                str(d.size),
                f"1 to {TENSOR_MAP_SIZE}",
                "View the tensor with more dimensions.",
            )
        )


@model_rule
def tensor_map_strides_are_multiples_of_16_bytes(s: Schedule) -> _Found:
    """Strides of all dimensions but the innermost are multiples of 16 bytes (CUDA driver API, cuTensorMapEncodeTiled:
    globalStrides)."""
    for c, i, d in each_dim(s):
        stride = d.stride * element_bytes(c)
        if i:
            yield from is_multiple(stride, Size(BULK_BYTES)).require(
                encode_breach(
                    "tensor_map_strides_are_multiples_of_16_bytes",
                    at(c, i, "stride"),
                    f"{stride} bytes",
                    f"a multiple of {BULK_BYTES}",
                    "Pad the rows, or copy by threads.",
                )
            )


@model_rule
def tensor_map_strides_are_below_2_to_40_bytes(s: Schedule) -> _Found:
    """Strides are below 2^40 bytes (CUDA driver API, cuTensorMapEncodeTiled: globalStrides)."""
    for c, i, d in each_dim(s):
        stride = d.stride * element_bytes(c)
        if i:
            yield from at_most(stride, TENSOR_MAP_STRIDE_BYTES - 1).require(
                encode_breach(
                    "tensor_map_strides_are_below_2_to_40_bytes",
                    at(c, i, "stride"),
                    f"{stride} bytes",
                    f"less than {TENSOR_MAP_STRIDE_BYTES}",
                    "Copy a smaller tensor.",
                )
            )


@model_rule
def tensor_map_dimensions_do_not_overlap(s: Schedule) -> _Found:
    """A stride is at least the size times the stride of the dimension inside it: padding is not negative (CUDA driver
    API, cuTensorMapEncodeTiled: globalStrides)."""
    for c, dims in maps(s):
        for i, (inner, outer) in enumerate(pairwise(dims), start=1):
            least = inner.size * inner.stride
            yield from _not_less(outer.stride, least).require(
                encode_breach(
                    "tensor_map_dimensions_do_not_overlap",
                    at(c, i, "stride"),
                    f"{outer.stride} elements",
                    f"at least {least}",
                    "Copy an expanded or overlapping tensor by threads.",
                )
            )


@model_rule
def tensor_map_boxes_are_1_to_256(s: Schedule) -> _Found:
    """A box has 1 to 256 elements in every dimension (CUDA driver API, cuTensorMapEncodeTiled: boxDim)."""
    for c, i, d in each_dim(s):
        yield from at_most(d.box_size, TENSOR_MAP_BOX).require(
            encode_breach(
                "tensor_map_boxes_are_1_to_256",
                at(c, i, "box"),
                str(d.box_size),
                f"1 to {TENSOR_MAP_BOX}",
                "Split that axis by 256 or less.",
            )
        )


@model_rule
def tensor_map_inner_box_is_a_multiple_of_16_bytes(s: Schedule) -> _Found:
    """Without interleave the innermost box is a multiple of 16 bytes (CUDA driver API, cuTensorMapEncodeTiled:
    boxDim)."""
    for c, dims in maps(s):
        inner = dims[0].box_size * element_bytes(c)
        yield from is_multiple(inner, Size(BULK_BYTES)).require(
            encode_breach(
                "tensor_map_inner_box_is_a_multiple_of_16_bytes",
                at(c, 0, "box"),
                f"{inner} bytes",
                f"a multiple of {BULK_BYTES}",
                "Widen the innermost box.",
            )
        )


@model_rule
def tensor_map_element_strides_are_1_to_8(s: Schedule) -> _Found:
    """Element strides are 1 to 8 (CUDA driver API, cuTensorMapEncodeTiled: elementStrides)."""
    for c, i, d in each_dim(s):
        yield from at_most(d.element_stride_size, TENSOR_MAP_ELEMENT_STRIDE).require(
            encode_breach(
                "tensor_map_element_strides_are_1_to_8",
                at(c, i, "element stride"),
                str(d.element_stride_size),
                f"1 to {TENSOR_MAP_ELEMENT_STRIDE}",
                "Stride the box by 8 or less.",
            )
        )


@model_rule
def tensor_map_inner_box_fills_the_swizzle(s: Schedule) -> _Found:
    """With a swizzle the innermost box is exactly its span of 32, 64 or 128 bytes (nvFuser, TMA: "Data swizzle"; TMA
    descriptor)."""
    for c, dims in maps(s):
        inner = dims[0].box_size * element_bytes(c)
        if c.swizzle:
            yield from are_equal(inner, Size(c.swizzle)).require(
                encode_breach(
                    "tensor_map_inner_box_fills_the_swizzle",
                    at(c, 0, "box"),
                    f"{inner} bytes",
                    f"{c.swizzle} bytes",
                    "Split the innermost axis by the span, or swizzle by another mode.",
                )
            )


@model_rule
def tensor_map_has_the_element_type(s: Schedule) -> Iterator[Violation]:
    """The tensor map can name the element type, or an integer of its width (CUDA driver API, CUtensorMapDataType)."""
    for c, _ in maps(s):
        if c.global_tensor.dtype in UNNAMED:
            yield encode_breach(
                "tensor_map_has_the_element_type",
                f"{c.where}: element type",
                c.global_tensor.dtype.value,
                "a real type of 1, 2, 4 or 8 bytes",
                "Copy by threads.",
            )


@model_rule
def tma_moves_multiples_of_16_bytes(s: Schedule) -> _Found:
    """A tile is a multiple of 16 bytes (PTX ISA, cp.async.bulk.tensor)."""
    for c, dims in maps(s):
        nbytes = element_bytes(c)
        for d in dims:
            nbytes = nbytes * d.tile_size
        breach = Violation(
            "tma_moves_multiples_of_16_bytes",
            f"{c.where}: tile",
            f"{nbytes} bytes",
            f"a multiple of {BULK_BYTES}",
            "Use a larger tile.",
        )
        yield from is_multiple(nbytes, Size(BULK_BYTES)).require(breach)


# Lowering -------------------------------------------------------------------------------------------------------------


@rule
def tma_coordinates_fit_31_bits(s: Schedule) -> Iterator[Violation]:
    """Boxes start below 2^31 in every dimension, those past the end too: coordinates are signed 32-bit numbers, though
    sizes go to 2^32 (PTX ISA, cp.async.bulk.tensor). Beyond, they wrap: a load would bring zeros and a store be
    dropped."""
    for c, dims in maps(s):
        starts = s.tile_coordinates(c.op.output)
        for i, (d, start) in enumerate(zip(dims, starts, strict=True)):
            last = max(start.hi, d.size.value - d.box_size.value)
            if last > TENSOR_MAP_COORDINATE:
                yield Violation(
                    "tma_coordinates_fit_31_bits",
                    at(c, i, "coordinate"),
                    last,
                    TENSOR_MAP_COORDINATE,
                    "View the tensor with more dimensions.",
                )
