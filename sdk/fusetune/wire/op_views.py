"""Types of what moves elements, chooses among them, or makes them of nothing: views, joins, sources, takes."""

from __future__ import annotations

from math import inf, isinf, isnan

from fusetune.wire.extent import Extent, product
from fusetune.wire.fusion import (
    BroadcastTo,
    Cat,
    DTypeName,
    Filled,
    Flip,
    Gather,
    Iota,
    Pad,
    Permute,
    Rand,
    Reshape,
    Slice,
    Take,
    literal_value,
)
from fusetune.wire.op_check import (
    FLOATS,
    FP8,
    INDEX_TYPES,
    LARGEST_FLOAT,
    Number,
    OpCheck,
    TensorType,
    dim_in,
    dims_in,
    float_fits,
    integer_fits,
)


def broadcast_to_type(op: BroadcastTo, source: TensorType, check: OpCheck) -> TensorType | None:
    """The size that is asked for, of which `dims` are the operand's own; None where they do not fit."""
    shape = tuple(map(Extent.of, op.shape))
    dims = dims_in(op.dims, len(shape), check)
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


def permute_type(op: Permute, source: TensorType, check: OpCheck) -> TensorType | None:
    """The dimensions in another order; None where `dims` is none."""
    dims = dims_in(op.dims, source.rank, check)
    if dims is None:
        return None
    if len(dims) != source.rank:
        check.fault("dims", list(op.dims), f"every dimension of {source} once", "Add the missing dimensions.")
        return None
    return TensorType(tuple(source.shape[dim] for dim in dims), source.dtype)


def reshape_type(op: Reshape, source: TensorType, check: OpCheck) -> TensorType | None:
    """As many elements in another shape, a -1 of which follows from the rest; None where they differ."""
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


def slice_type(op: Slice, source: TensorType, check: OpCheck) -> TensorType | None:
    """Every `step`th place from `start` to `stop` of one dimension; None where these do not lie in it."""
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


def flip_type(op: Flip, source: TensorType, check: OpCheck) -> TensorType | None:
    """The operand's own; None where `dims` are none of its."""
    dims = dims_in(op.dims, source.rank, check)
    if dims is not None and not dims:
        check.fault("dims", "no dimensions", "at least 1", "Name what to turn around, or remove the op.")
        return None
    return None if dims is None else source


def pad_type(op: Pad, source: TensorType, check: OpCheck) -> TensorType | None:
    """As many places more as are put before and behind; None where one is negative, or the value does not fit."""
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


def full_type(op: Filled, check: OpCheck) -> TensorType | None:
    """What is said of it; None where the dtype cannot hold the value."""
    if not _value_fits(op.value, op.dtype, check):
        return None
    return TensorType(tuple(map(Extent.of, op.shape)), op.dtype)


def _value_fits(written: Number | str, dtype: DTypeName, check: OpCheck) -> bool:
    """A number that fills a tensor: one that its dtype holds, be it rounded."""
    number = literal_value(written)
    assert number is not None, "the grammar takes no names here"
    if dtype not in FLOATS:
        return integer_fits(
            number, dtype, "value", f"as {dtype} holds them", "Name another dtype, or another number.", check
        )
    if isinf(number) or isnan(number) or abs(number) <= LARGEST_FLOAT.get(dtype, inf):
        return float_fits(number, dtype, "value", check)
    check.fault("value", number, f"a number that {dtype} can hold", 'Write "inf" if that is meant.')
    return False


def cat_type(op: Cat, operands: tuple[TensorType, ...], check: OpCheck) -> TensorType | None:
    """The sizes along one dimension together; None where the others differ."""
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


def iota_type(op: Iota, check: OpCheck) -> TensorType | None:
    """What is said of it; None for a dtype without positions."""
    if op.dtype == "bool" or op.dtype in FP8:
        fix = "Make an i32 and compare it." if op.dtype == "bool" else "Make an f32 and cast it."
        check.fault("dtype", op.dtype, "a number dtype" if op.dtype == "bool" else "a dtype with arithmetic", fix)
        return None
    if dim_in(op.dim, len(op.shape), "dim", check) is None:
        return None
    return TensorType(tuple(map(Extent.of, op.shape)), op.dtype)


def rand_type(op: Rand, operands: tuple[TensorType, ...], check: OpCheck) -> TensorType | None:
    """f32 of the shape that is said; None where seed and offset are no single i64."""
    fits = True
    for position, operand in enumerate(operands):
        if operand != TensorType((), "i64"):
            fits = False
            expected = f"the {('seed', 'offset')[position]}, an i64 tensor without dimensions"
            fix = "Pass it in memory of the GPU, where a captured graph may change it."
            check.fault(f"in[{position}]", operand, expected, fix)
    return TensorType(tuple(map(Extent.of, op.shape)), op.dtype) if fits else None


def take_type(op: Take, table: TensorType, index: TensorType, check: OpCheck) -> TensorType | None:
    """The index in the place of one dimension of the table; None where it is no index."""
    dim = dim_in(op.dim, table.rank, "dim", check)
    if not _is_index(index, check) or dim is None:
        return None
    return TensorType((*table.shape[:dim], *index.shape, *table.shape[dim + 1 :]), table.dtype)


def gather_type(op: Gather, source: TensorType, index: TensorType, check: OpCheck) -> TensorType | None:
    """The shape of the index; None where it does not go with the operand's."""
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
