"""Every place of a small loop nest, by enumeration, and random schedules to enumerate."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from hypothesis import strategies as st

from compiler.ir.id_exprs import Merge, Resize, Shift, Split, Swizzle, Window
from compiler.ir.iter_domain import IterDomain
from compiler.ir.tensor import TensorView
from tests.compiler.model import Steps, merge, reorder, split

Point = dict[IterDomain, int]


def loop_points(t: TensorView) -> Iterator[Point]:
    """Index of every axis at every place of the loops, holes included: logical indices may lie outside."""
    for values in product(*(range(a.extent) for a in t.loop)):
        index: Point = dict(zip(t.loop, values, strict=True))
        for e in reversed(t.exprs):
            match e:
                case Split():
                    index[e.source] = index[e.outer] * e.inner.extent + index[e.inner]
                case Merge():
                    index[e.outer], index[e.inner] = divmod(index[e.out], e.inner.extent)
                case Swizzle():
                    index[e.y] = index[e.out] ^ index[e.x]
                case Resize():
                    index[e.source] = index[e.out] - e.left
                case Shift():
                    start = sum(index[a] * f for a, f in zip(e.by, e.factors, strict=True))
                    index[e.source] = index[e.out] - (e.start + start) % e.modulus
                case Window():
                    index[e.source] = index[e.tile] * e.step + index[e.place] - e.before
        yield index


def is_valid(t: TensorView, index: Point) -> bool:
    """True where the place is no hole: every axis that was split, and every logical one, is inside its extent."""
    return all(0 <= index[a] < a.extent for a in (*t.logical, *(x for e in t.exprs for x in e.inputs)))


@st.composite
def transforms(draw: st.DrawFn, tv: str, rank: int, most: int = 3) -> tuple[Steps, int]:
    """Some transforms of a tensor's loops, and how many loops it has then."""
    steps: Steps = []
    for _ in range(draw(st.integers(0, most))):
        match draw(st.sampled_from(("split", "merge", "reorder"))):
            case "split":
                steps.append(split(tv, draw(st.integers(0, rank - 1)), draw(st.integers(1, 4)), draw(st.booleans())))
                rank += 1
            case "merge" if rank > 1:
                steps.append(merge(tv, draw(st.integers(0, rank - 2))))
                rank -= 1
            case "reorder":
                steps.append(reorder(tv, *draw(st.permutations(range(rank)))))
    return steps, rank


@st.composite
def types_of(draw: st.DrawFn, rank: int, choices: tuple[str, ...]) -> tuple[str, ...]:
    """A parallel type for each of so many loops, every one of `choices` at most once."""
    free = list(choices)
    found = []
    for _ in range(rank):
        chosen = draw(st.sampled_from(("-", *free)))
        if chosen != "-":
            free.remove(chosen)
        found.append(chosen)
    return tuple(found)
