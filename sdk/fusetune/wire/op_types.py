"""Shape and dtype of an operator's result, one function for each kind of operator (docs/contracts.md, "Fusion")."""

from __future__ import annotations

from typing import assert_never

from fusetune.wire.extent import Extent
from fusetune.wire.fusion import (
    FLOAT_ONLY,
    INTEGER_ONLY,
    TAKES_BOOL,
    TAKES_FP8,
    TYPED_FOLDS,
    Arg,
    BroadcastTo,
    Cast,
    Cat,
    Compare,
    Copy,
    DTypeName,
    Filled,
    Flip,
    Fma,
    Gather,
    Iota,
    Matmul,
    Op,
    Pad,
    Permute,
    PrefixSum,
    Rand,
    Reduce,
    Reshape,
    Slice,
    Take,
    Truth,
    Unary,
    Where,
)
from fusetune.wire.fusion import Binary as BinaryOp
from fusetune.wire.op_check import (
    FLOATS,
    FP8,
    INTEGER_RANGE,
    Number,
    OpCheck,
    OperandType,
    ScalarType,
    TensorType,
    dim_in,
    dims_in,
    float_fits,
    integer_fits,
    shape_text,
)
from fusetune.wire.op_views import (
    broadcast_to_type,
    cat_type,
    flip_type,
    full_type,
    gather_type,
    iota_type,
    pad_type,
    permute_type,
    rand_type,
    reshape_type,
    slice_type,
    take_type,
)


def result_type(op: Op, operands: tuple[OperandType, ...], check: OpCheck) -> TensorType | None:
    """The type of `op`'s result, or None after telling `check` every fault that forbids one."""
    if not _arity_fits(op, len(operands), check):
        return None
    if not isinstance(op, BinaryOp | Compare | Where | Fma) and not _all_tensors(operands, check):
        return None
    match op:
        case Copy():
            return _tensor(operands[0])
        case Cast(dtype=dtype):
            return TensorType(_tensor(operands[0]).shape, dtype)
        case Unary():
            return _arithmetic_dtype(op.op, _tensor(operands[0]), check)
        case BinaryOp() | Fma():
            same = _same_type(operands, 0, check)
            return None if same is None else _arithmetic_dtype(op.op, same, check)
        case Compare():
            same = _same_type(operands, 0, check)
            return None if same is None or _lacks(op.op, same, check) else TensorType(same.shape, "bool")
        case Where():
            return _where(op, operands, check)
        case BroadcastTo():
            return broadcast_to_type(op, _tensor(operands[0]), check)
        case Permute():
            return permute_type(op, _tensor(operands[0]), check)
        case Reshape():
            return reshape_type(op, _tensor(operands[0]), check)
        case Slice():
            return slice_type(op, _tensor(operands[0]), check)
        case Flip():
            return flip_type(op, _tensor(operands[0]), check)
        case Pad():
            return pad_type(op, _tensor(operands[0]), check)
        case Cat():
            return cat_type(op, tuple(map(_tensor, operands)), check)
        case Iota():
            return iota_type(op, check)
        case Rand():
            return rand_type(op, tuple(map(_tensor, operands)), check)
        case Filled():
            return full_type(op, check)
        case Take():
            return take_type(op, _tensor(operands[0]), _tensor(operands[1]), check)
        case Gather():
            return gather_type(op, _tensor(operands[0]), _tensor(operands[1]), check)
        case Reduce():
            return _reduce(op, _tensor(operands[0]), check)
        case Truth():
            return _folded(op.op, op.dims, op.keepdim, _tensor(operands[0]), "bool", check)
        case PrefixSum():
            return _scan(op, _tensor(operands[0]), check)
        case Arg():
            return _arg(op, _tensor(operands[0]), check)
        case Matmul():
            return _matmul(op, _tensor(operands[0]), _tensor(operands[1]), check)
        case _:
            assert_never(op)


def _tensor(operand: OperandType) -> TensorType:
    assert isinstance(operand, TensorType)
    return operand


def _arity_fits(op: Op, count: int, check: OpCheck) -> bool:
    wanted = op.arity
    if wanted is None:
        if count:
            return True
        check.fault("in", "no operands", f"at least 1 for {op.op}", "Name the tensors to join.")
        return False
    if count != wanted:
        change = "Remove what is too many" if count > wanted else "Add what is missing"
        check.fault("in", f"{count} operands", f"{wanted} for {op.op}", f"{change}.")
    return count == wanted


def _all_tensors(operands: tuple[OperandType, ...], check: OpCheck) -> bool:
    for position, operand in enumerate(operands):
        if not isinstance(operand, TensorType):
            what = operand if isinstance(operand, ScalarType) else f"the number {operand}"
            check.fault(f"in[{position}]", what, "a tensor", "Name a tensor.")
    return all(isinstance(operand, TensorType) for operand in operands)


def _same_type(operands: tuple[OperandType, ...], first: int, check: OpCheck) -> TensorType | None:
    """The one type of the tensors from operand `first` on; numbers must have a meaning in its dtype."""
    tensors = [(i, x) for i, x in enumerate(operands) if i >= first and isinstance(x, TensorType)]
    if not tensors:
        fix = "Work the number out, and write it where it is used."
        if any(isinstance(x, ScalarType) for x in operands):
            fix = "Work the number out before the call, and pass it as a scalar of its own."
        check.fault("in", "numbers only", "at least one tensor", fix)
        return None
    (_, wanted), *others = tensors
    fits = True
    for position, found in others:
        if found.shape != wanted.shape:
            fits = False
            check.fault(
                f"in[{position}]",
                found,
                f"shape {shape_text(wanted.shape)}",
                "Use broadcast_to first: nothing is implicit.",
            )
        elif found.dtype != wanted.dtype:
            fits = False
            check.fault(f"in[{position}]", found, f"dtype {wanted.dtype}", "Cast one of the operands first.")
    for position, operand in enumerate(operands):
        match operand:
            case int() | float() if position >= first:
                fits &= _number_fits(operand, wanted.dtype, position, check)
            case ScalarType() if position >= first:
                fits &= _scalar_fits(operand, wanted.dtype, position, check)
            case _:
                pass
    return wanted if fits else None


def _scalar_fits(scalar: ScalarType, dtype: DTypeName, position: int, check: OpCheck) -> bool:
    """A scalar becomes a number of the other operand's dtype, as torch converts a number of Python."""
    if dtype in FLOATS or (scalar.dtype == "i64" and dtype in INTEGER_RANGE):
        return True
    if dtype == "bool":
        check.fault(f"in[{position}]", scalar, "no scalar beside bool", "Cast the tensor to i32 first.")
    else:
        fix = "Declare the scalar as i64, or cast the tensor to a float first."
        check.fault(f"in[{position}]", scalar, f"an i64 scalar, as the other operand is {dtype}", fix)
    return False


def _number_fits(number: Number, dtype: DTypeName, position: int, check: OpCheck) -> bool:
    """A literal takes the other operand's dtype, so it must have a value there."""
    if dtype in FLOATS:
        return float_fits(number, dtype, f"in[{position}]", check)
    fix = "Cast the tensor to a float first, or correct the number."
    return integer_fits(number, dtype, f"in[{position}]", f"as the other operand is {dtype}", fix, check)


def _arithmetic_dtype(name: str, operand: TensorType, check: OpCheck) -> TensorType | None:
    """Arithmetic keeps the dtype, where it has a meaning."""
    if _lacks(name, operand, check):
        return None
    if name in FLOAT_ONLY and operand.dtype not in FLOATS:
        check.fault("in[0]", operand, f"a float dtype for {name}", "Cast it to f32 first.")
        return None
    if name in INTEGER_ONLY and operand.dtype in FLOATS:
        check.fault("in[0]", operand, f"an integer dtype for {name}", "Cast it to i32 or i64 first.")
        return None
    if operand.dtype == "bool" and name not in TAKES_BOOL:
        fix = 'Say dtype "i64", which counts what is true, or cast' if name in TYPED_FOLDS else "Cast"
        check.fault("in[0]", operand, f"a number dtype for {name}", f"{fix} it to i32 first.")
        return None
    return operand


def _lacks(name: str, operand: TensorType, check: OpCheck) -> bool:
    """Whether 8-bit floats lack the operator, which is a fault."""
    if operand.dtype not in FP8 or name in TAKES_FP8:
        return False
    check.fault("in[0]", operand, f"a dtype with arithmetic for {name}", "Cast it to f32 first, and the result back.")
    return True


def _where(op: Where, operands: tuple[OperandType, ...], check: OpCheck) -> TensorType | None:
    condition = operands[0]
    if not isinstance(condition, TensorType) or condition.dtype != "bool":
        check.fault("in[0]", condition, "a bool tensor", "Compare first: ne with 0 gives a bool.")
        return None
    if not any(isinstance(x, TensorType) for x in operands[1:]):
        return _where_of_numbers(op, condition, operands, check)
    if op.dtype is not None:
        check.fault("dtype", op.dtype, "no dtype beside a tensor, whose own the result has", "Remove it, or cast.")
        return None
    chosen = _same_type(operands, 1, check)
    if chosen is not None and chosen.shape != condition.shape:
        expected = f"the shape of the others, {shape_text(chosen.shape)}"
        check.fault("in[0]", condition, expected, "Use broadcast_to first: nothing is implicit.")
        return None
    return chosen


def _where_of_numbers(
    op: Where, condition: TensorType, operands: tuple[OperandType, ...], check: OpCheck
) -> TensorType | None:
    if op.dtype is None:
        fix = 'Say which it shall have: "dtype": "f32" of floats and "i64" of integers is what torch has.'
        check.fault("dtype", "two numbers and no dtype", "the dtype of the result", fix)
        return None
    fits = True
    for position, x in enumerate(operands):
        if isinstance(x, ScalarType):
            fits &= _scalar_fits(x, op.dtype, position, check)
        elif not isinstance(x, TensorType):
            fits &= _number_fits(x, op.dtype, position, check)
    return TensorType(condition.shape, op.dtype) if fits else None


def _reduce(op: Reduce, source: TensorType, check: OpCheck) -> TensorType | None:
    dtype = op.dtype or fold_dtype(op, source.dtype)
    if op.dtype is not None and op.op not in TYPED_FOLDS:
        check.fault("dtype", op.dtype, f"no dtype for {op.op}", "Cast the operand or the result.")
        return None
    if op.dtype == "bool":
        check.fault("dtype", "bool", "a number dtype", "any tells whether one element is not 0.")
        return None
    if _arithmetic_dtype(op.op, TensorType(source.shape, dtype), check) is None:
        return None
    return _folded(op.op, op.dims, op.keepdim, source, dtype, check)


def fold_dtype(op: Reduce | PrefixSum, source: DTypeName) -> DTypeName:
    """The dtype that a fold of `source` has where it says none."""
    return "i64" if op.op in ("prod", "cumsum") and source not in FLOATS else source


def _scan(op: PrefixSum, source: TensorType, check: OpCheck) -> TensorType | None:
    dtype = op.dtype or fold_dtype(op, source.dtype)
    if dtype == "bool":
        check.fault("dtype", "bool", "a number dtype", "any tells whether one element is not 0.")
        return None
    if _arithmetic_dtype(op.op, TensorType(source.shape, dtype), check) is None:
        return None
    return None if dim_in(op.dim, source.rank, "dim", check) is None else TensorType(source.shape, dtype)


def _folded(
    name: str, dims: tuple[int, ...], keepdim: bool, source: TensorType, dtype: DTypeName, check: OpCheck
) -> TensorType | None:
    """`source` without the elements along `dims`."""
    known = dims_in(dims, source.rank, check)
    if known is None:
        return None
    if not known:
        check.fault("dims", "no dimensions", "at least 1", "Name what to reduce, or remove the op.")
        return None
    empty = [dim for dim in known if source.shape[dim].constant == 0]
    if empty and name in ("amax", "amin"):
        check.fault(
            "dims", f"dimension {empty[0]} of size 0", "a size of 1 or more", f"{name} of nothing has no value."
        )
        return None
    return _without(known, keepdim, source, dtype)


def _without(dims: tuple[int, ...], keepdim: bool, source: TensorType, dtype: DTypeName) -> TensorType:
    one = Extent.of(1)
    if keepdim:
        return TensorType(tuple(one if i in dims else size for i, size in enumerate(source.shape)), dtype)
    return TensorType(tuple(size for i, size in enumerate(source.shape) if i not in dims), dtype)


def _arg(op: Arg, source: TensorType, check: OpCheck) -> TensorType | None:
    if _lacks(op.op, source, check):
        return None
    if source.dtype == "bool":
        check.fault("in[0]", source, f"a number dtype for {op.op}", "Cast it to i8 first.")
        return None
    dim = None if op.dim is None else dim_in(op.dim, source.rank, "dim", check)
    if dim is None and op.dim is not None:
        return None
    dims = tuple(range(source.rank)) if dim is None else (dim,)
    empty = [i for i in dims if source.shape[i].constant == 0]
    if empty:
        found, fix = f"dimension {empty[0]} of size 0", f"{op.op} of nothing has no value."
        check.fault("dim", found, "a size of 1 or more", fix)
        return None
    return _without(dims, op.keepdim, source, "i64")


def _matmul(op: Matmul, left: TensorType, right: TensorType, check: OpCheck) -> TensorType | None:
    if left.rank < 2:
        check.fault("in[0]", left, "rank 2 or more", "Reshape it to two dimensions.")
        return None
    if left.dtype == "bool":
        check.fault("in[0]", left, "a number dtype for matmul", "Cast it first.")
        return None
    expected = f"{left.dtype} ({', '.join(map(str, (*left.shape[:-2], left.shape[-1], 'n')))}), to go with {left}"
    if right.rank != left.rank or right.shape[:-1] != (*left.shape[:-2], left.shape[-1]):
        check.fault("in[1]", right, expected, "Permute, reshape or broadcast one of the operands first.")
        return None
    if right.dtype != left.dtype:
        check.fault("in[1]", right, expected, "Cast one of the operands first.")
        return None
    if op.precision is not None and left.dtype != "f32":
        expected = f"no precision for operands of {left.dtype}: {op.precision} is one of f32"
        check.fault("precision", op.precision, expected, "Leave it out, or cast both operands to f32.")
        return None
    dtype = op.dtype or left.dtype
    if dtype in FP8:
        check.fault("dtype", op.dtype, "a wider float for products of 8-bit floats", 'Write "dtype": "f32", then cast.')
        return None
    if dtype == "bool" or (dtype in FLOATS) != (left.dtype in FLOATS):
        kind = "float" if left.dtype in FLOATS else "integer"
        check.fault("dtype", dtype, f"a {kind} dtype, as the operands are {left.dtype}", "Cast the result instead.")
        return None
    return TensorType((*left.shape[:-1], right.shape[-1]), dtype)
