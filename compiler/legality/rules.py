"""The registry of rules and the checks that run them.

A rule is one function from a `Schedule` to the breaches it finds; it neither repairs nor raises. Three lists:

- `MODEL`: what the scheduling model and the hardware allow, whatever this compiler can lower. `python -m compiler
  check` and `POST /v1/schedules/check` run these alone.
- `STRUCTURE`: what must hold before index maps exist.
- `RULES`: what those index maps must fulfil for this compiler's lowering.

What is lowered must keep to all three, but for the rules of the model in `STOOD_FOR` and `BEYOND`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps

from compiler.analysis.facts import Facts
from compiler.arch import Arch
from compiler.errors import Kept, Stage, Violation
from compiler.schedule.refusals.registry import Site, StepRule


@dataclass(frozen=True)
class Schedule(Facts):
    """A scheduled fusion on an architecture, with the analyses that rules share."""

    arch: Arch


Rule = Callable[[Schedule], Iterable[Violation]]
ModelRule = Callable[[Schedule], Iterable[Violation | Kept]]
MODEL: list[ModelRule] = []
STRUCTURE: list[Rule] = []
RULES: list[Rule] = []


STOOD_FOR: dict[str, str] = {
    "block_has_threads_enough": "block_fits_the_architecture",
    "grid_has_blocks_enough": "grid_fits_the_architecture",
    "values_for_other_blocks_lie_in_global_memory": "values_are_read_where_they_were_made",
    "values_for_other_threads_lie_in_memory_they_share": "values_are_read_where_they_were_made",
    "words_are_of_a_width_that_exists": "vector_word_is_one_instruction",
    "words_are_contiguous": "vector_lanes_are_consecutive",
    "words_start_at_aligned_addresses": "vector_address_is_aligned",
    "words_start_at_aligned_rows": "vector_address_is_aligned",
}
"""Rules of the model, each with the rule of the lowering that finds the same in what is lowered: in index maps, in the
launch and in the addresses of shared memory."""

BEYOND: dict[str, str] = {
    "words_divide_what_they_cut": "the last word of a row goes element by element",
    "vectorized_operator_copies": "what is broadcast is stored in words too",
    "words_are_inner_pieces_of_memory": "the strides of a binding decide which axis of an input is innermost",
    "buffered_bulk_runs_have_loading_warps": "one elected thread of the block fills the stages ahead",
    "pipelined_loop_fills_its_stages": "a stage is filled ahead only where its turn comes",
    "shared_memory_fits_a_block": "what is stored in an unrolled loop takes its room once, and not for every turn",
    "registers_are_shared_in_the_outermost_loop": "registers move where the parts of a block begin, before any loop",
}
"""Rules of the model that do not bind the lowering, and what it does instead."""


def model_rule(f: ModelRule) -> ModelRule:
    """Registers a rule of the scheduling model."""
    MODEL.append(f)
    return f


def structure_rule(f: Rule) -> Rule:
    """Registers a rule that must hold before indices can be computed."""
    STRUCTURE.append(f)
    return f


def rule(f: Rule) -> Rule:
    """Registers a rule of the lowering."""
    RULES.append(f)
    return f


def asked_again(refusing: StepRule, sites: Callable[[Schedule], Iterable[tuple[Site, object]]]) -> None:
    """Makes a rule of the model of one that refuses steps: it is asked of the finished schedule, at every one of
    `sites`, under the same name."""

    @wraps(refusing)
    def again(s: Schedule) -> Iterator[Violation]:
        for site, step in sites(s):
            yield from (refusal.by(refusing, Stage.COMPILE) for refusal in refusing(site, step))

    again.__module__ = sites.__module__
    MODEL.append(again)


def check(schedule: Schedule) -> tuple[Violation, ...]:
    """Every breach of what the lowering must keep to; structure first, and alone if it fails.

    What the model leaves to a launch is settled by the binding, but for addresses, which artifacts guard.
    """
    broken = tuple(v for r in STRUCTURE for v in r(schedule))
    if broken:
        return broken
    binding = (r for r in MODEL if getattr(r, "__name__", "") not in STOOD_FOR.keys() | BEYOND.keys())
    model = (v for r in binding for v in r(schedule) if isinstance(v, Violation))
    return (*model, *(v for r in RULES for v in r(schedule)))


def check_model(schedule: Schedule) -> tuple[tuple[Violation, ...], tuple[Kept, ...]]:
    """Every breach of the model's rules, and the conditions that a launch must settle."""
    found = [v for r in MODEL for v in r(schedule)]
    return tuple(v for v in found if isinstance(v, Violation)), tuple(v for v in found if isinstance(v, Kept))
