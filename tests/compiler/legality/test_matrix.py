"""The lowering's rules on ldmatrix and stmatrix: fragments, rows of 16 bytes, tiles that hold whole matrices."""

from compiler.dtypes import DType
from compiler.ir.tensor import CopyVia
from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, nearest
from tests.compiler.schedules import LOCAL, SHARED, P, Steps, parallel, schedule, unary


def loaded(*, pairs_fastest: bool = True, pitch: int = 72, rows: int = 64) -> Schedule:
    """A tile of `rows` of 64 elements, `pitch` apart, of which a lane takes pairs of neighbours down a column: a warp
    8 columns and 4 pairs, which its lanes count fastest, or slowest, of 32 rows."""
    steps: Steps = [
        st.CacheInput("i0", "s", SHARED, CopyVia.CP_ASYNC),
        st.CacheInput("s", "r", LOCAL, CopyVia.LDMATRIX),
    ]
    steps += [st.SetAllocationDomain("s", (0, 1), (), (pitch, 1)), st.Split("s", 1, 2)]
    steps += parallel("s", P.UNROLL, P.TIDX, P.VECTORIZE)
    line, pair = (2, 3) if pairs_fastest else (3, 2)
    for tv in ("r", "v0"):
        steps += [st.Split(tv, 1, 8), st.Split(tv, 0, 2), st.Split(tv, 0, 4), st.Split(tv, 0, 4)]
        # rows, matrix, pair, half, columns, line
        steps += [st.Reorder(tv, ((4, 1), (5, line), (2, pair), (1, 4), (3, 5))), st.Merge(tv, 2), st.Merge(tv, 3)]
        steps += parallel(tv, P.UNROLL, P.UNROLL, P.TIDX, P.VECTORIZE if tv == "r" else P.UNROLL)
    return schedule(unary((rows, 64), dtype=DType.BF16), [*steps, st.InlineAt("r", 3)])


def stored(line: int) -> Schedule:
    """32 rows of 64 elements, of which a warp puts down 8 rows of 32; a lane has four pairs of neighbours along a row.
    `line`: how far apart in a row of lanes those of the next row of matrices are: 4, or 1."""
    steps: Steps = [st.CacheInput("i0", "g", LOCAL), st.CacheInput("g", "s", SHARED, CopyVia.STMATRIX)]
    steps += [st.CacheInput("s", "r", LOCAL), st.SetAllocationDomain("s", (0, 1), (), (72, 1))]
    for tv in ("g", "s", "r", "v0"):
        steps += [st.Split(tv, 1, 2), st.Split(tv, 1, 4), st.Split(tv, 1, 4), st.Split(tv, 0, 8)]
        # rows, line, half, n, pair, b
        at = (1, 2) if line == 4 else (2, 1)
        steps += [st.Reorder(tv, ((1, 1 + at[0]), (4, 1 + at[1]), (2, 1), (3, 4))), st.Merge(tv, 2), st.Merge(tv, 3)]
        steps += parallel(tv, P.UNROLL, P.UNROLL, P.TIDX, P.VECTORIZE if tv == "s" else P.UNROLL)
    return schedule(unary((32, 64), dtype=DType.BF16), [*steps, st.InlineAt("g", 3), st.InlineAt("r", 3)])


FRAGMENT = "lanes_hold_the_fragment_of_matrices"
EXPECTED = "16 bytes of neighbours along t / 4, or along t % 4 and the pairs of a vector, for thread t"

CASES = (
    Case(
        "lanes count pairs fastest",
        lambda: loaded(),
        lambda: loaded(pairs_fastest=False),
        (
            (
                FRAGMENT,
                "r (via ldmatrix)",
                "element (k1 * 2304 + (lane / 2) * 576 + (tx / 8) * 144 + (lane % 2) * 72 + k2 * 8 + (tx % 8)) of s",
                EXPECTED,
            ),
        ),
    ),
    Case(
        "or pairs of a row",
        lambda: stored(4),
        lambda: stored(1),
        (
            (
                FRAGMENT,
                "s (via stmatrix)",
                "element (k0 * 576 + (tx % 8) * 72 + k1 * 32 + (lane / 2) * 8 + (tx / 8) * 2 + (lane % 2)) of s",
                EXPECTED,
            ),
        ),
    ),
    Case(
        "rows are aligned to 16 bytes",
        lambda: loaded(pitch=72),
        lambda: loaded(pitch=68),
        (
            (
                FRAGMENT,
                "r (via ldmatrix)",
                "element (k1 * 2176 + (lane / 2) * 544 + (tx % 4) * 136 + (lane % 2) * 68 + k2 * 8 + (tx / 4)) of s",
                EXPECTED,
            ),
        ),
    ),
    Case(
        "every element has a place in the tile",
        lambda: loaded(rows=64),
        lambda: loaded(rows=40),
        (
            ("matrices_stay_inside_shared_tiles", "r (via ldmatrix)", "elements 0 to 4599 of s", "0 to 2879"),
            ("reads_stay_inside_the_allocation", "r reads s: is.0{40}", 63, 39),
        ),
    ),
)


test_the_nearest_legal_and_illegal_schedules = nearest(CASES)
