"""Generated kernels have no condition that always or never holds, no array that nobody reads, and no spills."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compiler.arch import arch_named
from compiler.dtypes import DType
from compiler.ir.expr import Expr, Var, const, inside, var
from compiler.ir.fusion import Fusion
from compiler.ir.ops import MathGrade, OpKind
from compiler.ir.tensor import CachePolicy
from compiler.lower import kernel_ir as k
from compiler.lower import sync_ir
from compiler.lower.operands import Less, Reg
from compiler.lower.passes.settled_conditions import settle_conditions
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, generate
from search.space.schedulers import schedulers_for
from tests.cards import card_of
from tests.compiler.lower.dead_code import dead_code
from tests.compiler.lower.small_fusions import SMALL_FUSIONS
from tests.search.launches.made import column_max_of_shares, row_and_column_sums
from tests.search.schedulers.column_fusions import COLUMNS
from tests.search.schedulers.row_fusions import ROWS
from tests.search.schedulers.view_fusions import VIEWS

HOPPER = arch_named("sm_90a")
FUSIONS: dict[str, Fusion] = {
    **{name: SMALL_FUSIONS[name] for name in list(SMALL_FUSIONS)[::3]},
    **ROWS,
    **COLUMNS,
    **VIEWS,
    "column_max_of_shares": column_max_of_shares(),
    "row_and_column_sums": row_and_column_sums(),
}
SEED = 5


def drawn(name: str, sm_count: int) -> Iterator[Generated]:
    """The kernel of one point of every scheduler. On one multiprocessor persistent blocks have many tiles."""
    fusion = FUSIONS[name]
    for scheduler in schedulers_for(fusion, card_of(HOPPER, sm_count)):
        for point in scheduler.space(fusion, HOPPER).sample(1, SEED):
            yield generate(scheduler.trace(fusion, point), HOPPER)


def shared_out() -> list[object]:
    """Every second fusion, for a whole card or one multiprocessor in turns; all of them both ways in the long run."""
    return [
        pytest.param(name, sm_count, marks=() if number % 4 == (0 if sm_count == 132 else 2) else pytest.mark.long)
        for number, name in enumerate(FUSIONS)
        for sm_count in (132, 1)
    ]


@pytest.mark.parametrize(("name", "sm_count"), shared_out())
def test_generated_kernels_have_none(name: str, sm_count: int) -> None:
    made = list(drawn(name, sm_count))
    assert made
    for one in made:
        for launch in one.launches:
            assert dead_code(launch.kernel) == []


def test_registers_are_spilled_only_under_a_cap(pool: CompilePool) -> None:
    capless = [
        (name, made)
        for name in list(FUSIONS)[::4]
        for made in drawn(name, 132)
        if all(launch.scheduled.max_registers is None for launch in made.launches)
    ]
    assert len(capless) >= 8
    compiled = [(name, pool.submit(made.source, made.arch.name)) for name, made in capless]
    spilled = {name for name, job in compiled if job.result().resources.spill_store_bytes}
    on_stack = {name for name, job in compiled if job.result().resources.stack_bytes}
    assert spilled == on_stack == set()


# What counts as dead -------------------------------------------------------------------------------------------------

TX, K0 = Var("tx", 32), Var("k0", 4)
R, Y = Reg("r", DType.F32, const(0)), Reg("y", DType.F32, const(0))
OPEN = Less(var(TX) + 8, const(30))
ALWAYS, NEVER, WEAKER = Less(var(TX), const(32)), Less(var(TX) + 8, const(8)), Less(var(TX), const(30))
STORE = k.GlobalStore(R, "v0", var(TX), 1, CachePolicy.DEFAULT)


def load(*guards: Less, within: tuple[Less, ...] = ()) -> k.Stmt:
    return k.GlobalLoad(R, "i0", var(TX), 1, CachePolicy.DEFAULT, guards, within=within)


def kernel(*body: k.Stmt) -> k.Kernel:
    return k.Kernel((), (), (1, 1, 1), (32, 1, 1), 0, 16, None, 32, (k.Declare("r", DType.F32, 1), *body))


SETTLED: dict[str, tuple[tuple[k.Stmt, ...], tuple[k.Stmt, ...]]] = {
    "always": ((load(), k.If((ALWAYS,), (STORE,))), (load(), STORE)),
    "never": ((load(), STORE, k.If((NEVER,), (sync_ir.Sync(),))), (load(), STORE)),
    "never, otherwise": ((load(), k.If((NEVER,), (), (STORE,))), (load(), STORE)),
    "one of two": ((load(), k.If((ALWAYS, OPEN), (STORE,))), (load(), k.If((OPEN,), (STORE,)))),
    "the weaker of two": ((load(), k.If((WEAKER, OPEN), (STORE,))), (load(), k.If((OPEN,), (STORE,)))),
    "twice": ((load(), k.If((OPEN, OPEN), (STORE,))), (load(), k.If((OPEN,), (STORE,)))),
    "asked around": (
        (load(), k.If((OPEN,), (k.If((WEAKER,), (STORE,)),))),
        (load(), k.If((OPEN,), (STORE,))),
    ),
    "a guard": ((load(ALWAYS, OPEN), STORE), (load(OPEN), STORE)),
    "a part's own extent": ((load(WEAKER, within=(OPEN,)), STORE), (load(within=(OPEN,)), STORE)),
    "of a fold": (
        (load(), k.Accumulate(OpKind.SUM, R, R, (ALWAYS,)), STORE),
        (load(), k.Accumulate(OpKind.SUM, R, R), STORE),
    ),
    "in a loop": (
        (load(), k.Loop(K0, const(4), False, (k.If((Less(var(K0), const(4)),), (STORE,)),))),
        (load(), k.Loop(K0, const(4), False, (STORE,))),
    ),
}


@pytest.mark.parametrize("name", SETTLED)
def test_dead_conditions_are_found_and_dropped(name: str) -> None:
    before, after = SETTLED[name]
    assert dead_code(kernel(*before)) != []
    assert settle_conditions(before) == after
    assert dead_code(kernel(*after)) == []


OPEN_CASES: dict[str, tuple[k.Stmt, ...]] = {
    "a condition that some threads meet": (load(), k.If((OPEN,), (STORE,))),
    "the stronger inside": (load(), k.If((WEAKER,), (k.If((OPEN,), (STORE,)),))),
    "otherwise nothing is known": (load(), k.If((OPEN,), (STORE,), (k.If((OPEN,), (STORE,)),))),
    "afterwards nothing is known": (load(), k.If((OPEN,), (STORE,)), k.If((WEAKER,), (STORE,))),
}


@pytest.mark.parametrize("name", OPEN_CASES)
def test_open_conditions_stay(name: str) -> None:
    body = OPEN_CASES[name]
    assert dead_code(kernel(*body)) == []
    assert settle_conditions(body) == body


@pytest.mark.parametrize("is_marked", [True, False])
def test_a_guard_stays_where_another_condition_takes_it_for_granted(is_marked: bool) -> None:
    """Below its bounds an index wraps: 19 < [x] may hold where x is -1, and 19 < x does not."""
    phase = var(Var("phase", 8))
    x = var(TX) * 8 - phase
    guard = Less(phase, var(TX) * 8 + 1)
    within = Less(const(19), inside(x, 1000) if is_marked else x)
    loaded = k.GlobalLoad(R, "i0", x, 1, CachePolicy.DEFAULT, (guard,), None, (within,))
    (found,) = settle_conditions((loaded,))
    assert isinstance(found, k.GlobalLoad)
    assert found.guards == ((guard,) if is_marked else ())
    assert found.within == (within,)


def test_what_declares_keeps_its_braces() -> None:
    """Two rounds of a prologue declare arrays of one name."""
    body = (k.If((ALWAYS,), (k.Declare("r", DType.F32, 1), load(), STORE)),)
    assert settle_conditions(body) == body


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ((load(), STORE, k.Declare("y", DType.F32, 1)), ["y is never read", "y is never written"]),
        ((load(), k.Compute(OpKind.NEG, Y, (R,), MathGrade.EXACT), k.Declare("y", DType.F32, 1)), ["y is never read"]),
        ((STORE,), ["r is never written"]),
        ((load(), k.Loop(K0, const(1), True, (STORE,))), ["a loop over k0 of 1 turns"]),
        ((load(), STORE, k.Elected(())), ["an empty Elected"]),
        ((load(), STORE, k.If((OPEN,), ())), ["an If around nothing"]),
    ],
)
def test_dead_loops_and_arrays_are_found(body: tuple[k.Stmt, ...], says: list[str]) -> None:
    assert dead_code(kernel(*body)) == says


def test_a_tail_is_asked_of_the_last_lane() -> None:
    def tail(extent: int) -> list[str]:
        index: Expr = var(TX) * 4 + var(Var("lane", 4))
        cut = Less(index, const(extent))
        return dead_code(kernel(k.GlobalLoad(R, "i0", var(TX) * 4, 4, CachePolicy.DEFAULT, (), cut), STORE))

    assert tail(127) == []
    assert len(tail(128)) == 1
