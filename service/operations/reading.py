"""What a posted fusion and binding are called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from compiler.errors import InvalidFusion
from fusetune.wire.binding import Binding
from fusetune.wire.canonical import binding_hash, fingerprint
from fusetune.wire.fusion import Fusion
from fusetune.wire.infer import MAX_OPS
from fusetune.wire.problems import InvalidDocument, Problem
from service.operations.errors import OverLimit


@dataclass(frozen=True, slots=True)
class Identity:
    """The two hashes that a fusion at a binding is known by (docs/contracts.md, "Fusion" and "Binding")."""

    fingerprint: str
    binding_hash: str


def identify(fusion: Fusion, binding: Binding, max_ops: int) -> Identity:
    """What a valid fusion and binding are called.

    Raises OverLimit, and InvalidDocument with places in the request (`fusion.ops[3]`, `binding.sizes.M`).
    """
    if len(fusion.ops) > max_ops:
        raise OverLimit(
            f"fusion.ops: found {len(fusion.ops)} operators, at most {max_ops} are taken here.",
            "Split the fusion." if max_ops >= MAX_OPS else "Split it, or have the service's FUSETUNE_MAX_OPS raised.",
        )
    with placed():
        return Identity(fingerprint(fusion), binding_hash(fusion, binding))


@contextmanager
def placed() -> Iterator[None]:
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
