"""A kernel made ready to run: instructions bound to functions, in basic blocks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from compiler.emulate import features  # noqa: F401 - registers the instructions
from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, Reader, UnknownForm
from compiler.emulate.ptx.flow import flow
from compiler.emulate.ptx.module import Function, LabelRef, PtxInstruction, PtxSymbol
from compiler.emulate.registry import Collective, Run, Step, build
from compiler.emulate.report import FaultKind, Halt
from compiler.emulate.unassigned import followed

_LEAVING = ("ret", "exit")


@dataclass(frozen=True, slots=True)
class Branch:
    """Where lanes go: `targets[0]`, or `targets[index]` of a table. `guard` tells which lanes branch, None for all."""

    insn: PtxInstruction
    targets: tuple[int, ...]
    guard: Reader | None = None
    index: Reader | None = None


@dataclass(frozen=True, slots=True)
class Exit:
    """Lanes end here; `guard` tells which, None for all."""

    insn: PtxInstruction
    guard: Reader | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """A collective; lanes that `guard` leaves out pass it by."""

    step: Collective
    guard: Reader | None = None


End = Branch | Exit | Wait


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Instructions `start` to `stop` (exclusive) run one after another; `end`, if any, is the one at `stop` - 1.

    `classes`: how many instructions of each class it has, for the counters.
    """

    start: int
    stop: int
    plain: tuple[Run, ...]
    end: End | None
    classes: tuple[tuple[str, int], ...]


class BoundProgram:
    """A function bound for running. `blocks[i]` is the basic block that starts at instruction `starts` i, by index.

    `position[i]` orders instructions so that lanes meet again after a divergence (`ptx.flow`).
    `synchronises_through_memory`: some instruction orders accesses of its thread to memory that others may see.
    `uses_async_proxy`: some instruction starts an operation of the async proxy.
    """

    def __init__(self, function: Function, symbols: dict[str, int], target: str) -> None:
        graph = flow(function)
        binder = Binder(function, symbols, graph.maybe_unassigned, target)
        self.function = function
        self.checked = graph.maybe_unassigned
        self.synchronises_through_memory = any(_orders_memory(i) for i in function.instructions)
        self.uses_async_proxy = any(_is_of_async_proxy(i) for i in function.instructions)
        count = len(function.instructions)
        self.position = (*graph.position, count)
        ends: dict[int, End] = {}
        plain: dict[int, Run] = {}
        for index, insn in enumerate(function.instructions):
            bound = _bound(insn, binder, function)
            if isinstance(bound, (Branch, Exit, Wait)):
                ends[index] = bound
            else:
                plain[index] = bound
        leaders = sorted(
            {0, count, *graph.leaders, *(i + 1 for i in ends), *(i for i, e in ends.items() if isinstance(e, Wait))}
        )
        self.blocks = {start: _block(function, start, stop, plain, ends) for start, stop in pairwise(leaders)}


def _orders_memory(insn: PtxInstruction) -> bool:
    """Fences, and releases and acquires of ordinary memory (PTX ISA, "Memory Consistency Model")."""
    if insn.opcode in ("fence", "membar"):
        return not insn.has("proxy", "mbarrier_init")
    return insn.opcode in ("ld", "st", "atom", "red") and insn.has("acquire", "release", "acq_rel")


def _is_of_async_proxy(insn: PtxInstruction) -> bool:
    """Bulk and tensor copies, tensor memory, and products of warpgroups (PTX ISA, "cp.async.bulk", "tcgen05", "wgmma":
    async proxy). `cp.async` and `st.async` run beside their thread too, in the generic proxy."""
    return insn.has("bulk") or insn.opcode in ("tcgen05", "wgmma")


def _block(function: Function, start: int, stop: int, plain: dict[int, Run], ends: dict[int, End]) -> BasicBlock:
    classes = Counter(instruction_class(i) for i in function.instructions[start:stop])
    return BasicBlock(
        start,
        stop,
        tuple(plain[i] for i in range(start, stop) if i in plain),
        ends.get(stop - 1),
        tuple(sorted(classes.items())),
    )


def _bound(insn: PtxInstruction, binder: Binder, function: Function) -> Run | End:
    try:
        guard = _guard(insn, binder)
        if insn.opcode == "bra":
            return Branch(insn, (_target(insn),), guard)
        if insn.opcode == "brx":
            index, table = insn.operands
            assert isinstance(table, (LabelRef, PtxSymbol))
            return Branch(insn, function.branch_tables[table.name], guard, binder.reader(index, np.uint32, insn))
        if insn.opcode in _LEAVING:
            return Exit(insn, guard)
        step: Step = build(insn, binder)
    except UnknownForm as problem:
        return _refusal(insn, str(problem))
    if isinstance(step, Collective):
        step.insn = insn
        return Wait(step, guard)
    step = followed(insn, step, binder.checked)
    return step if guard is None else _guarded(step, guard)


def _target(insn: PtxInstruction) -> int:
    (label,) = insn.operands
    assert isinstance(label, LabelRef)
    return label.target


def _guard(insn: PtxInstruction, binder: Binder) -> Reader | None:
    if insn.guard is None:
        return None
    read = binder.reader(insn.guard, np.bool_, insn)
    return (lambda a: ~read(a)) if insn.guard_negated else read


def _guarded(step: Run, guard: Reader) -> Run:
    def run(active: Active) -> None:
        taken = guard(active)
        if taken.all():
            step(active)
        elif taken.any():
            step(active.at(taken))

    return run


def _refusal(insn: PtxInstruction, problem: str) -> Run:
    """An instruction that is not known: running on without it would be a guess, so the run ends when it is reached."""

    def run(active: Active) -> None:
        active.fault(
            FaultKind.UNSUPPORTED_INSTRUCTION,
            insn,
            f"The emulator does not know {problem}. Nothing after it was run; run this kernel on a card.",
        )
        raise Halt

    return run


_CLASSES = {
    "ld": "load",
    "ldu": "load",
    "st": "store",
    "atom": "atomic",
    "red": "atomic",
    "bra": "control",
    "brx": "control",
    "ret": "control",
    "exit": "control",
    "call": "control",
    "bar": "barrier",
    "barrier": "barrier",
    "mbarrier": "mbarrier",
    "cp": "copy",
    "fence": "fence",
    "membar": "fence",
    "shfl": "warp",
    "vote": "warp",
    "match": "warp",
    "redux": "warp",
    "elect": "warp",
    "activemask": "warp",
    "tcgen05": "tensor_memory",
    "ldmatrix": "matrix",
    "stmatrix": "matrix",
    "movmatrix": "matrix",
    "mma": "product",
    "wgmma": "fence",
    "cvt": "convert",
    "mov": "move",
    "cvta": "move",
    "setp": "predicate",
    "set": "predicate",
    "selp": "predicate",
    "slct": "predicate",
    "ex2": "special_function",
    "lg2": "special_function",
    "rcp": "special_function",
    "rsqrt": "special_function",
    "sqrt": "special_function",
    "sin": "special_function",
    "cos": "special_function",
    "tanh": "special_function",
}
_PRODUCTS = {("wgmma", "mma_async"), ("tcgen05", "mma")}
_FLOATS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64", "tf32")


def instruction_class(insn: PtxInstruction) -> str:
    """The class under which an instruction is counted; arithmetic is `float` or `integer`."""
    if insn.name[:2] in _PRODUCTS:
        return "product"
    known = _CLASSES.get(insn.opcode)
    if known is not None:
        return known
    return "float" if insn.name[-1] in _FLOATS else "integer"
