from compiler.ir.fusion import Fusion
from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, nearest
from tests.compiler.schedules import LOCAL, P, from_wire, parallel, schedule


def row_sum(columns: int) -> Fusion:
    """v0 = the sum of each of 8 rows of i0."""
    x = {"name": "x", "shape": [8, columns], "dtype": "f32"}
    return from_wire([x], [{"op": "sum", "in": ["x"], "out": "y", "dims": [1]}], "y")


def by_rows(columns: int, parts: int, outer: P, inner: P = P.TIDX) -> list[st.Step]:
    """A block for a row; the row in `parts` pieces, as the reduction has them: `outer`, and inside them `inner`."""
    steps: list[st.Step] = [st.CacheInput("i0", "r", LOCAL)]
    for tv, last in (("r", P.UNROLL if inner is P.VECTORIZE else inner), ("v0_sum", inner)):
        steps += [st.Split(tv, 1, columns // parts), *parallel(tv, P.BIDX, outer, last)]
    return [*steps, *parallel("v0", P.BIDX), st.InlineAt("r", 1), st.InlineAt("v0_sum", 1)]


CASES = (
    Case(
        "a grid does not fold",
        lambda: schedule(row_sum(64), by_rows(64, 4, P.TIDY)),
        lambda: schedule(row_sum(64), by_rows(64, 4, P.BIDY)),
        (("folded_axes_stay_in_a_cluster", "v0_sum: axis 1", "BIDy", "a loop, a thread dimension or Cluster"),),
    ),
    Case(
        "words are folded element by element",
        lambda: schedule(row_sum(64), by_rows(64, 16, P.TIDX, P.UNROLL)),
        lambda: schedule(row_sum(64), by_rows(64, 16, P.TIDX, P.VECTORIZE)),
        (
            (
                "folded_axes_are_walked_element_by_element",
                "v0_sum: axis 2 (rv0_sum.3{4})",
                "Vectorize",
                "Unroll or Serial",
            ),
        ),
    ),
    Case(
        "a cluster of sixteen",
        lambda: schedule(row_sum(128), by_rows(128, 16, P.CLUSTER)),
        lambda: schedule(row_sum(128), by_rows(128, 32, P.CLUSTER)),
        (
            ("clusters_fit_the_architecture", "r: ir.2{32}", 32, "16 on sm_90a"),
            ("clusters_fit_the_architecture", "v0_sum: rv0_sum.2{32}", 32, "16 on sm_90a"),
        ),
    ),
    Case(
        "a cluster of eight on consumer Blackwell",
        lambda: schedule(row_sum(128), by_rows(128, 8, P.CLUSTER), "sm_120a"),
        lambda: schedule(row_sum(128), by_rows(128, 16, P.CLUSTER), "sm_120a"),
        (
            ("clusters_fit_the_architecture", "r: ir.2{16}", 16, "8 on sm_120a"),
            ("clusters_fit_the_architecture", "v0_sum: rv0_sum.2{16}", 16, "8 on sm_120a"),
        ),
    ),
    Case(
        "clusters need Hopper",
        lambda: schedule(row_sum(128), by_rows(128, 1, P.CLUSTER), "sm_80"),
        lambda: schedule(row_sum(128), by_rows(128, 2, P.CLUSTER), "sm_80"),
        (
            ("clusters_fit_the_architecture", "r: ir.2{2}", 2, "1 on sm_80"),
            ("clusters_fit_the_architecture", "v0_sum: rv0_sum.2{2}", 2, "1 on sm_80"),
        ),
    ),
)


test_the_nearest_legal_and_illegal_schedules = nearest(CASES)
