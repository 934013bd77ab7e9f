"""Joins what quantisation does to an element: divide, round, keep between bounds, cast to an integer.

    loop { q = x / s; r = round(q); a = maximum(r, -128); y = minimum(a, 127) }; convert z = y
      ->   divisor d = s; loop { y = whole number x / d between -128 and 127 }; convert z = y

where y becomes i32, and the divisor stands before the outermost loop that leaves it as it is. Every bit is what it was.
A division takes some ten instructions and a reciprocal, a rounding and a truncation one each at a fraction of the rate:
issue slots, and not memory, were what rows of int8 waited for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import frexp

from compiler.dtypes import DType
from compiler.ir.fusion import Literal, Number
from compiler.ir.ops import BITS, MathGrade, OpKind
from compiler.lower.kernel_ir import Compute, Convert, Declare, Elected, If, Loop, Stmt
from compiler.lower.operands import Reg
from compiler.lower.traversal import registers_of, registers_set, walk, with_bodies
from compiler.lower.whole_ir import Divisor, WholeNumber

MOST = 2**21
"""Bounds between which f32 holds halves too, so that a rounding decides as that of the quotient does."""

FEWEST = 4
"""Turns for which a divisor is worth its preparation."""

_POWER_OF_TWO = 0.5
"""The significand of one (`math.frexp`): a division by it is a product."""

_LINKS = frozenset({OpKind.ROUND, OpKind.MAXIMUM, OpKind.MINIMUM})
_INTEGERS = BITS - {DType.BOOL}


def join_whole_numbers(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body with every such chain as one statement, where nothing but casts to integers reads what it makes."""
    if not any(isinstance(s, Compute) and s.kind is OpKind.ROUND for s in walk(body)):
        return body
    chains = {id(one.last): one for one in _chains(body)}
    wanted = _read_as_integers(body, chains.keys())
    chains = {key: one for key, one in chains.items() if one.last.target.name in wanted}
    if not chains:
        return body
    return _Joining(chains, wanted).body(body, ())


@dataclass(frozen=True)
class _Chain:
    """Statements of one body that follow each other; `last` makes the result."""

    links: tuple[Compute, ...]
    low: int
    high: int
    division: Compute | None

    @property
    def last(self) -> Compute:
        return self.links[-1]

    @property
    def before_last(self) -> tuple[Compute, ...]:
        return self.links[:-1]


def _chains(body: tuple[Stmt, ...]) -> Iterator[_Chain]:
    places: dict[str, int] = {}
    named = Counter(name for s in walk(body) for name in registers_of(s))
    declared = {s.name for s in body if isinstance(s, Declare)}
    for place, s in enumerate(body):
        match s:
            case Loop() | Elected():
                yield from _chains(s.body)
            case If():
                yield from _chains(s.then)
                yield from _chains(s.orelse)
            case Compute():
                # What is declared, made and read once in one body nothing else knows of.
                own = {name: at for name, at in places.items() if name in declared and named[name] == _KNOWN_HERE}
                found = _chain(body, place, own)
                if found is not None:
                    yield found
                places[s.target.name] = place
            case _:
                pass


_KNOWN_HERE = 3
"""Times that a register is named which is declared, made and read once."""


def _chain(body: tuple[Stmt, ...], end: int, own: dict[str, int]) -> _Chain | None:
    """The chain whose last statement is that one. `own`: where values are made that are read once."""
    links, first = [body[end]], end
    while (source := _operand(links[0])) is not None and len(links) < len(_LINKS):
        first = own.get(source.name, -1)
        if first < 0:
            return None
        links.insert(0, body[first])
    chain = tuple(s for s in links if isinstance(s, Compute) and s.target.dtype is DType.F32)
    if source is None or {s.kind for s in chain} != _LINKS:
        return None
    bounds = {s.kind: x.value for s in chain for x in s.operands if isinstance(x, Literal)}
    low, high = bounds.get(OpKind.MAXIMUM), bounds.get(OpKind.MINIMUM)
    if low is None or high is None or not -MOST <= low <= 0 <= high <= MOST or low != int(low) or high != int(high):
        return None
    division = body[own[source.name]] if source.name in own else None
    match division:
        case Compute(kind=OpKind.DIV, grade=MathGrade.EXACT, operands=(Reg() as dividend, _)):
            kept = set(registers_set(body[own[source.name] : end]))
            if dividend.name not in kept:
                return _Chain(chain, int(low), int(high), division)
    return None if source.name in set(registers_set(body[first:end])) else _Chain(chain, int(low), int(high), None)


def _operand(s: Stmt) -> Reg | None:
    """The one operand of a link that is no number."""
    if not isinstance(s, Compute) or s.kind not in _LINKS:
        return None
    found = [x for x in s.operands if isinstance(x, Reg)]
    return found[0] if len(found) == 1 else None


def _read_as_integers(body: tuple[Stmt, ...], ends: Iterable[int]) -> frozenset[str]:
    """Arrays that such chains alone make, and casts to integers alone read."""
    known, made = set(ends), set[str]()
    other = set[str]()
    for s in walk(body):
        match s:
            case Compute() if id(s) in known:
                made.add(s.target.name)
                other |= {x.name for x in s.operands if isinstance(x, Reg)}
            case Declare():
                pass
            case Convert() if s.target.dtype in _INTEGERS:
                other.add(s.target.name)
            case Compute(kind=OpKind.CAST) if s.target.dtype in _INTEGERS:
                other.add(s.target.name)
            case _:
                other |= set(registers_of(s))
    return frozenset(made - other)


@dataclass
class _Joining:
    chains: dict[int, _Chain]
    arrays: frozenset[str]
    before: dict[int, list[Divisor]] = field(default_factory=dict)
    count: int = 0

    def body(self, body: tuple[Stmt, ...], loops: tuple[Loop, ...]) -> tuple[Stmt, ...]:
        """`loops`: those around, the outermost first."""
        gone: set[int] = set()
        unused: set[str] = set()
        for s in body:
            chain = self.chains.get(id(s))
            if chain is None:
                continue
            gone |= {id(link) for link in chain.before_last}
            unused |= {link.target.name for link in chain.before_last}
            if chain.division is not None and self._home(chain.division.operands[1], loops) is not None:
                gone.add(id(chain.division))
                unused.add(chain.division.target.name)
        out: list[Stmt] = []
        for s in body:
            if id(s) in gone or (isinstance(s, Declare) and s.name in unused):
                continue
            made = self._statement(s, loops)
            out += self.before.pop(id(s), [])
            out.append(made)
        return tuple(out)

    def _statement(self, s: Stmt, loops: tuple[Loop, ...]) -> Stmt:
        match s:
            case Loop():
                return replace(s, body=self.body(s.body, (*loops, s)))
            case Declare() if s.name in self.arrays:
                return replace(s, dtype=DType.I32)
            case Compute() if id(s) in self.chains:
                return self._whole(self.chains[id(s)], loops)
            case Compute(kind=OpKind.CAST, operands=(Reg() as source,)) if source.name in self.arrays:
                return replace(s, operands=(replace(source, dtype=DType.I32),))
            case Convert(source=source) if source.name in self.arrays:
                return replace(s, source=replace(source, dtype=DType.I32))
            case _:
                return with_bodies(s, lambda inside: self.body(inside, loops))

    def _whole(self, chain: _Chain, loops: tuple[Loop, ...]) -> WholeNumber:
        target = replace(chain.last.target, dtype=DType.I32)
        source = _operand(chain.links[0])
        assert source is not None, "a chain begins with a register"
        if chain.division is None:
            return WholeNumber(target, source, chain.low, chain.high)
        dividend, value = chain.division.operands
        home = self._home(value, loops)
        if home is None:
            return WholeNumber(target, source, chain.low, chain.high)
        assert isinstance(dividend, Reg)
        return WholeNumber(target, dividend, chain.low, chain.high, self._divisor(home, value, chain))

    def _divisor(self, home: Loop, value: Reg | Number, chain: _Chain) -> str:
        """The name of the divisor before that loop, which is made where there is none yet."""
        there = self.before.setdefault(id(home), [])
        for one in there:
            if (one.value, one.low, one.high) == (value, chain.low, chain.high):
                return one.name
        stem = value.name if isinstance(value, Reg) else "number"
        self.count += 1
        name = f"{stem}_divides{self.count}"
        there.append(Divisor(name, value, chain.low, chain.high))
        return name

    def _home(self, value: Reg | Number, loops: tuple[Loop, ...]) -> Loop | None:
        """The outermost loop that leaves the value as it is, and every one inside it; None where turns are few."""
        if isinstance(value, Literal) and abs(frexp(value.value)[0]) == _POWER_OF_TWO:
            return None
        turns, found = 1, None
        for loop in reversed(loops):
            if isinstance(value, Reg) and (
                loop.var in value.offset.variables or value.name in set(registers_set(loop.body))
            ):
                break
            turns *= loop.trip.const if loop.trip.is_const else FEWEST
            found = loop
        return found if turns >= FEWEST else None
