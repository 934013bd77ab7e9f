"""Random programs: the races that are reported are those of a graph of events, whenever the log is checked."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from compiler.emulate.order.order import Access, Actor, GlobalHistory, Order, Token
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.report import Report
from compiler.emulate.threads import Threads
from tests.emulate.order.happens_before import Graph, Touch, instruction, region

_THREADS = 3
"""Threads of a block that take part; lanes 0, 1, 2 and, of the second block, 32, 33, 34."""

_ACCESSES = (Access.READ, Access.WRITE, Access.ATOMIC)


@dataclass
class _Operation:
    actor: Actor
    events: dict[int, int]
    is_async: bool
    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    is_closed: bool = False
    pending: list[tuple[int, int]] = field(default_factory=list)


class _Program:
    """Runs steps on an Order and writes them down in a graph."""

    def __init__(self, cluster: int, space: StateSpace) -> None:
        self.threads = Threads((2, 1, 1), (_THREADS, 1, 1), (cluster, 1, 1), (0, 1))
        self.report = Report()
        self.order = Order(self.threads, self.report, history=GlobalHistory())
        self.graph = Graph()
        self.lanes = self.threads.real
        self.last = {lane: self.graph.event() for lane in self.lanes.tolist()}
        self.tokens: list[tuple[Token, list[int]]] = []
        self.operations: list[_Operation] = []
        self.copies: list[_Operation] = []
        copies = 2 if space is StateSpace.SHARED else 1
        self.regions = [region(f"r{n}", 16, space, copies) for n in range(2)]
        self.steps = 0

    def run(self, name: str, *numbers: int) -> None:
        """One step: the method of that name, with numbers that say what exactly."""
        self.steps += 1
        getattr(self, name)(*numbers)

    def step(self, lane: int, *before: int, is_fence: bool = False) -> int:
        self.last[lane] = self.graph.event(self.last[lane], *before, is_fence=is_fence)
        return self.last[lane]

    def some(self, mask: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        chosen = np.flatnonzero([(mask >> i) & 1 for i in range(len(self.lanes))])
        return self.lanes[chosen] if len(chosen) else self.lanes[mask % len(self.lanes) :][:1]

    def offsets(self, lanes: np.ndarray, where: int, spread: bool) -> tuple[np.ndarray, int]:
        nbytes = (1, 2, 4)[where % 3]
        first = where // 3 % 4 // nbytes * nbytes if where & 1 else 0
        offsets = np.full(len(lanes), first)
        if spread:
            offsets = (offsets + np.arange(len(lanes)) * nbytes) % 8
        return offsets.astype(np.int64), nbytes

    def note(self, event: int, who: object, number: int, offset: int, nbytes: int, access: Access, **more: Any) -> None:
        known: dict[str, Any] = {
            "is_strong": False,
            "is_async": False,
            "value": None,
            "issued": self.order.time,
            **more,
        }
        places = range(offset, offset + nbytes)
        self.graph.touches.append(Touch(event, who, self.steps, self.regions[number].name, places, access, **known))

    def shuns(self, how: int, first: int) -> bool:
        """Takes accesses from the `first` on back if they race, except now and then: programs with too many races show
        little of what is ordered."""
        if how % 6 == 0 or not self.graph.races(first):
            return False
        del self.graph.touches[first:]
        return True

    # Steps.

    def access(self, mask: int, what: int, where: int, how: int) -> None:
        lanes = self.some(mask % 64 if how & 1 else 1 << mask % 6)
        access, is_strong = _ACCESSES[what % 3], bool(how & 2) and access_may_be_strong(what)
        offsets, nbytes = self.offsets(lanes, where, bool(how & 4))
        number = how >> 3 & 1
        values = (np.arange(len(lanes)) % 2 if how & 16 else np.zeros(len(lanes))).astype(f"u{nbytes}")
        before = dict(self.last), len(self.graph.touches)
        for lane, offset, value in zip(lanes.tolist(), offsets.tolist(), values.tolist(), strict=True):
            event = self.step(lane)
            self.note(event, lane, number, offset, nbytes, access, is_strong=is_strong, value=value)
        if self.shuns(how, before[1]):
            self.last = before[0]
            return
        self.order.access(
            self.regions[number], access, self.insn, lanes, offsets, nbytes, strong=is_strong, values=values[:, None]
        )

    @property
    def insn(self) -> PtxInstruction:
        return instruction(self.steps)

    def barrier(self, mask: int, what: int, where: int, how: int) -> None:
        lanes = self.some(mask % 64)
        slots = self.threads.slot[lanes]
        groups = slots if self.threads.cluster_blocks == 1 or how & 1 else np.zeros_like(slots)
        if how & 2:
            lanes, groups = lanes[slots == slots[0]], groups[slots == slots[0]]
        for group in set(groups.tolist()):
            some = lanes[groups == group].tolist()
            event = self.graph.event(*(self.last[lane] for lane in some))
            self.last.update(dict.fromkeys(some, event))
        self.order.barrier(lanes, groups)

    def release(self, mask: int, what: int, where: int, how: int) -> None:
        lanes = self.some(mask % 64)
        self.tokens.append((self.order.release(lanes), [self.step(lane) for lane in lanes.tolist()]))
        if how & 1 and len(self.tokens) > 1:
            (one, events), (other, more) = self.tokens[-2:]
            self.tokens.append((self.order.join([one, other]), events + more))

    def acquire(self, mask: int, what: int, where: int, how: int) -> None:
        if not self.tokens:
            return
        token, events = self.tokens[what % len(self.tokens)]
        lanes = self.some(mask % 64 if how & 1 else 1 << mask % 6)
        for lane in lanes.tolist():
            self.step(lane, *events)
        self.order.acquire(lanes, token)

    def fence(self, mask: int, what: int, where: int, how: int) -> None:
        lanes = self.some(mask % 64)
        for lane in lanes.tolist():
            self.step(lane, is_fence=True)
        self.order.proxy_fence(lanes)

    def start(self, mask: int, what: int, where: int, how: int) -> None:
        lane = int(self.lanes[mask % 6])
        event = self.step(lane)
        is_async = how % 4 != 0
        actor = self.order.start(lane, uses_async_proxy=is_async)
        self.operations.append(_Operation(actor, {lane: event}, is_async))

    def touch(self, mask: int, what: int, where: int, how: int) -> None:
        open_ones = [o for o in self.operations if not o.is_closed]
        if not open_ones:
            return
        operation = open_ones[mask % len(open_ones)]
        access = _ACCESSES[what % 3]
        offsets, nbytes = self.offsets(np.arange(1 + how % 2), where, True)
        (start,) = operation.events.values()
        number = how >> 3 & 1
        before = len(self.graph.touches)
        events = operation.reads if access is Access.READ else operation.writes
        for offset in offsets.tolist():
            event = self.graph.event(start)
            events.append(event)
            self.note(
                event,
                operation.actor,
                number,
                offset,
                nbytes,
                access,
                is_async=operation.is_async,
                issued=operation.actor.issued,
            )
        if self.shuns(how, before):
            del events[-len(offsets) :]
            return
        self.order.actor_access(operation.actor, self.regions[number], access, self.insn, offsets, nbytes)

    def finish(self, mask: int, what: int, where: int, how: int) -> None:
        if not self.operations:
            return
        operation = self.operations[mask % len(self.operations)]
        source_only = how % 4 == 0 and not operation.is_closed
        operation.is_closed = True
        token = self.order.finish(operation.actor, source_only=source_only)
        events = [*operation.events.values(), *operation.reads, *([] if source_only else operation.writes)]
        self.tokens.append((token, events))

    def copy(self, mask: int, what: int, where: int, how: int) -> None:
        lanes = self.some(mask % 64)
        lanes = lanes[self.threads.slot[lanes] == self.threads.slot[lanes[0]]]
        events = {lane: self.step(lane) for lane in lanes.tolist()}
        operation = _Operation(self.order.start_copies(lanes), events, False)
        self.copies.append(operation)
        offsets, nbytes = self.offsets(lanes, where, bool(how & 1))
        operation.pending = [(offset, nbytes) for offset in offsets.tolist()]
        if how & 2:
            self.land(operation, how)

    def land(self, operation: _Operation, how: int) -> None:
        if operation.is_closed:
            return
        operation.is_closed = True
        before, starts = len(self.graph.touches), dict(operation.events)
        nbytes = operation.pending[0][1]
        offsets = np.array([o for o, _ in operation.pending])
        for (lane, start), offset in zip(operation.events.items(), offsets.tolist(), strict=True):
            event = self.graph.event(start)
            operation.events[lane] = event
            self.note(event, (operation.actor, lane), 0, offset, nbytes, Access.WRITE, issued=operation.actor.issued)
        if self.shuns(how, before):
            operation.events = starts
            return
        self.order.actor_access(operation.actor, self.regions[0], Access.WRITE, self.insn, offsets, nbytes)

    def wait(self, mask: int, what: int, where: int, how: int) -> None:
        """Copies complete in order: who waits for one waits for all that its thread issued before."""
        if not self.copies:
            return
        count = what % len(self.copies) + 1
        for operation in self.copies[:count]:
            self.land(operation, how)
        operation = self.copies[count - 1]
        before = {lane: [o.events[lane] for o in self.copies[:count] if lane in o.events] for lane in operation.events}
        lanes = np.array(sorted(operation.events))
        if how & 1:
            self.tokens.append((self.order.finish(operation.actor), [e for es in before.values() for e in es]))
            return
        for lane, events in before.items():
            self.step(lane, *events)
        self.order.finish_copies(operation.actor, lanes)

    def flush(self, mask: int, what: int, where: int, how: int) -> None:
        self.order.flush()


def access_may_be_strong(what: int) -> bool:
    return _ACCESSES[what % 3] is not Access.ATOMIC


_MIXES = {
    "threads": ("access", "access", "barrier", "release", "acquire", "flush"),
    "proxies": (
        "access",
        "access",
        "barrier",
        "fence",
        "start",
        "touch",
        "touch",
        "finish",
        "acquire",
        "release",
        "flush",
    ),
    "copies": ("access", "access", "copy", "copy", "wait", "barrier", "acquire", "fence", "start", "touch"),
    "all": ("access", "barrier", "release", "acquire", "fence", "start", "touch", "finish", "copy", "wait", "flush"),
}
"""Kinds of step, by what a program is about."""

_PROGRAMS = 60
"""Random programs a case, of which the long run has ten times as many."""


@pytest.mark.parametrize(
    "seeds", [range(_PROGRAMS), pytest.param(range(_PROGRAMS, 1500), marks=pytest.mark.long)], ids=str
)
@pytest.mark.parametrize("mix", sorted(_MIXES))
@pytest.mark.parametrize(("cluster", "space"), [(1, StateSpace.GLOBAL), (2, StateSpace.GLOBAL), (2, StateSpace.SHARED)])
def test_races_are_those_of_the_graph(cluster: int, space: StateSpace, mix: str, seeds: range) -> None:
    for seed in seeds:
        draw = random.Random(f"{mix} {seed}")
        steps = [
            (draw.choice(_MIXES[mix]), *(draw.randrange(64) for _ in range(4))) for _ in range(draw.randint(8, 40))
        ]
        _check(cluster, space, steps, seed)


def _check(cluster: int, space: StateSpace, steps: list[tuple[Any, ...]], seed: int) -> None:
    program = _Program(cluster, space)
    for step in steps:
        program.run(*step)
    program.order.flush()
    expected = program.graph.races()
    lines = {(kind, second.insn, second.region) for _, kind, _, second in expected}
    reported = {(str(f.kind), f.ptx_line, f.tensor) for f in program.report.faults}
    assert reported <= lines, f"false alarms in program {seed}"
    for name in {second.region for *_, second in expected}:
        position = min(p for p, _, _, second in expected if second.region == name)
        first = {(k, s.insn, s.region) for p, k, _, s in expected if p == position}
        assert reported & first, f"the first race on {name} in program {seed} is missed"
