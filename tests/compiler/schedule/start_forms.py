"""Fusions for tests of the start form, an evaluator of scheduled fusions, and what every start form keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from compiler.arch import WARP_STORE_BYTES
from compiler.dtypes import DType
from compiler.ir.domain import ScheduledFusion, producer_indices
from compiler.ir.expr import Var, var
from compiler.ir.fusion import Fusion, Op, Value, dense_strides
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import REDUCTIONS, SCANS, VIEWS, OpKind
from compiler.ir.ops.exact import exact_prefix_sum
from compiler.ir.tensor import TensorOp, TensorView
from compiler.reference import evaluate
from tests.compiler.schedules import from_wire
from tests.sdk.fusion_strategies import Document

Draw = Callable[[st.SearchStrategy[Any]], Any]
RUN = WARP_STORE_BYTES // DType.F32.nbytes
"""Elements of f32 in the shortest run that is stored as a part."""


def fusion_of(shapes: Sequence[Sequence[int]], ops: Sequence[Mapping[str, Any]], *outputs: str) -> Fusion:
    """Inputs x0, x1, ..; bound, they are i0, i1, .. and results v0, v1, .."""
    return from_wire([{"name": f"x{i}", "shape": list(s), "dtype": "f32"} for i, s in enumerate(shapes)], ops, *outputs)


def permute(of: str, out: str, *dims: int) -> Document:
    return {"op": "permute", "in": [of], "out": out, "dims": list(dims)}


def broadcast(of: str, out: str, shape: Sequence[int], *dims: int) -> Document:
    return {"op": "broadcast_to", "in": [of], "out": out, "shape": list(shape), "dims": list(dims)}


def reduce(kind: str, out: str, of: str, *dims: int, keepdim: bool = False) -> Document:
    return {"op": kind, "in": [of], "out": out, "dims": list(dims), "keepdim": keepdim}


def reshape(of: str, out: str, *shape: int) -> Document:
    return {"op": "reshape", "in": [of], "out": out, "shape": list(shape)}


def take(of: str, out: str, dim: int, start: int, stop: int) -> Document:
    return {"op": "slice", "in": [of], "out": out, "dim": dim, "start": start, "stop": stop}


def every(of: str, out: str, dim: int, start: int, stop: int, step: int) -> Document:
    return {**take(of, out, dim, start, stop), "step": step}


def flip(of: str, out: str, *dims: int) -> Document:
    return {"op": "flip", "in": [of], "out": out, "dims": list(dims)}


def pad(of: str, out: str, low: Sequence[int], high: Sequence[int], value: float = 0) -> Document:
    return {"op": "pad", "in": [of], "out": out, "low": list(low), "high": list(high), "value": value}


def cat(out: str, dim: int, *of: str) -> Document:
    return {"op": "cat", "in": list(of), "out": out, "dim": dim}


def halves(of: str, extent: int) -> list[Document]:
    """Its first and its last `extent` columns, as a and b."""
    return [take(of, "a", 1, 0, extent), take(of, "b", 1, extent, 2 * extent)]


def op(kind: str, out: str, *ins: Any) -> Document:
    return {"op": kind, "in": list(ins), "out": out}


# An evaluator of scheduled fusions -----------------------------------------------------------------------------------


def evaluate_scheduled(sf: ScheduledFusion, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a scheduled fusion, op by op in its own order; views by the index map that lowering uses."""
    pairs = zip(sf.fusion.inputs, inputs, strict=True)
    known = {name: np.reshape(x, [a.extent for a in sf.tensor(name).logical]) for name, x in pairs}
    known |= {t.name: seen(sf, t, known[t.part_of]) for t in sf.tensors if t.part_of in known}
    for o in sf.ops:
        shape = tuple(a.extent for a in sf.tensor(o.output).logical)
        if o.kind is OpKind.IOTA:
            known[o.output] = np.broadcast_to(o.view[0].evaluate(positions(shape)), shape).astype(np.float64)
        elif o.kind in VIEWS:
            known[o.output] = viewed(sf, o, known, shape)
        elif o.kind in REDUCTIONS:
            known[o.output] = folded(sf, o, known)
        elif o.kind in SCANS:
            known[o.output] = scanned(o, np.broadcast_to(known[o.tensor_inputs[0]], shape))
        else:
            known[o.output] = computed(sf, o, known, shape)
    return [stored(sf, name, known) for name in sf.fusion.outputs]


def seen(sf: ScheduledFusion, t: TensorView, x: Any) -> Any:
    """An input as another tensor in the same memory: all of it, or every so manyth element."""
    assert t.allocation is not None
    strides = zip(t.logical, t.allocation.strides, sf.fusion.value(t.part_of).strides, strict=True)
    steps = [(a.extent, (mine or 0) // own if own else 1) for a, mine, own in strides]
    return x[tuple(slice(0, (n - 1) * step + 1, max(step, 1)) for n, step in steps)]


def stored(sf: ScheduledFusion, name: str, known: Mapping[str, Any]) -> Any:
    """An output as memory has it: the values of its tensors at the places that their strides give."""
    value = sf.fusion.value(name)
    memory = np.full(value.elems, np.nan)
    for t in (sf.tensor(n) for n in sf.outputs if (sf.tensor(n).part_of or n) == name):
        assert t.allocation is not None
        place = np.asarray(t.part_offset)
        for d, stride in enumerate(t.allocation.strides):
            place = place + positions(tuple(a.extent for a in t.logical))[f"d{d}"] * (stride or 0)
        memory[place] = known[t.name]
    return memory.reshape(value.shape)


def positions(shape: tuple[int, ...]) -> dict[str, Any]:
    return {f"d{d}": g for d, g in enumerate(np.meshgrid(*(np.arange(n) for n in shape), indexing="ij"))}


def viewed(sf: ScheduledFusion, o: TensorOp, known: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
    """Zero where a bounded view does not read; an index that leaves the source elsewhere is an IndexError."""
    source = str(o.inputs[0])
    values = positions(shape)
    index = tuple(var(Var(f"d{d}", n)) for d, n in enumerate(shape))
    read = producer_indices(o, sf.tensor(source), index, shape)
    inside = np.ones(shape, bool)
    for w in o.within:
        at = w.index.evaluate(values)
        inside &= (at >= w.low) & (at < w.high)
    places = tuple(np.where(inside, e.evaluate(values), 0) for e in read)
    assert all((p >= 0).all() for p in places), f"{o.output} reads before the first element"
    return np.where(inside, known[source][places], 0) if places else np.broadcast_to(known[source], shape)


def folded(sf: ScheduledFusion, o: TensorOp, known: Mapping[str, Any]) -> Any:
    """A fold, without the folded dimensions."""
    dims = tuple(d for d, a in enumerate(sf.tensor(o.output).logical) if a.is_reduction)
    fold = {OpKind.SUM: "sum", OpKind.PROD: "prod", OpKind.AMAX: "max", OpKind.AMIN: "min"}[o.kind]
    return getattr(known[str(o.inputs[0])], fold)(axis=dims)


def scanned(o: TensorOp, x: Any) -> Any:
    """The sums of the elements along the axes, taken as one."""
    order = [*(d for d in range(x.ndim) if d not in o.dims), *o.dims]
    moved = np.transpose(x, order)
    rows = moved.reshape(*moved.shape[: x.ndim - len(o.dims)], -1)
    sums = exact_prefix_sum(np, rows, rows.ndim - 1, bool(o.start)).reshape(moved.shape)
    return np.transpose(sums, np.argsort(order))


def computed(sf: ScheduledFusion, o: TensorOp, known: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
    names = tuple(dict.fromkeys(o.tensor_inputs))
    dtypes = {n: DType.BOOL if sf.tensor(n).dtype is DType.BOOL else DType.F64 for n in (*names, o.output)}
    values = tuple(Value(n, shape, dtypes[n], dense_strides(shape)) for n in (*names, o.output))
    one = Fusion(values, names, (Op(o.kind, o.inputs, o.output),), (o.output,), "", "")
    return evaluate(one, [known[n] for n in names], np, rounds=False)[0]


def random_inputs(fusion: Fusion) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.uniform(0.5, 2.0, fusion.value(name).shape) for name in fusion.inputs]


def check_meaning(fusion: Fusion, sf: ScheduledFusion) -> None:
    inputs = random_inputs(fusion)
    for found, expected in zip(evaluate_scheduled(sf, inputs), evaluate(fusion, inputs, np, rounds=False), strict=True):
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
        reads_a_fold = any(a.is_reduction for x in o.tensor_inputs for a in sf.tensor(x).logical)
        if o.kind in VIEWS and not reads_a_fold:
            assert set(o.inputs) <= set(sf.inputs), f"{o.output} is a view of {o.inputs}, which is no input"
        elif o.kind not in VIEWS:
            for x in o.tensor_inputs:
                elements = [a.extent for a in sf.tensor(x).logical if not a.is_reduction]
                assert elements == [a.extent for a in result.logical], f"{o.output} reads {x}"
        assert sf.consumers(o.output) or o.output in sf.outputs, f"{o.output} is used by nothing"
    for t in sf.tensors:
        is_global = t.name in (*sf.inputs, *sf.outputs)
        assert (t.memory is MemoryType.GLOBAL) == is_global
        assert t.memory is MemoryType.GLOBAL or t.memory is MemoryType.LOCAL
        assert (t.loop, t.exprs, t.compute_at) == (t.logical, (), 0)
    for name in sf.inputs:
        t, value = sf.tensor(name), fusion.value(sf.tensor(name).part_of or name)
        assert t.allocation is not None
        assert t.align == value.align
        extents = tuple(a.extent for a in t.logical)
        if t.part_of and extents != value.shape:  # every so manyth element
            assert all(n <= whole for n, whole in zip(extents, value.shape, strict=True))
            continue
        if extents != value.shape:  # cut as the space is: dense inputs stay dense
            assert np.prod(extents, dtype=int) == value.elems
            assert t.allocation.strides == dense_strides(extents)
            continue
        assert t.allocation.strides == value.strides


def printed(sf: ScheduledFusion) -> list[str]:
    """One line an op; a dimension along which nothing varies has a b before its size, one that is folded an r."""
    lines = []
    for o in sf.ops:
        letters = ("b" if a.is_broadcast else "r" if a.is_reduction else "" for a in sf.tensor(o.output).logical)
        shape = ",".join(f"{x}{a.extent}" for x, a in zip(letters, sf.tensor(o.output).logical, strict=True))
        ins = ", ".join(str(x) for x in o.inputs)
        dims = f" {list(o.dims)}" if o.dims else " " + ", ".join(map(str, o.view)) if o.view else ""
        dims += "".join(f" if {w.low} <= {w.index} < {w.high}" for w in o.within)
        lines.append(f"{o.output}[{shape}] = {o.kind}({ins}){dims}")
    return lines
