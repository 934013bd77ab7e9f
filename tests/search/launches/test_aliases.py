"""Cuts of fusions whose outputs are written into inputs: what else reads such an input, does so before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from compiler.arch import card_or_default
from compiler.emulate.ptx.parser import parse
from compiler.errors import InvalidFusion, Unsupported
from compiler.ir.fusion import Fusion
from compiler.ir.pinned import pinned
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from compiler.schedule.aliases import late_reads
from compiler.schedule.start import start
from compiler.wire import bind, trace_from_json, trace_to_json
from fusetune import FusionBuilder
from fusetune.wire.binding import Binding
from search.launches.cheapest import cheapest_cut
from search.launches.cut import cut_at
from search.proof.emulated.running import ORDERS, run_set
from search.proof.verify.inputs import RANDOM
from search.space.schedulers.launches import Launches
from search.tuning.candidates.plan import Plan

CARD = card_or_default("H200")
LATE: tuple[tuple[str, list[tuple[set[str], set[str]]], list[tuple[int, str]]], ...] = (
    ("read where it is written", [({"x"}, {"y"})], []),
    ("read before", [({"x"}, {"s0"}), ({"s0"}, {"y"})], []),
    ("read before and where it is written", [({"x"}, {"s0"}), ({"s0", "x"}, {"y"})], []),
    ("read after", [({"x"}, {"y"}), ({"x", "y"}, {"z"})], [(1, "x")]),
    ("never written", [({"x"}, {"z"}), ({"x"}, {"w"})], []),
)


@pytest.mark.parametrize(("name", "launches", "late"), LATE, ids=[row[0] for row in LATE])
def test_the_launch_that_writes_is_the_last_that_reads(
    name: str, launches: Sequence[tuple[set[str], set[str]]], late: list[tuple[int, str]]
) -> None:
    assert list(late_reads((("y", "x"),), launches)) == late


def two_outputs() -> Fusion:
    """y is written into x, of which z is the transpose: one launch cannot hold both."""
    f = FusionBuilder()
    x = f.input("x", (64, 48), "f32")
    f.output(f.exp(x), "y", alias=x)
    f.output(f.sum(f.permute(x, (1, 0)), dims=(0,)), "z")
    return pinned(bind(f.build(), Binding()))


def _holds(part: Fusion) -> bool:
    try:
        start(part)
    except Unsupported:
        return False
    return True


def test_the_cheapest_cut_reads_an_input_before_it_is_written() -> None:
    fusion = two_outputs()
    cut = cheapest_cut(fusion, CARD, _holds)
    assert cut is not None
    assert not list(late_reads(fusion.aliases, [(part.reads, part.writes) for part in cut.parts]))
    assert [part.fusion.aliases for part in cut.parts if fusion.outputs[0] in part.writes] == [(("v0", "i0"),)]


@pytest.mark.parametrize("written_first", [True, False])
def test_what_nothing_was_read_for_is_written_last(written_first: bool) -> None:
    """The difference to what was there before, and what is there from now on: two launches, in whatever order the
    outputs are named."""
    f = FusionBuilder()
    now, before = f.input("now", (64, 48), "f32"), f.input("before", (64, 48), "f32")
    change, kept = now - before, f.copy(now)
    for output in (kept, change) if written_first else (change, kept):
        f.output(output, alias=before if output is kept else None)
    fusion = pinned(bind(f.build(), Binding()))
    plan = Plan.of(fusion, CARD)
    (made,) = (x for x in plan.schedulers.values() if isinstance(x, Launches))
    kept_name = fusion.outputs[0 if written_first else 1]
    assert [set(part.writes) for part in made.cut.parts][-1] == {kept_name}


def swapped() -> Fusion:
    """Two tensors, each in the memory of the other."""
    f = FusionBuilder()
    x, y = f.input("x", (64, 48), "f32"), f.input("y", (64, 48), "f32")
    f.output(f.copy(x), alias=y)
    f.output(f.copy(y), alias=x)
    return bind(f.build(), Binding())


def of_both() -> Fusion:
    """What is written into an input, and what is made of that and of the input as it was."""
    f = FusionBuilder()
    x = f.input("x", (64, 48), "f32")
    sums = f.cumsum(x, 1)
    f.output(sums, alias=x)
    f.output(f.le(sums, f.flip(x, (0,))))
    return bind(f.build(), Binding())


@pytest.mark.parametrize("build", [swapped, of_both])
def test_what_others_wait_for_is_worked_out_apart(build: Callable[[], Fusion], pool: CompilePool) -> None:
    plan = Plan.of(build(), CARD)
    (candidate, *_) = plan.sample(1, 3)
    assert "apart" in candidate.scheduler or build is of_both  # which may store the input turned over instead
    made = generate(plan.schedulers[candidate.scheduler].trace(plan.fusion, candidate.knobs), CARD.arch)
    built = artifact(made, pool.submit(made.source, CARD.arch.name).result())
    assert run_set(plan.fusion, built, parse(built.ptx), RANDOM, ORDERS[-1:]).fault == ""


def test_a_cut_that_reads_it_after_is_refused() -> None:
    fusion = two_outputs()
    y, z = fusion.outputs
    assert cut_at(fusion, [(z,), (y,)]).program is fusion
    with pytest.raises(ValueError, match=r"inputs \['i0'\] are read after outputs were written into them"):
        cut_at(fusion, [(y,), (z,)])


def test_a_program_of_launches_travels_with_its_aliases_and_not_without() -> None:
    f = FusionBuilder()
    x = f.input("x", (256, 300), "f32")
    rows = x - f.sum(x, dims=(1,)).broadcast_to(x.shape, dims=(0,))
    f.output(rows * f.sum(rows, dims=(0,)).broadcast_to(x.shape, dims=(1,)), alias=x)
    plan = Plan.of(bind(f.build(), Binding()), CARD)
    name, space = next((name, s) for name, s in plan.searchable.items() if name.startswith("launches"))
    trace = plan.schedulers[name].trace(plan.fusion, next(iter(space.sample(1, 0))))
    document = trace_to_json(trace)
    assert trace_from_json(document) == trace
    for launch in document["launches"]:
        for output in launch["fusion"]["fusion"]["outputs"]:
            if output.pop("alias", None) is not None:
                with pytest.raises(InvalidFusion, match=r"aliases \{\}"):
                    trace_from_json(document)
                return
    raise AssertionError("no launch has an alias")
