"""mbarrier instructions (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier")."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.features.copy_forms import shared_or_generic
from compiler.emulate.features.mbarrier.engine import MBarriers
from compiler.emulate.features.mbarrier.state import state_pending
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.registry import Run, instruction


@instruction("mbarrier.init")
def init(insn: PtxInstruction, binder: Binder) -> Run:
    """`mbarrier.init [bar], count`."""
    space, address = shared_or_generic(insn), binder.address(insn.operands[0], insn)
    count = binder.reader(insn.operands[1], np.uint32, insn)
    return lambda a: a.machine.engine(MBarriers).init(a, insn, space, address(a), count(a))


@instruction("mbarrier.inval")
def inval(insn: PtxInstruction, binder: Binder) -> Run:
    """`mbarrier.inval [bar]`."""
    space, address = shared_or_generic(insn), binder.address(insn.operands[0], insn)
    return lambda a: a.machine.engine(MBarriers).inval(a, insn, space, address(a))


@instruction("mbarrier.arrive", "mbarrier.arrive_drop")
def arrive(insn: PtxInstruction, binder: Binder) -> Run:
    """`mbarrier.arrive state, [bar]{, count}`, `arrive_drop`; with `.expect_tx` the last operand is the bytes.

    The default semantics is release; `.relaxed` hands nothing over. The scope changes nothing here.
    """
    space, address = shared_or_generic(insn), binder.address(insn.operands[1], insn)
    write = binder.writer(insn.operands[0], np.uint64, insn)
    given = binder.reader(insn.operands[2], np.uint32, insn) if len(insn.operands) > 2 else None
    expects = insn.has("expect_tx")
    drops, releases, completes = insn.name[1] == "arrive_drop", not insn.has("relaxed"), not insn.has("noComplete")
    if expects and given is None:
        raise UnknownForm("expect_tx without a number of bytes")

    def run(active: Active) -> None:
        value = given(active) if given is not None else None
        states = active.machine.engine(MBarriers).arrive(
            active,
            insn,
            space,
            address(active),
            1 if expects or value is None else value,
            value if expects else None,
            drops=drops,
            releases=releases,
            completes=completes,
        )
        write(active, states)

    return run


@instruction("mbarrier.expect_tx")
def expect_tx(insn: PtxInstruction, binder: Binder) -> Run:
    """`mbarrier.expect_tx [bar], bytes`."""
    space, address = shared_or_generic(insn), binder.address(insn.operands[0], insn)
    nbytes = binder.reader(insn.operands[1], np.uint32, insn)
    return lambda a: a.machine.engine(MBarriers).expect(a, insn, space, address(a), nbytes(a))


@instruction("mbarrier.complete_tx")
def complete_tx(insn: PtxInstruction, binder: Binder) -> Run:
    """`mbarrier.complete_tx [bar], bytes`."""
    space, address = shared_or_generic(insn), binder.address(insn.operands[0], insn)
    nbytes = binder.reader(insn.operands[1], np.uint32, insn)
    return lambda a: a.machine.engine(MBarriers).complete(a, insn, space, address(a), nbytes(a))


@instruction("mbarrier.test_wait", "mbarrier.try_wait")
def wait(insn: PtxInstruction, binder: Binder) -> Run:
    """`mbarrier.try_wait done, [bar], state{, hint}`, `.parity` forms, `test_wait`.

    They do not block: a `try_wait` may give up after a time of its own choice, so it always may return false.
    """
    space, address = shared_or_generic(insn), binder.address(insn.operands[1], insn)
    write = binder.writer(insn.operands[0], np.bool_, insn)
    by_parity, acquires, suspends = insn.has("parity"), not insn.has("relaxed"), insn.name[1] == "try_wait"
    read = binder.reader(insn.operands[2], np.uint32 if by_parity else np.uint64, insn)

    def run(active: Active) -> None:
        wanted: Any = read(active)
        done = active.machine.engine(MBarriers).test(
            active,
            insn,
            space,
            address(active),
            parity=wanted & 1 if by_parity else None,
            state=None if by_parity else wanted,
            acquires=acquires,
            suspends=suspends,
        )
        write(active, done)

    return run


@instruction("mbarrier.pending_count")
def pending_count(insn: PtxInstruction, binder: Binder) -> Run:
    """`mbarrier.pending_count count, state`."""
    write = binder.writer(insn.operands[0], np.uint32, insn)
    state = binder.reader(insn.operands[1], np.uint64, insn)
    return lambda a: write(a, state_pending(state(a)))
