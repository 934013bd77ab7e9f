"""Writing a fusion in Python: each operator is checked as it is added.

f = FusionBuilder()
x = f.input("x", ("M", 4096), "bf16")
b = f.input("b", (4096,), "bf16")
y = f.gelu(x.cast("f32") + b.cast("f32").broadcast_to(x.shape, dims=(1,)))
f.output(y.cast("bf16"), name="out")
fusion = f.build()
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

from fusetune import wire
from fusetune.elementwise import Elementwise, Number
from fusetune.errors import InvalidFusion
from fusetune.wire.extent import Size
from fusetune.wire.fusion import FORMAT, DTypeName, Memory, Precision, ScalarName, show
from fusetune.wire.op_check import TensorType
from fusetune.wire.parse import parse_fusion, read_fusion
from fusetune.wire.printing import fusion_html, fusion_text
from fusetune.wire.problems import InvalidDocument, Problem


class Fusion(wire.Fusion):
    """A valid fusion. Make one with `FusionBuilder` or `Fusion.from_json`."""

    @classmethod
    def from_json(cls, document: str | bytes | Mapping[str, Any]) -> Fusion:
        """The fusion in a `fusetune.fusion/1` document, as text or decoded. Raises InvalidFusion with every fault."""
        try:
            parsed = parse_fusion(document)
        except InvalidDocument as error:
            raise InvalidFusion(error.problems) from None
        return cls(
            format=parsed.format, inputs=parsed.inputs, scalars=parsed.scalars, ops=parsed.ops, outputs=parsed.outputs
        )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of what the fusion means; names and the order of independent operators do not change it."""
        return wire.fingerprint(self)

    def __repr__(self) -> str:
        return fusion_text(self)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return fusion_html(self)


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value of the fusion that `builder` is making; `+ - * / // % **` make further ones with tensors and numbers."""

    builder: FusionBuilder = field(repr=False)
    name: str
    type: TensorType

    @property
    def shape(self) -> tuple[Size, ...]:
        """Sizes and symbols. A sum, product or quotient of symbols reads `2*M`, and no shape can be made with it."""
        return tuple(str(extent) if extent.size is None else extent.size for extent in self.type.shape)

    @property
    def dtype(self) -> DTypeName:
        return self.type.dtype

    def __repr__(self) -> str:
        return f"Tensor({self.name}: {self.type})"

    def __add__(self, other: Tensor | ByValue | Number) -> Tensor:
        return self.builder.add(self, other)

    def __radd__(self, other: ByValue | Number) -> Tensor:
        return self.builder.add(other, self)

    def __sub__(self, other: Tensor | ByValue | Number) -> Tensor:
        return self.builder.sub(self, other)

    def __rsub__(self, other: ByValue | Number) -> Tensor:
        return self.builder.sub(other, self)

    def __mul__(self, other: Tensor | ByValue | Number) -> Tensor:
        return self.builder.mul(self, other)

    def __rmul__(self, other: ByValue | Number) -> Tensor:
        return self.builder.mul(other, self)

    def __truediv__(self, other: Tensor | ByValue | Number) -> Tensor:
        return self.builder.div(self, other)

    def __rtruediv__(self, other: ByValue | Number) -> Tensor:
        return self.builder.div(other, self)

    def __floordiv__(self, other: Tensor | ByValue | Number) -> Tensor:
        return self.builder.floor_divide(self, other)

    def __rfloordiv__(self, other: ByValue | Number) -> Tensor:
        return self.builder.floor_divide(other, self)

    def __mod__(self, other: Tensor | ByValue | Number) -> Tensor:
        return self.builder.remainder(self, other)

    def __rmod__(self, other: ByValue | Number) -> Tensor:
        return self.builder.remainder(other, self)

    def __pow__(self, other: Tensor | ByValue | Number) -> Tensor:
        return self.builder.pow(self, other)

    def __rpow__(self, other: ByValue | Number) -> Tensor:
        return self.builder.pow(other, self)

    def __matmul__(self, other: Tensor) -> Tensor:
        return self.builder.matmul(self, other)

    def __neg__(self) -> Tensor:
        return self.builder.neg(self)

    def __abs__(self) -> Tensor:
        return self.builder.abs(self)

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self!r} has no value yet: use where, eq, lt and the like of the builder instead of `if`")

    def cast(self, dtype: DTypeName) -> Tensor:
        return self.builder.cast(self, dtype)

    def broadcast_to(self, shape: Sequence[Size], dims: Sequence[int]) -> Tensor:
        return self.builder.broadcast_to(self, shape, dims)

    def permute(self, dims: Sequence[int]) -> Tensor:
        return self.builder.permute(self, dims)

    def reshape(self, shape: Sequence[Size]) -> Tensor:
        return self.builder.reshape(self, shape)

    def slice(self, dim: int, start: Size, stop: Size, step: int = 1) -> Tensor:
        return self.builder.slice(self, dim, start, stop, step)

    def sum(self, dims: Sequence[int], keepdim: bool = False, dtype: DTypeName | None = None) -> Tensor:
        return self.builder.sum(self, dims, keepdim, dtype)

    def prod(self, dims: Sequence[int], keepdim: bool = False, dtype: DTypeName | None = None) -> Tensor:
        return self.builder.prod(self, dims, keepdim, dtype)

    def mean(self, dims: Sequence[int], keepdim: bool = False) -> Tensor:
        return self.builder.mean(self, dims, keepdim)

    def amax(self, dims: Sequence[int], keepdim: bool = False) -> Tensor:
        return self.builder.amax(self, dims, keepdim)

    def amin(self, dims: Sequence[int], keepdim: bool = False) -> Tensor:
        return self.builder.amin(self, dims, keepdim)

    def any(self, dims: Sequence[int], keepdim: bool = False) -> Tensor:
        return self.builder.any(self, dims, keepdim)

    def all(self, dims: Sequence[int], keepdim: bool = False) -> Tensor:
        return self.builder.all(self, dims, keepdim)

    def cumsum(self, dim: int, dtype: DTypeName | None = None, exclusive: bool = False) -> Tensor:
        return self.builder.cumsum(self, dim, dtype, exclusive)

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        return self.builder.argmax(self, dim, keepdim)

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        return self.builder.argmin(self, dim, keepdim)


@dataclass(frozen=True, eq=False)
class ByValue:
    """A scalar of the fusion that `builder` is making: it stands where a number may, beside a tensor."""

    builder: FusionBuilder = field(repr=False)
    name: str
    dtype: ScalarName

    def _alone(self, other: object) -> Any:
        """Of a tensor beside it the tensor makes the operator; with anything else there is none."""
        if isinstance(other, Tensor):
            return NotImplemented
        fix = "Work it out before the call, and pass the result as a scalar."
        raise InvalidFusion((Problem(self.name, f"scalar {self.name!r} in arithmetic without a tensor", "one", fix),))

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _alone
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = _alone

    def __neg__(self) -> NoReturn:
        self._alone(None)
        raise AssertionError("a scalar has no arithmetic of its own")


_OWN_NAME = "__fusetune_"
"""Begins the names of results until they are returned or numbered: one that no user would give an input."""


class FusionBuilder(Elementwise[Tensor, ByValue]):
    """Collects inputs, operators and outputs. Every method raises InvalidFusion at once for what cannot be.

    Operators on f16 and bf16 compute in f32 and round their result once. Who wants more precision between operators
    casts to f32 first (docs/contracts.md, "Bits").
    """

    def __init__(self) -> None:
        self._inputs: list[dict[str, Any]] = []
        self._scalars: list[dict[str, Any]] = []
        self._ops: list[dict[str, Any]] = []
        self._outputs: list[tuple[str, str, dict[str, Any]]] = []

    def input(
        self,
        name: str,
        shape: Sequence[Size],
        dtype: DTypeName,
        *,
        strides: Sequence[Size] | None = None,
        is_list: bool = False,
    ) -> Tensor:
        """A tensor that the caller will pass. Sizes are integers or symbols; `strides` in elements, else dense."""
        entry: dict[str, Any] = {"name": name, "shape": _listed(shape), "dtype": dtype}
        if strides is not None:
            entry["strides"] = _listed(strides)
        if is_list:
            entry["list"] = True
        self._inputs.append(entry)
        return self._checked(name, self._inputs)

    def scalar(self, name: str, dtype: ScalarName = "f64") -> ByValue:
        """A number that the caller will pass by value, after all tensors: a learning rate, a scale. It stands where a
        number may, beside a tensor, and is converted as one; a new value needs no new tuning."""
        self._scalars.append({"name": name, "dtype": dtype})
        self._check(self._scalars)
        return ByValue(self, name, dtype)

    def output(
        self,
        tensor: Tensor,
        name: str | None = None,
        *,
        alias: Tensor | None = None,
        strides: Sequence[Size] | None = None,
    ) -> None:
        """Return `tensor`, the result of an operator, under `name`; with `alias`, in the memory of that input.

        `strides` in elements; without, it is dense, unless a binding says more.
        """
        where = f"outputs[{len(self._outputs)}]"
        self._own(tensor, where)
        if alias is not None:
            self._own(alias, f"{where}.alias")
        facts: dict[str, Any] = {} if alias is None else {"alias": alias.name}
        facts |= {} if strides is None else {"strides": _listed(strides)}
        self._outputs.append((tensor.name, tensor.name if name is None else name, facts))
        try:
            Fusion.from_json(self._document())
        except InvalidFusion:
            self._outputs.pop()
            raise

    def build(self) -> Fusion:
        """The fusion, checked as a whole. The builder can go on and build a larger one."""
        return Fusion.from_json(self._document())

    def copy(self, x: Tensor, memory: Memory | None = None) -> Tensor:
        """The same values; `memory` asks for a stop in that memory on the way."""
        return self._op("copy", x, **({} if memory is None else {"memory": memory}))

    def cast(self, x: Tensor, dtype: DTypeName) -> Tensor:
        """Values in another dtype, rounded once; float to integer truncates. To bf16 and back loses what bf16 loses.

        f8e4m3 saturates: infinities become ±448. In f8e5m2 what is too large becomes an infinity.
        """
        return self._op("cast", x, dtype=dtype)

    def broadcast_to(self, x: Tensor, shape: Sequence[Size], dims: Sequence[int]) -> Tensor:
        """Dimension i of `x` is dimension `dims[i]` of the result; a size of 1 expands."""
        return self._op("broadcast_to", x, shape=_listed(shape), dims=_listed(dims))

    def permute(self, x: Tensor, dims: Sequence[int]) -> Tensor:
        """Dimension i of the result is dimension `dims[i]` of `x`."""
        return self._op("permute", x, dims=_listed(dims))

    def reshape(self, x: Tensor, shape: Sequence[Size]) -> Tensor:
        """The same elements in row-major order; one size may be -1. Whether symbols fit is settled at binding."""
        return self._op("reshape", x, shape=_listed(shape))

    def slice(self, x: Tensor, dim: int, start: Size, stop: Size, step: int = 1) -> Tensor:
        """Elements `start` up to, not including, `stop` of dimension `dim`; with a `step`, every so manyth of them."""
        return self._op("slice", x, dim=dim, start=start, stop=stop, **({} if step == 1 else {"step": step}))

    def flip(self, x: Tensor, dims: Sequence[int]) -> Tensor:
        """The last element first along each of `dims`."""
        return self._op("flip", x, dims=_listed(dims))

    def pad(self, x: Tensor, low: Sequence[Size], high: Sequence[Size], value: Number = 0) -> Tensor:
        """`low[i]` places before dimension i and `high[i]` behind it, which hold `value`."""
        return self._op("pad", x, low=_listed(low), high=_listed(high), value=_written(value))

    def cat(self, tensors: Iterable[Tensor], dim: int) -> Tensor:
        """One after the other along `dim`."""
        return self._op("cat", *tensors, dim=dim)

    def iota(self, shape: Sequence[Size], dim: int, dtype: DTypeName) -> Tensor:
        """The position along `dim`."""
        return self._op("iota", shape=_listed(shape), dim=dim, dtype=dtype)

    def full(self, shape: Sequence[Size], value: Number, dtype: DTypeName) -> Tensor:
        """`value` everywhere."""
        return self._op("full", shape=_listed(shape), value=_written(value), dtype=dtype)

    def rand(self, shape: Sequence[Size], seed: Tensor, offset: Tensor) -> Tensor:
        """Numbers of [0, 1), f32, by `seed` and `offset`: i64 tensors without dimensions, read when the kernel runs.

        The same seed, offset and position give the same number in any kernel (docs/contracts.md, "Random numbers"), so
        that every draw has an offset of its own. They are not torch's numbers.
        """
        return self._op("rand", seed, offset, shape=_listed(shape))

    def dropout(self, x: Tensor, p: Number, seed: Tensor, offset: Tensor) -> Tensor:
        """`x` over `1 - p` where `rand` is `p` or more, 0 elsewhere: `p` is the share that is dropped.

        A backward fusion drops the same of the gradient: `dropout(grad, p, seed, offset)`. Raises InvalidFusion for a
        `p` that is no number from 0 to 1.
        """
        share: object = p
        if not (isinstance(share, int | float) and 0 <= share <= 1):
            fix = "Pass the share of elements that is dropped."
            raise InvalidFusion((Problem(f"ops[{len(self._ops)}]", f"p = {show(p)}", "a number from 0 to 1", fix),))
        is_kept = self.ge(self.rand(x.shape, seed, offset), p)
        return self.where(is_kept, x * (1.0 / (1.0 - p) if p < 1 else 0.0), 0.0)

    def take(self, table: Tensor, index: Tensor, dim: int = 0) -> Tensor:
        """`table` where the i32 or i64 of `index`, of any rank, choose along `dim`: `table[index]` for dimension 0.

        An index below 0, or past the end, stops the kernel: nothing counts from the end.
        """
        return self._op("take", table, index, dim=dim)

    def embedding(self, index: Tensor, table: Tensor) -> Tensor:
        """The rows of `table` that the index chooses, as `torch.nn.functional.embedding` has its operands: a `take`."""
        return self.take(table, index)

    def gather(self, x: Tensor, dim: int, index: Tensor) -> Tensor:
        """The element of `x` at the own position, but along `dim` where `index`, of the same rank, says: torch.gather.

        An index below 0, or past the end, stops the kernel.
        """
        return self._op("gather", x, index, dim=dim)

    def sum(self, x: Tensor, dims: Sequence[int], keepdim: bool = False, dtype: DTypeName | None = None) -> Tensor:
        """Of one dtype unless `dtype` says another, to which elements are cast before: i64 counts what is true."""
        return self._op("sum", x, dims=_listed(dims), keepdim=keepdim, **_said(dtype))

    def prod(self, x: Tensor, dims: Sequence[int], keepdim: bool = False, dtype: DTypeName | None = None) -> Tensor:
        """Of one dtype, or i64 of integers and bools, unless `dtype` says another, to which elements are cast before.
        Halves are multiplied in f32; integers wrap."""
        return self._op("prod", x, dims=_listed(dims), keepdim=keepdim, **_said(dtype))

    def mean(self, x: Tensor, dims: Sequence[int], keepdim: bool = False) -> Tensor:
        return self._op("mean", x, dims=_listed(dims), keepdim=keepdim)

    def amax(self, x: Tensor, dims: Sequence[int], keepdim: bool = False) -> Tensor:
        return self._op("amax", x, dims=_listed(dims), keepdim=keepdim)

    def amin(self, x: Tensor, dims: Sequence[int], keepdim: bool = False) -> Tensor:
        return self._op("amin", x, dims=_listed(dims), keepdim=keepdim)

    def any(self, x: Tensor, dims: Sequence[int], keepdim: bool = False) -> Tensor:
        """Whether one element is other than 0, as NaN is; a bool."""
        return self._op("any", x, dims=_listed(dims), keepdim=keepdim)

    def all(self, x: Tensor, dims: Sequence[int], keepdim: bool = False) -> Tensor:
        """Whether no element is 0; a bool."""
        return self._op("all", x, dims=_listed(dims), keepdim=keepdim)

    def cumsum(self, x: Tensor, dim: int, dtype: DTypeName | None = None, exclusive: bool = False) -> Tensor:
        """Sums of the elements up to each along `dim`, or with `exclusive` of those before it; of integers and bools
        in i64 unless `dtype` says otherwise."""
        return self._op("cumsum", x, dim=dim, **_said(dtype), **({"exclusive": True} if exclusive else {}))

    def argmax(self, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """The index of the first greatest element along `dim`, or of the first NaN; without `dim` of all elements, in
        row-major order. In i64."""
        return self._op("argmax", x, keepdim=keepdim, **({} if dim is None else {"dim": dim}))

    def argmin(self, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """The index of the first least element, otherwise as `argmax`."""
        return self._op("argmin", x, keepdim=keepdim, **({} if dim is None else {"dim": dim}))

    def matmul(
        self, x: Tensor, y: Tensor, dtype: DTypeName | None = None, precision: Precision | None = None
    ) -> Tensor:
        """`(..., m, k)` by `(..., k, n)`; `dtype` is the result's, by default the operands'. f32 is multiplied in full
        unless `precision` allows less: "tf32", on tensor cores."""
        allowed = {} if precision is None else {"precision": precision}
        return self._op("matmul", x, y, **_said(dtype), **allowed)

    def _op(self, op: str, *operands: Tensor | ByValue | Number, **attributes: Any) -> Tensor:
        place = f"ops[{len(self._ops)}]"
        ins = tuple(
            self._own(x, f"{place}.in[{i}]") if isinstance(x, Tensor | ByValue) else _written(x)
            for i, x in enumerate(operands)
        )
        name = f"{_OWN_NAME}{len(self._ops)}"
        self._ops.append({"op": op, "in": ins, "out": name, **attributes})
        return self._checked(name, self._ops)

    def _own(self, tensor: object, place: str) -> str:
        if not isinstance(tensor, Tensor | ByValue):
            fix = "Return the result of an operator."
            raise InvalidFusion((Problem(place, show(tensor), "a tensor of this builder", fix),))
        if tensor.builder is not self:
            fix = "Make all tensors of a fusion with one builder."
            raise InvalidFusion((Problem(place, f"{tensor!r} of another builder", "a tensor of this builder", fix),))
        return tensor.name

    def _checked(self, name: str, entries: list[dict[str, Any]]) -> Tensor:
        """The value that the last of `entries` defines; an entry with faults is taken back."""
        return Tensor(self, name, self._check(entries)[name])

    def _check(self, entries: list[dict[str, Any]]) -> Mapping[str, TensorType]:
        """The types of all values so far. Raises InvalidFusion, and takes the last of `entries` back."""
        document = {**self._head(), "ops": tuple(self._ops), "outputs": ()}
        try:
            inference = wire.infer(read_fusion(document))
            problems = tuple(p for p in inference.problems if p.where != "outputs")
        except InvalidDocument as error:
            problems = error.problems
        if problems:
            entries.pop()
            raise InvalidFusion(problems)
        return inference.types

    def _head(self) -> dict[str, Any]:
        scalars = {"scalars": tuple(self._scalars)} if self._scalars else {}
        return {"format": FORMAT, "inputs": tuple(self._inputs), **scalars}

    def _document(self) -> dict[str, Any]:
        """The fusion so far: results get the names they are returned under, the others `t0`, `t1` and so on."""
        entries = (*self._inputs, *self._scalars)
        taken = {entry["name"] for entry in entries} | {public for _, public, _ in self._outputs}
        names = {own: public for own, public, _ in self._outputs if own.startswith(_OWN_NAME)}
        free = (f"t{i}" for i in itertools.count() if f"t{i}" not in taken)
        names |= {op["out"]: next(free) for op in self._ops if op["out"] not in names}
        ops = [{**op, "in": tuple(names.get(x, x) for x in op["in"]), "out": names[op["out"]]} for op in self._ops]
        outputs = [{"name": names.get(own, own), **facts} for own, _, facts in self._outputs]
        return {**self._head(), "ops": tuple(ops), "outputs": tuple(outputs)}


def _said(dtype: DTypeName | None) -> dict[str, DTypeName]:
    return {} if dtype is None else {"dtype": dtype}


def _listed(sizes: Any) -> Any:
    """A sequence as the wire spells it; what is none goes on as it is, for the wire to refuse by its place."""
    return tuple(sizes) if isinstance(sizes, Sequence) and not isinstance(sizes, str | bytes) else sizes


def _written(number: Number) -> Number | str:
    """A number as the wire spells it."""
    # repr spells them inf, -inf and nan, as the wire does.
    return repr(float(number)) if isinstance(number, float) and not math.isfinite(number) else number
