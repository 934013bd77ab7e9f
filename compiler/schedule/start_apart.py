"""Values that are repeated along dimensions of results which have nothing else in common: computed for each of them.

A broadcast axis is resolved by the axis that it becomes in a consumer, and one that becomes two different axes has no
loop (nvFuser, inlining: broadcast axes). Two outputs whose dimensions no operator joins are computed in loops of their
own, so that a mask which both need is made in each of them; what is loaded and varies along the dimensions joins them.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.errors import Unsupported
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import IterDomain
from compiler.ir.joined import Joined
from compiler.ir.ops import ROUNDING_FOLDS, SCANS
from compiler.ir.tensor import TensorOp, TensorView
from compiler.schedule.matching import read_axes

_Ends = tuple[IterDomain | None, ...]
"""For each logical axis of a tensor, one of the axes with elements that are joined to what it becomes, if any."""


def computed_apart(sf: ScheduledFusion) -> ScheduledFusion:
    """The same fusion with every broadcast axis resolved to one axis at most: what has several is computed again.

    Copies of a value may leave what joined two axes apart, so that is done until all are resolved. Raises Unsupported
    where that would fold a sum of floats twice.
    """
    while (apart := _once(sf)) is not sf:
        sf = apart
    return sf


def _once(sf: ScheduledFusion) -> ScheduledFusion:
    joined = _joined(sf)
    ends: dict[str, _Ends] = {t.name: _own(t, joined) for t in sf.tensors}
    tensors = dict(sf.by_name)
    made, copies = {op.output: op for op in sf.ops}, dict[str, list[str]]()
    read_by: dict[str, list[str]] = {}
    for op in sf.ops:
        for name in dict.fromkeys(op.tensor_inputs):
            read_by.setdefault(name, []).append(op.output)
    for op in reversed(sf.ops):
        t = tensors[op.output]
        users: list[tuple[_Ends, list[TensorOp]]] = []
        for user in (made[name] for name in read_by.get(t.name, ())):
            wanted = _wanted(t, user, tensors[user.output], ends)
            fitting = (i for i, (known, _) in enumerate(users) if _agree(known, wanted))
            place = next(fitting, len(users))
            if place == len(users):
                users.append((wanted, [user]))
            else:
                known, readers = users[place]
                users[place] = (tuple(a or b for a, b in zip(known, wanted, strict=True)), [*readers, user])
        if users:
            ends[t.name] = _both(ends[t.name], users[0][0])
        if users[1:] and (op.kind in SCANS or (op.kind in ROUNDING_FOLDS and t.dtype.is_float)):
            raise Unsupported(
                f"{op.kind} {t.name}, which outputs without a common dimension would each fold",
                "Fold it in a launch before.",
            )
        for known, readers in users[1:]:
            name = _unused(tensors)
            tensors[name] = _renamed(t, name)
            ends[name] = _both(_own(tensors[name], joined), known)
            for reader in readers:
                inputs = tuple(name if x == t.name else x for x in reader.inputs)
                made[reader.output] = replace(reader, inputs=inputs)
            made[name] = replace(op, output=name)
            copies.setdefault(op.output, []).insert(0, name)
            for x in dict.fromkeys(op.tensor_inputs):
                read_by[x].insert(read_by[x].index(op.output) + 1, name)
    if not copies:
        return sf
    ops = tuple(made[name] for op in sf.ops for name in (op.output, *copies.get(op.output, ())))
    return replace(sf, tensors=tuple(tensors.values()), ops=ops)


def _joined(sf: ScheduledFusion) -> dict[IterDomain, IterDomain]:
    """For every logical axis with elements, one of those that operators join it to, the same for all of them."""
    joined: Joined[IterDomain] = Joined()
    for op in sf.ops:
        for name in op.tensor_inputs:
            for c, p in read_axes(op, sf.tensor(name), sf.tensor(op.output)).items():
                if not (c.is_broadcast or p.is_broadcast) and c.extent == p.extent:
                    joined.join(c, p)
    return {a: joined.of(a) for t in sf.tensors for a in t.logical if not a.is_broadcast}


def _own(t: TensorView, joined: dict[IterDomain, IterDomain]) -> _Ends:
    return tuple(joined.get(a) for a in t.logical)


def _wanted(t: TensorView, user: TensorOp, result: TensorView, ends: dict[str, _Ends]) -> _Ends:
    """What the broadcast axes of a tensor become in one of its consumers. An axis of one element resolves nothing."""
    at = dict(zip(result.logical, ends[result.name], strict=True))
    becomes = {p: at[c] for c, p in read_axes(user, t, result).items()}
    return tuple(becomes.get(a) if a.is_broadcast and not a.is_trivial else None for a in t.logical)


def _agree(a: _Ends, b: _Ends) -> bool:
    return all(x is None or y is None or x == y for x, y in zip(a, b, strict=True))


def _both(own: _Ends, resolved: _Ends) -> _Ends:
    return tuple(a or b for a, b in zip(own, resolved, strict=True))


def _renamed(t: TensorView, name: str) -> TensorView:
    """An unscheduled tensor under another name, with axes of its own."""
    axes = tuple(replace(a, name=f"{name}.{d}") for d, a in enumerate(t.logical))
    return replace(t, name=name, logical=axes, loop=axes)


def _unused(tensors: dict[str, TensorView]) -> str:
    number = len(tensors)
    while f"w{number}" in tensors:
        number += 1
    return f"w{number}"
