"""Schedulers against the compiler: their legal points compile, and what they call illegal is.

A constraint is named either after the rule of the compiler that would refuse the point, or after a reason of the
search's own (repeats of another point, what cannot be fast). The first kind is held against the rules here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest

from compiler.arch import arch_named
from compiler.errors import CompilerError
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.legality.rules import BEYOND, MODEL, RULES, STOOD_FOR, STRUCTURE, Schedule, check, check_model
from compiler.pipeline import generate
from compiler.schedule.trace import launches_of
from search.space.protocol import Scheduler
from search.space.schedulers import schedulers_for
from search.space.space import Space
from tests.cards import card_of
from tests.search.schedulers.column_fusions import COLUMNS
from tests.search.schedulers.fusions import SMALL, suite_fusions
from tests.search.schedulers.points import SM_COUNT
from tests.shares import shared

HOPPER, AMPERE = arch_named("sm_90a"), arch_named("sm_80")
MODEL_NAMES = {getattr(rule, "__name__", "") for rule in MODEL} - STOOD_FOR.keys() - BEYOND.keys()
RULE_NAMES = {getattr(rule, "__name__", "") for rule in (*STRUCTURE, *RULES)} | MODEL_NAMES
FUSIONS = {**suite_fusions(), **SMALL, **COLUMNS}
Point = dict[str, Any]

STRICTER: dict[str, Callable[[str, str, Point, set[str]], bool]] = {}
"""Points that a scheduler refuses under a rule's name and the rule allows: legal, and never tried."""


@cache
def spaces(name: str) -> tuple[tuple[Scheduler, Space], ...]:
    schedulers = schedulers_for(FUSIONS[name], card_of(HOPPER, SM_COUNT))
    return tuple((scheduler, scheduler.space(FUSIONS[name], HOPPER)) for scheduler in schedulers)


def refused_by_rules(space: Space, points: list[Point], rng: np.random.Generator) -> Iterator[tuple[Point, set[str]]]:
    """Points one knob away from a legal one that only constraints named after rules refuse."""
    for point in points:
        flips = [(k.name, v) for k in space.knobs for v in k.values if v != point[k.name]]
        for i in rng.permutation(len(flips)):
            knob, value = flips[i]
            flipped = {**point, knob: value}
            rules = {v.rule for v in space.violations(flipped)}
            if rules and rules <= RULE_NAMES:
                yield flipped, rules


def compiles(scheduler: Scheduler, fusion: Fusion, point: Point) -> bool:
    try:
        generate(scheduler.trace(fusion, point), HOPPER)
    except CompilerError:
        return False
    return True


def check_legal_points(name: str, count: int, seed: int) -> None:
    for scheduler, space in spaces(name):
        points = space.sample(count, seed)
        assert points, f"{scheduler.name} takes {name} and has no point for it"
        for point in points:
            try:
                generate(scheduler.trace(FUSIONS[name], point), HOPPER)
            except CompilerError as error:
                error.add_note(f"{name}, {scheduler.name}: {point}")
                raise


def check_refused_points(name: str, count: int, seed: int) -> set[str]:
    """Returns which of the exceptions above were met."""
    met: set[str] = set()
    rng = np.random.default_rng(seed)
    for scheduler, space in spaces(name):
        points = space.sample(count, seed)
        for point, rules in islice(refused_by_rules(space, points, rng), count):
            if not compiles(scheduler, FUSIONS[name], point):
                continue
            known = {why for why, applies in STRICTER.items() if applies(name, scheduler.name, point, rules)}
            assert known, f"{name}, {scheduler.name}: {sorted(rules)} is not the compiler's opinion of {point}"
            met |= known
    return met


@pytest.mark.parametrize("name", shared(FUSIONS, 4))
def test_legal_points_compile(name: str) -> None:
    check_legal_points(name, 1, seed=1)


@pytest.mark.parametrize("name", shared(FUSIONS, 4, 2))
def test_points_refused_under_a_rule_s_name_are_refused_by_the_compiler(name: str) -> None:
    check_refused_points(name, 3, seed=2)


@pytest.mark.long
@pytest.mark.parametrize("name", FUSIONS)
def test_many_legal_points_compile(name: str) -> None:
    check_legal_points(name, 150, seed=3)


@pytest.mark.long
def test_many_points_refused_under_a_rule_s_name_are_refused_by_the_compiler() -> None:
    met = {why for name in FUSIONS for why in check_refused_points(name, 40, seed=4)}
    assert met == set(STRICTER), "an exception that no longer occurs: remove it"


GUARDED = {"words_start_at_aligned_addresses", "tensor_map_address_is_aligned", "bulk1d_runs_start_on_16_bytes"}
"""Rules of the model on addresses, which alone a trace leaves to a launch: artifacts guard them."""


def test_what_is_lowered_is_legal_by_the_model() -> None:
    """But for what the lowering does beyond the model, of which each occurs."""
    assert beyond_the_model(3, seed=10) == BEYOND.keys(), "an exception that no longer occurs: remove it"


@pytest.mark.long
def test_all_that_is_lowered_is_legal_by_the_model() -> None:
    assert beyond_the_model(24, seed=7) == BEYOND.keys()


def is_stored_in_turns(s: Schedule) -> bool:
    """Whether a shared tensor lies in an unrolled loop: the model has room for every turn."""
    shared = (t for t in s.sf.tensors if t.memory is MemoryType.SHARED)
    return any(ParallelType.UNROLL in t.types[: max(t.compute_at, 0)] for t in shared)


def beyond_the_model(count: int, seed: int) -> set[str]:
    """The rules of the model that points of every fusion break, which must be such as the lowering goes beyond."""
    beyond: set[str] = set()
    for name in FUSIONS:
        for scheduler, space in spaces(name):
            for point in space.sample(count, seed):
                for launch in launches_of(scheduler.trace(FUSIONS[name], point)):
                    s = Schedule(launch.trace.replay(), HOPPER)
                    assert launch.trace.scheduled == s.sf, "what was made while the steps were written is what they say"
                    violations, kept = check_model(s)
                    found = {v.rule for v in violations}
                    assert check(s) == (), f"{name}, {scheduler.name}: {point}"
                    assert found <= BEYOND.keys(), f"{name}, {scheduler.name}: {point}: {found - BEYOND.keys()}"
                    assert {k.rule for k in kept} <= GUARDED
                    fits = s.smem.total_bytes >= s.shared_bytes.total
                    assert fits or is_stored_in_turns(s), "the model counts bytes that are not allocated"
                    beyond |= found
    return beyond


@pytest.mark.parametrize("count", [1, pytest.param(12, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", shared(FUSIONS, 6, 1))
def test_schedules_without_the_copy_engine_are_legal_on_ampere(name: str, count: int) -> None:
    for scheduler in schedulers_for(FUSIONS[name], card_of(AMPERE, SM_COUNT)):
        for point in scheduler.space(FUSIONS[name], AMPERE).sample(count, seed=5):
            made = generate(scheduler.trace(FUSIONS[name], point), AMPERE)
            assert not any(launch.kernel.tensor_maps for launch in made.launches)


def test_every_fusion_has_a_scheduler() -> None:
    assert [name for name in FUSIONS if not schedulers_for(FUSIONS[name], card_of(HOPPER, SM_COUNT))] == []


def test_constraints_are_named_after_rules_or_after_reasons_of_the_search() -> None:
    """A rule's name that is misspelt would never be held against the rule."""
    own = (
        "redundant_",
        "registers_in_flight",
        "tile_fits_the_registers_of_a_thread",
        "tile_exceeds_the_problem",
        "persistent_",
        "scattered_access",
        "groups_are_of_whole_runs",
        "shared_tile_has_a_halo",
        "blocks_follow_the_stores",
        "hint_loses_lines",
        "loads_stay_ahead",
        "runs_at_odd_addresses_are_long",
        "swizzle_is_the_widest",
        "tile_is_neither_small_nor_large",
        "tile_rows_are_lines",
        "swizzle_fits_the_tile",
        "threads_cover_the_tile",
        "threads_fill_the_rings_they_copy",
        "partials_fit_shared_memory",
        "cluster_is_needed",
        "multicast_",
        "staged_loads_are_long",
        "staged_stores_are_long",
        "few_boxes",
        "few_copies_a_block",
        "few_vectors",
        "sent_rows_are_",
        "wide_words",
        "bytes_in_flight",
        "block_of_512_threads",
        "hints_of_streams",
        "rows_are_swept",
        "sweeps_stay_in_l2",
        "staged_rows_are_cut_evenly",
        "groups_are_of_whole_runs",
        "product_",
    )
    named = {c.rule for name in FUSIONS for _, space in spaces(name) for c in space.constraints}
    assert {rule for rule in named if not rule.startswith(own)} <= RULE_NAMES
