"""Hazards against a list of pairs: what must lie between an earlier and a later piece that touch one tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import pytest

from compiler.lower.sync import Effects, Hazards, Needs

A, B = frozenset("a"), frozenset("b")
NOTHING = Effects()


def reads(t: frozenset[str]) -> Effects:
    return Effects(reads=t)


def writes(t: frozenset[str]) -> Effects:
    return Effects(writes=t)


def loads(t: frozenset[str]) -> Effects:
    return Effects(bulk_loads=t)


def stores(t: frozenset[str]) -> Effects:
    return Effects(bulk_stores=t)


def copies(t: frozenset[str]) -> Effects:
    """By cp.async, for other threads to read."""
    return Effects(writes=t, copies=t)


def copies_own(t: frozenset[str]) -> Effects:
    return Effects(copies=t)


def reads_own(t: frozenset[str]) -> Effects:
    return Effects(own=t)


def turns(t: frozenset[str]) -> Effects:
    return Effects(writes=t, turned=t)


def turns_own(t: frozenset[str]) -> Effects:
    return Effects(turned=t)


def sends(t: frozenset[str]) -> Effects:
    return Effects(sent=t)


def releases(t: frozenset[str]) -> Effects:
    return Effects(released=t)


def frees(t: frozenset[str]) -> Effects:
    """Loads into stages that an mbarrier says are read."""
    return Effects(bulk_loads=t, freed=t)


LOADED_OVER = Needs(sync=True, fence_loads=True)
TABLE: tuple[tuple[str, tuple[Effects, ...], Needs], ...] = (
    ("nothing is open at the start", (reads(A) | writes(B),), Needs()),
    ("a read after a write waits for the block", (writes(A), reads(A)), Needs(sync=True)),
    ("once is enough", (writes(A), reads(A), reads(A)), Needs()),
    ("another tensor is no reason", (writes(A), reads(B)), Needs()),
    ("two tensors share a barrier", (writes(A), writes(B), reads(A), reads(B)), Needs()),
    ("a write after a read waits for the block", (reads(A), writes(A)), Needs(sync=True)),
    ("readers do not wait for each other", (reads(A), reads(A)), Needs()),
    ("a bulk load after a read waits for the block", (reads(A), loads(A)), LOADED_OVER),
    ("a barrier does not replace its fence", (reads(A), writes(B), reads(B), loads(A)), Needs(fence_loads=True)),
    ("over what nobody has read since it needs none", (reads(A), loads(A), loads(A)), Needs()),
    ("nor after a fence of all threads", (reads(A) | writes(B), stores(B), loads(A)), Needs()),
    ("what was read after that fence needs one", (writes(B), stores(B), reads(A), stores(B), loads(A)), LOADED_OVER),
    ("a thread's own reads are reads", (reads_own(A), loads(A)), Needs(fence_loads=True)),
    ("a stage that an mbarrier frees was fenced there", (reads(A), frees(A)), Needs()),
    ("a read waits for its bulk load", (loads(A), reads(A)), Needs(wait_loads=A)),
    ("a read waits for one load of two", (loads(A), loads(B), reads(B)), Needs(wait_loads=B)),
    ("a load that was waited for stays there", (loads(A), reads(A), reads(A)), Needs()),
    ("a bulk store of written data is fenced", (writes(A), stores(A)), Needs(fence=True, sync=True)),
    ("a bulk store of loaded data waits for the load", (loads(A), stores(A)), Needs(wait_loads=A)),
    (
        "a barrier does not replace the fence",
        (writes(A), writes(B), reads(B), stores(A)),
        Needs(fence=True, sync=True),
    ),
    ("one fence serves all that was written", (writes(A | B), stores(A), stores(B)), Needs()),
    ("a write waits for the store to have read", (stores(A), writes(A)), Needs(wait_stores=True, sync=True)),
    ("a bulk load waits for the store to have read", (stores(A), loads(A)), Needs(wait_stores=True, sync=True)),
    ("reading beside a store is free", (stores(A), reads(A)), Needs()),
    ("a bulk load over written data waits for the block", (writes(A), loads(A)), LOADED_OVER),
    (
        "a read after copies waits for them, then for the block",
        (copies(A), reads(A)),
        Needs(wait_copies=True, sync=True),
    ),
    ("copies that were waited for stay there", (copies(A), reads(A), reads(A)), Needs()),
    ("a wait is for all copies, the barrier for all", (copies(A), copies(B), reads(A), reads(B)), Needs()),
    (
        "a barrier for another tensor does not show what is under way",
        (writes(B), copies(A), reads(B), reads(A)),
        Needs(wait_copies=True, sync=True),
    ),
    (
        "nor does a fence",
        (writes(B), copies(A), stores(B), stores(A)),
        Needs(wait_copies=True, fence=True, sync=True),
    ),
    ("a copy after a read waits for the block", (reads(A), copies(A)), Needs(sync=True)),
    ("copies of many turns wait for no other", (copies(A), copies(A)), Needs()),
    ("a write over a copy waits for it", (copies(A), writes(A)), Needs(wait_copies=True)),
    ("copies beside other reads are free", (copies(A), reads(B)), Needs()),
    (
        "what was copied is fenced before a bulk store",
        (copies(A), stores(A)),
        Needs(wait_copies=True, fence=True, sync=True),
    ),
    ("a copy waits for the store to have read", (stores(A), copies(A)), Needs(wait_stores=True, sync=True)),
    ("a thread waits for its own copies, and for no one else", (copies_own(A), reads_own(A)), Needs(wait_copies=True)),
    ("and copies again over what it has read", (reads_own(A), copies_own(A)), Needs()),
    ("the next stage takes one wait and one barrier", (turns(A),), Needs(wait_stage=True, sync=True)),
    ("after which it is there", (turns(A), reads(A)), Needs()),
    ("the turn after that is like it", (turns(A), reads(A), turns(A)), Needs(wait_stage=True, sync=True)),
    ("a thread's own stages take no barrier", (turns_own(A), reads_own(A), turns_own(A)), Needs(wait_stage=True)),
    ("a loop that reads what it copies is done with it", (copies(A) | reads(A), copies(B)), Needs()),
    ("what was read is sent over after a barrier", (reads(A), sends(A)), Needs(sync=True)),
    ("what was sent an mbarrier tells of", (sends(A), reads(A)), Needs()),
    ("sending twice is in order", (sends(A), sends(A)), Needs()),
    ("blocks that have started need no wait", (sends(A),), Needs()),
    ("what is released may be written", (reads(A), releases(A), writes(A)), Needs()),
    ("a piece releases what it has read itself", (reads(A) | releases(A), writes(A)), Needs()),
    ("what is read after a release is not released", (releases(A), reads(A), writes(A)), Needs(sync=True)),
    ("another tensor's release is none", (reads(A), releases(B), writes(A)), Needs(sync=True)),
    ("a release makes nothing readable", (writes(A), releases(A), reads(A)), Needs(sync=True)),
    (
        "threads fold all partials, then read the results",
        (writes(A), reads(A) | writes(A), reads(A)),
        Needs(sync=True),
    ),
    ("and write the next ones after that", (writes(A), reads(A) | writes(A), reads(A), writes(A)), Needs(sync=True)),
)


STARTING = Hazards(starting=True)


@pytest.mark.parametrize(
    ("pieces", "needs"),
    [
        ((sends(A),), Needs(blocks=True)),
        ((reads(A), writes(B)), Needs()),
        ((sends(A), sends(B)), Needs()),
        ((writes(A), sends(B)), Needs(blocks=True)),
    ],
)
def test_other_blocks_are_waited_for_once_before_they_are_written_to(pieces: tuple[Effects, ...], needs: Needs) -> None:
    *_, last = met(pieces, STARTING)
    assert last == needs


@pytest.mark.parametrize(("pieces", "needs"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_what_the_last_piece_needs(pieces: tuple[Effects, ...], needs: Needs) -> None:
    *_, last = met(pieces, Hazards())
    assert last == needs


def met(pieces: Sequence[Effects], hazards: Hazards) -> list[Needs]:
    """What each piece needs when the ones before it got what they needed."""
    out = []
    for piece in pieces:
        needs = hazards.before(piece)
        hazards = hazards.after(piece, needs)
        out.append(needs)
    return out


def synced(between: Sequence[Needs]) -> bool:
    return any(n.sync for n in between)


def synced_after(between: Sequence[Needs], first: Callable[[Needs], bool]) -> bool:
    """A block barrier at or after a `first`, which stands before the barrier where both are needed at one place."""
    at = next((i for i, n in enumerate(between) if first(n)), len(between))
    return synced(between[at:])


def faults(pieces: Sequence[Effects], needs: Sequence[Needs]) -> Iterator[str]:
    """Pairs of pieces on one tensor with too little between them (PTX ISA, memory consistency and async proxy)."""
    for j, later in enumerate(pieces):
        for i, earlier in enumerate(pieces[:j]):
            between = needs[i + 1 : j + 1]
            overwritten = later.writes | later.bulk_loads
            if earlier.writes & (later.reads | later.bulk_loads) and not synced(between):
                yield f"{i} writes what {j} reads or loads over"
            if earlier.writes & later.bulk_stores and not synced_after(between, lambda n: n.fence):
                yield f"{i} writes what {j} stores"
            if earlier.reads & overwritten and not synced(between):
                yield f"{i} reads what {j} overwrites"
            loading = list(zip(pieces[i + 1 : j + 1], between, strict=True))
            for tensor in (earlier.reads | earlier.writes) & later.bulk_loads:
                if not any(n.fence or (n.fence_loads and tensor in piece.bulk_loads) for piece, n in loading):
                    yield f"{i} touches {tensor}, which {j} loads over"
            if earlier.bulk_stores & overwritten and not synced_after(between, lambda n: n.wait_stores):
                yield f"{i} stores what {j} overwrites"
            for tensor in earlier.bulk_loads & (later.reads | later.bulk_stores):
                if not any(tensor in n.wait_loads for n in between):
                    yield f"{j} uses {tensor}, which {i} loads"


PIECES = (
    *(make(t) for make in (reads, writes, loads, stores) for t in (A, B)),
    reads(A) | writes(B),
    reads(A) | stores(B),
    writes(A | B),
)


def test_no_sequence_of_four_leaves_a_hazard() -> None:
    for pieces in product(PIECES, repeat=4):
        assert not list(faults(pieces, met(pieces, Hazards()))), pieces


def test_no_loop_of_three_pieces_leaves_a_hazard_between_iterations() -> None:
    """A loop's code is the same in every iteration: it starts with what an iteration leaves open."""
    for body in product(PIECES, repeat=3):
        left = Hazards()
        for piece in body:
            left = left.after(piece, left.before(piece))
        needs = met(body, left)
        assert not list(faults(body * 3, needs * 3)), body


def test_the_oracle_sees_a_missing_barrier() -> None:
    assert list(faults((writes(A), reads(A)), (Needs(), Needs()))) == ["0 writes what 1 reads or loads over"]
    fence_too_late = (Needs(), Needs(sync=True), Needs(fence=True))
    assert list(faults((writes(A), NOTHING, stores(A)), fence_too_late)) == ["0 writes what 2 stores"]
    assert list(faults((reads(A), loads(A)), (Needs(), Needs(sync=True)))) == ["0 touches a, which 1 loads over"]
