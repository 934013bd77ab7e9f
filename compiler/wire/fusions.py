"""Between the wire and the IR: the one place of the compiler that knows the wire's types.

`bind` brings a fusion and its binding in, `fusion_to_json` and `fusion_from_json` keep a bound fusion inside a trace.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from compiler.dtypes import FP8, DType
from compiler.emit.literals import rounded_to_short
from compiler.errors import InvalidFusion, Problem, Unsupported
from compiler.ir import fusion as ir
from compiler.ir.index_ranges import index_ranges
from compiler.ir.ops import COMPILED, FOLDS, POINTWISE, MathGrade, OpKind
from compiler.ir.scalars import beside
from compiler.wire.composed import COMPOSED, is_composed, written_out
from compiler.wire.orders import in_memory_order, orders_from_json
from fusetune.wire.binding import Binding, InputBinding, OutputBinding
from fusetune.wire.bound import Bound, apply_binding
from fusetune.wire.canonical import binding_hash, canonicalize, fingerprint, live_ops
from fusetune.wire.fusion import (
    FORMAT,
    BroadcastTo,
    Cat,
    Copy,
    Filled,
    Flip,
    Fusion,
    Gather,
    Iota,
    Matmul,
    Op,
    Operand,
    Pad,
    Permute,
    PrefixSum,
    Reduce,
    Slice,
    Take,
    Where,
    literal_value,
)
from fusetune.wire.parse import parse_binding, parse_fusion
from fusetune.wire.problems import InvalidDocument

_COMPILED_NAMES = " ".join([*(k for k in OpKind if k in COMPILED), *COMPOSED])
"""Operators that this version compiles."""

_COMPUTED_IN_F32 = FP8 | {DType.F32, DType.F16, DType.BF16}

BOUND_FORMAT = "fusetune.bound/1"


def bind(fusion: Fusion, binding: Binding) -> ir.Fusion:
    """The fusion that the compiler works on: canonical names, concrete sizes and strides, without dead operators.

    Raises InvalidFusion with every fault (of the fusion, else of the binding), and Unsupported for what is valid but
    not compiled by this version.
    """
    try:
        bound = apply_binding(fusion, binding)
        identity = fingerprint(fusion), binding_hash(fusion, binding)
        _refuse_unsupported(bound)
        _refuse_empty(bound)
        plain = canonicalize(bound.fusion)
        written = written_out(plain)
        canonical = plain if written is plain else canonicalize(written)
        # Bound again under canonical names; layouts belong to tensors by position and stay as they are.
        return in_memory_order(_to_ir(apply_binding(canonical, _layouts(bound)), *identity))
    except InvalidDocument as error:
        raise _invalid(error) from None


def to_wire(fusion: ir.Fusion) -> tuple[Fusion, Binding]:
    """The fusion as documents, with its own names and sizes as integers.

    Fingerprint and binding hash are those of the fusion that was bound, symbols included, and cannot be told from
    these: `fusion_to_json` stores them beside.
    """
    into = {output: {"alias": name} for output, name in fusion.aliases}
    listed = {name for name in fusion.inputs if fusion.is_list and (fusion.value(name).shape or name in fusion.singles)}
    scalars = [{"name": x.name, "dtype": x.dtype.value} for x in fusion.scalars]
    document = {
        "format": FORMAT,
        "inputs": [
            {
                "name": v.name,
                "shape": list(v.shape),
                "dtype": v.dtype.value,
                **({"list": True} if v.name in listed else {}),
            }
            for v in map(fusion.value, fusion.inputs)
        ],
        "ops": [_op_document(op, fusion) for op in fusion.ops],
        "outputs": [{"name": name, **into.get(name, {})} for name in fusion.outputs],
        **({"scalars": scalars} if scalars else {}),
    }
    inputs = [{"strides": list(v.strides), "align": v.align} for v in map(fusion.value, fusion.inputs)]
    outputs = [
        {} if v.name in into or v.strides == ir.dense_strides(v.shape) else {"strides": list(v.strides)}
        for v in map(fusion.value, fusion.outputs)
    ]
    layouts = {"inputs": inputs, **({"outputs": outputs} if any(outputs) else {})}
    try:
        return parse_fusion(document), parse_binding({"sizes": {}, **layouts})
    except InvalidDocument as error:
        raise _invalid(error) from None


def fusion_to_json(fusion: ir.Fusion) -> dict[str, Any]:
    """A bound fusion as a JSON document, the same for equal fusions. `fusion_from_json` gives the fusion back."""
    document, binding = to_wire(fusion)
    grades = {name: grade.value for name, grade in fusion.grades.items()}
    pinned = {"pinned": {"grades": grades, "terms": list(fusion.terms)}} if fusion.is_pinned else {}
    return {
        "format": BOUND_FORMAT,
        "fingerprint": fusion.fingerprint,
        "binding_hash": fusion.binding_hash,
        "fusion": document.model_dump(mode="json", by_alias=True, exclude_none=True),
        "binding": binding.model_dump(mode="json", exclude_none=True),
        **pinned,
        **({"orders": {name: list(order) for name, order in fusion.orders}} if fusion.orders else {}),
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
    _refuse_what_bind_changes(bound)
    fusion = _to_ir(bound, document["fingerprint"], document["binding_hash"])
    if "orders" in document:
        fusion = replace(fusion, orders=orders_from_json(fusion, document["orders"]))
    return _pinned(fusion, document["pinned"]) if "pinned" in document else fusion


def _pinned(fusion: ir.Fusion, forms: object) -> ir.Fusion:
    """A fusion whose operators have their forms (`compiler.ir.pinned`). Raises InvalidFusion for unknown ones."""
    fix = "Store what fusion_to_json gives."
    grades, terms = (forms.get("grades"), forms.get("terms")) if isinstance(forms, dict) else (None, None)
    if not isinstance(grades, dict) or not isinstance(terms, list):
        expected = "an object of grades, an object, and terms, a list"
        raise InvalidFusion((Problem("pinned", repr(forms)[:80], expected, fix),))
    made, known = {op.output for op in fusion.ops}, [grade.value for grade in MathGrade]
    problems = [
        Problem(f"pinned.{field}", repr(name)[:80], "the result of an operator", fix)
        for field, names in (("grades", list(grades)), ("terms", terms))
        for name in names
        if name not in made
    ]
    problems += [
        Problem(f"pinned.grades.{name}", repr(grade)[:80], f"one of {', '.join(known)}", fix)
        for name, grade in grades.items()
        if grade not in known
    ]
    if problems:
        raise InvalidFusion(tuple(problems))
    ops = (
        replace(op, grade=MathGrade(grades.get(op.output, MathGrade.EXACT)), is_term=op.output in terms)
        for op in fusion.ops
    )
    return replace(fusion, ops=tuple(ops), is_pinned=True)


def _invalid(error: InvalidDocument) -> InvalidFusion:
    return InvalidFusion(tuple(Problem(p.where, p.found, p.expected, p.fix) for p in error.problems))


def _document_problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    wanted = {"format": str, "fingerprint": str, "binding_hash": str, "fusion": dict, "binding": dict}
    for name, kind in wanted.items():
        if not isinstance(document.get(name), kind):
            found = repr(document.get(name))[:80] if name in document else "nothing"
            expected = "a text" if kind is str else "an object"
            yield Problem(name, found, expected, "Store what fusion_to_json gives.")
    for name in document.keys() - wanted.keys() - {"pinned", "orders"}:
        yield Problem(str(name), "an unknown field", f"one of {', '.join(wanted)}", "Remove it.")
    if isinstance(document.get("format"), str) and document["format"] != BOUND_FORMAT:
        yield Problem("format", repr(document["format"]), repr(BOUND_FORMAT), "Store the fusion again.")


def _refuse_what_bind_changes(bound: Bound) -> None:
    """Raise InvalidFusion for names that are not canonical, since they become names in generated code, and for
    operators that `bind` writes out."""
    fusion, fix = bound.fusion, "Store what fusion_to_json gives."
    problems = [
        Problem(f"fusion.inputs[{i}].name", repr(t.name), repr(f"i{i}"), fix)
        for i, t in enumerate(fusion.inputs)
        if t.name != f"i{i}"
    ]
    problems += [
        Problem(f"fusion.scalars[{i}].name", repr(x.name), repr(f"c{i}"), fix)
        for i, x in enumerate(fusion.numbers)
        if x.name != f"c{i}"
    ]
    for i, op in enumerate(fusion.ops):
        if op.out != f"v{i}":
            problems.append(Problem(f"fusion.ops[{i}].out", repr(op.out), repr(f"v{i}"), fix))
        if is_composed(op, bound.types):
            problems.append(Problem(f"fusion.ops[{i}].op", repr(op.op), "what it is made of", fix))
    if problems:
        raise InvalidFusion(tuple(problems))


def _refuse_unsupported(bound: Bound) -> None:
    """Raise Unsupported for the first operator, in the order of the document, that is not compiled."""
    fusion = bound.fusion
    for i in sorted(live_ops(fusion)):
        op = fusion.ops[i]
        where = f"(ops[{i}], {op.out!r})"
        if op.op not in COMPILED and op.op not in COMPOSED:
            raise Unsupported(f"operator {op.op} {where}", f"This version compiles {_COMPILED_NAMES}.")
        if isinstance(op, Copy) and op.memory is not None:
            raise Unsupported(f"copy to memory {op.memory} {where}", "Leave memory out: the schedule chooses it.")
        if isinstance(op, Matmul):
            _refuse_pairing(op, bound, where)
        if _literal_dtype(op, bound) in _COMPUTED_IN_F32:
            _refuse_literals(op, where)


def _refuse_pairing(op: Matmul, bound: Bound, where: str) -> None:
    """Raise Unsupported for a product of types that this version does not multiply."""
    operand, result = (DType(bound.types[name].dtype) for name in (str(op.ins[0]), op.out))
    results = {DType.I32} if operand is DType.I8 else _COMPUTED_IN_F32
    if operand not in OpKind.MATMUL.row.takes or result not in results:
        fix = "Cast the operands to f32, f16 or bf16, or use i8 with a result in i32."
        raise Unsupported(f"matmul of {operand} into {result} {where}", fix)


def _literal_dtype(op: Op, bound: Bound) -> DType | None:
    """The dtype that the numbers of `op` take: its own, or that of its last tensor operand; None without one."""
    if isinstance(op, Where):  # whose only tensor may be the mask
        return DType(bound.types[op.out].dtype)
    tensors = [x for x in op.ins if isinstance(x, str) and x in bound.types]
    return DType(bound.types[str(tensors[-1])].dtype) if tensors else None


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
        ),
        outputs=tuple(OutputBinding(strides=strides) for strides in bound.outputs),
    )


def _to_ir(bound: Bound, fingerprint: str, binding_hash: str) -> ir.Fusion:
    """The IR of a bound fusion, names and order as they are. Needs what `_refuse_unsupported` lets through; raises
    Unsupported for an index of which no valid one can be told."""
    fusion = bound.fusion
    shapes = {name: _concrete(bound, name) for name in bound.types}
    inputs = tuple(
        ir.Value(tensor.name, shapes[tensor.name], DType(tensor.dtype), layout.strides, layout.align)
        for tensor, layout in zip(fusion.inputs, bound.inputs, strict=True)
    )
    aliases = {
        output.name: inputs[position]
        for output, position in zip(fusion.outputs, bound.aliases, strict=True)
        if position is not None
    }
    lie = {output.name: strides for output, strides in zip(fusion.outputs, bound.outputs, strict=True)}
    results = tuple(
        replace(aliases[op.out], name=op.out)
        if op.out in aliases
        else ir.Value(op.out, shape, DType(bound.types[op.out].dtype), lie.get(op.out, ir.dense_strides(shape)))
        for op, shape in ((op, shapes[op.out]) for op in fusion.ops)
    )
    made = ir.Fusion(
        values=inputs + results,
        inputs=tuple(tensor.name for tensor in fusion.inputs),
        ops=tuple(_ir_op(op, bound, shapes) for op in fusion.ops),
        outputs=tuple(output.name for output in fusion.outputs),
        fingerprint=fingerprint,
        binding_hash=binding_hash,
        aliases=tuple((output, value.name) for output, value in aliases.items()),
        is_list=fusion.list_size is not None,
        singles=tuple(tensor.name for tensor in fusion.inputs if tensor.list and not tensor.shape),
        scalars=tuple(ir.Scalar(x.name, DType(x.dtype)) for x in fusion.numbers),
    )
    if made.is_list:
        _refuse_in_lists(made)
    index_ranges(made)  # refuses indices of which none is known to be in range
    return made


def _refuse_in_lists(fusion: ir.Fusion) -> None:
    """Raise Unsupported for an operator that is not of each element of a list by itself."""
    for n, op in enumerate(fusion.ops):
        if op.kind not in POINTWISE | {OpKind.COPY, OpKind.BROADCAST_TO}:
            fix = "Call it for each tensor: over lists operators are elementwise."
            raise Unsupported(f"operator {op.kind} over lists (ops[{n}], {op.output!r})", fix)


def _concrete(bound: Bound, name: str) -> tuple[int, ...]:
    sizes = tuple(extent.constant for extent in bound.types[name].shape)
    assert all(size is not None for size in sizes), f"{name}: a bound fusion has no symbols"
    return tuple(size for size in sizes if size is not None)


def _ir_op(op: Op, bound: Bound, shapes: Mapping[str, tuple[int, ...]]) -> ir.Op:
    dtype = _literal_dtype(op, bound)
    scalars = {x.name: ir.Scalar(x.name, DType(x.dtype)) for x in bound.fusion.numbers}
    inputs = tuple(
        beside(scalars[str(x)], dtype)
        if dtype is not None and x in scalars
        else _ir_operand(x, is_float=dtype is None or dtype.is_float)
        for x in op.ins
    )
    # A bound fusion has no symbols: start is a number.
    start, step = (int(op.start), op.step or 1) if isinstance(op, Slice) else (0, 1)
    start = int(op.exclusive) if isinstance(op, PrefixSum) else start
    if isinstance(op, Pad | Filled):
        inputs = (*inputs, ir.Literal(_held(op.value, DType(bound.types[op.out].dtype))))
    low = tuple(int(n) for n, m in zip(op.low, op.high, strict=True) if n or m) if isinstance(op, Pad) else ()
    kind = OpKind.MATMUL_TF32 if isinstance(op, Matmul) and op.precision == "tf32" else OpKind(op.op)
    return ir.Op(kind, inputs, op.out, _ir_dims(op, shapes), start, step=step, low=low)


def _held(number: Operand, dtype: DType) -> int | float:
    """A number as a tensor of the dtype holds it."""
    operand = _ir_operand(number, is_float=dtype.is_float)
    assert isinstance(operand, ir.Literal), "the wire lets only numbers through"
    match dtype:
        case DType.F16 | DType.BF16 | DType.F8E4M3 | DType.F8E5M2:
            is_held = dtype not in FP8 and not math.isfinite(operand.value)
            return operand.value if is_held else rounded_to_short(operand.value, dtype)
        case DType.F32 if math.isfinite(operand.value):
            (nearest,) = struct.unpack("<f", struct.pack("<f", operand.value))
            return float(nearest)
        case _:
            return operand.value


def _ir_dims(op: Op, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Dimensions counted from 0, as `ir.Op.dims` holds them."""
    match op:
        case BroadcastTo() | Permute():
            return tuple(dim % len(shapes[op.out]) for dim in op.dims)
        case Reduce():
            return tuple(sorted(dim % len(shapes[str(op.ins[0])]) for dim in op.dims))
        case Flip():
            return tuple(sorted(dim % len(shapes[op.out]) for dim in op.dims))
        case Pad():
            return tuple(dim for dim, sizes in enumerate(zip(op.low, op.high, strict=True)) if any(sizes))
        case Slice() | Cat() | Iota() | PrefixSum():
            return (op.dim % len(shapes[op.out]),)
        case Take() | Gather():
            return (op.dim % len(shapes[str(op.ins[0])]),)
        case _:
            return ()


def _ir_operand(operand: Operand, *, is_float: bool) -> ir.Operand:
    number = literal_value(operand)
    if number is None:
        return str(operand)
    if not is_float:
        return ir.Literal(int(number))
    # One NaN object, so that literals compare equal: tuples look at identity first.
    return ir.Literal(math.nan if math.isnan(number) else float(number))


def _op_document(op: ir.Op, fusion: ir.Fusion) -> dict[str, Any]:
    fills = op.kind in (OpKind.PAD, OpKind.FULL)
    ins = [_written(x) for x in op.inputs if isinstance(x, str) or not fills]
    document: dict[str, Any] = {"op": op.kind.value, "in": ins, "out": op.output}
    result = fusion.value(op.output)
    match op.kind:
        case OpKind.CAST | OpKind.MATMUL:
            document["dtype"] = result.dtype.value
        case OpKind.MATMUL_TF32:
            document |= {"op": OpKind.MATMUL.value, "dtype": result.dtype.value, "precision": "tf32"}
        case OpKind.WHERE if len(op.tensor_inputs) == 1:
            document["dtype"] = result.dtype.value
        case OpKind.BROADCAST_TO:
            document |= {"shape": list(result.shape), "dims": list(op.dims)}
        case OpKind.PERMUTE:
            document["dims"] = list(op.dims)
        case OpKind.RESHAPE:
            document["shape"] = list(result.shape)
        case OpKind.SLICE:
            (dim,) = op.dims
            stop = op.start + (result.shape[dim] - 1) * op.step + 1
            document |= {"dim": dim, "start": op.start, "stop": stop} | ({"step": op.step} if op.step > 1 else {})
        case OpKind.FLIP:
            document["dims"] = list(op.dims)
        case OpKind.PAD:
            document |= _pad_document(op, fusion.value(op.tensor_inputs[0]).shape, result.shape)
        case OpKind.FULL:
            document |= {"shape": list(result.shape), "value": _fill(op), "dtype": result.dtype.value}
        case OpKind.CAT | OpKind.TAKE | OpKind.GATHER:
            document["dim"] = op.dims[0]
        case OpKind.CUMSUM:
            document |= {"dim": op.dims[0]} | ({"exclusive": True} if op.start else {})
        case OpKind.RAND:
            document |= {"shape": list(result.shape), "dtype": result.dtype.value}
        case OpKind.IOTA:
            document |= {"shape": list(result.shape), "dim": op.dims[0], "dtype": result.dtype.value}
        case kind if kind in FOLDS:
            keepdim = len(result.shape) == len(fusion.value(op.tensor_inputs[0]).shape)
            document |= {"dims": list(op.dims), "keepdim": keepdim}
            if op.kind is OpKind.PROD:  # which would be i64 of any integers
                document["dtype"] = result.dtype.value
    return document


def _pad_document(op: ir.Op, source: tuple[int, ...], result: tuple[int, ...]) -> dict[str, Any]:
    before = dict(zip(op.dims, op.low, strict=True))
    low = [before.get(d, 0) for d in range(len(source))]
    high = [n - m - first for n, m, first in zip(result, source, low, strict=True)]
    return {"low": low, "high": high, "value": _fill(op)}


def _fill(op: ir.Op) -> int | float | str:
    return _written(ir.Literal(op.fills_with))


def _written(x: ir.Operand) -> int | float | str:
    """An operand as the wire has it."""
    if not isinstance(x, ir.Literal):
        return x if isinstance(x, str) else x.name
    # repr spells them inf, -inf and nan, as the wire does.
    return x.value if math.isfinite(x.value) else repr(x.value)
