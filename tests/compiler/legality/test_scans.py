"""Rules on scans, each with the nearest schedule that keeps to it."""

from __future__ import annotations

from compiler.ir.tensor import BufferKind, CopyVia
from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, nearest
from tests.compiler.schedules import LOCAL, SHARED, P, from_wire, parallel, schedule


def walked(columns: int, inner: int, outer: P, last: P) -> Schedule:
    """The sums up to each element of rows, a block for a row: pieces of `inner` elements by `outer`, each by `last`."""
    x = {"name": "x", "shape": [8, columns], "dtype": "f32"}
    fusion = from_wire([x], [{"op": "cumsum", "in": ["x"], "out": "y", "dim": 1}], "y")
    steps: list[st.Step] = [st.CacheInput("i0", "r", LOCAL), st.CacheOutput("v0", "s", LOCAL)]
    for tv in ("r", "s", "v0"):
        steps += [st.Split(tv, 1, inner), *parallel(tv, P.BIDX, outer, last)]
    return schedule(fusion, [*steps, st.InlineAt("r", 3), st.InlineAt("s", 3)])


def in_words(of_rows: bool) -> Schedule:
    """The same where a thread has a row, or four of them: the scan in words of the row's elements, or of rows."""
    x = {"name": "x", "shape": [128, 64], "dtype": "f32"}
    fusion = from_wire([x], [{"op": "cumsum", "in": ["x"], "out": "y", "dim": 1}], "y")
    steps: list[st.Step] = [st.CacheInput("i0", "r", LOCAL), st.CacheOutput("v0", "s", LOCAL)]
    for tv in ("r", "s", "v0"):
        word = P.VECTORIZE if tv == "s" else P.UNROLL
        steps += [st.Split(tv, 0 if of_rows else 1, 4)]
        steps += [st.Reorder(tv, ((1, 2), (2, 1)))] if of_rows else []
        steps += parallel(tv, P.TIDX, P.SERIAL, word)
    return schedule(fusion, [*steps, st.InlineAt("r", 2), st.InlineAt("s", 2)])


def from_a_ring(kind: BufferKind) -> Schedule:
    """Rows that bulk copies bring ahead of time, by warps of their own or not."""
    x = {"name": "x", "shape": [64, 128], "dtype": "f32"}
    fusion = from_wire([x], [{"op": "cumsum", "in": ["x"], "out": "y", "dim": 1}], "y")
    steps: list[st.Step] = [
        st.CacheInput("i0", "sh", SHARED, CopyVia.BULK1D),
        st.CacheInput("sh", "r", LOCAL),
        st.CacheOutput("v0", "s", LOCAL),
    ]
    for tv in ("sh", "r", "s", "v0"):
        steps += [st.Split(tv, 0, 8), *parallel(tv, P.BIDX, P.SERIAL, P.BULK if tv == "sh" else P.TIDX)]
    steps += [st.InlineAt(tv, 2) for tv in ("sh", "r", "s")]
    on = P.TIDX if kind is BufferKind.WARP_SPECIALIZED else None
    return schedule(fusion, [*steps, st.CircularBuffer("sh", 2, 1, kind, on)])


LOOPS = "a loop, TIDx or a word"
ORDER = "loops, threads and words in the order of the elements, of the scanned axes alone"
ONE = "of the scanned axes at most one loop on TIDx, one in words, and no other axis in words"
WHOLE = "all of x, a power of two up to 32 or a multiple of it"

CASES = (
    Case(
        "blocks do not hand on",
        lambda: walked(64, 16, P.SERIAL, P.TIDX),
        lambda: walked(64, 16, P.BIDY, P.TIDX),
        (("scanned_axes_stay_in_a_block", "s: axis 1", "BIDy", LOOPS),),
    ),
    Case(
        "threads come before the elements of each",
        lambda: walked(64, 16, P.SERIAL, P.TIDX),
        lambda: walked(64, 16, P.TIDX, P.SERIAL),
        (("scanned_elements_stand_in_order", "s", "16 Serial, 4 TIDx", ORDER),),
    ),
    Case(
        "neighbours in x are neighbours in a warp",
        lambda: walked(64, 16, P.SERIAL, P.TIDX),
        lambda: walked(64, 16, P.SERIAL, P.TIDY),
        (("a_scan_has_one_word_and_one_row_of_threads", "s", "BIDx, Serial, TIDy", ONE),),
    ),
    Case(
        "a word is of one scan",
        lambda: in_words(of_rows=False),
        lambda: in_words(of_rows=True),
        (("a_scan_has_one_word_and_one_row_of_threads", "s", "TIDx, Serial, Vectorize", ONE),),
    ),
    Case(
        "a part of a warp is a power of two",
        lambda: walked(48, 16, P.SERIAL, P.TIDX),
        lambda: walked(48, 12, P.SERIAL, P.TIDX),
        (("scans_are_shared_by_whole_warps", "s", "12 of a block of 12 x 1 x 1 threads", WHOLE),),
    ),
    Case(
        "more are whole warps",
        lambda: walked(192, 96, P.SERIAL, P.TIDX),
        lambda: walked(192, 48, P.SERIAL, P.TIDX),
        (("scans_are_shared_by_whole_warps", "s", "48 of a block of 48 x 1 x 1 threads", WHOLE),),
    ),
    Case(
        "warps that load do not meet the others",
        lambda: from_a_ring(BufferKind.PIPELINED),
        lambda: from_a_ring(BufferKind.WARP_SPECIALIZED),
        (("scans_take_no_warps_that_load", "s", "sh", "a pipelined buffer"),),
    ),
)


test_the_nearest_legal_and_illegal_schedules = nearest(CASES)
