from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, nearest
from tests.compiler.schedule.online_fusions import PLAIN, exponentials
from tests.compiler.schedules import LOCAL, P, parallel, schedule

FUSION = exponentials(PLAIN, (8, 64))
M, S, RUNNING = "v0_amax", "v4_sum", "v0_amax_running"
FULL = ("r", M, RUNNING, "v2", "v3", S)


def rows(inner: int = 4, inlined: int = 1, running_at: int = 1) -> list[st.Step]:
    """A block for a row, each thread for four neighbours; in the sum, for so many."""
    steps: list[st.Step] = [st.Online(M, (S,)), st.CacheInput("i0", "r", LOCAL)]
    for tv in FULL:
        steps += [st.Split(tv, 1, inner if tv == S else 4), *parallel(tv, P.BIDX, P.TIDX, P.UNROLL)]
    steps += [*parallel("v4", P.BIDX), *(st.InlineAt(tv, 1) for tv in ("r", "v2", "v3", M))]
    return [*steps, *(st.InlineAt(tv, at) for tv, at in ((S, inlined), (RUNNING, running_at)) if at)]


CASES = (
    Case(
        "a sum has the loops of its maximum",
        lambda: schedule(FUSION, rows()),
        lambda: schedule(FUSION, rows(inner=8)),
        (
            (
                "online_sums_are_scheduled_as_their_maximum",
                S,
                "8 BIDx, 8 TIDx, 8 Unroll",
                f"the loops of {M}: 8 BIDx, 16 TIDx, 4 Unroll",
            ),
            ("parallel_extents_agree", f"{S}: TIDx", 8, 16),
        ),
    ),
    Case(
        "and is inlined as deep",
        lambda: schedule(FUSION, rows()),
        lambda: schedule(FUSION, rows(inlined=0)),
        (("online_sums_are_scheduled_as_their_maximum", S, "inlined at 0", f"1, as {M}"),),
    ),
    Case(
        "a running maximum is kept as long",
        lambda: schedule(FUSION, rows()),
        lambda: schedule(FUSION, rows(running_at=0)),
        (
            (
                "running_maxima_live_as_long_as_their_maximum",
                RUNNING,
                "inlined at 0, with [] of its own",
                f"inlined at 1, with [], as {M}",
            ),
        ),
    ),
)


test_the_nearest_legal_and_illegal_schedules = nearest(CASES)
