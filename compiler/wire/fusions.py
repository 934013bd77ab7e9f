"""Between the wire and the IR: the one place of the compiler that knows the wire's types.

`bind` brings a fusion and its binding in, `fusion_to_json` and `fusion_from_json` keep a bound fusion inside a trace.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from compiler.dtypes import DType
from compiler.errors import InvalidFusion, Problem, Unsupported
from compiler.ir import fusion as ir
from compiler.ir.ops import COMPILED, OpKind
from fusetune.wire.binding import Binding, InputBinding
from fusetune.wire.bound import Bound, apply_binding
from fusetune.wire.canonical import binding_hash, canonicalize, fingerprint, live_ops
from fusetune.wire.fusion import FORMAT, BroadcastTo, Copy, Fusion, Op, Operand, Permute, literal_value
from fusetune.wire.parse import parse_binding, parse_fusion
from fusetune.wire.problems import InvalidDocument

COMPILED_DTYPES = frozenset({DType.F32, DType.F16, DType.BF16})
"""Element types that this version compiles."""

COMPILED_OPS: frozenset[str] = frozenset(COMPILED)
_COMPILED_NAMES = " ".join(k for k in OpKind if k in COMPILED)
"""Operators that this version compiles."""

BOUND_FORMAT = "fusetune.bound/1"


def bind(fusion: Fusion, binding: Binding) -> ir.Fusion:
    """The fusion that the compiler works on: canonical names, concrete sizes and strides, without dead operators.

    Raises InvalidFusion with every fault (of the fusion, else of the binding), and Unsupported for what is valid but
    not compiled by this version.
    """
    try:
        bound = apply_binding(fusion, binding)
        identity = fingerprint(fusion), binding_hash(fusion, binding)
        canonical = canonicalize(bound.fusion)
        _refuse_unsupported(bound)
        _refuse_empty(bound)
        # Bound again under canonical names; layouts belong to inputs by position and stay as they are.
        return _to_ir(apply_binding(canonical, _layouts(bound)), *identity)
    except InvalidDocument as error:
        raise _invalid(error) from None


def to_wire(fusion: ir.Fusion) -> tuple[Fusion, Binding]:
    """The fusion as documents, with its own names and sizes as integers.

    Fingerprint and binding hash are those of the fusion that was bound, symbols included, and cannot be told from
    these: `fusion_to_json` stores them beside.
    """
    document = {
        "format": FORMAT,
        "inputs": [
            {"name": v.name, "shape": list(v.shape), "dtype": v.dtype.value} for v in map(fusion.value, fusion.inputs)
        ],
        "ops": [_op_document(op, fusion) for op in fusion.ops],
        "outputs": [{"name": name} for name in fusion.outputs],
    }
    inputs = [{"strides": list(v.strides), "align": v.align} for v in map(fusion.value, fusion.inputs)]
    try:
        return parse_fusion(document), parse_binding({"sizes": {}, "inputs": inputs})
    except InvalidDocument as error:
        raise _invalid(error) from None


def fusion_to_json(fusion: ir.Fusion) -> dict[str, Any]:
    """A bound fusion as a JSON document, the same for equal fusions. `fusion_from_json` gives the fusion back."""
    document, binding = to_wire(fusion)
    return {
        "format": BOUND_FORMAT,
        "fingerprint": fusion.fingerprint,
        "binding_hash": fusion.binding_hash,
        "fusion": document.model_dump(mode="json", by_alias=True, exclude_none=True),
        "binding": binding.model_dump(mode="json", exclude_none=True),
    }


def fusion_from_json(document: Mapping[str, Any]) -> ir.Fusion:
    """The bound fusion in `document`; shapes and dtypes are inferred again, not believed. Raises InvalidFusion."""
    problems = tuple(_document_problems(document))
    if problems:
        raise InvalidFusion(problems)
    try:
        bound = apply_binding(parse_fusion(document["fusion"]), parse_binding(document["binding"]))
    except InvalidDocument as error:
        raise _invalid(error) from None
    _refuse_unsupported(bound)
    _refuse_empty(bound)
    _refuse_names(bound.fusion)
    return _to_ir(bound, document["fingerprint"], document["binding_hash"])


def _invalid(error: InvalidDocument) -> InvalidFusion:
    return InvalidFusion(tuple(Problem(p.where, p.found, p.expected, p.fix) for p in error.problems))


def _document_problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    wanted = {"format": str, "fingerprint": str, "binding_hash": str, "fusion": dict, "binding": dict}
    for name, kind in wanted.items():
        if not isinstance(document.get(name), kind):
            found = repr(document.get(name))[:80] if name in document else "nothing"
            expected = "a text" if kind is str else "an object"
            yield Problem(name, found, expected, "Store what fusion_to_json gives.")
    for name in document.keys() - wanted.keys():
        yield Problem(str(name), "an unknown field", f"one of {', '.join(wanted)}", "Remove it.")
    if isinstance(document.get("format"), str) and document["format"] != BOUND_FORMAT:
        yield Problem("format", repr(document["format"]), repr(BOUND_FORMAT), "Store the fusion again.")


def _refuse_names(fusion: Fusion) -> None:
    """Raise InvalidFusion for names that are not canonical: they become names in generated code."""
    problems = [
        Problem(f"fusion.inputs[{i}].name", repr(t.name), repr(f"i{i}"), "Store what fusion_to_json gives.")
        for i, t in enumerate(fusion.inputs)
        if t.name != f"i{i}"
    ]
    problems += [
        Problem(f"fusion.ops[{i}].out", repr(op.out), repr(f"v{i}"), "Store what fusion_to_json gives.")
        for i, op in enumerate(fusion.ops)
        if op.out != f"v{i}"
    ]
    if problems:
        raise InvalidFusion(tuple(problems))


def _refuse_unsupported(bound: Bound) -> None:
    """Raise Unsupported for the first operator or dtype, in the order of the document, that is not compiled."""
    fusion = bound.fusion
    for i, tensor in enumerate(fusion.inputs):
        if tensor.dtype not in COMPILED_DTYPES:
            raise Unsupported(f"dtype {tensor.dtype} (inputs[{i}], {tensor.name!r})", _dtype_fix())
    for i in sorted(live_ops(fusion)):
        op = fusion.ops[i]
        where = f"(ops[{i}], {op.out!r})"
        if op.op not in COMPILED_OPS:
            raise Unsupported(f"operator {op.op} {where}", f"This version compiles {_COMPILED_NAMES}.")
        if isinstance(op, Copy) and op.memory is not None:
            raise Unsupported(f"copy to memory {op.memory} {where}", "Leave memory out: the schedule chooses it.")
        _refuse_literals(op, where)
        dtype = bound.types[op.out].dtype
        if dtype not in COMPILED_DTYPES:
            raise Unsupported(f"dtype {dtype} {where}", _dtype_fix())


def _refuse_literals(op: Op, where: str) -> None:
    """Raise Unsupported for a number that f32, in which kernels compute, cannot hold: CUDA C++ refuses its literal."""
    for number in map(literal_value, op.ins):
        if number is not None and not _is_f32(number):
            fix = 'Write 0 or "inf" if that is meant, or scale the operands: f32 goes from 1.4e-45 to 3.4e38.'
            raise Unsupported(f"literal {number!r} {where}", fix)


def _is_f32(number: float) -> bool:
    """True if the f32 nearest to `number` is neither infinity nor 0 in its place."""
    try:
        (nearest,) = struct.unpack("<f", struct.pack("<f", float(number)))
    except OverflowError:
        return False
    return bool(nearest) or number == 0


def _dtype_fix() -> str:
    return f"This version compiles {_COMPILED_NAMES}."


def _refuse_empty(bound: Bound) -> None:
    """Raise InvalidFusion where a tensor has no elements."""
    fusion = bound.fusion
    places = {tensor.name: f"inputs[{i}].shape" for i, tensor in enumerate(fusion.inputs)}
    places |= {fusion.ops[i].out: f"ops[{i}]" for i in sorted(live_ops(fusion))}
    fix = "Do not compile it: empty tensors need no kernel."
    problems = tuple(
        Problem(where, f"{bound.types[name]}, which has no elements", "sizes of 1 or more", fix)
        for name, where in places.items()
        if any(extent.constant == 0 for extent in bound.types[name].shape)
    )
    if problems:
        raise InvalidFusion(problems)


def _layouts(bound: Bound) -> Binding:
    return Binding(
        inputs=tuple(
            # The wire's align is a literal type; `layout` came through it.
            InputBinding.model_validate({"strides": layout.strides, "align": layout.align})
            for layout in bound.inputs
        )
    )


def _to_ir(bound: Bound, fingerprint: str, binding_hash: str) -> ir.Fusion:
    """The IR of a bound fusion, names and order as they are. Needs what `_refuse_unsupported` lets through."""
    fusion = bound.fusion
    shapes = {name: _concrete(bound, name) for name in bound.types}
    inputs = tuple(
        ir.Value(tensor.name, shapes[tensor.name], DType(tensor.dtype), layout.strides, layout.align)
        for tensor, layout in zip(fusion.inputs, bound.inputs, strict=True)
    )
    results = tuple(
        ir.Value(op.out, shapes[op.out], DType(bound.types[op.out].dtype), ir.dense_strides(shapes[op.out]))
        for op in fusion.ops
    )
    return ir.Fusion(
        values=inputs + results,
        inputs=tuple(tensor.name for tensor in fusion.inputs),
        ops=tuple(
            ir.Op(OpKind(op.op), tuple(map(_ir_operand, op.ins)), op.out, _ir_dims(op, shapes)) for op in fusion.ops
        ),
        outputs=tuple(output.name for output in fusion.outputs),
        fingerprint=fingerprint,
        binding_hash=binding_hash,
    )


def _concrete(bound: Bound, name: str) -> tuple[int, ...]:
    sizes = tuple(extent.constant for extent in bound.types[name].shape)
    assert all(size is not None for size in sizes), f"{name}: a bound fusion has no symbols"
    return tuple(size for size in sizes if size is not None)


def _ir_dims(op: Op, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(dim % len(shapes[op.out]) for dim in op.dims) if isinstance(op, BroadcastTo | Permute) else ()


def _ir_operand(operand: Operand) -> ir.Operand:
    number = literal_value(operand)
    if number is None:
        return str(operand)
    # One NaN object, so that literals compare equal: tuples look at identity first.
    return ir.Literal(math.nan if math.isnan(number) else float(number))


def _op_document(op: ir.Op, fusion: ir.Fusion) -> dict[str, Any]:
    ins = [x if isinstance(x, str) else _written(x.value) for x in op.inputs]
    document: dict[str, Any] = {"op": op.kind.value, "in": ins, "out": op.output}
    result = fusion.value(op.output)
    match op.kind:
        case OpKind.CAST:
            document["dtype"] = result.dtype.value
        case OpKind.BROADCAST_TO:
            document |= {"shape": list(result.shape), "dims": list(op.dims)}
        case OpKind.PERMUTE:
            document["dims"] = list(op.dims)
    return document


def _written(number: float) -> float | str:
    # repr spells them inf, -inf and nan, as the wire does.
    return number if math.isfinite(number) else repr(number)
