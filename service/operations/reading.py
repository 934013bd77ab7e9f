"""A posted fusion and binding, understood: what they mean, what they are called, and what is stored of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from compiler.arch import Card
from compiler.errors import InvalidFusion, Unsupported
from compiler.ir import fusion as ir
from compiler.wire import bind
from fusetune.wire.binding import Binding, InputBinding
from fusetune.wire.bound import apply_binding
from fusetune.wire.canonical import binding_hash, canonical_symbols, canonicalize, fingerprint
from fusetune.wire.fusion import Fusion
from fusetune.wire.problems import InvalidDocument, Problem
from search.space.memory import refuse_beyond
from search.space.protocol import Scheduler
from search.space.schedulers import refusals, schedulers_for, told_together
from service.operations.errors import OverLimit


@dataclass(frozen=True, slots=True)
class Identity:
    """The two hashes that a fusion at a binding is known by (docs/contracts.md, "Fusion" and "Binding")."""

    fingerprint: str
    binding_hash: str


@dataclass(frozen=True, slots=True)
class Asked:
    """`fusion` and `binding` in canonical names, as they are stored; `bound` as the compiler takes it."""

    fusion: Fusion
    binding: Binding
    bound: ir.Fusion


def identify(fusion: Fusion, binding: Binding, max_ops: int) -> Identity:
    """What a valid fusion and binding are called.

    Raises OverLimit, and InvalidDocument with places in the request (`fusion.ops[3]`, `binding.sizes.M`).
    """
    if len(fusion.ops) > max_ops:
        raise OverLimit(
            f"fusion.ops: found {len(fusion.ops)} operators, at most {max_ops} are taken here.",
            "Split the fusion, or ask the operator to raise FUSETUNE_MAX_OPS.",
        )
    with _placed():
        return Identity(fingerprint(fusion), binding_hash(fusion, binding))


def understand(fusion: Fusion, binding: Binding) -> Asked:
    """The meaning of a fusion at a binding. Raises InvalidDocument, and Unsupported for what is not compiled yet."""
    with _placed():
        bound = apply_binding(fusion, binding)
        compiled = bind(fusion, binding)
        names = canonical_symbols(fusion)
        layouts = [{"strides": layout.strides, "align": layout.align} for layout in bound.inputs]
        stored = Binding(
            sizes={names[symbol]: size for symbol, size in binding.sizes.items() if symbol in names},
            inputs=tuple(InputBinding.model_validate(layout) for layout in layouts),
        )
        return Asked(canonicalize(fusion), stored, compiled)


def schedulers(asked: Asked, card: Card) -> tuple[Scheduler, ...]:
    """The schedulers that take the fusion. Raises Unsupported, with every scheduler's reason, if none does, and where
    the card's memory does not hold its tensors."""
    refuse_beyond(card.memory_bytes, asked.bound)
    found = schedulers_for(asked.bound, card)
    if not found:
        reasons = told_together(refusals(asked.bound, card))
        raise Unsupported(f"a schedule for this fusion ({reasons})", "Split it into fusions of one iteration space.")
    return found


@contextmanager
def _placed() -> Iterator[None]:
    """Puts `fusion.` before places that the fusion's own checks name from the fusion's root."""
    try:
        yield
    except (InvalidDocument, InvalidFusion) as error:
        raise InvalidDocument(
            tuple(
                Problem(p.where if p.where.startswith("binding") else f"fusion.{p.where}", p.found, p.expected, p.fix)
                for p in error.problems
            )
        ) from None
