"""Rules on tensor-map copies: the schedule, the descriptor, the tile in shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.allocation import layout_of
from compiler.analysis.swizzle import repeat_bytes
from compiler.analysis.tma import TmaCopy
from compiler.dtypes import DType
from compiler.errors import Violation
from compiler.legality.rules import Schedule, rule

MAX_SIZE = 1 << 31
ENCODABLE = frozenset((DType.F64, DType.F32, DType.F16, DType.BF16, DType.I64, DType.I32, DType.I8, DType.BOOL))


def _where(c: TmaCopy, dim: int | None = None, field: str = "") -> str:
    pair = f"{c.global_tensor.name} and {c.shared_tensor.name}"
    return pair if dim is None else f"{pair}: {field}[{dim}]"


@rule
def tma_schedule_is_a_box(s: Schedule) -> Iterator[Violation]:
    """The consumer's Bulk axes make a box of a view of the global tensor (nvFuser, TMA: "Step 2: define box")."""
    for copy in s.tma.values():
        if isinstance(copy, Violation):
            yield copy


@rule
def tma_is_on_hopper_and_later(s: Schedule) -> Iterator[Violation]:
    """cp.async.bulk and its tensor form need capability 9.0 (PTX ISA, cp.async.bulk target notes)."""
    for op in s.sf.ops:
        if op.via.value != "plain" and not s.arch.has_tma:
            yield Violation(
                "tma_is_on_hopper_and_later",
                op.output,
                s.arch.name,
                "sm_90 or later",
                "Copy by threads on this architecture.",
            )


@rule
def tensor_map_rank_is_1_to_5(s: Schedule) -> Iterator[Violation]:
    """cuTensorMapEncodeTiled takes ranks 1 to 5."""
    for _, c in s.tma_copies():
        if not 1 <= len(c.dims) <= 5:
            yield Violation("tensor_map_rank_is_1_to_5", _where(c), len(c.dims), 5, "Merge contiguous dimensions.")


@rule
def tensor_map_sizes_fit(s: Schedule) -> Iterator[Violation]:
    """Sizes are 1 to 2^31: cuTensorMapEncodeTiled takes 2^32, but coordinates are signed 32-bit numbers (PTX ISA,
    cp.async.bulk.tensor). Beyond, they wrap: a load would bring zeros and a store would be dropped.

    Tiles past the end count too, since they have coordinates.
    """
    for op, c in s.tma_copies():
        own = s.indexing.own(s.sf.tensor(op.output))
        for i, d in enumerate(c.dims):
            at = own.get(d.partitioned)
            reach = d.size if at is None else max(d.size, at.hi + 1)
            if not 1 <= reach <= MAX_SIZE:
                yield Violation("tensor_map_sizes_fit", _where(c, i, "size"), reach, MAX_SIZE, "Use more dimensions.")


@rule
def tensor_map_strides_are_multiples_of_16_bytes(s: Schedule) -> Iterator[Violation]:
    """Strides of dimensions 1 and up: multiples of 16 bytes, in (0, 2^40) (cuTensorMapEncodeTiled)."""
    for _, c in s.tma_copies():
        for i, d in enumerate(c.dims[1:], start=1):
            nbytes = d.stride * c.global_tensor.dtype.nbytes
            if nbytes % 16 or not 0 < nbytes < 1 << 40:
                yield Violation(
                    "tensor_map_strides_are_multiples_of_16_bytes",
                    _where(c, i, "stride"),
                    nbytes,
                    "a multiple of 16 in (0, 2^40)",
                    "Load it by threads, or pad the rows.",
                )


@rule
def tensor_map_inner_dimension_is_contiguous(s: Schedule) -> Iterator[Violation]:
    """Dimension 0 has no stride of its own: its elements are adjacent (cuTensorMapEncodeTiled)."""
    for _, c in s.tma_copies():
        if c.dims and c.dims[0].stride != 1:
            yield Violation(
                "tensor_map_inner_dimension_is_contiguous",
                _where(c, 0, "stride"),
                c.dims[0].stride,
                1,
                "Box the axis that is contiguous in the global tensor, innermost in shared memory.",
            )


@rule
def tma_box_dim_fits_256(s: Schedule) -> Iterator[Violation]:
    """cuTensorMapEncodeTiled takes box sizes from 1 to 256 in every dimension."""
    for _, c in s.tma_copies():
        for i, d in enumerate(c.dims):
            if not 1 <= d.box <= 256:
                yield Violation(
                    "tma_box_dim_fits_256", _where(c, i, "box"), d.box, 256, "Split that axis by 256 or less."
                )


@rule
def tma_inner_box_is_16_byte_multiple(s: Schedule) -> Iterator[Violation]:
    """Without interleave the inner box is a multiple of 16 bytes (cuTensorMapEncodeTiled)."""
    for _, c in s.tma_copies():
        if c.dims and (nbytes := c.dims[0].box * c.global_tensor.dtype.nbytes) % 16:
            yield Violation(
                "tma_inner_box_is_16_byte_multiple",
                _where(c, 0, "box"),
                nbytes,
                "a multiple of 16 bytes",
                "Widen the inner box.",
            )


@rule
def tma_global_address_is_aligned(s: Schedule) -> Iterator[Violation]:
    """globalAddress is a multiple of 16 bytes (cuTensorMapEncodeTiled)."""
    for _, c in s.tma_copies():
        if c.global_tensor.align % 16:
            yield Violation(
                "tma_global_address_is_aligned", c.global_tensor.name, c.global_tensor.align, 16, "Load it by threads."
            )


@rule
def tma_dtype_is_encodable(s: Schedule) -> Iterator[Violation]:
    """The tensor map needs an element type that it can name (CUtensorMapDataType)."""
    for _, c in s.tma_copies():
        if c.global_tensor.dtype not in ENCODABLE:
            yield Violation(
                "tma_dtype_is_encodable",
                _where(c),
                str(c.global_tensor.dtype),
                "an encodable type",
                "Load it by threads.",
            )


@rule
def tma_tile_is_contiguous_in_smem(s: Schedule) -> Iterator[Violation]:
    """A tile is the unit of a copy: its elements lie densely, in the order of the box, under one swizzle mode
    (nvFuser, TMA: "Step 4", figures 13 to 15); with a swizzle the inner box is exactly the span."""
    for _, c in s.tma_copies():
        if c.swizzle is None:
            yield Violation(
                "tma_tile_is_contiguous_in_smem",
                c.shared_tensor.name,
                "an allocation that no swizzle mode produces",
                "dense, or the 32, 64 or 128 byte swizzle of the inner box",
                "Set the allocation to the tile's axes, unpadded, with the swizzle of the box's width or none.",
            )


@rule
def tma_tiles_start_on_the_swizzle_repeat(s: Schedule) -> Iterator[Violation]:
    """The pattern follows shared-memory address bits, so every tile starts on a multiple of its repeat (PTX ISA 5.5.7);
    without swizzle on 128 bytes (CUDA guide, tensor copies)."""
    for _, c in s.tma_copies():
        step = repeat_bytes(c.swizzle or 0)
        if c.swizzle is not None and c.tile_bytes % step and _tiles_in(c) > 1:
            yield Violation(
                "tma_tiles_start_on_the_swizzle_repeat",
                _where(c),
                c.tile_bytes,
                f"a multiple of {step}",
                "Use taller tiles.",
            )


def _tiles_in(c: TmaCopy) -> int:
    return layout_of(c.shared_tensor).elems * c.shared_tensor.dtype.nbytes // max(c.tile_bytes, 1)


@rule
def tma_store_rows_are_whole_16_bytes(s: Schedule) -> Iterator[Violation]:
    """A store clips the innermost dimension at 16 bytes, not at the element: a row that ends inside them is written on.

    Seen on an H200 (driver 580): a 1-D store of 100745222 bytes wrote the 10 bytes behind them; guard zones caught it.
    """
    for op, c in s.tma_copies():
        nbytes = c.dims[0].size * c.global_tensor.dtype.nbytes if c.dims else 0
        if c.global_tensor.name == op.output and nbytes % 16:
            yield Violation(
                "tma_store_rows_are_whole_16_bytes",
                _where(c, 0, "size"),
                nbytes,
                "a multiple of 16",
                "Store by threads.",
            )


@rule
def tma_store_has_no_negative_start(s: Schedule) -> Iterator[Violation]:
    """The top-left coordinate of a store is not negative (PTX ISA); loads may start outside."""
    for op, c in s.tma_copies():
        for i, d in enumerate(c.dims):
            at = s.indexing.own(s.sf.tensor(op.output)).get(d.partitioned)
            if at is not None and at.lo < 0:
                yield Violation("tma_store_has_no_negative_start", _where(c, i, "coordinate"), at.lo, 0, "Start at 0.")


@rule
def tma_inner_coordinate_is_16_byte_multiple(s: Schedule) -> Iterator[Violation]:
    """The innermost coordinate in bytes is a multiple of 16: anything else faulted on an H200."""
    for op, c in s.tma_copies():
        if not c.dims:
            continue
        at = s.indexing.own(s.sf.tensor(op.output)).get(c.dims[0].partitioned)
        step = max(1, 16 // c.global_tensor.dtype.nbytes)
        if at is not None and not at.divisible_by(step):
            yield Violation(
                "tma_inner_coordinate_is_16_byte_multiple",
                _where(c, 0, "coordinate"),
                str(at),
                f"a multiple of {step}",
                "Box the inner axis by a multiple of 16 bytes.",
            )
