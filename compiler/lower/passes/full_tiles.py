"""Splits a tile's body into one for full tiles, without guards, and one for edge tiles.

    body with guards   ->   if (every index of the tile is inside) { body without guards } else { body with guards }

The condition is uniform in the block, so barriers inside stay reachable by all threads. Where words straddle aligned
ones, edge tiles whose words all lie in memory are split from the others, and guard their stores alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from compiler.analysis.loops.loop_nest import GRID_VARS
from compiler.ir.expr import Expr, Mod, Var, var
from compiler.lower.cut_vectors import cut_access
from compiler.lower.kernel_ir import Accumulate, CopyAsync, Elected, GlobalLoad, GlobalStore, If, Loop, Stmt
from compiler.lower.operands import Less
from compiler.lower.predicates import holds_for_block
from compiler.lower.sync_ir import InitBarriers, Sync
from compiler.lower.tmem_ir import TmemAddress, TmemDeallocate
from compiler.lower.traversal import walk, with_bodies


def split_full_tiles(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Applies the split to every innermost body of serial loops, or to the kernel's body where there is none."""
    if any(isinstance(s, Loop) and not s.unroll for s in walk(body)):
        return tuple(_inside(s) for s in body)
    start = next((i for i, s in enumerate(body) if not isinstance(s, (InitBarriers, Sync))), len(body))
    start = next((i + 1 for i, s in enumerate(body) if isinstance(s, TmemAddress)), start)
    end = next((i for i, s in enumerate(body) if _frees(s)), len(body))
    end -= end < len(body) and isinstance(body[end - 1], Sync)
    return (*body[:start], *_split(body[start:end]), *body[end:])


def _frees(s: Stmt) -> bool:
    """Whether tensor memory is freed there, which all paths come to."""
    return any(isinstance(inner, TmemDeallocate) for inner in walk((s,)))


def _inside(s: Stmt) -> Stmt:
    match s:
        case Loop() if not s.unroll:
            return replace(s, body=split_full_tiles(s.body))
        case _:
            return s


def _split(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    unrolled = {s.var: var(Var(f"u{s.var.name}", s.var.extent)) for s in walk(body) if isinstance(s, Loop) and s.unroll}
    has_halo = any(
        _is_of_a_halo(guard) for s in walk(body) if isinstance(s, GlobalLoad | CopyAsync) for guard in s.guards
    )
    conditions: dict[Less, None] = {}
    met: set[Less] = set()
    of_words: dict[Less, None] = {}
    whole: set[Less] = set()
    for s in _asking(body):
        for guard in _guards(s):
            if not (guard.right.is_const or has_halo or _is_in_some_tiles(guard)):
                continue  # the first place of a shifted run, in every tile
            inside = holds_for_block(Less(guard.left.substitute(unrolled), guard.right.substitute(unrolled)))
            if inside is None and (cut_access(s) is not None or _is_an_end_of_rows(s, guard)):
                continue
            if inside is None:
                return body
            if inside.left.lo >= inside.right.hi:
                continue  # no tile is full along this index
            met.add(guard)
            if _straddles(s):
                whole.add(guard)
            if inside.left.hi >= inside.right.lo:
                conditions[inside] = None
                of_words |= {inside: None} if _straddles(s) else {}
    if not met:
        return body
    if conditions and set(conditions) == met:
        return body  # each guard is the same for a whole block, and cheaper where it stands
    full = _without_guards(body, met)
    edge = body
    if of_words and len(of_words) < len(conditions) and not any(isinstance(s, Sync) for s in walk(body)):
        # Each branch around a word waits for those before it: at a row's end, too, all are asked for at once.
        edge = (If(tuple(of_words), _without_guards(body, whole), body),)
    return (If(tuple(conditions), full, edge),) if conditions else full


def _straddles(s: Stmt) -> bool:
    """True for the load of a word that straddles two aligned ones, where both are in memory."""
    both = cut_access(s)
    return isinstance(both, GlobalLoad) and both.straddles


def _asking(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Statements in order, without the lanes of vectors that a bound may cut: where they are whole, none is taken."""
    for s in body:
        yield s
        match s:
            case Loop() | Elected():
                yield from _asking(s.body)
            case If() if cut_access(s) is None:
                yield from _asking((*s.then, *s.orelse))
            case _:
                pass


def _is_of_a_halo(guard: Less) -> bool:
    """Whether an index lies below 0 in the first tile alone, which begins before the tensor: where it is the phase of
    a row that moves it there, the first step of every tile may be cut."""
    phases = [atom for atom, c in guard.right.terms if c < 0 and isinstance(atom, Mod)]
    return guard.left.is_const and bool(guard.right.terms) and not phases


def _is_an_end_of_rows(s: Stmt, guard: Less) -> bool:
    """Whether a load asks for the last place of a piece of a row that is moved by its phase: in every tile some are
    behind it, which row decides."""
    is_moved = any(c < 0 and isinstance(atom, Mod) for atom, c in guard.left.terms)
    return isinstance(s, GlobalLoad | CopyAsync) and guard.right.is_const and is_moved


def _is_in_some_tiles(guard: Less) -> bool:
    """Whether a run is cut into tiles of several blocks, of which the first alone has its first place."""
    ahead = (Expr(((atom, c),)) for atom, c in guard.right.terms if c > 0)
    return guard.left.is_const and any(v.name in GRID_VARS for e in ahead for v in e.variables)


def _guards(s: Stmt) -> tuple[Less, ...]:
    """The conditions of an access, or of an element that is folded."""
    match s:
        case GlobalLoad() | GlobalStore():
            return (*s.guards, *(end for end in (s.head, s.tail) if end is not None))
        case CopyAsync():
            return (*s.guards, *((s.tail,) if s.tail is not None else ()))
        case Accumulate():
            return s.guards
        case If() if cut_access(s) is not None:
            return s.conditions
        case _:
            return ()


def _without_guards(body: tuple[Stmt, ...], met: set[Less]) -> tuple[Stmt, ...]:
    """The body where the guards in `met` hold."""
    out: list[Stmt] = []
    for s in body:
        match s:
            case GlobalLoad() | GlobalStore():
                head, tail = (None if end in met else end for end in (s.head, s.tail))
                out.append(replace(s, guards=tuple(g for g in s.guards if g not in met), head=head, tail=tail))
            case CopyAsync():
                tail = None if s.tail in met else s.tail
                out.append(replace(s, guards=tuple(g for g in s.guards if g not in met), tail=tail))
            case Accumulate():
                out.append(replace(s, guards=tuple(g for g in s.guards if g not in met)))
            case If() if cut_access(s) is not None and set(s.conditions) <= met:
                out += _without_guards(s.then, met)
            case If():
                then, orelse = _without_guards(s.then, met), _without_guards(s.orelse, met)
                conditions = tuple(c for c in s.conditions if c not in met or cut_access(s) is None)
                out.append(replace(s, conditions=conditions, then=then, orelse=orelse))
            case _:
                out.append(with_bodies(s, lambda inside: _without_guards(inside, met)))
    return tuple(out)
