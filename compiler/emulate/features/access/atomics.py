"""atom, red: read-modify-write of global and shared memory (PTX ISA, "atom", "red")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, Reader, UnknownForm, Writer
from compiler.emulate.features.access.forms import AccessForm, access_form
from compiler.emulate.memory.windows import SHARED_WINDOW, WINDOW_BITS
from compiler.emulate.numeric import half
from compiler.emulate.numeric.rounding import canonical
from compiler.emulate.ptx.module import PtxInstruction, Sink, StateSpace
from compiler.emulate.ptx.operands import elements
from compiler.emulate.registry import Run, instruction

Words = npt.NDArray[Any]
Operation = Callable[[Words, Words, Words], Words]
"""(old, b, c) -> new, all unsigned words of one size."""

_OPERATORS = ("add", "inc", "dec", "min", "max", "and", "or", "xor", "exch", "cas")
_BITWISE = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
_SMALLEST_NORMAL = np.float32(2.0**-126)


@instruction("atom")
def atom(insn: PtxInstruction, binder: Binder) -> Run:
    """`atom d, [a], b, c`: `d` gets the old value."""
    return _atomic(insn, binder, insn.operands[0], insn.operands[1], insn.operands[2:])


@instruction("red")
def reduction(insn: PtxInstruction, binder: Binder) -> Run:
    """`red [a], b`: an atomic whose old value nobody takes."""
    if insn.has("async"):
        raise UnknownForm("the asynchronous form of red")
    return _atomic(insn, binder, Sink(), insn.operands[0], insn.operands[1:])


def _atomic(insn: PtxInstruction, binder: Binder, target: Any, place: Any, sources: tuple[Any, ...]) -> Run:
    form = access_form(insn, binder, place)
    operator = next((w for w in insn.name[1:] if w in _OPERATORS), None)
    if operator is None or form.nbytes not in (2, 4, 8) or form.space is StateSpace.LOCAL:
        raise UnknownForm(f"the atomic {'.'.join(insn.name)}")
    unit = form.nbytes
    operation = _operation(operator, form)
    dtype = np.dtype(f"u{unit}")
    address = binder.address(place, insn)
    first = [binder.reader(s, dtype, insn) for s in elements(sources[0])]
    second = [binder.reader(s, dtype, insn) for s in elements(sources[1])] if operator == "cas" else first
    targets = elements(target) if not isinstance(target, Sink) else (target,) * len(first)
    writers = [binder.writer(t, dtype, insn) for t in targets]
    if not len(first) == len(second) == len(writers) == form.count:
        raise UnknownForm(f"a vector of {form.count} elements with {len(first)} registers")
    together = _together(operator, form) if all(isinstance(t, Sink) for t in targets) else None
    steps = [np.uint64(i * unit) for i in range(form.count)]

    def run(active: Active) -> None:
        start = address(active)
        for step, read_b, read_c, write in zip(steps, first, second, writers, strict=True):
            _one(active, insn, form, start + step, read_b, read_c, write, operation, together)

    return run


def _one(
    active: Active,
    insn: PtxInstruction,
    form: AccessForm,
    addresses: Words,
    read_b: Reader,
    read_c: Reader,
    write: Writer,
    operation: Operation,
    together: Callable[[Words, Words, Words], None] | None,
) -> None:
    b = np.broadcast_to(read_b(active), len(active))
    if form.space is StateSpace.GENERIC and form.type == "f32":
        c = (addresses >> WINDOW_BITS) == SHARED_WINDOW >> WINDOW_BITS
    else:
        c = np.broadcast_to(read_c(active), len(active))

    def compute(old: Words, which: npt.NDArray[np.intp]) -> Words:
        return operation(old, b[which], c[which])

    accumulate = None
    if together is not None:
        apply = together

        def accumulate(words: Words, at: npt.NDArray[np.int64], which: npt.NDArray[np.intp]) -> None:
            apply(words, at, b[which])

    old = active.machine.memory.update(
        active,
        insn,
        form.space,
        addresses,
        form.nbytes,
        compute,
        semantics=form.semantics,
        accumulate=accumulate,
    )
    write(active, old)


def _operation(operator: str, form: AccessForm) -> Operation:
    kind, unit = form.type, form.nbytes
    word = np.dtype(f"u{unit}")
    if operator in _BITWISE:
        bitwise = _BITWISE[operator]
        return lambda old, b, c: bitwise(old, b)
    if operator == "exch":
        return lambda old, b, c: b
    if operator == "cas":
        return lambda old, b, c: np.where(old == b, c, old)
    if operator == "inc":
        return lambda old, b, c: np.where(old >= b, word.type(0), old + word.type(1))
    if operator == "dec":
        return lambda old, b, c: np.where((old == 0) | (old > b), b, old - word.type(1))
    if kind in _FLOATS:
        return _FLOATS[kind](operator, form)
    if kind.startswith(("u", "s", "b")):
        view = np.dtype(f"i{unit}") if kind.startswith("s") else word
        if operator == "add":
            return lambda old, b, c: old + b
        pick = np.minimum if operator == "min" else np.maximum
        return lambda old, b, c: pick(old.view(view), np.ascontiguousarray(b).view(view)).view(word)
    raise UnknownForm(f"an atomic {operator} of .{kind}")


def _f32(operator: str, form: AccessForm) -> Operation:
    """atom.add.f32 takes subnormals for zero in global memory, not in shared memory (PTX ISA, "atom").

    NaN is canonical. For generic addresses the third operand says which lanes are in shared memory; both measured on
    an H200.
    """
    if operator != "add":
        raise UnknownForm(f"an atomic {operator} of .f32")
    space = form.space

    def add(old: Words, b: Words, c: Words) -> Words:
        x, y = old.view(np.float32), np.ascontiguousarray(b).view(np.float32)
        if space is StateSpace.SHARED:
            return canonical(x + y).view(np.uint32)
        flushed = _flushed(_flushed(x) + _flushed(y))
        if space is StateSpace.GENERIC:
            flushed = np.where(c != 0, x + y, flushed)
        return canonical(flushed).view(np.uint32)

    return add


def _flushed(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.where(np.abs(values) < _SMALLEST_NORMAL, np.copysign(np.float32(0), values), values)


def _f64(operator: str, form: AccessForm) -> Operation:
    if operator != "add":
        raise UnknownForm(f"an atomic {operator} of .f64")
    return lambda old, b, c: (old.view(np.float64) + np.ascontiguousarray(b).view(np.float64)).view(np.uint64)


_HALF_OPERATORS = {"add": half.add, "min": half.minimum, "max": half.maximum}


def _halves(format_: half.Half) -> Callable[[str, AccessForm], Operation]:
    """16-bit floats, alone or two a word."""

    def make(operator: str, form: AccessForm) -> Operation:
        function = _HALF_OPERATORS.get(operator)
        if function is None:
            raise UnknownForm(f"an atomic {operator} of .{form.type}")

        def compute(old: Words, b: Words, c: Words) -> Words:
            x, y = (np.ascontiguousarray(v).view(np.uint16) for v in (old, b))
            return np.ascontiguousarray(function(format_, x, y)).view(old.dtype)

        return compute

    return make


_FLOATS: dict[str, Callable[[str, AccessForm], Operation]] = {
    "f32": _f32,
    "f64": _f64,
    "f16": _halves(half.F16),
    "f16x2": _halves(half.F16),
    "bf16": _halves(half.BF16),
    "bf16x2": _halves(half.BF16),
}


def _together(operator: str, form: AccessForm) -> Callable[[Words, Words, Words], None] | None:
    """All lanes at once, where the old values are not needed and the order of lanes changes nothing, or is kept."""
    kind, unit = form.type, form.nbytes
    if operator in _BITWISE:
        bitwise = _BITWISE[operator]
        return lambda words, at, b: bitwise.at(words, at, b)
    if kind.startswith(("u", "s", "b")) and not kind.startswith("bf") and operator in ("add", "min", "max"):
        view = np.dtype(f"i{unit}") if kind.startswith("s") else np.dtype(f"u{unit}")
        function = {"add": np.add, "min": np.minimum, "max": np.maximum}[operator]
        return lambda words, at, b: function.at(words.view(view), at, np.ascontiguousarray(b).view(view))
    return None
