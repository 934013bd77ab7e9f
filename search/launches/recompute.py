"""Which values a launch computes again rather than reads, where an earlier launch computed them too."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import CHOICES, COMPARE, POINTWISE, RANDOM, VIEWS, OpKind
from compiler.ir.touched import stored_bytes

_RELAID = frozenset({OpKind.PERMUTE, OpKind.RESHAPE, OpKind.SLICE, OpKind.FLIP, OpKind.PAD, OpKind.CAT})
"""Operators that change where in memory neighbours lie: what reads a stored result of theirs reads it in order."""

_AGAIN = POINTWISE | RANDOM | VIEWS | COMPARE | {OpKind.COPY, OpKind.PAD, OpKind.CAT, OpKind.IOTA, OpKind.FULL}
"""Operators without state: computing them once more costs their operands' bytes."""

_NEVER_STORED = frozenset({OpKind.BROADCAST_TO, OpKind.IOTA, OpKind.FULL})


def policies(fusion: Fusion) -> Iterator[frozenset[str]]:
    """Sets of values to compute again wherever they cross from one launch to another, each once.

    - Those that cost no more bytes to compute than one write and one read, from the inputs or from what is stored: so
      it pays if one launch more uses the value.
    - Those that cost no more than a read: so it pays for any number of launches.
    - As the first, except where an operator moves neighbours apart (a transpose): a launch that cannot hold two such
      moves reads one of them stored.
    - Broadcasts and index numbers alone: they are never worth storing.
    - As the first, with all that lies between such a value and what it is computed from: a mask of few bytes on the way
      costs more than a write and a read of its own, and what is chosen by it does not.

    Outputs are in memory anyway and are never computed again.
    """
    given: dict[frozenset[str], None] = {}
    for kinds, times in ((_AGAIN, 2), (_AGAIN, 1), (_AGAIN - _RELAID, 2), (_NEVER_STORED, 1)):
        given[_cheap(fusion, kinds, times)] = None
    given[_cheap_with_all_between(fusion)] = None
    yield from given


def _cheap(fusion: Fusion, kinds: frozenset[OpKind], times: int) -> frozenset[str]:
    """Results of operators of these kinds whose inputs and stored operands are at most `times` as many bytes."""
    needs: dict[str, frozenset[str]] = {name: frozenset({name}) for name in fusion.inputs}
    cheap: set[str] = set()
    stored = _stored(fusion)
    for op in fusion.ops:
        reads = frozenset(x for operand in op.tensor_inputs for x in needs[operand])
        if op.kind in kinds and op.output not in stored and _is_cheap(fusion, op, reads, times):
            cheap.add(op.output)
            needs[op.output] = reads
        else:
            needs[op.output] = frozenset({op.output})
    return frozenset(cheap)


def _cheap_with_all_between(fusion: Fusion) -> frozenset[str]:
    """Results that cost at most twice their bytes to compute from inputs, outputs and results of reductions, and every
    result between."""
    needs: dict[str, frozenset[str]] = {name: frozenset({name}) for name in fusion.inputs}
    between: dict[str, frozenset[str]] = dict.fromkeys(fusion.inputs, frozenset())
    found: frozenset[str] = frozenset()
    stored = _stored(fusion)
    for op in fusion.ops:
        if op.kind not in _AGAIN or op.output in stored:
            needs[op.output], between[op.output] = frozenset({op.output}), frozenset()
            continue
        needs[op.output] = frozenset[str]().union(*(needs[x] for x in op.tensor_inputs))
        between[op.output] = frozenset({op.output}).union(*(between[x] for x in op.tensor_inputs))
        if _is_cheap(fusion, op, needs[op.output], 2):
            found |= between[op.output]
    return found


def _stored(fusion: Fusion) -> frozenset[str]:
    """Outputs, and what an index chooses of where that goes to another launch: some of it can be read at such places in
    memory alone."""
    return frozenset((*fusion.outputs, *(op.tensor_inputs[0] for op in fusion.ops if op.kind in CHOICES)))


def _is_cheap(fusion: Fusion, op: Op, reads: frozenset[str], times: int) -> bool:
    return stored_bytes(map(fusion.value, reads)) <= times * stored_bytes([fusion.value(op.output)])
