"""Cuts of fusions whose outputs are written into inputs: what else reads such an input, does so before."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from compiler.arch import card_or_default
from compiler.errors import InvalidFusion, Unsupported
from compiler.ir.fusion import Fusion
from compiler.ir.pinned import pinned
from compiler.schedule.aliases import late_reads
from compiler.schedule.start import start
from compiler.wire import bind, trace_from_json, trace_to_json
from fusetune import FusionBuilder
from fusetune.wire.binding import Binding
from search.launches.cheapest import cheapest_cut
from search.launches.cut import cut_at
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


def swapped(*, copies: bool) -> Fusion:
    """Two tensors, each in the memory of the other."""
    f = FusionBuilder()
    x, y = f.input("x", (64, 48), "f32"), f.input("y", (64, 48), "f32")
    held = f.copy(y) if copies else y
    f.output(f.copy(x), alias=y)
    f.output(f.copy(held), alias=x)
    return bind(f.build(), Binding())


def test_two_that_wait_for_each_other_are_refused_with_what_to_do() -> None:
    with pytest.raises(Unsupported, match="no launch can write into its input while another still reads it"):
        Plan.of(swapped(copies=False), CARD)
    assert Plan.of(swapped(copies=True), CARD).legal


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
