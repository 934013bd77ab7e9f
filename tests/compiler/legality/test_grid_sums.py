"""Rules on sums that blocks of the grid hand on: the nearest legal and the nearest illegal schedule of each."""

from dataclasses import replace

from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, nearest
from tests.compiler.legality.test_mma import TV, groups
from tests.compiler.products import Groups, product
from tests.compiler.schedules import P

THREE_PARTS = Groups(rows=64, columns=64, groups=1, stages=2, parts=3)
SLICES = replace(THREE_PARTS, columns=48, parts_on=P.CLUSTER, slices=True)
FUSION = product(128, 64, 384, out="f32")
ROUNDED = product(128, 64, 384)


def moved(to: P) -> tuple[st.Step, ...]:
    """The parts of the sum, and of the operands, on another dimension."""
    return tuple(st.Parallelize(name, 1, to) for name in (TV, "w0", "w1"))


CASES = (
    Case(
        "the dimension of the parts",
        lambda: groups(of=FUSION, how=THREE_PARTS),
        lambda: groups(*moved(P.BIDZ), of=FUSION, how=THREE_PARTS),
        (("folded_axes_stay_in_a_cluster", "v1_matmul: axis 1", "BIDz", "a loop, a thread dimension or Cluster"),),
    ),
    Case(
        "tiles whose blocks wait",
        lambda: groups(of=product(131 * 64, 64, 384), how=THREE_PARTS),
        lambda: groups(of=product(132 * 64, 64, 384), how=THREE_PARTS),
        (("blocks_that_are_waited_for_find_room", "v1_matmul", 132, 131),),
    ),
    Case(
        "tiles of pairs of blocks that wait",
        lambda: groups(of=product(130 * 64, 64, 384), how=replace(THREE_PARTS, cluster=2)),
        lambda: groups(of=product(132 * 64, 64, 384), how=replace(THREE_PARTS, cluster=2)),
        (("blocks_that_are_waited_for_find_room", "v1_matmul", 132, 130),),
    ),
    Case(
        "blocks that steps are dealt to",
        lambda: groups(of=product(1536, 1536, 128), how=Groups(stages=5, dealt=132)),
        lambda: groups(of=product(1536, 1536, 128), how=Groups(stages=5, dealt=133)),
        (("blocks_that_are_waited_for_find_room", "v1_matmul", 133, 132),),
    ),
    Case(
        "slices of a sum that a cluster makes",
        lambda: groups(of=ROUNDED, how=SLICES),
        lambda: groups(st.Parallelize("v1", 1, P.UNROLL), of=ROUNDED, how=SLICES),
        (("inlined_axes_are_the_consumers_axes", "w3 in v1: axis 1", "Cluster 3", "Unroll 3"),),
    ),
    Case(
        "groups with tiles of their own",
        lambda: groups(of=FUSION, how=replace(THREE_PARTS, groups=2, rows=128)),
        lambda: groups(of=FUSION, how=replace(THREE_PARTS, groups=2, turns=True)),
        (
            (
                "parts_of_a_sum_are_taken_by_whole_blocks",
                "v1_matmul: axis 1",
                "TIDy around the sum",
                "threads that have parts of one tile",
            ),
        ),
    ),
    Case(
        "what is made of the sum",
        lambda: groups(of=FUSION, how=replace(THREE_PARTS, rows=128)),
        lambda: groups(st.Parallelize("v1", 2, P.BIDY), of=FUSION, how=replace(THREE_PARTS, rows=128)),
        (
            (
                "what_is_summed_over_the_grid_ends_the_kernel",
                "v1, v1_matmul summed over BIDy",
                "behind it on BIDy",
                "one sum, and all else made of it",
            ),
            ("parallel_extents_agree", "v1: BIDy", 2, 3),
        ),
    ),
)


test_the_nearest_legal_and_illegal_schedules = nearest(CASES)
