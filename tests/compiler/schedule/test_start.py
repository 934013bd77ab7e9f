"""The unscheduled form: views at the inputs, one shape from there to an output, the same meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compiler.dtypes import DType
from compiler.errors import Unsupported
from compiler.ir.domain import ScheduledFusion, producer_indices
from compiler.ir.expr import Var, var
from compiler.ir.fusion import Fusion, Literal, Op, Value, dense_strides
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import VIEWS, OpKind
from compiler.ir.tensor import TensorOp
from compiler.reference import evaluate
from compiler.schedule.start import start
from compiler.wire import bind
from fusetune.wire import parse_binding, parse_fusion
from tests.compiler.schedules import from_wire
from tests.sdk.fusion_strategies import COMPILED, Document, documents, sizes_for

Draw = Callable[[st.SearchStrategy[Any]], Any]


def fusion_of(shapes: Sequence[Sequence[int]], ops: Sequence[Mapping[str, Any]], *outputs: str) -> Fusion:
    """Inputs x0, x1, ..; bound, they are i0, i1, .. and results v0, v1, .."""
    return from_wire([{"name": f"x{i}", "shape": list(s), "dtype": "f32"} for i, s in enumerate(shapes)], ops, *outputs)


def permute(of: str, out: str, *dims: int) -> Document:
    return {"op": "permute", "in": [of], "out": out, "dims": list(dims)}


def broadcast(of: str, out: str, shape: Sequence[int], *dims: int) -> Document:
    return {"op": "broadcast_to", "in": [of], "out": out, "shape": list(shape), "dims": list(dims)}


def op(kind: str, out: str, *ins: Any) -> Document:
    return {"op": kind, "in": list(ins), "out": out}


# An evaluator of scheduled fusions -----------------------------------------------------------------------------------


def evaluate_scheduled(sf: ScheduledFusion, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a scheduled fusion, op by op in its own order; views by the index map that lowering uses."""
    known = dict(zip(sf.inputs, inputs, strict=True))
    for o in sf.ops:
        shape = tuple(a.extent for a in sf.tensor(o.output).logical)
        known[o.output] = viewed(sf, o, known, shape) if o.kind in VIEWS else computed(o, known, shape)
    return [known[name] for name in sf.outputs]


def viewed(sf: ScheduledFusion, o: TensorOp, known: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
    source = str(o.inputs[0])
    grid = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")
    values = {f"d{d}": g for d, g in enumerate(grid)}
    index = tuple(var(Var(f"d{d}", n)) for d, n in enumerate(shape))
    read = producer_indices(o, sf.tensor(source), index, shape)
    return known[source][tuple(np.broadcast_to(e.evaluate(values), shape) for e in read)]


def computed(o: TensorOp, known: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
    names = tuple(dict.fromkeys(o.tensor_inputs))
    values = tuple(Value(n, shape, DType.F64, dense_strides(shape)) for n in (*names, "out"))
    one = Fusion(values, names, (Op(o.kind, o.inputs, "out"),), ("out",), "", "")
    return evaluate(one, [known[n] for n in names], np)[0]


def random_inputs(fusion: Fusion) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.uniform(0.5, 2.0, fusion.value(name).shape) for name in fusion.inputs]


def check_meaning(fusion: Fusion, sf: ScheduledFusion) -> None:
    inputs = random_inputs(fusion)
    for found, expected in zip(evaluate_scheduled(sf, inputs), evaluate(fusion, inputs, np), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, equal_nan=True)


def check_form(fusion: Fusion, sf: ScheduledFusion) -> None:
    """Views read inputs, elementwise operators have one shape, outputs are global, nothing stands without a use."""
    names = [t.name for t in sf.tensors]
    assert len(set(names)) == len(names)
    assert {o.output for o in sf.ops} | set(sf.inputs) == set(names)
    made = set(sf.inputs)
    for o in sf.ops:
        assert set(o.tensor_inputs) <= made, f"{o.output} stands before its operands"
        made.add(o.output)
        result = sf.tensor(o.output)
        if o.kind in VIEWS:
            assert set(o.inputs) <= set(sf.inputs), f"{o.output} is a view of {o.inputs}, which is no input"
        else:
            for x in o.tensor_inputs:
                assert [a.extent for a in sf.tensor(x).logical] == [a.extent for a in result.logical]
        assert sf.consumers(o.output) or o.output in sf.outputs, f"{o.output} is used by nothing"
    for t in sf.tensors:
        is_global = t.name in (*sf.inputs, *sf.outputs)
        assert (t.memory is MemoryType.GLOBAL) == is_global
        assert t.memory is MemoryType.GLOBAL or t.memory is MemoryType.LOCAL
        assert (t.loop, t.exprs, t.compute_at) == (t.logical, (), 0)
        if is_global:
            value = fusion.value(t.name)
            assert t.allocation is not None
            assert (t.allocation.strides, t.align) == (value.strides, value.align)
            assert tuple(a.extent for a in t.logical) == value.shape


# Tables --------------------------------------------------------------------------------------------------------------


def printed(sf: ScheduledFusion) -> list[str]:
    """One line an op; a dimension along which nothing varies has a b before its size."""
    lines = []
    for o in sf.ops:
        shape = ",".join(f"{'b' if a.is_broadcast else ''}{a.extent}" for a in sf.tensor(o.output).logical)
        ins = ", ".join(str(x.value) if isinstance(x, Literal) else x for x in o.inputs)
        dims = f" {list(o.dims)}" if o.dims else ""
        lines.append(f"{o.output}[{shape}] = {o.kind}({ins}){dims}")
    return lines


CASES = [
    pytest.param([[2, 3]], [op("exp", "y", "x0")], ["y"], ["v0[2,3] = exp(i0)"], id="no-view"),
    pytest.param(
        [[2, 3]],
        [op("exp", "e", "x0"), permute("e", "y", 1, 0)],
        ["y"],
        ["w0[3,2] = permute(i0) [1, 0]", "w1[3,2] = exp(w0)", "v1[3,2] = copy(w1)"],
        id="permute-moves-before-the-arithmetic",
    ),
    pytest.param(
        [[2, 3], [3]],
        [broadcast("x1", "b", [2, 3], 1), op("add", "y", "x0", "b")],
        ["y"],
        ["w0[b2,3] = broadcast_to(i1) [1]", "v1[2,3] = add(i0, w0)"],
        id="broadcast-operand",
    ),
    pytest.param(
        [[2, 3], [3]],
        [op("exp", "e", "x1"), broadcast("e", "b", [2, 3], 1), op("add", "y", "x0", "b")],
        ["y"],
        ["w0[b2,3] = broadcast_to(i1) [1]", "w1[b2,3] = exp(w0)", "v2[2,3] = add(i0, w1)"],
        id="a-result-that-varies-along-nothing-new-stays-broadcast",
    ),
    pytest.param(
        [[2, 3]],
        [permute("x0", "y", 1, 0)],
        ["y"],
        ["w0[3,2] = permute(i0) [1, 0]", "v0[3,2] = copy(w0)"],
        id="a-view-as-output-is-copied",
    ),
    pytest.param(
        [[3]],
        [broadcast("x0", "y", [2, 3], 1)],
        ["y"],
        ["w0[b2,3] = broadcast_to(i0) [1]", "v0[2,3] = copy(w0)"],
        id="a-broadcast-as-output-is-copied",
    ),
    pytest.param(
        [[2, 3, 4]],
        [permute("x0", "a", 2, 0, 1), permute("a", "b", 1, 2, 0), op("neg", "y", "b")],
        ["y"],
        ["v2[2,3,4] = neg(i0)"],
        id="permutes-that-undo-each-other-vanish",
    ),
    pytest.param(
        [[2, 3, 4]],
        [permute("x0", "a", 1, 0, 2), permute("a", "b", 0, 2, 1), op("neg", "y", "b")],
        ["y"],
        ["w0[3,4,2] = permute(i0) [1, 2, 0]", "v2[3,4,2] = neg(w0)"],
        id="a-chain-of-permutes-is-one",
    ),
    pytest.param(
        [[2, 3]],
        [permute("x0", "t", 1, 0), op("add", "y", "t", "t")],
        ["y"],
        ["w0[3,2] = permute(i0) [1, 0]", "v1[3,2] = add(w0, w0)"],
        id="the-same-view-is-made-once",
    ),
    pytest.param(
        [[3, 3]],
        [permute("x0", "t", 1, 0), op("add", "y", "t", "x0")],
        ["y"],
        ["w0[3,3] = permute(i0) [1, 0]", "v1[3,3] = add(w0, i0)"],
        id="the-same-input-through-two-views",
    ),
    pytest.param(
        [[2, 3]],
        [op("exp", "e", "x0"), permute("e", "y", 1, 0)],
        ["e", "y"],
        ["v0[2,3] = exp(i0)", "w1[3,2] = permute(i0) [1, 0]", "w2[3,2] = exp(w1)", "v1[3,2] = copy(w2)"],
        id="an-output-seen-through-a-view-is-computed-again",
    ),
    pytest.param(
        [[2, 3]],
        [op("exp", "e", "x0"), op("neg", "y", "e")],
        ["y", "e"],
        ["v0[2,3] = exp(i0)", "v1[2,3] = neg(v0)"],
        id="an-output-consumed-inside",
    ),
    pytest.param(
        [[4]],
        [broadcast("x0", "a", [2, 4], 1), broadcast("x0", "b", [3, 4], 1), op("neg", "y", "a"), op("exp", "z", "b")],
        ["y", "z"],
        ["w0[b2,4] = broadcast_to(i0) [1]", "w2[b3,4] = broadcast_to(i0) [1]"],
        id="one-view-into-two-shapes",
    ),
    pytest.param(
        [[2, 3]],
        [op("mul", "y", "x0", 2.5)],
        ["y"],
        ["v0[2,3] = mul(i0, 2.5)"],
        id="literals-stay",
    ),
]


@pytest.mark.parametrize(("shapes", "ops", "outputs", "expected"), CASES)
def test_forms(shapes: list[list[int]], ops: list[Document], outputs: list[str], expected: list[str]) -> None:
    fusion = fusion_of(shapes, ops, *outputs)
    sf = start(fusion)
    check_form(fusion, sf)
    check_meaning(fusion, sf)
    assert set(expected) <= set(printed(sf))


SIZE_ONE = [
    pytest.param([[1, 3]], [broadcast("x0", "b", [2, 3], 0, 1), op("exp", "y", "b")], "b2,3", id="rows"),
    pytest.param([[2, 1]], [broadcast("x0", "b", [2, 3], 0, 1), op("exp", "y", "b")], "2,b3", id="columns"),
    pytest.param([[1]], [broadcast("x0", "b", [4], 0), op("exp", "y", "b")], "b4", id="scalar"),
    pytest.param([[2, 1]], [broadcast("x0", "b", [5, 2, 3], 1, 2), op("exp", "y", "b")], "b5,2,b3", id="and-new"),
    pytest.param([[1, 3]], [op("exp", "e", "x0"), broadcast("e", "y", [2, 3], 0, 1)], "b2,3", id="of-a-result"),
    pytest.param(
        [[1, 3]],
        [permute("x0", "t", 1, 0), broadcast("t", "b", [3, 2], 0, 1), op("exp", "y", "b")],
        "3,b2",
        id="of-a-permute",
    ),
    pytest.param(
        [[2, 1, 1]],
        [broadcast("x0", "b", [2, 3, 4], 0, 1, 2), permute("b", "t", 2, 0, 1), op("exp", "y", "t")],
        "b4,2,b3",
        id="permuted-afterwards",
    ),
    pytest.param([[1, 3]], [broadcast("x0", "b", [1, 3], 0, 1), op("exp", "y", "b")], "1,3", id="one-to-one-is-none"),
]


@pytest.mark.parametrize(("shapes", "ops", "kinds"), SIZE_ONE)
def test_dimensions_of_size_one_expand(shapes: list[list[int]], ops: list[Document], kinds: str) -> None:
    fusion = fusion_of(shapes, ops, "y")
    sf = start(fusion)
    check_form(fusion, sf)
    check_meaning(fusion, sf)
    (read,) = next(o for o in sf.ops if o.kind is OpKind.EXP).tensor_inputs
    assert ",".join(f"{'b' if a.is_broadcast else ''}{a.extent}" for a in sf.tensor(read).logical) == kinds


def test_an_output_of_rank_0_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="output v0 of rank 0"):
        start(fusion_of([[]], [op("exp", "y", "x0")], "y"))


def test_strides_and_alignment_of_inputs_are_kept() -> None:
    inputs = [{"name": "x0", "shape": [4, 8], "dtype": "bf16", "strides": [24, 1], "align": 128}]
    fusion = from_wire(inputs, [op("neg", "y", "x0")], "y")
    t = start(fusion).tensor("i0")
    assert t.allocation is not None
    assert (t.allocation.axes, t.allocation.strides, t.align) == (t.logical, (24, 1), 128)


@settings(derandomize=True, deadline=None, max_examples=250)
@given(documents(kinds=COMPILED, dtypes=["f32", "f16", "bf16"]))
def test_random_fusions_keep_their_meaning(document: Document) -> None:
    fusion = bind(parse_fusion(document), parse_binding({"sizes": sizes_for(document)}))
    assume(all(fusion.value(name).shape for name in fusion.outputs))
    sf = start(fusion)
    check_form(fusion, sf)
    check_meaning(fusion, sf)
    assert start(fusion) == sf
