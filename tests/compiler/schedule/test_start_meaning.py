"""The start form means what the fusion does, and keeps what is known of its inputs."""

from __future__ import annotations

from hypothesis import assume, given, settings

from compiler.errors import Unsupported
from compiler.schedule.start import start
from compiler.wire import bind
from fusetune.wire import parse_binding, parse_fusion
from tests.compiler.schedule.start_forms import (
    check_form,
    check_meaning,
    op,
)
from tests.compiler.schedules import from_wire
from tests.sdk.fusion_strategies import BINDABLE, Document, documents, sizes_for


def test_strides_and_alignment_of_inputs_are_kept() -> None:
    inputs = [{"name": "x0", "shape": [4, 8], "dtype": "bf16", "strides": [24, 1], "align": 128}]
    fusion = from_wire(inputs, [op("neg", "y", "x0")], "y")
    t = start(fusion).tensor("i0")
    assert t.allocation is not None
    assert (t.allocation.axes, t.allocation.strides, t.align) == (t.logical, (24, 1), 128)


@settings(derandomize=True, deadline=None, max_examples=250)
@given(documents(kinds=BINDABLE, dtypes=["f64", "f32", "f16", "bf16"]))
def test_random_fusions_keep_their_meaning(document: Document) -> None:
    """Values that one space cannot hold are refused; whatever is not refused means the same."""
    fusion = bind(parse_fusion(document), parse_binding({"sizes": sizes_for(document)}))
    try:
        sf = start(fusion)
    except Unsupported:
        assume(False)
    check_form(fusion, sf)
    check_meaning(fusion, sf)
    assert start(fusion) == sf
