"""Schedules of products are schedules: without the instructions they give the same integers, and with one step changed
they are right, or refused by a rule that has a name."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random

import pytest

from compiler.arch import Arch, arch_named, card_or_default
from compiler.emulate.ptx.parser import parse
from compiler.errors import CompileError, IllegalSchedule, InvalidStep, Unsupported
from compiler.ir.iter_domain import ParallelType
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from compiler.schedule.trace import ScheduleTrace
from search.proof.emulated.running import ORDERS, run_set
from search.space.schedulers import singles_for
from tests.compiler.products import product
from tests.search.schedulers.product_traces import changed, small_traces, traces, without_instructions

EXACT = "ties"
"""Inputs of few bits, whose products and sums are exact."""

HOPPER, BLACKWELL = arch_named("sm_90a"), arch_named("sm_100a")


def fault_of(trace: ScheduleTrace, pool: CompilePool, arch: Arch = HOPPER) -> str:
    """What the emulator finds wrong, to the last bit, with races. Raises as `generate` does, and CompileError."""
    made = generate(trace, arch)
    built = artifact(made, pool.submit(made.source, arch.name).result())
    verdict = run_set(trace.fusion, built, parse(built.ptx), EXACT, ORDERS[-1:], races=True)
    return verdict.fault or (f"off by {verdict.max_error}" if verdict.max_error else "")


def without_instructions_are_right(seed: int, count: int, pool: CompilePool, scheduler: str = "product") -> None:
    arch = BLACKWELL if scheduler == "tensor_product" else HOPPER
    for name, trace in islice(small_traces(seed, scheduler), count):
        plain = without_instructions(trace)
        types = {p for t in plain.replay().tensors for p in t.types}
        assert ParallelType.MMA not in types, name
        assert fault_of(plain, pool, arch) == "", name


def test_points_that_deal_steps_to_the_blocks_of_a_card_are_schedules() -> None:
    """These all find room at once on a whole card."""
    card, fusion = card_or_default("H200"), product(2048, 1152, 8192)
    (one,) = (s for s in singles_for(fusion, card) if s.name == "product")
    dealt = one.space(fusion, card.arch).having({"dealt": True})
    some = [dealt.having({"blocks_per_sm": each}) for each in (1, 2)]
    points = [point for chosen in some if chosen.has_legal for point in chosen.sample(2, 0)]
    assert points
    for point in points:
        trace = one.trace(fusion, point)
        assert isinstance(trace, ScheduleTrace)
        assert generate(trace, card.arch).kernel.grid == (card.sm_count, 1, 1)


of_groups_and_of_a_thread = pytest.mark.parametrize("scheduler", ["product", "tensor_product"])


@of_groups_and_of_a_thread
def test_with_every_axis_of_an_instruction_by_itself_the_integers_are_the_same(
    scheduler: str, pool: CompilePool
) -> None:
    without_instructions_are_right(0, 1, pool, scheduler)


@pytest.mark.long
@of_groups_and_of_a_thread
@pytest.mark.parametrize("seed", range(1, 11))
def test_a_hundred_products_give_the_same_integers_without_instructions(
    seed: int, scheduler: str, pool: CompilePool
) -> None:
    without_instructions_are_right(seed, 10, pool, scheduler)


def outcome(trace: ScheduleTrace, pool: CompilePool, arch: Arch) -> str:
    """ "right", or "refused" by a rule that has a name; anything else in words."""
    try:
        fault = fault_of(trace, pool, arch)
    except (IllegalSchedule, InvalidStep, Unsupported) as error:
        named = isinstance(error, Unsupported) or (error.violations and all(v.rule for v in error.violations))
        return "refused" if named else f"without a name: {error}"
    except CompileError as error:
        return "refused" if "C75" in str(error) else f"CompileError: {error}"
    return fault or "right"


ON_HOPPER, IN_TENSOR_MEMORY = ("product", "product", "warp_product"), ("tensor_product",)


def changed_are_right_or_refused(
    seed: int, count: int, pool: CompilePool, schedulers: tuple[str, ...] = ON_HOPPER
) -> Counter[str]:
    random, met = Random(seed), Counter[str]()
    arch = BLACKWELL if schedulers == IN_TENSOR_MEMORY else HOPPER
    for name, trace in islice(traces(seed, random.choice(schedulers)), count):
        what, other = changed(trace, random)
        found = outcome(other, pool, arch)
        assert found in ("right", "refused"), f"{name}\n{what}\n{found}"
        met[found] += 1
    return met


def test_products_with_one_step_changed_are_right_or_refused_by_name(pool: CompilePool) -> None:
    changed_are_right_or_refused(100, 4, pool)


def test_products_in_tensor_memory_with_one_step_changed_are_right_or_refused_by_name(pool: CompilePool) -> None:
    changed_are_right_or_refused(5, 2, pool, IN_TENSOR_MEMORY)


@pytest.mark.long
@pytest.mark.parametrize("schedulers", [ON_HOPPER, IN_TENSOR_MEMORY], ids=["Hopper", "tensor memory"])
def test_two_hundred_products_with_one_step_changed_are_right_or_refused_by_name(
    schedulers: tuple[str, ...], pool: CompilePool
) -> None:
    met = sum((changed_are_right_or_refused(seed, 10, pool, schedulers) for seed in range(20)), Counter[str]())
    assert met["right"] >= 0.6 * met.total(), met
