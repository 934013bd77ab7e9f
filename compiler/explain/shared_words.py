"""What shared memory a schedule takes, and what threads pay for their accesses to it, in words."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.id.graph import IdGraph
from compiler.analysis.memory.bank_access import bank_conflicts_of
from compiler.analysis.memory.smem_bytes import SharedBytes
from compiler.arch import BARRIER_BYTES
from compiler.explain.names import counted
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import MemoryType


def shared_words(sf: ScheduledFusion, graph: IdGraph, total: SharedBytes) -> Iterator[str]:
    """What each shared tensor takes; then a line for each operator and shared tensor that threads reach by it."""
    for one in total.tensors:
        stages = f" in {counted(one.stages, 'stage')}" if one.stages > 1 else ""
        yield f"{one.tensor}: {counted(one.bytes, 'byte')}{stages}, at a multiple of {one.align}"
    if total.barriers:
        yield f"{counted(total.barriers, 'barrier')} of {BARRIER_BYTES} bytes"
    if total.tensors:
        yield f"in all: {counted(total.total, 'byte')} a block"
    for op in sf.ops:
        for name in dict.fromkeys((*op.tensor_inputs, op.output)):
            if sf.tensor(name).memory is not MemoryType.SHARED or op.via.takes_tiles:
                continue
            verb = "writes" if name == op.output else "reads"
            found = bank_conflicts_of(sf, op, name, graph)
            if found is None:
                yield f"{op.output}: {verb} {name}; bank conflicts are not known"
                continue
            verdict = "no bank conflict" if found.degree == 1 else f"{found.degree:g}-way bank conflict"
            yield (
                f"{op.output}: {verb} {name}, {counted(found.width_bytes, 'byte')} a thread, worst access of a warp: "
                f"{counted(found.wavefronts, 'wavefront')}, at best {found.ideal}: {verdict}"
            )
