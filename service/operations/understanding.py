"""What a posted fusion means at a binding: for the compiler, for what is stored of it, and for those who schedule it.

This loads the compiler and NumPy, as much again as all that an answer of the cache needs: modules that the service
begins with import it where they use it (`service.later`).
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.arch import Card
from compiler.errors import Unsupported
from compiler.ir import fusion as ir
from compiler.wire import bind
from fusetune.wire.binding import Binding, InputBinding
from fusetune.wire.bound import apply_binding
from fusetune.wire.canonical import canonical_symbols, canonicalize
from fusetune.wire.fusion import Fusion
from search.proof.decidable import refuse_undecidable
from search.space.memory import refuse_beyond
from search.space.protocol import Scheduler
from search.space.schedulers import refusals, schedulers_for, told_together
from service.operations.reading import placed


@dataclass(frozen=True, slots=True)
class Asked:
    """`fusion` and `binding` in canonical names, as they are stored; `bound` as the compiler takes it."""

    fusion: Fusion
    binding: Binding
    bound: ir.Fusion

    def schedulers(self, card: Card) -> tuple[Scheduler, ...]:
        """The schedulers that take the fusion. Raises Unsupported, with every scheduler's reason, if none does, and
        where the card's memory does not hold its tensors."""
        refuse_beyond(card.memory_bytes, self.bound)
        found = schedulers_for(self.bound, card)
        if not found:
            reasons = told_together(refusals(self.bound, card))
            raise Unsupported(
                f"a schedule for this fusion ({reasons})", "Split it into fusions of one iteration space."
            )
        return found


def understand(fusion: Fusion, binding: Binding) -> Asked:
    """The meaning of a fusion at a binding. Raises InvalidDocument, and Unsupported for what is not compiled yet."""
    with placed():
        bound = apply_binding(fusion, binding)
        compiled = bind(fusion, binding)
        names = canonical_symbols(fusion)
        layouts = [{"strides": layout.strides, "align": layout.align} for layout in bound.inputs]
        stored = Binding(
            sizes={names[symbol]: size for symbol, size in binding.sizes.items() if symbol in names},
            inputs=tuple(InputBinding.model_validate(layout) for layout in layouts),
        )
        return Asked(canonicalize(fusion), stored, compiled)


def decidable(fusion: Fusion, binding: Binding) -> Asked:
    """As `understand`; raises Unsupported also where no input set would decide whether a kernel is right."""
    asked = understand(fusion, binding)
    refuse_undecidable(asked.bound)
    return asked
