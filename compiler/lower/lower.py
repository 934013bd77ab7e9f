"""Lowers a scheduled fusion to kernel IR. It reads the scheduled fusion and its analyses, and knows no scheduler."""

from __future__ import annotations

from compiler.analysis.facts import Facts
from compiler.analysis.mma.rounding import is_rounded
from compiler.analysis.sync.block_parts import launched_block
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, every_part
from compiler.ir.fusion import Fusion, Scalar
from compiler.lower.body import kernel_body
from compiler.lower.grid_fold import scratch_of
from compiler.lower.kernel_ir import Compute, Kernel, Stmt, TmaLoad, TmaStore
from compiler.lower.leaves import map_name
from compiler.lower.operands import NumberParameter, Pointer, TensorMap
from compiler.lower.parked import park_registers
from compiler.lower.passes.covered_vectors import load_covered_vectors
from compiler.lower.passes.fold_guards import hoist_fold_guards
from compiler.lower.passes.full_tiles import split_full_tiles
from compiler.lower.passes.fused_products import fuse_products
from compiler.lower.passes.joined_guards import join_guards
from compiler.lower.passes.joined_load_waits import join_load_waits
from compiler.lower.passes.loads_in_flight import keep_loads_in_flight
from compiler.lower.passes.packed_folds import pack_folds
from compiler.lower.passes.packed_rows import keep_rows_packed
from compiler.lower.passes.peeled_steps import peel_steps
from compiler.lower.passes.settled_conditions import settle_conditions
from compiler.lower.passes.setup_sync import drop_redundant_setup_sync
from compiler.lower.passes.shared_draws import share_draws
from compiler.lower.passes.whole_numbers import join_whole_numbers
from compiler.lower.passes.whole_vectors import ask_for_whole_vectors
from compiler.lower.traversal import expressions, walk

_PASSES = (
    drop_redundant_setup_sync,
    split_full_tiles,
    peel_steps,
    ask_for_whole_vectors,
    settle_conditions,
    hoist_fold_guards,
    join_guards,
)
"""What each statement asks, settled first."""

_PACKING = (pack_folds, keep_rows_packed, share_draws, keep_loads_in_flight)
"""What is left of the loads and folds, in as few instructions and registers as there can be."""

INDEX_LIMIT = 1 << 31
"""Beyond it an index, or a part of one, is computed in 64 bits."""


def lower(sf: ScheduledFusion) -> Kernel:
    """The kernel of a legal scheduled fusion. Raises Unsupported, by name, for what cannot be lowered yet."""
    return lower_facts(Facts(sf))


def lower_facts(facts: Facts) -> Kernel:
    """`lower`, for a caller that has the analyses already."""
    sf = facts.sf
    body = park_registers(facts, kernel_body(facts))
    positions = {name: i for i, name in enumerate((*sf.fusion.inputs, *sf.fusion.outputs))}
    statements = list(walk(body))
    pointed = {s.tensor for s in statements if hasattr(s, "tensor")}
    alike = {name for pair in sf.fusion.aliases for name in pair}
    pointers = tuple(
        Pointer(name, sf.fusion.value(name).dtype, p, name in sf.fusion.outputs, name in alike)
        for name, p in positions.items()
        if name in pointed
    )
    mapped = {s.tensor_map for s in statements if isinstance(s, TmaLoad | TmaStore)}
    wide = any(not every_part(e, _fits_32_bits) for e in expressions(body))
    return Kernel(
        pointers=pointers,
        tensor_maps=tuple(m for m in _tensor_maps(facts, positions) if m.name in mapped),
        grid=facts.indexing.nest.grid(),
        block=launched_block(sf, facts.indexing.nest),
        smem_bytes=facts.smem.total_bytes,
        smem_align=facts.smem.align,
        max_registers=sf.max_registers,
        index_bits=64 if wide else 32,
        body=_passed(facts, body),
        cluster=facts.indexing.nest.cluster,
        tmem_columns=facts.tmem_placement.columns,
        numbers=_numbers(sf.fusion, body) if sf.fusion.scalars else (),
        scratch=scratch_of(facts),
    )


def _numbers(fusion: Fusion, body: tuple[Stmt, ...]) -> tuple[NumberParameter, ...]:
    """The scalars that a kernel reads, in the types in which it does, in the fusion's order."""
    read = {x for s in walk(body) if isinstance(s, Compute) for x in s.operands if isinstance(x, Scalar)}
    order = [x.name for x in fusion.scalars]
    found = (NumberParameter(x.name, x.dtype, order.index(x.name)) for x in read)
    return tuple(sorted(found, key=lambda p: (p.position, p.dtype)))


def _passed(facts: Facts, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body after every pass."""
    sf = facts.sf
    for each_pass in _PASSES:
        body = each_pass(body)
    aligned = {name: sf.fusion.value(name).align for name in sf.fusion.inputs}
    body = load_covered_vectors(body, aligned)
    for each_pass in _PACKING:
        body = each_pass(body)
    body = join_load_waits(body, facts.tmem_placement.shared)
    return join_whole_numbers(fuse_products(body, {op.output for op in sf.ops if op.is_term}))


def _fits_32_bits(e: Expr) -> bool:
    return e.lo > -INDEX_LIMIT and e.hi < INDEX_LIMIT


def _tensor_maps(facts: Facts, positions: dict[str, int]) -> tuple[TensorMap, ...]:
    maps = []
    for name, copy in facts.tensor_maps.items():
        assert copy.dims is not None, "legality refuses copies that have no tensor map"
        nbytes = copy.global_tensor.dtype.nbytes
        maps.append(
            TensorMap(
                name=map_name(name),
                dtype=copy.global_tensor.dtype,
                position=positions[copy.global_tensor.part_of or copy.global_tensor.name],
                dims=tuple(d.size.value for d in copy.dims),
                strides_bytes=tuple(d.stride.value * nbytes for d in copy.dims[1:]),
                box=tuple(d.box_size.value for d in copy.dims),
                element_strides=tuple(d.element_stride_size.value for d in copy.dims),
                swizzle=copy.swizzle,
                rounds_to_tf32=is_rounded(facts.sf, copy),
            )
        )
    return tuple(maps)
