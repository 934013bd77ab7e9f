"""Tiles that a tensor map cannot place in shared memory, though a run can: one dense row that starts at 16 bytes.

A tensor-map copy reaches shared memory at multiples of 128 bytes, a 1-D bulk copy at multiples of 16 (PTX ISA,
cp.async.bulk.tensor, cp.async.bulk). A tile of one dimension that never passes its end is a run of neighbours, and the
copy engine moves it as one.
"""

from __future__ import annotations

from compiler.analysis.facts import Facts
from compiler.arch import BULK_BYTES, BULK_SMEM_ALIGN
from compiler.ir.expr import Expr
from compiler.ir.iter_domain import MemoryType


def narrow_run(facts: Facts, output: str) -> Expr | None:
    """The first element, in the global tensor, of the tensor-map copy that writes `output` if it has to be a run."""
    copy = facts.tensor_maps.get(output)
    if copy is None or copy.dims is None or copy.swizzle or len(copy.dims) != 1:
        return None
    (dim,) = copy.dims
    if dim.element_stride is not None or dim.stride.value != 1:
        return None
    indexing, shared = facts.indexing, copy.shared_tensor
    is_load = facts.sf.tensor(output).memory is MemoryType.SHARED
    start = indexing.write_offset(shared) if is_load else indexing.read_offset(copy.op, shared.name)
    nbytes = shared.dtype.nbytes
    if (start * nbytes).divisible_by(BULK_SMEM_ALIGN) or not (start * nbytes).divisible_by(BULK_BYTES):
        return None
    (first,) = facts.tile_coordinates(output)
    elems = dim.box_size.value
    is_inside = first.lo >= 0 and first.hi + elems <= dim.size.value
    units = (first * nbytes).divisible_by(BULK_BYTES) and elems * nbytes % BULK_BYTES == 0
    return first if is_inside and units else None
