"""Neighbouring dimensions that all operators of a fusion treat alike, merged into one.

What is folded over several dimensions is cut into parts along one of them (`split_factors`). Where another that is
folded lies outside of it, a part is in many pieces, each from any element on:

    [5, 7, 11, 1001, 131] -> 1001 parts, each of 385 runs of 131 elements
    [50450400]            -> 1001 parts, each of one run of 50400

Merged, a part is one run, of as many elements as its number needs. A pair of neighbours is merged where the inputs that
have it are one run in memory, every reduction folds both or keeps both, and every broadcast makes or keeps both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod

from compiler.ir.fusion import Fusion, Op, Value
from compiler.ir.joined import Joined
from compiler.ir.ops import FOLDS, POINTWISE, RANDOM, OpKind
from search.launches.writer import Writer

Pair = tuple[str, int]
"""A dimension of a value, and the one right of it."""

_ELEMENTWISE = POINTWISE | {OpKind.COPY}


def merged_dims(fusion: Fusion) -> Fusion | None:
    """The fusion over merged dimensions, its inputs and outputs as they were; None where no reduction folds two such
    dimensions of several places each."""
    runs = _runs(fusion)
    folds = [op for op in fusion.ops if op.kind in FOLDS]
    if not any(_folds_a_run(fusion.value(op.tensor_inputs[0]), op, runs[op.tensor_inputs[0]]) for op in folds):
        return None
    w = Writer(fusion)
    for name in fusion.inputs:
        w.names[name] = w.reshape(name, _shape(fusion.value(name), runs[name]))
    for op in fusion.ops:
        inputs = [w.names[x] if isinstance(x, str) else x for x in op.inputs]
        result = fusion.value(op.output)
        dims = _dims(op, runs)
        w.names[op.output] = w.put(
            op.kind,
            inputs,
            _shape(result, runs[op.output]),
            result.dtype,
            dims,
            op.start,
            grade=op.grade,
            is_term=op.is_term,
            step=op.step,
            low=op.low,
        )
    for name in fusion.outputs:
        w.names[name] = w.reshape(w.names[name], fusion.value(name).shape)
    return w.fusion()


_Runs = tuple[tuple[int, ...], ...]
"""The dimensions of a value by those that they are merged into."""


def _runs(fusion: Fusion) -> dict[str, _Runs]:
    """The dimensions of every value, neighbours together that are merged."""
    joined: Joined[Pair] = Joined()
    apart = list(_strided(fusion))
    for op in fusion.ops:
        for one, other in _pairs(fusion, op):
            if other is None:
                apart.append(one)
            else:
                joined.join(one, other)
    broken = set(map(joined.of, apart))
    found: dict[str, _Runs] = {}
    for value in fusion.values:
        runs: list[tuple[int, ...]] = []
        for d in range(len(value.shape)):
            if d and joined.of((value.name, d - 1)) not in broken:
                runs[-1] = (*runs[-1], d)
            else:
                runs.append((d,))
        found[value.name] = tuple(runs)
    return found


def _strided(fusion: Fusion) -> Iterator[Pair]:
    """Pairs of the inputs that are no run in memory."""
    for value in map(fusion.value, fusion.inputs):
        for d in range(len(value.shape) - 1):
            (outer, inner), (far, near) = value.shape[d : d + 2], value.strides[d : d + 2]
            if outer > 1 and inner > 1 and far != near * inner:
                yield value.name, d


def _pairs(fusion: Fusion, op: Op) -> Iterator[tuple[Pair, Pair | None]]:
    """Pairs of an operator's operands and of its result that are merged together; with None, those that are not."""
    result = fusion.value(op.output).shape
    match op.kind:
        case kind if kind in _ELEMENTWISE:
            yield from (((x, d), (op.output, d)) for x in op.tensor_inputs for d in range(len(result) - 1))
        case kind if kind in FOLDS:
            (name,) = op.tensor_inputs
            yield from _of_a_fold(op, name, len(fusion.value(name).shape), len(result))
        case OpKind.BROADCAST_TO:
            (name,) = op.tensor_inputs
            yield from _of_a_broadcast(op, name, fusion.value(name).shape, result)
        case kind if kind in RANDOM:  # numbered in row-major order, which merging keeps
            pass
        case OpKind.IOTA:
            yield from (((op.output, d), None) for d in range(len(result) - 1) if op.dims[0] in (d, d + 1))
        case _:
            for name in (*op.tensor_inputs, op.output):
                yield from (((name, d), None) for d in range(len(fusion.value(name).shape) - 1))


def _of_a_fold(op: Op, name: str, rank: int, result: int) -> Iterator[tuple[Pair, Pair | None]]:
    left = [d for d in range(rank) if rank == result or d not in op.dims]
    for d in range(rank - 1):
        if (d in op.dims) != (d + 1 in op.dims):
            yield (name, d), None
    for place, (d, after) in enumerate(pairwise(left)):
        alike = after == d + 1 and (d in op.dims) == (after in op.dims)
        yield (op.output, place), (name, d) if alike else None


def _of_a_broadcast(
    op: Op, name: str, shape: Sequence[int], result: Sequence[int]
) -> Iterator[tuple[Pair, Pair | None]]:
    made_of = {d: (i, shape[i] != result[d]) for i, d in enumerate(op.dims)}

    def are_alike(d: int) -> bool:
        """Both new, or of neighbours that both keep their sizes, or both get new ones."""
        here, after = made_of.get(d), made_of.get(d + 1)
        return after == (here and (here[0] + 1, here[1]))

    for i, d in enumerate(op.dims[:-1]):
        yield (name, i), (op.output, d) if op.dims[i + 1] == d + 1 and are_alike(d) else None
    yield from (((op.output, d), None) for d in range(len(result) - 1) if not are_alike(d))


def _shape(value: Value, runs: _Runs) -> tuple[int, ...]:
    return tuple(prod(value.shape[d] for d in run) for run in runs)


def _folds_a_run(value: Value, op: Op, runs: _Runs) -> bool:
    return any(run[0] in op.dims and sum(value.shape[d] > 1 for d in run) > 1 for run in runs)


def _dims(op: Op, runs: dict[str, _Runs]) -> tuple[int, ...]:
    """The operator's dimensions among merged ones: of a broadcast where those of its operand go, else its own."""
    if op.kind is OpKind.BROADCAST_TO:
        return tuple(_place(runs[op.output], op.dims[run[0]]) for run in runs[op.tensor_inputs[0]])
    if op.kind in FOLDS:
        return tuple(dict.fromkeys(_place(runs[op.tensor_inputs[0]], d) for d in op.dims))
    if op.kind is OpKind.IOTA:
        return (_place(runs[op.output], op.dims[0]),)
    return op.dims


def _place(runs: _Runs, dim: int) -> int:
    """Which of the merged dimensions has this one."""
    return next(place for place, run in enumerate(runs) if dim in run)
