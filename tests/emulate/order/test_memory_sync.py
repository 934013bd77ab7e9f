"""Synchronisation through memory: flags, locks, the last block, fences and their scopes."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.emulate.order.order import Access, GlobalHistory, Order
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.report import Report
from compiler.emulate.threads import Threads
from tests.emulate.order.happens_before import instruction, region

READ, WRITE, ATOMIC = Access.READ, Access.WRITE, Access.ATOMIC


class Run:
    """Blocks of 32 threads in one or more batches, that pass `x` to one another by `flag`; steps as words.

    A step is `LANE:what`: w r (x), sw sr a (flag, strong: write, read, atomic), rel acq acqrel (flag, with semantics),
    with `.cta` for that scope; f f.cta (fences); p (a proxy fence), c (a copy of x by the async proxy);
    `bar` is the barrier of each block; `next` starts the next batch.
    """

    def __init__(self, blocks: int, per_batch: int, where: StateSpace = StateSpace.GLOBAL) -> None:
        self.report, self.history = Report(), GlobalHistory()
        self.x, self.flag = region("x", 64), region("flag", 64, where)
        self.blocks, self.per_batch, self.first, self.line = blocks, per_batch, 0, 0
        self._start()

    def _start(self) -> None:
        members = tuple(range(self.first, self.first + self.per_batch))
        self.threads = Threads((self.blocks, 1, 1), (32, 1, 1), (1, 1, 1), members)
        self.order = Order(self.threads, self.report, history=self.history, memory_sync=True)

    def run(self, steps: str) -> int:
        """How many races there are."""
        for step in steps.split():
            self.line += 1
            if step == "next":
                self.order.flush()
                self.first += self.per_batch
                self._start()
            elif step == "bar":
                self.order.barrier(self.threads.real, self.threads.slot)
            else:
                lane, what = step.split(":")
                self._one(np.array([int(lane)]), what)
        self.order.flush()
        return len(self.report.faults)

    def _one(self, lane: np.ndarray[tuple[int], np.dtype[np.intp]], what: str) -> None:
        word, _, scope = what.partition(".")
        name = ("ld", scope) if scope else ("ld",)
        insn = PtxInstruction(name, (), self.line, what)
        at = np.zeros(1, np.int64)
        match word:
            case "w" | "r":
                self.order.access(self.x, WRITE if word == "w" else READ, insn, lane, at, 4)
            case "sw" | "sr" | "a":
                access = {"sw": WRITE, "sr": READ, "a": ATOMIC}[word]
                self.order.access(self.flag, access, insn, lane, at, 4, strong=True)
            case "rel" | "acq" | "acqrel":
                access = {"rel": WRITE, "acq": READ, "acqrel": ATOMIC}[word]
                semantics = {"rel": "release", "acq": "acquire", "acqrel": "acq_rel"}[word]
                self.order.access(self.flag, access, insn, lane, at, 4, strong=True, semantics=semantics)
            case "f":
                self.order.fence(lane, scope or "gpu")
            case "p":
                self.order.proxy_fence(lane)
            case "c":
                self.order.actor_access(self.order.start(int(lane[0])), self.x, READ, insn, at, 4)


@pytest.mark.parametrize(
    ("steps", "races"),
    [
        # A flag: both fences are needed, in their places.
        ("0:w 0:f 0:sw 32:sr 32:f 32:r", 0),
        ("0:w 0:sw 32:sr 32:f 32:r", 1),
        ("0:w 0:f 0:sw 32:sr 32:r", 1),
        ("0:f 0:w 0:sw 32:sr 32:f 32:r", 1),
        ("0:w 0:f 0:sw 32:f 32:sr 32:r", 1),
        # Release and acquire do without.
        ("0:w 0:rel 32:acq 32:r", 0),
        ("0:w 0:rel 32:sr 32:r", 1),
        ("0:w 0:sw 32:acq 32:r", 1),
        ("0:rel 0:w 32:acq 32:r", 1),
        ("32:acq 0:w 0:rel 32:r", 1),
        ("0:w 0:f 0:sw 32:acq 32:r", 0),
        ("0:w 0:rel 32:sr 32:f 32:r", 0),
        # An atomic hands on, a strong write does not.
        ("0:w 0:rel 40:a 32:acq 32:r", 0),
        ("0:w 0:rel 40:sw 32:acq 32:r", 1),
        ("0:w 0:acqrel 64:acqrel 32:acqrel 32:r", 0),
        # A chain: who acquired may release on.
        ("0:w 0:rel 32:acq 32:rel 64:acq 64:r", 0),
        ("0:w 0:f 0:sw 32:sr 32:f 32:sw 64:sr 64:f 64:r", 0),
        ("0:w 0:f 0:sw 32:sr 32:sw 64:sr 64:f 64:r", 1),
        # The last block: partial results of all threads, the fence of each, one ticket a block.
        ("0:w 0:f bar 1:f 1:a 33:a bar 40:r", 0),
        ("0:w 0:f bar 1:a 33:a bar 40:r", 0),
        ("0:w bar 1:a 33:a bar 40:r", 1),
        ("0:w bar 1:f 1:a 33:a bar 40:r", 0),
        # A lock.
        ("0:a 0:f 0:w 0:f 0:a 32:a 32:f 32:w 32:f 32:a", 0),
        ("0:a 0:w 0:f 0:a 32:a 32:w 32:f 32:a", 1),
        ("0:a 0:f 0:w 0:a 32:a 32:f 32:w 32:a", 1),
        # Scopes: of a block, only for its own threads.
        ("0:w 0:f.cta 0:sw 1:sr 1:f.cta 1:r", 0),
        ("0:w 0:f.cta 0:sw 32:sr 32:f 32:r", 1),
        ("0:w 0:f 0:sw 32:sr 32:f.cta 32:r", 1),
        ("0:w 0:rel.cta 1:acq.cta 1:r", 0),
        ("0:w 0:rel.cta 32:acq 32:r", 1),
        ("0:w 0:rel 32:acq.cta 32:r", 1),
        ("0:w 0:f.cta 0:f 0:sw 32:sr 32:f.cta 32:f 32:r", 0),
        # The async proxy also needs its fence, on either side.
        ("0:w 0:p 0:rel 32:acq 32:c", 0),
        ("0:w 0:rel 32:acq 32:p 32:c", 0),
        ("0:w 0:rel 32:acq 32:c", 1),
        ("0:w 0:p 0:f 0:sw 32:sr 32:f 32:c", 0),
        ("0:w 0:f 0:p 0:sw 32:sr 32:f 32:c", 0),
    ],
)
def test_passing_data_by_a_flag(steps: str, races: int) -> None:
    assert Run(3, 3).run(steps) == races


@pytest.mark.parametrize(
    ("steps", "races"),
    [
        ("0:w 0:f 0:a next 0:a 0:f 0:r", 0),
        ("0:w 0:f 0:a next 0:a 0:r", 1),
        ("0:w 0:a next 0:a 0:f 0:r", 1),
        ("0:w 0:rel next 0:acqrel next 0:acq bar 5:r", 0),
        ("0:w next 0:acqrel next 0:acq bar 5:r", 1),
        ("0:w 0:p 0:rel next 0:acq 0:c", 0),
        ("0:w 0:rel next 0:acq 0:c", 1),
    ],
)
def test_releases_outlive_their_batch(steps: str, races: int) -> None:
    assert Run(3, 1).run(steps) == races


def test_flags_in_shared_memory() -> None:
    assert Run(1, 1, StateSpace.SHARED).run("0:w 0:f.cta 0:sw 9:sr 9:f.cta 9:r") == 0
    assert Run(1, 1, StateSpace.SHARED).run("0:w 0:sw 9:sr 9:f.cta 9:r") == 1


def test_the_last_of_many_blocks_knows_all_the_others() -> None:
    blocks = 40
    report, history, data, flag = Report(), GlobalHistory(), region("x", 4 * 32 * blocks), region("flag", 16)
    for first in range(0, blocks, 8):
        threads = Threads((blocks, 1, 1), (32, 1, 1), (1, 1, 1), tuple(range(first, first + 8)))
        order = Order(threads, report, history=history, memory_sync=True)
        leaders = np.arange(8) * 32
        offsets = (threads.real + first * 32) * 4
        order.access(data, WRITE, instruction(1), threads.real, offsets, 4)
        order.fence(threads.real)
        order.barrier(threads.real, threads.slot)
        order.access(flag, ATOMIC, instruction(2), leaders, np.zeros(8, np.int64), 4, strong=True)
        order.barrier(threads.real, threads.slot)
        if first + 8 == blocks:
            last = np.arange(7 * 32, 8 * 32)
            for n in range(blocks):
                order.access(data, READ, instruction(3), last, (n * 32 + np.arange(32)) * 4, 4)
        order.flush()
    assert report.faults == ()


def test_a_fence_needs_an_order_that_knows_of_memory() -> None:
    order = Order(Threads((1, 1, 1), (32, 1, 1), (1, 1, 1), (0,)), Report())
    with pytest.raises(ValueError, match="memory_sync"):
        order.fence(np.array([0]))
