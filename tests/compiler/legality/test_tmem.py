"""The rules of the lowering on tensor memory: for each the nearest schedule that it lets pass, and what it refuses."""

from compiler.ir.iter_domain import MemoryType
from compiler.ir.tensor import CopyVia
from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, breaches, nearest
from tests.compiler.schedules import LOCAL, P, Steps, parallel, schedule, unary

KEPT = ("r", "t", "q", "v0")
WAITING = "blocks_that_wait_for_each_other_all_have_their_columns"
ROOM = "tmem_accesses_find_their_registers"
OWN = "tmem_access_stays_in_its_columns"


def through_tensor_memory() -> Steps:
    """i0 -> r -> t in tensor memory -> q -> v0."""
    return [
        st.CacheInput("i0", "r", LOCAL),
        st.CacheInput("r", "t", MemoryType.TENSOR, CopyVia.ST_TMEM),
        st.CacheInput("t", "q", LOCAL, CopyVia.LD_TMEM),
    ]


def in_words(columns: int, *, split_first: bool) -> Schedule:
    """A row of so many columns a thread, in words of four; `split_first`: before the memory order is set."""
    placed: Steps = [st.SetAllocationDomain("t", (0, 1, 2) if split_first else (0, 1)), st.TmemDimsep("t", 1)]
    cut: Steps = [st.Split(tv, 1, 4) for tv in KEPT]
    last = {"t": P.VECTORIZE, "q": P.VECTORIZE}
    types = [s for tv in KEPT for s in parallel(tv, P.TIDX, P.UNROLL, last.get(tv, P.UNROLL))]
    steps = [*(cut + placed if split_first else placed + cut), *types]
    return schedule(unary((128, columns)), [*through_tensor_memory(), *steps], "sm_100a")


def under_a_cap(words: int, warps: int, cap: int | None = None) -> Schedule:
    """Accesses of so many words by so many groups of four warps, whose threads have `cap` registers each."""
    types = [s for tv in KEPT for s in parallel(tv, P.TIDY, P.TIDX, P.VECTORIZE if tv in "tq" else P.UNROLL)]
    placed: Steps = [st.SetAllocationDomain("t", (1, 0, 2)), st.TmemDimsep("t", 1)]
    caps: Steps = [] if cap is None else [st.CapRegisters(cap)]
    return schedule(unary((warps, 128, words)), [*through_tensor_memory(), *types, *placed, *caps], "sm_100a")


def in_clusters(columns: int, groups: int, blocks: int = 2) -> Schedule:
    """Blocks of so many groups of four warps in clusters, so many columns each."""
    cluster = P.CLUSTER if blocks > 1 else P.SERIAL
    types = [s for tv in KEPT for s in parallel(tv, P.BIDX, cluster, P.TIDX, P.TIDY, P.UNROLL)]
    shape = (2, blocks, 128, groups, columns // groups)
    return schedule(unary(shape), [*through_tensor_memory(), *types, st.TmemDimsep("t", 3)], "sm_100a")


CASES = (
    Case(
        "places past the end of a row of columns are the tensor's own",
        lambda: in_words(9, split_first=True),
        lambda: in_words(9, split_first=False),
        ((OWN, "t: access to t", 11, 8), (OWN, "q: access to t", 11, 8)),
    ),
    Case(
        "words that divide a row of columns",
        lambda: in_words(12, split_first=False),
        lambda: in_words(10, split_first=False),
        ((OWN, "t: access to t", 11, 9), (OWN, "q: access to t", 11, 9)),
    ),
    Case(
        "two blocks on a multiprocessor of 512 columns",
        lambda: in_clusters(256, groups=8),
        lambda: in_clusters(512, groups=8),
        ((WAITING, "tensor memory of a cluster's blocks", 1024, 512),),
    ),
    Case(
        "64 words of 640 threads",
        lambda: under_a_cap(64, warps=5),
        lambda: under_a_cap(64, warps=6),
        ((ROOM, "t: access to t", 82, 80), (ROOM, "q: access to t", 82, 80)),
    ),
    Case(
        "words of 1024 threads",
        lambda: under_a_cap(32, warps=8),
        lambda: under_a_cap(64, warps=8),
        ((ROOM, "t: access to t", 82, 64), (ROOM, "q: access to t", 82, 64)),
    ),
    Case(
        "16 words under a cap on registers",
        lambda: under_a_cap(16, warps=1, cap=40),
        lambda: under_a_cap(16, warps=1, cap=32),
        ((ROOM, "t: access to t", 34, 32), (ROOM, "q: access to t", 34, 32)),
    ),
    Case(
        "few words under any cap",
        lambda: under_a_cap(4, warps=1, cap=24),
        lambda: under_a_cap(8, warps=1, cap=24),
        ((ROOM, "t: access to t", 26, 24), (ROOM, "q: access to t", 26, 24)),
    ),
    Case(
        "sixteen blocks on a multiprocessor of 512 columns",
        lambda: in_clusters(32, groups=1),
        lambda: in_clusters(64, groups=1),
        ((WAITING, "tensor memory of a cluster's blocks", 1024, 512),),
    ),
)


test_the_nearest_legal_and_illegal_schedules = nearest(CASES)


def test_blocks_by_themselves_wait_for_none_that_waits_for_them() -> None:
    assert breaches(in_clusters(512, groups=8, blocks=1)) == ()
