"""Changes to one statement of a kernel that make it wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from compiler.ir.expr import const
from compiler.lower.kernel_ir import Elected, If, Kernel, Loop, Stmt
from compiler.lower.operands import Barrier
from compiler.lower.sync_ir import WaitBarrier
from compiler.lower.traversal import walk

Change = Callable[[Stmt], tuple[Stmt, ...]]

HALT = WaitBarrier(Barrier(const(-1)), const(0))
"""No kernel gets past this."""


def mutants(kernel: Kernel, applies: Callable[[Stmt], bool], change: Change) -> Iterator[tuple[Stmt, Kernel, Kernel]]:
    """For every statement to which the change applies: it, the kernel with it changed, the kernel that ends there.

    The last one tells whether the statement is executed at all.
    """
    for number, s in enumerate(walk(kernel.body)):
        if applies(s):
            yield s, changed_at(kernel, number, change), changed_at(kernel, number, lambda _: (HALT,))


def changed_at(kernel: Kernel, number: int, change: Change) -> Kernel:
    """The kernel with its statement `number` (in the order of `walk`) changed."""
    body, _ = _changed(kernel.body, number, change)
    return replace(kernel, body=body)


def _changed(body: tuple[Stmt, ...], number: int, change: Change) -> tuple[tuple[Stmt, ...], int]:
    """The body with its statement `number` (in the order of `walk`) changed, and the number left after it."""
    out: list[Stmt] = []
    for s in body:
        number -= 1
        if number == -1:
            out += change(s)
            continue
        inside: dict[str, Any] = {}
        for field in {Loop: ("body",), Elected: ("body",), If: ("then", "orelse")}.get(type(s), ()):
            if number >= 0:
                inside[field], number = _changed(getattr(s, field), number, change)
        out.append(replace(s, **inside) if inside else s)
    return tuple(out), number
