"""Bulk copies: what this compiler's lowering needs of them beyond the model.

The model's own rules on them are those of `tensor_map`, `descriptor`, `bulk_copy` and `tile_placement`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.memory.memory_order import as_allocated
from compiler.arch import BULK_BYTES, BULK_SMEM_ALIGN, TENSOR_MAP_COORDINATE
from compiler.copies.instruction import Path, path_of
from compiler.dtypes import DType
from compiler.errors import Violation
from compiler.ir.iter_domain import MemoryType
from compiler.ir.tensor import CopyVia, TensorOp, TensorView
from compiler.legality.descriptor import at, maps
from compiler.legality.rules import Schedule, rule

ENCODABLE = frozenset((DType.F64, DType.F32, DType.F16, DType.BF16, DType.I64, DType.I32, DType.I8, DType.BOOL))
"""Element types that an artifact names in its tensor maps: those of a fusion."""


def _copies(s: Schedule) -> Iterator[tuple[TensorOp, TensorView]]:
    """Every bulk copy with the shared tensor at its end."""
    for op in s.sf.ops:
        if op.via.is_bulk:
            ends = (s.sf.tensor(op.output), s.sf.tensor(op.tensor_inputs[0]))
            yield from ((op, t) for t in ends if t.memory is MemoryType.SHARED)


@rule
def tma_dtype_is_encodable(s: Schedule) -> Iterator[Violation]:
    """A launch names the element type in the tensor map, and knows those that a fusion has (CUtensorMapDataType)."""
    for c, _ in maps(s):
        if c.global_tensor.dtype not in ENCODABLE:
            yield Violation(
                "tma_dtype_is_encodable",
                c.where,
                str(c.global_tensor.dtype),
                "an encodable type",
                "Load it by threads.",
            )


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


@rule
def tiles_start_at_units_of_shared_memory(s: Schedule) -> Iterator[Violation]:
    """A tile without swizzle starts on 128 bytes of shared memory (CUDA guide, tensor copies), a 1-D run on 16 bytes
    (PTX ISA, cp.async.bulk: dstMem, srcMem). Swizzled tiles start on their pattern, which the model asks for."""
    for op, shared in _copies(s):
        placed = s.tile_placements.get(op.output)
        if op.via is CopyVia.TMA and path_of(s, op) is Path.BULK_1D:
            continue  # moved as a run, which starts at less
        if placed is None or placed.swizzle != 0 or any(isinstance(b, Violation) for b in placed.breaches):
            continue
        unit = BULK_SMEM_ALIGN if op.via is CopyVia.TMA else BULK_BYTES
        is_load = shared.name == op.output
        start = s.indexing.write_offset(shared) if is_load else s.indexing.read_offset(op, shared.name)
        if not (start * shared.dtype.nbytes).divisible_by(unit):
            yield Violation(
                "tiles_start_at_units_of_shared_memory",
                f"{op.output} <- {op.tensor_inputs[0]}: address in {shared.name}",
                f"{start} elements",
                f"a multiple of {unit} bytes",
                "Use larger tiles, or pad the rows of shared memory.",
            )


@rule
def tiles_lie_where_the_model_places_them(s: Schedule) -> Iterator[Violation]:
    """Shared memory is laid out by the allocation domain that is set. The model heeds one only where something makes it
    the memory order, and else places tiles by the loops (nvFuser, memory order): of what bulk copies reach, both are
    one."""
    for op, shared in _copies(s):
        if as_allocated(s.sf, shared) != shared:
            yield Violation(
                "tiles_lie_where_the_model_places_them",
                f"{op.output} <- {op.tensor_inputs[0]}: {shared.name}",
                "an allocation domain that is not the memory order",
                "one of the copy engine's axes, or of the loop axes in another order",
                "Set the allocation domain to the tile's axes.",
            )
