"""Operators of the wire that others make up, written out in their names when a fusion is bound.

Everything behind sees what they are made of: reference, verifier, schedulers and cost model know nothing of them, and a
kernel of theirs is proven as any other. `COMPOSED` names them; a sum with a dtype of its own
is one as well, and a scan that is no single pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isqrt, log2, prod
from typing import Any

from pydantic import TypeAdapter

from fusetune.wire.extent import Extent
from fusetune.wire.fusion import Arg, Fusion, Matmul, Op, Operand, PrefixSum, Reduce, Truth
from fusetune.wire.infer import MAX_RANK, checked_types
from fusetune.wire.op_check import FLOATS, ITEM_BYTES, OpCheck, TensorType
from fusetune.wire.op_types import result_type

_OPERATOR: TypeAdapter[Op] = TypeAdapter(Op)
_MOST_I32 = 2**31 - 1
_KEPT_BYTES = 2**21
_PART_BYTES = 2**17
"""Of runs: more than a cluster of blocks keeps on chip has to be read twice; and what one block keeps with ease."""

_RUN_ALONG, _MANY_ALONG = 4096, 512
_RUN_ACROSS, _MANY_ACROSS = 64, 2**15
_RUNS, _FEW_ELEMS = 4, 2**20
"""A scan along neighbours in memory has blocks enough where there are so many, one along others threads enough. Fewer
are cut in runs of about so many elements, if they make up four runs, and as many elements in all as cost more than the
launches: what lies before each run is found in a pass of its own."""

_MOST_ONE_BY_ONE = 4096
"""Elements that a thread adds one by one, at most: what a sum may err by counts half a unit for each of so many
(`search.proof.verify.tolerance`)."""

_ACCUMULATORS = frozenset({"f32", "f64", "i64"})


def is_composed(op: Op, types: Mapping[str, TensorType]) -> bool:
    """Whether the operator has to be written out. `types`: of the fusion's values."""
    if isinstance(op, PrefixSum):
        return not _is_plain_scan(op, types)
    if isinstance(op, Matmul):
        (*_, rows, inner), (*_, columns) = (types[str(x)].shape for x in op.ins)
        return 1 in (rows.constant, inner.constant, columns.constant)
    return op.op in COMPOSED or (isinstance(op, Reduce) and types[op.out].dtype != types[_operand(op)].dtype)


def _is_plain_scan(op: PrefixSum, types: Mapping[str, TensorType]) -> bool:
    """Whether a scan is one operator: in the dtype that it adds in, of several elements, and not cut in runs."""
    shape, dtype = tuple(_number(n) for n in types[op.out].shape), types[op.out].dtype
    if dtype not in _ACCUMULATORS or types[_operand(op)].dtype != dtype:
        return False
    dim = op.dim % len(shape)
    return (shape[dim] > 1 or op.exclusive) and not _run(shape, dim)


def written_out(fusion: Fusion) -> Fusion:
    """The fusion without operators that others make up; itself where it has none. `fusion`: without symbols, and with
    canonical names, which tell its results from those that are added."""
    types = checked_types(fusion)
    if not any(is_composed(op, types) for op in fusion.ops):
        return fusion
    written = _Written(types)
    for op in fusion.ops:
        written.add(op)
    outputs = tuple(x.model_copy(update={"name": written.names.get(x.name, x.name)}) for x in fusion.outputs)
    return fusion.model_copy(update={"ops": tuple(written.ops), "outputs": outputs})


class _Written:
    """The operators so far. `names`: what stands for the results of the fusion's own that were written out."""

    def __init__(self, types: Mapping[str, TensorType]) -> None:
        self.names: dict[str, str] = {}
        self.ops: list[Op] = []
        self.types = dict(types)

    def add(self, op: Op) -> None:
        """An operator of the fusion."""
        own = op.model_copy(update={"ins": tuple(self.names.get(str(x), x) for x in op.ins)})
        others = _scan if isinstance(op, PrefixSum) else _product if isinstance(op, Matmul) else _typed_fold
        write = COMPOSED.get(op.op, others if is_composed(op, self.types) else None)
        if write is None:
            self.ops.append(own)
        else:
            self.names[op.out] = write(self, own)

    def put(self, op: str, *ins: Operand, **attributes: Any) -> str:
        """A new operator; the name of its result."""
        out = f"w{len(self.ops)}"
        made = _OPERATOR.validate_python({"op": op, "in": ins, "out": out, **attributes})
        check = OpCheck(out)
        found = result_type(made, tuple(self.types[x] if isinstance(x, str) else x for x in ins), check)
        assert found is not None, check.problems
        self.ops.append(made)
        self.types[out] = found
        return out

    def shape(self, name: str) -> tuple[int, ...]:
        """The sizes of a value."""
        return tuple(_number(extent) for extent in self.types[name].shape)

    def zeros(self, like: str, dim: int, size: int) -> str:
        """So many zeros along `dim`, otherwise of the shape and dtype of `like`."""
        shape = (*self.shape(like)[:dim], size, *self.shape(like)[dim + 1 :])
        return self.put("mul", self.put("iota", shape=shape, dim=dim, dtype=self.types[like].dtype), 0)

    def cast(self, name: str, dtype: str) -> str:
        """`name` in `dtype`: itself where it is."""
        return name if self.types[name].dtype == dtype else self.put("cast", name, dtype=dtype)


def _number(extent: Extent) -> int:
    assert extent.constant is not None, "a bound fusion has no symbols"
    return extent.constant


def _operand(op: Op) -> str:
    return str(op.ins[0])


def _typed_fold(w: _Written, op: Op) -> str:
    """As torch: the elements are cast, and then folded. Products of integers are i64, of which others are the end."""
    assert isinstance(op, Reduce)
    dtype = w.types[op.out].dtype
    within = dtype if op.op == "sum" or dtype in FLOATS else "i64"
    return w.cast(w.put(op.op, w.cast(_operand(op), within), dims=op.dims, keepdim=op.keepdim), dtype)


def _product(w: _Written, op: Op) -> str:
    """A product of one row or column, or of one element of each: products of elements, and their sum if there are
    several. It is rounded to the dtype of the result once."""
    left, right = (str(x) for x in op.ins)
    dtype, shape = w.types[op.out].dtype, w.shape(op.out)
    *batch, rows, inner = w.shape(left)
    wide = "f64" if "f64" in (w.types[left].dtype, dtype) else "f32"
    dims, within = tuple(range(len(batch))), wide if dtype in FLOATS else dtype
    left, right = (w.cast(x, within) for x in (left, right))
    if inner == 1:
        left, right = (_spread(w, x, shape, tuple(range(len(shape)))) for x in (left, right))
        return w.cast(w.put("mul", left, right), dtype)
    along = len(batch) if rows == 1 else len(batch) + 1
    if rows == 1:
        left = _spread(w, w.put("reshape", left, shape=(*batch, inner)), w.shape(right), (*dims, along))
    else:
        right = _spread(w, w.put("reshape", right, shape=(*batch, inner)), w.shape(left), (*dims, along))
    summed = w.put("sum", w.put("mul", left, right), dims=(along,))
    return w.cast(w.put("reshape", summed, shape=shape), dtype)


def _spread(w: _Written, x: str, shape: tuple[int, ...], dims: tuple[int, ...]) -> str:
    return x if w.shape(x) == shape else w.put("broadcast_to", x, shape=shape, dims=dims)


def _truth(w: _Written, op: Op) -> str:
    """The greatest, or the least, of the elements as truth values: NaN is other than 0."""
    assert isinstance(op, Truth)
    x = _operand(op)
    true = x if w.types[x].dtype == "bool" else w.put("ne", x, 0)
    return w.put("amax" if op.op == "any" else "amin", true, dims=op.dims, keepdim=op.keepdim)


def _arg(w: _Written, op: Op) -> str:
    """The least index of an element that is the extreme one, or NaN: of a run with a NaN the extreme is NaN, which
    equals nothing. Runs that are too long to be kept are cut in parts, of which each has its own."""
    assert isinstance(op, Arg)
    x, dim = _operand(op), op.dim
    rank = len(w.shape(x))
    if dim is None:
        x, dim = w.put("reshape", x, shape=(prod(w.shape(x)),)), 0
    fold, shape = "amax" if op.op == "argmax" else "amin", w.shape(x)
    index = w.put("iota", shape=shape, dim=dim, dtype=_index_dtype(shape[dim]))
    part = _part(shape[dim], ITEM_BYTES[w.types[x].dtype])
    if part:
        cut = (*shape[:dim], shape[dim] // part, part, *shape[dim + 1 :])
        x, index = (w.put("reshape", name, shape=cut) for name in (x, index))
        own = w.put(fold, x, dims=(dim + 1,))
        x, index = own, _place(w, x, index, fold, dim + 1, shape[dim])
    first = _place(w, x, index, fold, dim, shape[dim], keepdim=op.keepdim)
    if op.dim is None and op.keepdim and rank != 1:
        first = w.put("reshape", first, shape=(1,) * rank)
    return w.cast(first, "i64")


def _place(w: _Written, x: str, index: str, fold: str, dim: int, most: int, *, keepdim: bool = False) -> str:
    """The least of the indices of elements along `dim` that are the extreme one, or NaN."""
    shape = w.shape(x)
    extreme = w.put(fold, x, dims=(dim,), keepdim=True)
    here = w.put("eq", x, w.put("broadcast_to", extreme, shape=shape, dims=tuple(range(len(shape)))))
    if w.types[x].dtype in FLOATS:
        here = w.put("maximum", here, w.put("ne", x, x))
    return w.put("amin", w.put("where", here, index, most), dims=(dim,), keepdim=keepdim)


def _index_dtype(size: int) -> str:
    return "i32" if size <= _MOST_I32 else "i64"


def _part(size: int, item_bytes: int) -> int:
    """Elements of a part of a run that is too long to be kept on chip, a divisor of its size; 0 for a run that is kept,
    and one that nothing near divides."""
    if size * item_bytes <= _KEPT_BYTES:
        return 0
    wanted = _PART_BYTES // item_bytes
    near = [n for k in range(1, isqrt(size) + 1) if size % k == 0 for n in (k, size // k)]
    found = min(near, key=lambda n: abs(log2(n / wanted)))
    return found if wanted // 4 <= found <= wanted * 4 else 0


def _scan(w: _Written, op: Op) -> str:
    """As sums: floats of 16 bits in f32, and rounded once; integers in i64. Few long ones are cut in runs."""
    assert isinstance(op, PrefixSum)
    x, dtype = _operand(op), w.types[op.out].dtype
    within = "i64" if dtype not in FLOATS else "f64" if dtype == "f64" else "f32"
    shape, dim, wide = w.shape(x), op.dim, w.cast(w.cast(x, dtype), within)
    if shape[dim] == 1 and not op.exclusive:
        return w.put("copy", x) if w.types[x].dtype == dtype else w.cast(wide, dtype)
    if len(shape) > MAX_RANK - 1 and _run(shape, dim):
        flat = (prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :]))
        wide = _sums(w, w.put("reshape", wide, shape=flat), 1, exclusive=op.exclusive)
        return w.cast(w.put("reshape", wide, shape=shape), dtype)
    return w.cast(_sums(w, wide, dim, exclusive=op.exclusive), dtype)


def _sums(w: _Written, x: str, dim: int, *, exclusive: bool) -> str:
    """Along `dim`, of the elements up to each, or before it: at once, or within runs, with what lies before each run.

    What lies before is not what is up to an element less its own: of an infinity that would leave NaN.
    """
    shape = w.shape(x)
    size, run = shape[dim], _run(shape, dim)
    if not run:
        return w.put("cumsum", x, dim=dim, exclusive=exclusive)
    parts = -(-size // run)
    whole_size = parts * run
    if whole_size > size:
        x = w.put("cat", x, w.zeros(x, dim, whole_size - size), dim=dim)
    runs = w.put("reshape", x, shape=(*shape[:dim], parts, run, *shape[dim + 1 :]))
    before = _sums(w, w.put("sum", runs, dims=(dim + 1,)), dim, exclusive=True)
    places = tuple(d for d in range(len(shape) + 1) if d != dim + 1)
    before = w.put("broadcast_to", before, shape=w.shape(runs), dims=places)
    added = w.put("add", before, w.put("cumsum", runs, dim=dim + 1, exclusive=exclusive))
    whole = w.put("reshape", added, shape=(*shape[:dim], whole_size, *shape[dim + 1 :]))
    return w.put("slice", whole, dim=dim, start=0, stop=size) if whole_size > size else whole


def _run(shape: tuple[int, ...], dim: int) -> int:
    """Elements of the runs that a scan is cut into: a divisor of its size if one is near; 0 for one that is not cut,
    which is short, or one of many."""
    size, others = shape[dim], prod(shape) // shape[dim]
    is_row = prod(shape[dim + 1 :]) == 1
    wanted, enough = (_RUN_ALONG, _MANY_ALONG) if is_row else (_RUN_ACROSS, _MANY_ACROSS)
    is_long = not is_row and size > _MOST_ONE_BY_ONE
    if not is_long and (others >= enough or size < _RUNS * wanted or size * others < _FEW_ELEMS):
        return 0
    wanted = max(wanted, _MOST_ONE_BY_ONE // 2) if is_long and others >= enough else wanted
    near = [n for k in range(1, isqrt(size) + 1) if size % k == 0 for n in (k, size // k)]
    return min((n for n in near if wanted // 2 <= n <= 2 * wanted), key=lambda n: abs(log2(n / wanted)), default=wanted)


COMPOSED: Mapping[str, Callable[[_Written, Op], str]] = {
    "any": _truth,
    "all": _truth,
    "argmax": _arg,
    "argmin": _arg,
}
"""By name, what writes an operator out; it gives the name of the result."""
