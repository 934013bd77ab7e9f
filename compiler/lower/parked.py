"""Register tensors of which some elements are parked in shared memory (`schedule.steps.Park`).

    x[n]; for k < n/v: x[k v] = global …          ->  x[m]; for k < m/v: x[k v] = global …
                                                       for k < (n-m)/v: parked[k] <- global …   past the registers
    for k < n/v: f(x[k v])                        ->  for k < m/v: f(x[k v]); wait
                                                       for k < (n-m)/v: here = parked[k]; f(here)

A thread reads what it has copied itself, so that it waits for its own copies and no barrier is needed (PTX ISA,
cp.async.wait_all). Neighbouring threads' words lie side by side: no bank is asked twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from compiler.analysis.facts import Facts
from compiler.copies.instruction import lanes
from compiler.errors import Unsupported
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.tensor import TensorView
from compiler.lower.kernel_ir import CopyAsync, Declare, Elected, GlobalLoad, If, Loop, SharedLoad, Stmt
from compiler.lower.operands import Reg, Shared
from compiler.lower.sync_ir import WaitCopies
from compiler.lower.traversal import fields_of, map_exprs, walk, with_bodies


def park_registers(facts: Facts, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body with what its schedule parks in shared memory. Raises Unsupported for a tensor that is not walked vector
    by vector, in unrolled loops."""
    for t in facts.sf.tensors:
        if t.parked:
            body = _Parking(facts, t).of(body)
    return body


@dataclass
class _Parking:
    facts: Facts
    tensor: TensorView
    waits: bool = True
    """Whether no copy has been waited for yet."""
    size: int | None = None
    """Elements of a vector, one turn of the loops over them."""

    def of(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """A body, and each body inside it."""
        out: list[Stmt] = []
        for s in body:
            match s:
                case Declare() if s.name == self.tensor.name:
                    out.append(replace(s, elems=self.tensor.parked))
                case Loop(unroll=True) if (size := self.step(s)) is not None:
                    out += self.split(s, size)
                case Loop() | Elected() | If():
                    out.append(with_bodies(s, self.of))
                case _ if self.offsets(s):
                    raise Unsupported(
                        f"{self.tensor.name}: parked elements outside of unrolled loops", "Do not park it."
                    )
                case _:
                    out.append(s)
        return tuple(out)

    def offsets(self, node: Any) -> list[Expr]:
        """Places at which the tensor is read or written."""
        found: list[Expr] = []

        def note(reg: Reg) -> Reg:
            found.append(reg.offset)
            return reg

        _map_registers(node, self.tensor.name, note)
        return found

    def step(self, loop: Loop) -> int | None:
        """The elements that one turn of a loop goes through, the same in all loops over vectors of the tensor; None for
        another loop, inside or around of those. The variable of a loop of one turn stands in no offset."""
        offsets = self.offsets(loop.body)
        sizes = {dict(offset.terms).get(loop.var, 0) for offset in offsets}
        if self.size is None and len(sizes) == 1 and 0 not in sizes:
            self.size = next(iter(sizes))
        if not offsets or self.size is None:
            return None
        is_one = loop.trip.hi == 1 and len({e // self.size for at in offsets for e in (at.lo, at.hi)}) == 1
        return self.size if sizes == {self.size} or is_one else None

    def split(self, loop: Loop, size: int) -> tuple[Stmt, ...]:
        """The turns on registers, and those on shared memory, as far as there are any."""
        first, turns = self.tensor.parked, loop.trip.hi
        start = min(e.lo for e in self.offsets(loop.body)) // size * size
        if first % size or start % size or not loop.trip.is_const:
            raise Unsupported(
                f"{self.tensor.name}: elements parked from {first} on, in a loop over vectors of {size}",
                "Park whole vectors.",
            )
        count = min(max((first - start) // size, 0), turns)
        if count == turns:
            return (loop,)
        rest = Var(f"{loop.var.name}p", turns - count)
        parked = self.on_shared(_turns(loop, rest, var(rest) + count), var(rest) * size + (start + count * size), size)
        if count == 0:
            return parked
        kept = Var(loop.var.name, count)
        return _turns(loop, kept, var(kept)), *parked

    def on_shared(self, loop: Loop, at: Expr, size: int) -> tuple[Stmt, ...]:
        """A loop whose turns go through parked elements, `size` of them from `at` on."""
        name, width = self.tensor.name, lanes(self.tensor)
        if any(isinstance(s, GlobalLoad) and s.target.name == name for s in walk(loop.body)):
            return (replace(loop, body=self.copied(loop.body)),)
        read = Reg(f"{name}_{loop.var.name}", self.tensor.dtype, const(0))
        loads = tuple(
            SharedLoad(replace(read, offset=const(word)), self.place(at + word), width)
            for word in range(0, size, width)
        )
        used = _map_registers(loop.body, name, lambda reg: replace(read, offset=reg.offset - at))
        waited: tuple[Stmt, ...] = (WaitCopies(0),) if self.waits else ()
        self.waits = False
        return *waited, replace(loop, body=(Declare(read.name, read.dtype, size), *loads, *used))

    def copied(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Loads of the tensor as copies past the registers."""
        out: list[Stmt] = []
        for s in body:
            match s:
                case GlobalLoad() if s.target.name == self.tensor.name:
                    if s.straddles or s.head is not None:
                        raise Unsupported(f"{self.tensor.name}: parked words at odd addresses", "Do not park it.")
                    place = self.place(s.target.offset)
                    out.append(CopyAsync(place, s.tensor, s.offset, s.width, s.cache, s.guards, s.tail, s.within))
                case Loop() | Elected() | If():
                    out.append(with_bodies(s, self.copied))
                case _ if self.offsets(s):
                    raise Unsupported(f"{self.tensor.name}: parked elements used as they are loaded", "Do not park it.")
                case _:
                    out.append(s)
        return tuple(out)

    def place(self, element: Expr) -> Shared:
        """Where the word of the tensor that begins at a parked element lies: [word][thread]."""
        t, width = self.tensor, lanes(self.tensor)
        x, y, z = self.facts.indexing.nest.block()
        thread = var(Var("tx", x)) + var(Var("ty", y)) * x + var(Var("tz", z)) * (x * y)
        word = (element - const(t.parked)) // width
        at = (word * (x * y * z) + thread) * (width * t.dtype.nbytes) + self.facts.smem.parked_at(t.name)
        return Shared(t.name, t.dtype, at)


def _turns(loop: Loop, variable: Var, at: Expr) -> Loop:
    """Those turns of a loop that a variable counts, the loop's own being `at`."""
    body = map_exprs(loop.body, lambda e: e.substitute({loop.var: at}))
    return replace(loop, var=variable, trip=const(variable.extent), body=body)


def _map_registers(node: Any, name: str, f: Callable[[Reg], Reg]) -> Any:
    """The node with every element of one register array replaced."""
    if isinstance(node, Reg):
        return f(node) if node.name == name else node
    if isinstance(node, tuple):
        return tuple([_map_registers(x, name, f) for x in node])
    parts = None if isinstance(node, Expr) else fields_of(type(node))
    return type(node)(*[_map_registers(x, name, f) for x in parts(node)]) if parts is not None else node
