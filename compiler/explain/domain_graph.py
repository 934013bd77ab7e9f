"""The IterDomain graph of one tensor as a picture: axes as boxes, transforms as the lines between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from compiler.analysis.id.graph import Group, IdGraph, transforms_of
from compiler.explain.names import axis_name, short_name
from compiler.explain.roles import COLOURS, MEANINGS, TmaRole
from compiler.explain.svg import FAINT, INK, PAPER, WARN, legend, line, picture, rect, text, text_width
from compiler.ir.id_exprs import IdExpr, Merge, Resize, Shift, Split, Swizzle, Window
from compiler.ir.iter_domain import IterDomain, ParallelType
from compiler.ir.tensor import TensorView

_HIGH, _LEVEL, _GAP, _EDGE = 34.0, 92.0, 14.0, 20.0
_TOP = 78.0


def domain_graph(graph: IdGraph, t: TensorView, roles: Mapping[Group, TmaRole], title: str) -> str:
    """An SVG of how the loop and allocation domains of `t` come from its logical domain.

    Axes are coloured by their role in a bulk copy (`roles`); a split that makes holes says so in red.
    """
    exprs = transforms_of(t)
    marks = _marks(t)
    wide = max(
        [64.0]
        + [text_width(mark) + 16 for mark in marks.values()]
        + [text_width(axis_name(a), 13) + 16 for a in marks]
        + [text_width(_words(e)[0], 11) + 8 for e in exprs]
    )
    place = _places(t, exprs, wide)
    bottom = max((y for _, y in place.values()), default=_TOP) + _HIGH
    used = {r for a in place if (r := roles.get(graph.group(a))) is not None}
    width = max([x + wide for x, _ in place.values()] + [420.0, text_width(title, 15)]) + _EDGE
    domains = list(_domains(t))
    width = max([width, *(text_width(words) + 2 * _EDGE for words in domains)])
    key, key_high = legend(_EDGE, bottom + 26, [(COLOURS[r], MEANINGS[r]) for r in TmaRole if r in used], width - 40)
    below = bottom + 26 + key_high + 16
    shapes = [text(_EDGE, 28, title, size=15, bold=True)]
    shapes += [s for e in exprs for s in _transform(e, place, wide)]
    for axis, (x, y) in place.items():
        role = roles.get(graph.group(axis))
        shapes += _axis(axis, x, y, wide, marks[axis], COLOURS[role] if role is not None else PAPER)
    shapes += key
    shapes += [text(_EDGE, below + 18 * i, words, fill=INK) for i, words in enumerate(domains)]
    return picture(width, below + 18 * len(domains) + 4, title, shapes)


def _domains(t: TensorView) -> Iterator[str]:
    """The domains that a picture of a graph cannot show the order of."""
    yield f"logical: {', '.join(map(short_name, t.logical)) or 'none'}"
    loop = [
        f"{short_name(a)}{'' if p is ParallelType.SERIAL else f' {p}'}" for a, p in zip(t.loop, t.types, strict=True)
    ]
    at = t.compute_at
    inlined = f"{', '.join(loop[:at])}, computed inside these: {', '.join(loop[at:])}" if at else ", ".join(loop)
    yield f"loop: {inlined or 'none'}"
    if t.allocation is not None:
        axes = [short_name(a) for a in t.allocation.axes]
        if t.dimsep is None:
            yield f"allocation: {', '.join(axes) or 'none'}"
        else:
            lanes, columns = axes[: t.dimsep], axes[t.dimsep :]
            yield f"allocation: lanes {', '.join(lanes) or 'none'}; columns {', '.join(columns) or 'none'}"


def _marks(t: TensorView) -> dict[IterDomain, str]:
    """What is written below each axis: its parallel type, or that it is logical, or its place in the allocation."""
    allocation = t.allocation
    exprs = transforms_of(t)
    axes = [*t.logical, *(allocation.axes if allocation is not None else ()), *t.loop]
    axes += [a for e in exprs for a in (*e.inputs, *e.outputs)]
    found = dict.fromkeys(axes, "")
    if allocation is not None:
        found |= {a: f"allocation {i}" for i, a in enumerate(allocation.axes)}
    for a, p in zip(t.loop, t.types, strict=True):
        if p is not ParallelType.SERIAL or not found[a]:
            found[a] = str(p) if not found[a] else f"{p}, {found[a]}"
    for a in t.logical:
        found[a] = found[a] if found[a] and found[a] != "Serial" else "logical"
    return found


def _places(t: TensorView, exprs: Sequence[IdExpr], wide: float) -> dict[IterDomain, tuple[float, float]]:
    """Left and top of each axis: a level for each transform on the way, what is made below what it is made of."""
    source = t.allocation is not None and t.allocation.is_source
    roots = t.allocation.axes if source and t.allocation is not None else t.logical
    level = dict.fromkeys(roots, 0)
    for e in exprs:
        depth = 1 + max((level.get(a, 0) for a in e.inputs), default=0)
        for a in _made(e):
            level[a] = depth
    for a in (*t.loop, *(t.allocation.axes if t.allocation is not None else ())):
        level.setdefault(a, 0)
    visited, leaves = _walked(list(level), exprs)
    step = wide + _GAP
    centre = {a: i * step for i, a in enumerate(leaves)}
    for e in reversed(exprs):
        below = [centre[a] for a in _made(e) if a in centre]
        if below:
            middle = sum(below) / len(below)
            free = [a for a in e.inputs if a not in centre]
            for i, a in enumerate(free):
                centre[a] = middle + (i - (len(free) - 1) / 2) * step
    for depth in set(level.values()):
        _spread(centre, [a for a in visited if level[a] == depth], step)
    left = min(centre.values(), default=0.0)
    return {a: (_EDGE + centre[a] - left, _TOP + _LEVEL * level[a]) for a in level}


def _walked(axes: list[IterDomain], exprs: Sequence[IdExpr]) -> tuple[list[IterDomain], list[IterDomain]]:
    """All axes in the order of a walk from the top, outer before inner, and those of them that nothing is made of."""
    uses: dict[IterDomain, list[IdExpr]] = {}
    for e in exprs:
        for a in e.inputs:
            uses.setdefault(a, []).append(e)
    visited: list[IterDomain] = []
    leaves: list[IterDomain] = []
    waiting = list(reversed(axes))
    while waiting:
        a = waiting.pop()
        if a in visited:
            continue
        visited.append(a)
        below = [b for e in uses.get(a, ()) for b in _made(e)]
        if below:
            waiting += reversed(below)
        else:
            leaves.append(a)
    return visited, leaves


def _spread(centre: dict[IterDomain, float], row: list[IterDomain], step: float) -> None:
    """Moves axes of one level apart until none covers another."""
    for before, a in pairwise(row):
        centre[a] = max(centre[a], centre[before] + step)


def _made(e: IdExpr) -> tuple[IterDomain, ...]:
    """Outputs that are new axes; a swizzle passes its x through."""
    return (e.out,) if isinstance(e, Swizzle) else e.outputs


def _transform(e: IdExpr, place: Mapping[IterDomain, tuple[float, float]], wide: float) -> list[str]:
    """Lines from the inputs to a word in the middle, and from there to the outputs."""
    ends = [(place[a][0] + wide / 2, place[a][1] + _HIGH) for a in e.inputs]
    starts = [(place[a][0] + wide / 2, place[a][1]) for a in _made(e)]
    x = ends[0][0] if isinstance(e, Split) else starts[0][0]
    y = min(y for _, y in starts) - (_LEVEL - _HIGH) / 2
    words, colour = _words(e)
    shapes = [line(a, b, x, y - 8, stroke=FAINT) for a, b in ends] + [
        line(x, y + 8, a, b, stroke=FAINT) for a, b in starts
    ]
    half = text_width(words, 11) / 2 + 6
    shapes.append(rect(x - half, y - 9, 2 * half, 18, fill=PAPER, stroke=colour, round_by=9))
    return [*shapes, text(x, y + 4, words, size=11, fill=colour, anchor="middle")]


def _words(e: IdExpr) -> tuple[str, str]:
    match e:
        case Split() if e.divides:
            return "split", FAINT
        case Split():
            return f"split with {e.outer.extent * e.inner.extent - e.source.extent} holes", WARN
        case Merge():
            return "merge", FAINT
        case Swizzle():
            return "xor", FAINT
        case Resize():
            return f"resize {e.left:+d}, {e.right:+d}", FAINT
        case Shift():
            return f"shift by phase mod {e.modulus}", WARN
        case Window():
            return f"windows of {e.size} every {e.step}", WARN


def _axis(axis: IterDomain, x: float, y: float, wide: float, mark: str, fill: str) -> list[str]:
    middle = x + wide / 2
    shapes = [rect(x, y, wide, _HIGH, fill=fill, stroke=INK, round_by=4)]
    shapes.append(text(middle, y + 15, axis_name(axis), size=13, anchor="middle"))
    return [*shapes, text(middle, y + 28, mark, size=10.5, anchor="middle")] if mark else shapes
