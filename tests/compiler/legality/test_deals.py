"""Rules on products whose turns are dealt to blocks: the nearest legal and the nearest illegal schedule of each."""

from dataclasses import replace

from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from compiler.schedule.trace import ScheduleTrace
from tests.compiler.legality.cases import Case, nearest
from tests.compiler.legality.test_mma import ROWS, TV, groups, ready
from tests.compiler.products import Groups, by_warp_groups, product
from tests.compiler.schedules import P

FOUR_SHARES = Groups(rows=64, columns=64, groups=1, stages=2, dealt=4)
FUSION = product(192, 64, 384, out="f32")
OPERANDS = ("w0", "w1")


def dealt(*changed: st.Step, how: Groups = FOUR_SHARES, k: int = 384) -> Schedule:
    return groups(*changed, of=product(192, 64, k, out="f32"), how=how)


def apart() -> Schedule:
    """The schedule, of one stage, in which operands are inlined nowhere."""
    trace = by_warp_groups(FUSION, replace(FOUR_SHARES, stages=1))
    inlined = (st.InlineAt, st.InlineSelectedAt, st.InlineMost)
    steps = tuple(s for s in trace.steps if not isinstance(s, inlined) or ROWS not in str(s))
    return ready(ScheduleTrace(trace.fusion, (*steps, st.InlineSelectedAt((TV,), 1))))


CASES = (
    Case(
        "several steps of a tile",
        lambda: dealt(k=128),
        lambda: dealt(k=64, how=replace(FOUR_SHARES, stages=1, dealt=3)),
        (
            (
                "dealt_turns_are_of_tiles_and_a_sum",
                f"{TV}: dealt to 3 blocks",
                "local, loops Serial 3, Serial 1, Unroll 1, inlined at 1",
                "a product in registers, loops over tiles and along its sum, inlined between them",
            ),
        ),
    ),
    Case(
        "a share for each block",
        lambda: dealt(st.Deal(TV, 18)),
        lambda: dealt(st.Deal(TV, 19)),
        (("dealt_turns_make_the_grid", f"{TV}: blocks", 19, "2 to 18, its turns"),),
    ),
    Case(
        "blocks that find room at once",
        lambda: dealt(st.Deal(TV, 132), k=64 * 44),
        lambda: dealt(st.Deal(TV, 132 + 1), k=64 * 45),
        (("blocks_that_are_waited_for_find_room", TV, 133, 132),),
    ),
    Case(
        "loops over blocks",
        dealt,
        lambda: groups(st.Deal(TV, 4), of=FUSION, how=replace(FOUR_SHARES, dealt=0, parts=2)),
        (
            (
                "dealt_turns_are_of_tiles_and_a_sum",
                f"{TV}: dealt to 4 blocks",
                "local, loops BIDx 3, BIDy 2, Serial 3, inlined at 1",
                "a product in registers, loops over tiles and along its sum, inlined between them",
            ),
        ),
    ),
    Case(
        "groups with tiles of their own",
        lambda: dealt(how=replace(FOUR_SHARES, groups=2, rows=128)),
        lambda: dealt(how=replace(FOUR_SHARES, groups=2, turns=True)),
        (
            (
                "dealt_turns_are_of_tiles_and_a_sum",
                f"{TV}: dealt to 4 blocks",
                "local, loops Serial 2, TIDy 2, Serial 6, inlined at 1",
                "a product in registers, loops over tiles and along its sum, inlined between them",
            ),
        ),
    ),
    Case(
        "blocks beside those that have shares",
        lambda: dealt(st.Parallelize("v1", 4, P.UNROLL)),
        lambda: dealt(st.Parallelize("v1", 4, P.BIDY)),
        (
            ("dealt_turns_make_the_grid", "v1: axis 4", "BIDy", f"the 4 blocks that {TV} is dealt to"),
            (
                "what_is_summed_over_the_grid_ends_the_kernel",
                f"v1, {TV} dealt to 4 blocks",
                "behind it on BIDy",
                "one sum, and all else made of it",
            ),
        ),
    ),
    Case(
        "who fills stages",
        lambda: dealt(how=replace(FOUR_SHARES, stages=3)),
        lambda: dealt(*(st.CircularBuffer(name, 3, 2) for name in OPERANDS), how=replace(FOUR_SHARES, stages=3)),
        tuple(("stages_of_dealt_turns_have_loading_warps", name, "pipelined", "warp_specialized") for name in OPERANDS),
    ),
    Case(
        "operands of a tile",
        lambda: dealt(how=replace(FOUR_SHARES, stages=1)),
        apart,
        tuple(
            (
                "all_stands_in_the_loop_of_dealt_tiles",
                f"{name}: axis 0",
                "a loop of its own",
                f"the loop of {TV}, 3 tiles",
            )
            for name in OPERANDS
        ),
    ),
)


test_the_nearest_legal_and_illegal_schedules = nearest(CASES)
