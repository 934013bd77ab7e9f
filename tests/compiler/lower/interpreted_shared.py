"""Shared memory of one block in the interpreter: bytes, and who may touch each of them when.

A block barrier orders what threads do; what bulk copies bring is there after a wait for the phase of their mbarrier;
what threads wrote is there for bulk copies after a proxy fence of the writer and then a block barrier; what threads
touched a bulk load may overwrite after the same, or after the barrier and then a fence of its issuer; what a bulk copy
reads may be overwritten after a wait for its reads; what a thread copies by cp.async it has written once it has waited
for it (PTX ISA: memory consistency model, async proxy, mbarrier, cp.async.bulk, cp.async). Time is chosen against the
kernel: loads and copies arrive when somebody waits for them, stores read when somebody waits for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tests.compiler.lower.interpreted_values import WORDS, Array, KernelFault

NOBODY, MANY = -1, -2
POISON = 0xFF
"""Bytes of this are NaN in every float type."""

_GENERIC, _FENCED, _SYNCED, _FENCED_BY_ONE = 1, 2, 3, 4
_READING, _READ = 2, 1


@dataclass
class _Load:
    addresses: Array
    contents: Array


@dataclass
class _Store:
    addresses: Array
    finish: Callable[[Array], None]


@dataclass
class _Copy:
    """A cp.async of several threads: where [thread, byte], what, whose, and in which group of each of them."""

    where: Array
    contents: Array
    threads: Array
    groups: Array


@dataclass
class _Barrier:
    """The current phase of an mbarrier of one arrival: its number, the bytes it expects (None: no arrival yet)."""

    seen: Array
    """The threads that know the phase before to be complete."""
    phase: int = 0
    delivery: int = 0
    """The delivery of the phase before."""
    expected: int | None = None
    brought: int = 0
    loads: list[_Load] = field(default_factory=list)


@dataclass
class _Groups:
    """Bulk stores of one thread: not committed, and committed but perhaps not read yet."""

    open: list[_Store] = field(default_factory=list)
    committed: list[_Store] = field(default_factory=list)


class SharedMemory:
    """`nbytes` bytes that start at an odd multiple of `align`. Addresses count from the start."""

    def __init__(self, nbytes: int, align: int, threads: int) -> None:
        self.nbytes = nbytes
        self.base = align
        self.threads = threads
        self.data = np.full(nbytes, POISON, np.uint8)
        self._defined = np.zeros(nbytes, np.bool_)
        self._barrier_bytes = np.zeros(nbytes, np.bool_)
        self._arriving = np.zeros(nbytes, np.bool_)
        """Bytes of loads that nobody waited for yet."""
        self._delivery = np.zeros(nbytes, np.int32)
        """Which delivery brought a byte that not every thread knows of; 0: none, all may read it."""
        self._known: list[Array] = [np.ones(threads, np.bool_)]
        """For each delivery, the threads that waited for it."""
        self._writer = np.full(nbytes, NOBODY, np.int32)
        self._fresh = np.zeros(nbytes, np.bool_)
        """Bytes written by their writer since the last block barrier."""
        self._reader = np.full(nbytes, NOBODY, np.int32)
        """Who read a byte since the last block barrier."""
        self._proxy = np.zeros(nbytes, np.uint8)
        """Written by threads and not seen by bulk copies: `_GENERIC`, and after the writer's fence `_FENCED`."""
        self._touched = np.zeros(nbytes, np.uint8)
        """Read or written by threads, so that no bulk load may overwrite it: `_GENERIC`, after their fence `_FENCED`,
        after a barrier `_SYNCED`, and after that and a fence of one thread, `_fencer`, `_FENCED_BY_ONE`: it may."""
        self._fencer = np.full(nbytes, NOBODY, np.int32)
        self._storing = np.zeros(nbytes, np.uint8)
        """Source of a bulk store: `_READING`, then `_READ` while only the thread that issued it knows of it."""
        self._storer = np.full(nbytes, NOBODY, np.int32)
        self._barriers: dict[int, _Barrier] = {}
        self._is_setup_seen = False
        self._groups: dict[int, _Groups] = {}
        self._copies: list[_Copy] = []
        self._copy_group = np.zeros(threads, np.int64)
        """The number of each thread's open group of copies."""

    # Threads ---------------------------------------------------------------------------------------------------------

    def load(self, at: Array, size: int, threads: Array) -> Array:
        """`size` bytes from each address: [thread, byte]."""
        where = self._word(at, size)
        who = threads[:, None]
        self._check(self._defined[where] | self._arriving[where], "shared_bytes_are_written_before_read", where)
        self._check(~self._arriving[where], "loads_are_waited_for", where)
        delivery = self._delivery[where]
        if delivery.any():
            known = np.stack(self._known)
            self._check(known[delivery, np.broadcast_to(who, where.shape)], "loads_are_waited_for", where)
        foreign = self._fresh[where] & (self._writer[where] != who)
        self._check(~foreign, "barrier_between_write_and_read", where)
        before = self._reader[where]
        self._reader[where] = who
        several = (self._reader[where] != who) | ((before != NOBODY) & (before != who))
        self._reader[where[several]] = MANY
        self._touched[where] = _GENERIC
        return self.data[where]

    def store(self, at: Array, contents: Array, threads: Array) -> None:
        """Writes bytes [thread, byte] from each address on."""
        where = self._word(at, contents.shape[1])
        who = np.broadcast_to(threads[:, None], where.shape)
        self._check_overwrite(where, who)
        foreign = self._fresh[where] & (self._writer[where] != who)
        self._check(~foreign, "barrier_between_two_writes", where)
        self._writer[where] = who
        self._check(self._writer[where] == who, "barrier_between_two_writes", where)
        self._fresh[where] = True
        self._proxy[where] = _GENERIC
        self._touched[where] = _GENERIC
        self._defined[where] = True
        self._delivery[where] = 0
        self.data[where] = contents

    def sync(self) -> None:
        """Every thread has arrived: what each of them knows, all know."""
        self._is_setup_seen = True
        self._fresh[:] = False
        self._reader[:] = NOBODY
        self._proxy[self._proxy == _FENCED] = 0
        self._touched[(self._touched == _FENCED) | (self._touched == _FENCED_BY_ONE)] = 0
        self._touched[self._touched == _GENERIC] = _SYNCED
        self._storing[self._storing == _READ] = 0
        self._delivery[:] = 0
        for barrier in self._barriers.values():
            barrier.seen[:] = barrier.seen.any()

    def fence(self, threads: Array) -> None:
        """fence.proxy.async by these threads."""
        mine, touched = self._proxy == _GENERIC, self._touched == _GENERIC
        synced = self._touched == _SYNCED
        if len(threads) < self.threads:
            mine &= np.isin(self._writer, threads)
            touched &= (~self._fresh | np.isin(self._writer, threads)) & np.isin(self._reader, [NOBODY, *threads])
            self._fencer[synced] = threads[0]
        self._proxy[mine] = _FENCED
        self._touched[touched] = _FENCED
        self._touched[synced] = _FENCED_BY_ONE if len(threads) < self.threads else 0

    # cp.async --------------------------------------------------------------------------------------------------------

    def begin_copy(self, at: Array, contents: Array, threads: Array) -> None:
        """cp.async of bytes [thread, byte] to each address on."""
        where = self._word(at, contents.shape[1])
        self._check(np.array(contents.shape[1] in (4, 8, 16)), "accesses_are_one_instruction", contents.shape[1])
        who = np.broadcast_to(threads[:, None], where.shape)
        self._check_overwrite(where, who)
        foreign = self._fresh[where] & (self._writer[where] != who)
        self._check(~foreign, "barrier_between_two_writes", where)
        self._writer[where] = who
        self._check(self._writer[where] == who, "barrier_between_two_writes", where)
        self._arriving[where] = True
        self.data[where] = POISON
        self._copies.append(_Copy(where, contents, threads, self._copy_group[threads]))

    def commit_copies(self, threads: Array) -> None:
        """cp.async.commit_group."""
        self._copy_group[threads] += 1

    def wait_copies(self, pending: int, threads: Array) -> None:
        """cp.async.wait_group, and of 0 cp.async.wait_all: copies of these threads arrive now, but for those that are
        in the last `pending` groups, or in none."""
        left: list[_Copy] = []
        for copy in self._copies:
            arrived = np.isin(copy.threads, threads)
            if pending:
                arrived &= copy.groups < self._copy_group[copy.threads] - pending
            where = copy.where[arrived]
            self.data[where] = copy.contents[arrived]
            self._arriving[where] = False
            self._defined[where] = True
            self._delivery[where] = 0
            self._fresh[where] = True
            self._proxy[where] = _GENERIC
            self._touched[where] = _GENERIC
            kept = ~arrived
            if kept.any():
                left.append(_Copy(copy.where[kept], copy.contents[kept], copy.threads[kept], copy.groups[kept]))
        self._copies = left

    # mbarriers -------------------------------------------------------------------------------------------------------

    def init_barriers(self, at: int, count: int) -> None:
        """`count` mbarriers of one arrival each, which other threads see after the next block barrier."""
        self._check(np.array(at % 8 == 0), "mbarriers_are_aligned", at)
        self._barrier_bytes[self._range(at, 8 * count)] = True
        self._barriers = {at + 8 * i: _Barrier(np.zeros(self.threads, np.bool_)) for i in range(count)}
        self._is_setup_seen = False

    def expect(self, at: int, nbytes: int, thread: int) -> None:
        """mbarrier.arrive.expect_tx: the arrival of the phase, which then waits for `nbytes` bytes too."""
        barrier = self._barrier(at)
        if barrier.expected is not None or (barrier.phase > 0 and not barrier.seen[thread]):
            raise KernelFault(
                "phases_are_waited_for", f"arrival on {at}, whose phase {barrier.phase} may be incomplete"
            )
        barrier.expected = nbytes

    def wait(self, at: int, parity: int, threads: Array) -> None:
        """mbarrier.try_wait.parity until it succeeds: the loads of the phase arrive now."""
        if parity not in (0, 1):
            raise KernelFault("parities_are_bits", f"wait on {at} for parity {parity}")
        barrier = self._barrier(at)
        if not self._is_setup_seen:
            raise KernelFault("mbarriers_are_initialised", f"wait on {at} with no block barrier since it was set up")
        if parity != barrier.phase % 2:
            # The phase before is complete (of a fresh barrier, by definition): the wait returns at once.
            barrier.seen[threads] = True
            self._known[barrier.delivery][threads] = True
            return
        if barrier.expected is None:
            raise KernelFault("waits_come_to_an_end", f"phase {barrier.phase} of {at} has no arrival")
        if barrier.expected != barrier.brought:
            found = f"phase {barrier.phase} of {at} expects {barrier.expected} bytes, {barrier.brought} come"
            raise KernelFault("waits_come_to_an_end", found)
        seen = np.zeros(self.threads, np.bool_)
        seen[threads] = True
        delivery = 0 if seen.all() else len(self._known)
        if delivery:
            self._known.append(seen)
        for load in barrier.loads:
            self.data[load.addresses] = load.contents
            self._arriving[load.addresses] = False
            self._defined[load.addresses] = True
            self._delivery[load.addresses] = delivery
        self._barriers[at] = _Barrier(seen, barrier.phase + 1, delivery)

    # Bulk copies -----------------------------------------------------------------------------------------------------

    def begin_load(self, at: int, addresses: Array, contents: Array, thread: int) -> None:
        """A bulk load of these bytes begins; it completes on the mbarrier at `at`."""
        barrier = self._barrier(at)
        self._inside(addresses)
        self._check_overwrite(addresses, np.array(thread))
        touched = self._touched[addresses]
        is_own = (touched == _FENCED_BY_ONE) & (self._fencer[addresses] == thread)
        # Of what is fenced and has passed no barrier, `_check_overwrite` has seen that it is the issuer's own.
        fenced = (touched == 0) | (touched == _FENCED) | is_own
        self._check(fenced, "fence_between_threads_and_bulk_copies", addresses)
        self._touched[addresses] = 0
        self._proxy[addresses] = 0
        self._arriving[addresses] = True
        self.data[addresses] = POISON
        barrier.loads.append(_Load(addresses, contents))
        barrier.brought += len(contents)

    def begin_store(self, addresses: Array, finish: Callable[[Array], None], thread: int) -> None:
        """A bulk store from these bytes begins; `finish` gets their contents."""
        self._inside(addresses)
        self._check(
            self._defined[addresses] | self._arriving[addresses], "shared_bytes_are_written_before_read", addresses
        )
        self._check(~self._arriving[addresses], "loads_are_waited_for", addresses)
        delivery = self._delivery[addresses]
        if delivery.any():
            self._check(np.stack(self._known)[delivery, thread], "loads_are_waited_for", addresses)
        proxy = self._proxy[addresses]
        own = (proxy == _FENCED) & (self._writer[addresses] == thread)
        self._check(proxy != _GENERIC, "fence_between_threads_and_bulk_copies", addresses)
        self._check((proxy == 0) | own, "barrier_between_fence_and_bulk_store", addresses)
        self._storing[addresses] = _READING
        self._storer[addresses] = thread
        self._of(thread).open.append(_Store(addresses, finish))

    def commit(self, threads: Array) -> None:
        """cp.async.bulk.commit_group."""
        for thread in threads:
            groups = self._of(int(thread))
            groups.committed += groups.open
            groups.open = []

    def wait_stores(self, threads: Array) -> None:
        """cp.async.bulk.wait_group.read 0: the committed stores of these threads have read their source."""
        for thread in threads:
            groups = self._of(int(thread))
            for store in groups.committed:
                self._storing[store.addresses] = _READ
                store.finish(self.data[store.addresses])
            groups.committed = []
        for groups in self._groups.values():
            for store in (*groups.open, *groups.committed):
                self._storing[store.addresses] = _READING

    def end(self) -> None:
        """The block ends: its shared memory may go to another one."""
        if self._arriving.any():
            raise KernelFault("loads_are_waited_for", f"the block ends before {int(self._arriving.sum())} bytes came")
        if any(g.open or g.committed for g in self._groups.values()):
            raise KernelFault("stores_are_waited_for", "the block ends while a bulk store may still read")

    # Checks ----------------------------------------------------------------------------------------------------------

    def _of(self, thread: int) -> _Groups:
        return self._groups.setdefault(thread, _Groups())

    def _barrier(self, at: int) -> _Barrier:
        if at not in self._barriers:
            raise KernelFault("mbarriers_are_initialised", f"there is none at {at}, only at {sorted(self._barriers)}")
        return self._barriers[at]

    def _range(self, at: int, nbytes: int) -> slice:
        if not 0 <= at <= self.nbytes - nbytes:
            raise KernelFault("shared_access_is_inside", f"{nbytes} bytes at {at} of {self.nbytes}")
        return slice(at, at + nbytes)

    def _word(self, at: Array, size: int) -> Array:
        self._check(np.array(size in WORDS), "accesses_are_one_instruction", size)
        self._check((self.base + at) % size == 0, "shared_access_is_aligned", at)
        where = at[:, None] + np.arange(size)
        self._inside(where)
        return where

    def _inside(self, where: Array) -> None:
        self._check((where >= 0) & (where < self.nbytes), "shared_access_is_inside", where)
        self._check(~self._barrier_bytes[where], "mbarriers_are_not_data", where)

    def _check_overwrite(self, where: Array, who: Array) -> None:
        """Whether the bytes may change: nobody else reads them, no bulk copy moves them."""
        reader = self._reader[where]
        self._check((reader == NOBODY) | (reader == who), "barrier_between_read_and_overwrite", where)
        self._check(~self._arriving[where], "loads_are_waited_for", where)
        storing = self._storing[where]
        free = (storing == 0) | (storing == _READ) & (self._storer[where] == who)
        self._check(free, "stores_are_waited_for", where)

    def _check(self, holds: Array, rule: str, where: Array | int) -> None:
        if not holds.all():
            first = int(np.broadcast_to(where, holds.shape)[~holds][0])
            raise KernelFault(rule, f"byte {first} of shared memory ({int((~holds).sum())} in all)")
