from compiler.dtypes import DType
from compiler.ir.ops import OpKind
from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from compiler.schedule.apply import apply
from tests.compiler.legality.cases import Case, nearest
from tests.compiler.schedules import LOCAL, SHARED, P, by_threads, parallel, schedule, unary


def vectors(width: int, elems: int = 96, dtype: DType = DType.F32, align: int = 16) -> Schedule:
    return schedule(unary((elems,), dtype=dtype, align=align), by_threads(threads=8, vector=width))


def rows(width: int, pitch: int, columns: int = 8) -> Schedule:
    """Rows of `columns` elements, `pitch` apart in the input, one row a block, loaded in vectors, stored one by one."""
    steps: list[st.Step] = [st.CacheInput("i0", "r", LOCAL)]
    for tv in ("r", "v0"):
        steps += [st.Split(tv, 1, width)]
    steps += [*parallel("r", P.BIDX, P.TIDX, P.VECTORIZE), *parallel("v0", P.BIDX, P.TIDX, P.UNROLL)]
    return schedule(unary((4, columns), strides=(pitch, 1)), [*steps, st.InlineAt("r", 2)])


def along(axis: int) -> Schedule:
    """A 4 by 4 input loaded in vectors along one axis, stored one by one."""
    order: list[st.Step] = [st.Reorder(tv, ((0, 1),)) for tv in ("r", "v0") if axis == 0]
    loops = [*parallel("r", P.TIDX, P.VECTORIZE), *parallel("v0", P.TIDX, P.UNROLL)]
    return schedule(unary((4, 4)), [st.CacheInput("i0", "r", LOCAL), *order, *loops, st.InlineAt("r", 1)])


def across_rows(width: int) -> Schedule:
    """Rows of 6 elements, 8 apart, loaded as one run in vectors."""
    steps: list[st.Step] = [st.CacheInput("i0", "r", LOCAL)]
    for tv in ("r", "v0"):
        steps += [st.Merge(tv, 0), st.Split(tv, 0, width)]
    steps += [*parallel("r", P.SERIAL, P.VECTORIZE), *parallel("v0", P.SERIAL, P.UNROLL), st.InlineAt("r", 1)]
    return schedule(unary((4, 6), strides=(8, 1)), steps)


def straddling(axis: int) -> Schedule:
    """The same with words that begin at any element."""
    s = along(axis)
    return Schedule(apply(s.sf, st.Straddle("r")), s.arch)


def relu(lanes: P) -> Schedule:
    loops = [s for tv in ("r", "q", "v0") for s in (st.Split(tv, 0, 4), st.Parallelize(tv, 0, P.TIDX))]
    caches: list[st.Step] = [st.CacheInput("i0", "r", LOCAL), st.CacheOutput("v0", "q", LOCAL)]
    lane = [st.Parallelize("r", 1, P.VECTORIZE), st.Parallelize("q", 1, lanes), st.Parallelize("v0", 1, P.VECTORIZE)]
    inline = [st.InlineAt("r", 1), st.InlineAt("q", 1)]
    return schedule(unary((16,), OpKind.RELU), [*caches, *loops, *lane, *inline])


def staged(elems: int) -> Schedule:
    """A shared tensor that holds `elems`, written by threads in vectors of 4."""
    steps: list[st.Step] = [
        st.CacheInput("i0", "g", LOCAL),
        st.CacheInput("g", "s", SHARED),
        st.CacheInput("s", "r", LOCAL),
        st.SetAllocationDomain("s", (0,)),
    ]
    for tv in ("g", "s"):
        steps += [st.Split(tv, 0, 4), *parallel(tv, P.TIDX, P.VECTORIZE)]
    for tv in ("r", "v0"):
        steps += [st.Split(tv, 0, -(-elems // 4), inner=False), *parallel(tv, P.TIDX, P.UNROLL)]
    return schedule(unary((elems,)), [*steps, st.InlineAt("g", 1), st.InlineAt("r", 1)])


CASES = (
    Case(
        "arithmetic goes one by one",
        lambda: relu(P.UNROLL),
        lambda: relu(P.VECTORIZE),
        (("vector_axis_belongs_to_a_copy", "q", "relu", "a copy"),),
    ),
    Case(
        "a word has at most 16 bytes",
        lambda: vectors(4),
        lambda: vectors(8),
        (
            ("vector_word_is_one_instruction", "r: i0", 32, "a power of two up to 16 bytes"),
            ("vector_word_is_one_instruction", "v0: v0", 32, "a power of two up to 16 bytes"),
            ("vector_address_is_aligned", "r: i0", 16, 32),
            ("vector_address_is_aligned", "v0: v0", 16, 32),
        ),
    ),
    Case(
        "a word is a power of two",
        lambda: rows(2, 12, 12),
        lambda: rows(3, 12, 12),
        (
            ("vector_word_is_one_instruction", "r: i0", 12, "a power of two up to 16 bytes"),
            ("vector_address_is_aligned", "r: i0", 4, 12),
        ),
    ),
    Case(
        "halves make words of eight",
        lambda: vectors(8, dtype=DType.BF16),
        lambda: vectors(16, dtype=DType.BF16),
        (
            ("vector_word_is_one_instruction", "r: i0", 32, "a power of two up to 16 bytes"),
            ("vector_word_is_one_instruction", "v0: v0", 32, "a power of two up to 16 bytes"),
            ("vector_address_is_aligned", "r: i0", 16, 32),
            ("vector_address_is_aligned", "v0: v0", 16, 32),
        ),
    ),
    Case(
        "lanes are neighbours in memory",
        lambda: along(1),
        lambda: along(0),
        (
            ("vector_lanes_are_consecutive", "r: i0", "(lane * 4 + tx)", "... + lane"),
            ("vector_address_is_aligned", "r: i0", 4, 16),
        ),
    ),
    Case(
        "lanes of one vector are in one row",
        lambda: across_rows(2),
        lambda: across_rows(4),
        (
            (
                "vector_lanes_are_consecutive",
                "r: i0",
                "(((k0 * 4 + lane) / 6) * 8 + ((k0 * 4 + lane) % 6))",
                "... + lane",
            ),
            ("vector_address_is_aligned", "r: i0", 8, 16),
        ),
    ),
    Case(
        "the tensor starts on a word",
        lambda: vectors(2, align=8),
        lambda: vectors(4, align=8),
        (("vector_address_is_aligned", "r: i0", 8, 16),),
    ),
    Case(
        "every row starts on a word",
        lambda: rows(4, 12),
        lambda: rows(4, 10),
        (("vector_address_is_aligned", "r: i0", 8, 16),),
    ),
    Case(
        "words at any address lie along a run",
        lambda: straddling(1),
        lambda: straddling(0),
        (("straddling_words_lie_along_a_run", "r", "(lane * 4 + tx)", "... + lane, along one dimension in memory"),),
    ),
    Case(
        "a shared tile holds whole vectors",
        lambda: staged(12),
        lambda: staged(10),
        (("vectors_stay_inside_shared_tiles", "s", 11, 9),),
    ),
)


test_the_nearest_legal_and_illegal_schedules = nearest(CASES)
