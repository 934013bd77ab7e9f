"""Shape and dtype of an operator's result, one function for each kind of operator (docs/contracts.md, "Fusion")."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isinf, isnan
from typing import assert_never

from fusetune.wire.extent import Extent, product
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
    ScalarName,
    Slice,
    Take,
    Truth,
    Unary,
    Where,
    literal_value,
)
from fusetune.wire.fusion import Binary as BinaryOp
from fusetune.wire.problems import Problem

FP8: frozenset[str] = frozenset({"f8e4m3", "f8e5m2"})
"""Floats without arithmetic."""

FLOATS: frozenset[str] = FP8 | {"f64", "f32", "f16", "bf16"}
LARGEST_FLOAT = {
    "f32": (2 - 2**-23) * 2.0**127, "bf16": (2 - 2**-7) * 2.0**127, "f16": 65504.0, "f8e5m2": 57344.0, "f8e4m3": 448.0,
}  # fmt: skip
"""The largest finite number of the floats that do not hold all that JSON can write (IEEE 754; bfloat16; OCP FP8)."""

INTEGER_RANGE = {
    "i8": (-(2**7), 2**7 - 1),
    "u8": (0, 2**8 - 1),
    "i16": (-(2**15), 2**15 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1),
}
ITEM_BYTES = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1,
    "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "bool": 1,
}  # fmt: skip

INDEX_TYPES = ("i32", "i64")
"""What rows and elements are chosen by, as torch has it."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and dtype of a value."""

    shape: tuple[Extent, ...]
    dtype: DTypeName

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype} {shape_text(self.shape)}"


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A number that is told at each call."""

    name: str
    dtype: ScalarName

    def __str__(self) -> str:
        return f"{self.dtype} scalar {self.name!r}"


Number = int | float
OperandType = TensorType | ScalarType | Number


@dataclass(frozen=True, slots=True)
class OpCheck:
    """Collects the faults of one operator; `place` is where it stands, such as `ops[3]`."""

    place: str
    problems: list[Problem] = field(default_factory=list)

    def fault(self, at: str, found: object, expected: str, fix: str) -> None:
        self.problems.append(Problem(f"{self.place}.{at}" if at else self.place, str(found), expected, fix))


def shape_text(shape: tuple[Extent, ...]) -> str:
    """`(M, 4096)`"""
    return f"({', '.join(map(str, shape))})"


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
            return _broadcast_to(op, _tensor(operands[0]), check)
        case Permute():
            return _permute(op, _tensor(operands[0]), check)
        case Reshape():
            return _reshape(op, _tensor(operands[0]), check)
        case Slice():
            return _slice(op, _tensor(operands[0]), check)
        case Flip():
            return _flip(op, _tensor(operands[0]), check)
        case Pad():
            return _pad(op, _tensor(operands[0]), check)
        case Cat():
            return _cat(op, tuple(map(_tensor, operands)), check)
        case Iota():
            return _iota(op, check)
        case Rand():
            return _rand(op, tuple(map(_tensor, operands)), check)
        case Filled():
            return _full(op, check)
        case Take():
            return _take(op, _tensor(operands[0]), _tensor(operands[1]), check)
        case Gather():
            return _gather(op, _tensor(operands[0]), _tensor(operands[1]), check)
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
        return _float_fits(number, dtype, f"in[{position}]", check)
    fix = "Cast the tensor to a float first, or correct the number."
    return _integer_fits(number, dtype, f"in[{position}]", f"as the other operand is {dtype}", fix, check)


def _integer_fits(number: Number, dtype: DTypeName, at: str, why: str, fix: str, check: OpCheck) -> bool:
    if isinstance(number, float) and not number.is_integer():
        check.fault(at, number, f"an integer, {why}", fix)
        return False
    low, high = (0, 1) if dtype == "bool" else INTEGER_RANGE[dtype]
    if not low <= number <= high:
        check.fault(at, number, f"{low} to {high}, {why}", fix)
        return False
    return True


def _float_fits(number: Number, dtype: DTypeName, at: str, check: OpCheck) -> bool:
    try:
        float(number)
    except OverflowError:
        check.fault(at, "an integer over 1.8e308", f"a number that {dtype} can hold", 'Write "inf".')
        return False
    return True


_OF_FLOATS = {
    "floor_divide": "Write floor(div(x, y)) of floats.",
    "remainder": "Write sub(x, mul(floor(div(x, y)), y)) of floats, which rounds where x is much larger than y.",
}


def _arithmetic_dtype(name: str, operand: TensorType, check: OpCheck) -> TensorType | None:
    """Arithmetic keeps the dtype, where it has a meaning."""
    if _lacks(name, operand, check):
        return None
    if name in FLOAT_ONLY and operand.dtype not in FLOATS:
        check.fault("in[0]", operand, f"a float dtype for {name}", "Cast it to f32 first.")
        return None
    if name in INTEGER_ONLY and operand.dtype in FLOATS:
        fix = _OF_FLOATS.get(name, "Cast it to i32 or i64 first.")
        check.fault("in[0]", operand, f"an integer dtype for {name}", fix)
        return None
    if operand.dtype == "bool" and name not in TAKES_BOOL:
        check.fault("in[0]", operand, f"a number dtype for {name}", "Cast it to i32 first.")
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


def dim_in(dim: int, rank: int, at: str, check: OpCheck) -> int | None:
    """The dimension counted from 0, also for a negative one, which counts from the end."""
    if -rank <= dim < rank:
        return dim % rank
    expected = f"{-rank} to {rank - 1} for rank {rank}" if rank else "no dimension: the rank is 0"
    check.fault(at, dim, expected, "Name a dimension that is there.")
    return None


def _dims_in(dims: tuple[int, ...], rank: int, check: OpCheck) -> tuple[int, ...] | None:
    """Each dimension once, counted from 0."""
    found = [dim_in(dim, rank, f"dims[{i}]", check) for i, dim in enumerate(dims)]
    known = tuple(dim for dim in found if dim is not None)
    if len(known) != len(dims):
        return None
    if len(set(known)) != len(known):
        check.fault("dims", list(dims), "each dimension once", "Remove the repeated one.")
        return None
    return known


def _broadcast_to(op: BroadcastTo, source: TensorType, check: OpCheck) -> TensorType | None:
    shape = tuple(map(Extent.of, op.shape))
    dims = _dims_in(op.dims, len(shape), check)
    if dims is None:
        return None
    if len(dims) != source.rank:
        expected = f"{source.rank} entries, one for each dimension of {source}"
        check.fault("dims", list(op.dims), expected, "Say which output dimension each input dimension is.")
        return None
    if list(dims) != sorted(dims):
        check.fault("dims", list(op.dims), "ascending dimensions", "Permute the operand first.")
        return None
    fits = True
    for i, (size, dim) in enumerate(zip(source.shape, dims, strict=True)):
        if size != shape[dim] and size.constant != 1:
            fits = False
            expected = f"{size}, which dimension {i} of {source} has (only a size of 1 expands)"
            check.fault(f"shape[{dim}]", shape[dim], expected, "Correct shape or dims.")
    return TensorType(shape, source.dtype) if fits else None


def _permute(op: Permute, source: TensorType, check: OpCheck) -> TensorType | None:
    dims = _dims_in(op.dims, source.rank, check)
    if dims is None:
        return None
    if len(dims) != source.rank:
        check.fault("dims", list(op.dims), f"every dimension of {source} once", "Add the missing dimensions.")
        return None
    return TensorType(tuple(source.shape[dim] for dim in dims), source.dtype)


def _reshape(op: Reshape, source: TensorType, check: OpCheck) -> TensorType | None:
    written = tuple(None if size == -1 else Extent.of(size) for size in op.shape)
    known = tuple(size for size in written if size is not None)
    if len(written) - len(known) > 1:
        check.fault("shape", list(op.shape), "at most one -1", "Write the other sizes.")
        return None
    total, rest = product(source.shape), product(known)
    if total is None or rest is None:
        check.fault("shape", list(op.shape), "sizes with fewer symbols", "Use fewer symbols in this tensor.")
        return None
    if len(known) == len(written):
        if not total.may_equal(rest):
            check.fault(
                "shape", f"{rest} elements", f"{total}, as {source} has", "Correct the sizes, or write one as -1."
            )
            return None
        return TensorType(known, source.dtype)
    missing = total.quotient(rest)
    if missing is None:
        expected = f"sizes that divide the {total} elements of {source}"
        check.fault("shape", list(op.shape), expected, "Correct the other sizes.")
        return None
    return TensorType(tuple(missing if size is None else size for size in written), source.dtype)


def _slice(op: Slice, source: TensorType, check: OpCheck) -> TensorType | None:
    dim = dim_in(op.dim, source.rank, "dim", check)
    if dim is None:
        return None
    start, stop, size = Extent.of(op.start), Extent.of(op.stop), source.shape[dim]
    length, left = (stop - start), (size - stop)
    if length.constant is not None and length.constant <= 0:
        check.fault("stop", stop, f"more than start, {start}", "Correct the bounds.")
        return None
    if left.constant is not None and left.constant < 0:
        check.fault("stop", stop, f"at most {size}, the size of dimension {dim}", "Correct the bounds.")
        return None
    taken = _every(length, op.step or 1)
    if taken is None:
        check.fault(
            "step", op.step, f"a step with which {length} elements can be counted", "Write the bounds as numbers."
        )
        return None
    return TensorType((*source.shape[:dim], taken, *source.shape[dim + 1 :]), source.dtype)


def _every(length: Extent, step: int) -> Extent | None:
    """How many of `length` elements every so manyth is; None where that is too long to be written."""
    if step == 1:
        return length
    if length.constant is not None:
        return Extent.of(-(-length.constant // step))
    return (length + Extent.of(step - 1)).quotient(Extent.of(step))


def _flip(op: Flip, source: TensorType, check: OpCheck) -> TensorType | None:
    dims = _dims_in(op.dims, source.rank, check)
    if dims is not None and not dims:
        check.fault("dims", "no dimensions", "at least 1", "Name what to turn around, or remove the op.")
        return None
    return None if dims is None else source


def _pad(op: Pad, source: TensorType, check: OpCheck) -> TensorType | None:
    fits = True
    for name, sizes in (("low", op.low), ("high", op.high)):
        if len(sizes) != source.rank:
            fits = False
            expected = f"{source.rank} sizes, one for each dimension of {source}"
            check.fault(name, list(sizes), expected, "Write 0 for a dimension that stays as it is.")
    if not fits or not _value_fits(op.value, source.dtype, check):
        return None
    padded = zip(source.shape, op.low, op.high, strict=True)
    return TensorType(tuple(size + Extent.of(low) + Extent.of(high) for size, low, high in padded), source.dtype)


def _full(op: Filled, check: OpCheck) -> TensorType | None:
    if not _value_fits(op.value, op.dtype, check):
        return None
    return TensorType(tuple(map(Extent.of, op.shape)), op.dtype)


def _value_fits(written: Number | str, dtype: DTypeName, check: OpCheck) -> bool:
    """A number that fills a tensor: one that its dtype holds, be it rounded."""
    number = literal_value(written)
    assert number is not None, "the grammar takes no names here"
    if dtype not in FLOATS:
        return _integer_fits(
            number, dtype, "value", f"as {dtype} holds them", "Name another dtype, or another number.", check
        )
    if isinf(number) or isnan(number) or abs(number) <= LARGEST_FLOAT.get(dtype, inf):
        return _float_fits(number, dtype, "value", check)
    check.fault("value", number, f"a number that {dtype} can hold", 'Write "inf" if that is meant.')
    return False


def _cat(op: Cat, operands: tuple[TensorType, ...], check: OpCheck) -> TensorType | None:
    first = operands[0]
    dim = dim_in(op.dim, first.rank, "dim", check)
    if dim is None:
        return None
    fits, total = True, first.shape[dim]
    for position, operand in enumerate(operands[1:], 1):
        around = (operand.shape[:dim], operand.shape[dim + 1 :])
        if operand.rank != first.rank or around != (first.shape[:dim], first.shape[dim + 1 :]):
            fits = False
            check.fault(f"in[{position}]", operand, f"{first} but for dimension {dim}", "Make the other sizes equal.")
        elif operand.dtype != first.dtype:
            fits = False
            check.fault(f"in[{position}]", operand, f"dtype {first.dtype}", "Cast one of the operands first.")
        else:
            total = total + operand.shape[dim]
    return TensorType((*first.shape[:dim], total, *first.shape[dim + 1 :]), first.dtype) if fits else None


def _iota(op: Iota, check: OpCheck) -> TensorType | None:
    if op.dtype == "bool" or op.dtype in FP8:
        fix = "Make an i32 and compare it." if op.dtype == "bool" else "Make an f32 and cast it."
        check.fault("dtype", op.dtype, "a number dtype" if op.dtype == "bool" else "a dtype with arithmetic", fix)
        return None
    if dim_in(op.dim, len(op.shape), "dim", check) is None:
        return None
    return TensorType(tuple(map(Extent.of, op.shape)), op.dtype)


def _rand(op: Rand, operands: tuple[TensorType, ...], check: OpCheck) -> TensorType | None:
    fits = True
    for position, operand in enumerate(operands):
        if operand != TensorType((), "i64"):
            fits = False
            expected = f"the {('seed', 'offset')[position]}, an i64 tensor without dimensions"
            fix = "Pass it in memory of the GPU, where a captured graph may change it."
            check.fault(f"in[{position}]", operand, expected, fix)
    return TensorType(tuple(map(Extent.of, op.shape)), op.dtype) if fits else None


def _take(op: Take, table: TensorType, index: TensorType, check: OpCheck) -> TensorType | None:
    dim = dim_in(op.dim, table.rank, "dim", check)
    if not _is_index(index, check) or dim is None:
        return None
    return TensorType((*table.shape[:dim], *index.shape, *table.shape[dim + 1 :]), table.dtype)


def _gather(op: Gather, source: TensorType, index: TensorType, check: OpCheck) -> TensorType | None:
    dim = dim_in(op.dim, source.rank, "dim", check)
    if not _is_index(index, check) or dim is None:
        return None
    if index.rank != source.rank:
        check.fault("in[1]", index, f"rank {source.rank}, that of {source}", "Reshape it, or write take.")
        return None
    fits = True
    for d, (chosen, size) in enumerate(zip(index.shape, source.shape, strict=True)):
        left = size - chosen
        if d != dim and left.constant is not None and left.constant < 0:
            fits = False
            expected = f"at most {size} in dimension {d}, as {source} has"
            check.fault("in[1]", index, expected, "Take a part of the index by slice first.")
    return TensorType(index.shape, source.dtype) if fits else None


def _is_index(index: TensorType, check: OpCheck) -> bool:
    if index.dtype not in INDEX_TYPES:
        check.fault("in[1]", index, f"an index of {' or '.join(INDEX_TYPES)}", "Cast it to i64 first.")
    return index.dtype in INDEX_TYPES


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
    known = _dims_in(dims, source.rank, check)
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
    if _lacks("matmul", left, check):
        return None
    expected = f"{left.dtype} ({', '.join(map(str, (*left.shape[:-2], left.shape[-1], 'n')))}), to go with {left}"
    if right.rank != left.rank or right.shape[:-1] != (*left.shape[:-2], left.shape[-1]):
        check.fault("in[1]", right, expected, "Permute, reshape or broadcast one of the operands first.")
        return None
    if right.dtype != left.dtype:
        check.fault("in[1]", right, expected, "Cast one of the operands first.")
        return None
    dtype = op.dtype or left.dtype
    if dtype == "bool" or (dtype in FLOATS) != (left.dtype in FLOATS):
        kind = "float" if left.dtype in FLOATS else "integer"
        check.fault("dtype", dtype, f"a {kind} dtype, as the operands are {left.dtype}", "Cast the result instead.")
        return None
    return TensorType((*left.shape[:-1], right.shape[-1]), dtype)
