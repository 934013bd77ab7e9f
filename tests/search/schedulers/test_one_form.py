"""One form for each operator of a fusion, in the kernel IR of all of its launches (docs/contracts.md, "Bits")."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compiler.arch import card_or_default
from compiler.errors import CompilerError
from compiler.ir.fusion import Fusion
from compiler.ir.ops import FOLDS, MathGrade, OpKind
from compiler.lower.kernel_ir import Compute
from compiler.lower.traversal import walk
from compiler.pipeline import Generated, generate
from compiler.schedule.trace import ProgramTrace
from search.space.schedulers.launches import Launches
from search.tuning.candidates.plan import Plan
from tests.search.random_fusions.cases import random_case

CARD = card_or_default("H200")
_APPROXIMATED = frozenset(MathGrade) - {MathGrade.EXACT}


def written_out(fusion: Fusion, leaves: dict[str, str]) -> dict[str, str]:
    """Every value as an expression of leaves, with the form of each operator."""
    said = dict(leaves)
    for op in fusion.ops:
        ins = ", ".join(said[x] if isinstance(x, str) else str(x) for x in op.inputs)
        shape = fusion.value(op.output).shape
        said[op.output] = f"{op.kind} {op.grade} {op.is_term} {op.dims} {op.start} {shape}({ins})"
    return said


def of_launches(trace: ProgramTrace) -> Iterator[str]:
    """The expressions of all values that launches work out, stored ones written out as well."""
    places = {f"i{n}": f"i{n}" for n in range(len(trace.fusion.inputs))}
    for one in trace.launches:
        own = one.trace.fusion
        said = written_out(own, {name: places[place] for name, place in zip(own.inputs, one.reads, strict=True)})
        places |= {place: said[name] for name, place in zip(own.outputs, one.writes, strict=True)}
        yield from (said[op.output] for op in own.ops)


def approximated(generated: Generated) -> set[tuple[OpKind, MathGrade]]:
    return {
        (s.kind, s.grade)
        for launch in generated.launches
        for s in walk(launch.kernel.body)
        if isinstance(s, Compute) and s.grade in _APPROXIMATED
    }


def traced(seed: int) -> Iterator[Generated]:
    """A point of every way to cut a random fusion as it is, and of every kernel that holds it whole."""
    plan = Plan.of(random_case(seed, "small").bound(), CARD)
    for name, scheduler in plan.schedulers.items():
        if isinstance(scheduler, Launches) and scheduler.how:
            continue  # a rewriting has terms of its own
        for point in plan.spaces[name].sample(2, seed):
            try:
                yield generate(scheduler.trace(plan.fusion, point), CARD.arch)
            except CompilerError:  # what the whole model refuses
                continue


@pytest.mark.parametrize("first", [0, 10, *(pytest.param(n, marks=pytest.mark.long) for n in range(20, 100, 10))])
def test_every_launch_gives_an_operator_the_form_that_the_fusion_gives_it(first: int) -> None:
    looked_at = 0
    for seed in range(first, first + 10):
        for generated in traced(seed):
            whole = generated.trace.fusion
            assert whole.is_pinned
            given = {(op.kind, op.grade) for op in whole.ops}
            given |= {(OpKind.DIV, op.grade) for op in whole.ops if op.kind is OpKind.MEAN}
            assert approximated(generated) <= given
            if isinstance(generated.trace, ProgramTrace):
                known = set(written_out(whole, {name: name for name in whole.inputs}).values())
                assert set(of_launches(generated.trace)) <= known
            looked_at += 1
    assert looked_at > 10


def test_a_function_that_folds_read_and_a_launch_reads_again_is_one() -> None:
    """What the property looks for is there to be found: another grade in one launch is another expression."""
    for generated in (made for seed in range(40) for made in traced(seed)):
        trace = generated.trace
        if isinstance(trace, ProgramTrace) and any(op.kind in FOLDS for op in trace.fusion.ops):
            known = set(written_out(trace.fusion, {name: name for name in trace.fusion.inputs}).values())
            changed = {said.replace(" exact ", " approx ", 1) for said in of_launches(trace)}
            assert not changed <= known
            return
    raise AssertionError("no random fusion was cut")
