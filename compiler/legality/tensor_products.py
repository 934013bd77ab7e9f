"""Rules on products in tensor memory: who asks for them, what brings their operands, and how many lie there."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.mma.product import made_in_tensor_memory
from compiler.errors import Violation
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import BufferKind
from compiler.legality.rules import Schedule, rule


@rule
def tensor_products_are_asked_for_by_one_thread(s: Schedule) -> Iterator[Violation]:
    """One thread of a block asks for products in tensor memory: their axes are Mma, on blocks, or loops (PTX ISA,
    tcgen05.mma: issued by one thread)."""
    for name in sorted(made_in_tensor_memory(s.sf)):
        t = s.sf.tensor(name)
        for axis, type_ in zip(t.loop, t.types, strict=True):
            if (type_.is_thread and axis.extent > 1) or type_ is ParallelType.VECTORIZE:
                yield Violation(
                    "tensor_products_are_asked_for_by_one_thread",
                    f"{name}: {type_}",
                    f"{axis.extent} on {type_}",
                    "Mma, blocks, or a loop",
                    "Let instructions take the axis, or a loop.",
                )


@rule
def tensor_products_read_what_a_warp_brings(s: Schedule) -> Iterator[Violation]:
    """The thread that asks for products waits for their operands and frees them, in the loop that they are summed in:
    both come to shared memory by warps of their own, are loaded inside the loops around the product, and nothing else
    reads them (PTX ISA, tcgen05.commit: what a thread tells an mbarrier of are its own products)."""
    for group in s.accumulators:
        made = frozenset(group.tensors)
        first = min(s.sf.tensor(name).compute_at for name in made)
        for name in sorted(group.operands):
            t = s.sf.tensor(name)
            found = []
            if t.circular is None or t.circular.kind is not BufferKind.WARP_SPECIALIZED:
                found.append("no ring that warps of their own fill")
            if t.compute_at < first:
                found.append(f"loaded inside {t.compute_at} loops, of which {first} are around the product")
            if others := [op.output for op in s.sf.consumers(name) if op.output not in made]:
                found.append(f"read by {', '.join(others)} too")
            for fault in found:
                yield Violation(
                    "tensor_products_read_what_a_warp_brings",
                    f"{', '.join(group.tensors)}: {name}",
                    fault,
                    "a warp-specialised ring of its own, inside the loops around the product",
                    "Load it there, by circular_buffer with warps of their own.",
                )


@rule
def tensor_products_are_multiplied_in_one_block(s: Schedule) -> Iterator[Violation]:
    """What one copy brings to several blocks, their threads free by arrivals; the commit that frees a stage of products
    in tensor memory arrives in its own block (PTX ISA, tcgen05.commit without .multicast)."""
    for op in s.sf.ops:
        if op.multicasts and any(op.output in group.operands for group in s.accumulators):
            yield Violation(
                "tensor_products_are_multiplied_in_one_block",
                f"{op.output}: multicast",
                "one copy for several blocks",
                "a copy for each block",
                "Leave the multicast out.",
            )


@rule
def tensor_products_together_have_places_alike(s: Schedule) -> Iterator[Violation]:
    """Products that share an operand are made and read together: as many of each are under way, and the same loops are
    around them."""
    for group in s.accumulators:
        found = {(s.sf.tensor(name).in_flight, s.sf.tensor(name).compute_at) for name in group.tensors}
        if len(found) > 1:
            yield Violation(
                "tensor_products_together_have_places_alike",
                ", ".join(group.tensors),
                ", ".join(f"{n} under way inside {at} loops" for n, at in sorted(found)),
                "the same for all",
                "Set products_in_flight and inline them alike.",
            )
