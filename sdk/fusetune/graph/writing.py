"""The fusion that is being written for a part of a graph, and what its nodes are in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, cast, overload

import torch
from torch.fx import Node

from fusetune.bindings import DTYPE_OF
from fusetune.errors import CannotConvert
from fusetune.fusion import ByValue, FusionBuilder, Tensor
from fusetune.graph.lines import line_of
from fusetune.graph.sizes import Sizes, known
from fusetune.torch import DTYPES
from fusetune.wire.fusion import DTypeName, Size
from fusetune.wire.op_check import FLOATS, FP8

Number = int | float
RandomInput = Literal["seed", "offset"]


@dataclass(frozen=True)
class Uniform:
    """One number everywhere: a literal in what reads it, and a tensor only where it has to be one."""

    number: Number
    shape: tuple[Size, ...]
    dtype: DTypeName


@dataclass(frozen=True)
class Several:
    """The results of an operator that has more than one; `getitem` chooses."""

    values: tuple[Value, ...]


Value = Tensor | Uniform | ByValue | Several
Operand = Tensor | ByValue | Number

HALVES = ("f16", "bf16")

SATURATES = not bool(torch.tensor(480.0).to(torch.float8_e4m3fn).float().isnan())
"""Whether this torch casts what f8e4m3 cannot hold to its largest number (2.13), or to NaN (2.11)."""

FIRST_BEYOND = 464.0
"""The largest that rounds to f8e4m3's largest number, 448: a tie, and 448 is even."""


class Writing:
    """A builder, the values of the nodes so far, and how to say a node's operands in one shape and dtype."""

    def __init__(self) -> None:
        self.f = FusionBuilder()
        self.sizes = Sizes()
        self.values: dict[Node, Value] = {}
        self.inputs: list[Node | RandomInput] = []
        self.scalars: list[Node] = []
        self.draws = 0
        self.by_value: frozenset[Node] = frozenset()
        self._made: dict[Any, Tensor] = {}
        self._random: tuple[Tensor, Tensor] | None = None
        self._names: Mapping[Node, str] = {}

    def name_inputs(self, names: Mapping[Node, str]) -> None:
        """Say what inputs shall be called; others are `i0`, `i1` and so on."""
        self._names = names

    # What a node is

    def value(self, node: Node) -> Value:
        """The value of a node; one that nobody has written yet is an input."""
        if node not in self.values:
            self.values[node] = self._input(node)
        return self.values[node]

    def operand(self, x: Any) -> Value | Number:
        """An argument of a node: another node's value, or a number of Python."""
        if isinstance(x, Node):
            return self.value(x)
        return int(x) if isinstance(x, bool) else x

    def tensor(self, x: Any) -> Tensor:
        """An argument as a tensor of the fusion: constants are written out."""
        return self.written(self.operand(x))

    def written(self, value: Value | Number) -> Tensor:
        """A value as a tensor of the fusion."""
        match value:
            case Tensor():
                return value
            case Uniform():
                if value.dtype in FP8:
                    return self.f.cast(self.f.full(value.shape, value.number, "f32"), value.dtype)
                return self.f.full(value.shape, value.number, value.dtype)
            case ByValue():
                return self.f.mul(self.f.full((), 1, "i64" if value.dtype == "i64" else "f64"), value)
            case _:
                raise TypeError(f"{value!r} is no tensor")

    def _input(self, node: Node) -> Value:
        found: Any = node.meta.get("val")
        if isinstance(found, torch.SymInt | torch.SymFloat | int | float) or node in self.by_value:
            return self._scalar(node, found)
        if is_empty(node):
            # Nothing is read of it, and a kernel takes no tensor without elements.
            return Uniform(0, self.sizes.of_input(found.shape), self.dtype(node))
        if not isinstance(found, torch.Tensor):
            self.refuse(node, f"it is a {type(found).__name__} and no tensor")
        name = self._names.get(node, f"i{len(self.inputs)}")
        self.inputs.append(node)
        return self.f.input(name, self.sizes.of_input(found.shape), self.dtype(node))

    def _scalar(self, node: Node, found: object) -> ByValue:
        dtype = getattr(found, "dtype", None)
        whole = not dtype.is_floating_point if dtype is not None else isinstance(found, int | torch.SymInt)
        name = self._names.get(node, f"s{len(self.scalars)}")
        self.scalars.append(node)
        return self.f.scalar(name, "i64" if whole else "f64")

    def random(self) -> tuple[Tensor, Tensor]:
        """Seed and offset of one more draw; the two are inputs that no node of the graph stands for."""
        if self._random is None:
            self.inputs += ["seed", "offset"]
            self._random = self.f.input("seed", (), "i64"), self.f.input("offset", (), "i64")
        seed, offset = self._random
        drawn = self.draws
        self.draws += 1
        return seed, offset if not drawn else self.f.add(offset, drawn)

    # What torch says a node's result is

    def dtype(self, node: Node, item: int | None = None) -> DTypeName:
        """The wire's name of a node's dtype, of one of its results where it has several."""
        return self.dtype_of(node, _result(node, item).dtype)

    def dtype_of(self, node: Node, dtype: torch.dtype) -> DTypeName:
        """The wire's name of a dtype that `node` asks for."""
        found = DTYPE_OF.get(str(dtype).rpartition(".")[2])
        if found is None:
            self.refuse(node, f"fusions have no {str(dtype).rpartition('.')[2]}")
        return found

    def shape(self, node: Node, item: int | None = None) -> tuple[Size, ...]:
        """The shape of a node's result. What is no number and no input's size stands as torch writes it: a value may
        have such a size by what it is made of, and none can be broadcast to it."""
        found = _result(node, item).shape
        sizes = zip(self.sizes.of_value(found), found, strict=True)
        return tuple(f"({size})" if known is None else known for known, size in sizes)

    # Making operands alike

    @overload
    def cast(self, value: Tensor, dtype: DTypeName) -> Tensor: ...
    @overload
    def cast(self, value: Value, dtype: DTypeName) -> Value: ...
    @overload
    def cast(self, value: Value | Number, dtype: DTypeName) -> Value | Number: ...
    def cast(self, value: Value | Number, dtype: DTypeName) -> Value | Number:
        """The value in another dtype, rounded as torch rounds it; scalars by value take what they stand beside."""
        match value:
            case Tensor():
                return value if value.dtype == dtype else self._cast(value, dtype)
            case Uniform():
                if dtype == "f8e4m3" and not SATURATES and not abs(value.number) <= FIRST_BEYOND:
                    return Uniform(math.nan, value.shape, dtype)
                return Uniform(rounded(value.number, value.dtype, dtype), value.shape, dtype)
            case _:
                return value

    def _cast(self, value: Tensor, dtype: DTypeName) -> Tensor:
        """The operator saturates at f8e4m3's largest number; where eager does not, NaN is put in beforehand."""
        if dtype != "f8e4m3" or SATURATES:
            return self._once(value, "cast", dtype)
        wide = value if value.dtype in ("f32", "f16", "bf16") else self._once(value, "cast", "f32")  # as torch does
        within = self.f.le(self.f.abs(wide), FIRST_BEYOND)
        return self._once(self.f.where(within, wide, math.nan), "cast", dtype)

    def expand(self, value: Tensor, shape: tuple[Size, ...]) -> Tensor:
        """The value in a shape that it broadcasts to as torch broadcasts: its dimensions are the last ones."""
        if _has_shape(value, shape):
            return value
        rank = len(value.shape)
        return self._once(value, "broadcast_to", shape, tuple(range(len(shape) - rank, len(shape))))

    def made(self, name: str, *operands: Any, **said: Any) -> Tensor:
        """What the builder's operator of that name gives."""
        found: Tensor = getattr(self.f, name)(*operands, **said)
        return found

    def _once(self, value: Tensor, name: str, *attributes: Any) -> Tensor:
        """What an operator gives of a tensor, written once for all that ask for it."""
        key = (value.name, name, attributes)
        if key not in self._made:
            self._made[key] = self.made(name, value, *attributes)
        return self._made[key]

    def alike(
        self, operands: Sequence[Any], dtype: DTypeName, shape: tuple[Size, ...], *, tensors: int = 1
    ) -> list[Operand]:
        """Operands of an elementwise operator in one shape and dtype, constants as literals, of which as many as there
        must be tensors are written out."""
        values = [self.cast(x if isinstance(x, _VALUES) else self.operand(x), dtype) for x in operands]
        missing = tensors - sum(isinstance(x, Tensor) for x in values)
        made: list[Operand] = []
        for x in values:
            if isinstance(x, Uniform) or (missing > 0 and isinstance(x, int | float)):
                if missing > 0:
                    missing -= 1
                    number = x.number if isinstance(x, Uniform) else x
                    made.append(self.f.full(shape, rounded(number, dtype, dtype), dtype))
                else:
                    assert isinstance(x, Uniform)
                    made.append(x.number)
            elif isinstance(x, Tensor):
                made.append(self.expand(x, shape))
            else:
                assert not isinstance(x, Several)
                made.append(_plain(x, dtype))
        return made

    def alone(self, x: Any, node: Node) -> Tensor | ByValue:
        """One operand in the shape and dtype of a node's result; numbers are written out."""
        (found,) = self.alike([x], self.dtype(node), self.shape(node))
        assert not isinstance(found, int | float)
        return found

    def refuse(self, node: Node, reason: str, fix: str = "") -> NoReturn:
        """Raise CannotConvert for `node`."""
        raise cannot_convert(node, reason, fix)


_VALUES = (Tensor, Uniform, ByValue, Several)


def cannot_convert(node: Node, reason: str, fix: str = "") -> CannotConvert:
    """The refusal of a node, with the line of the user's code that it comes from."""
    return CannotConvert(operator_name(node), reason, fix, line_of(node), node)


def operator_name(node: Node) -> str:
    """`aten.sum.dim_IntList` and the like."""
    target = node.target
    return str(target) if isinstance(target, torch._ops.OpOverload) else getattr(target, "__name__", str(target))


def rounded(number: Number, *dtypes: DTypeName) -> Number:
    """A number as tensors of these dtypes hold it, one after the other."""
    for dtype in dtypes:
        number = (
            torch.tensor(number, dtype=torch.float64 if isinstance(number, float) else torch.int64)
            .to(DTYPES[dtype])
            .item()
        )
    return int(number) if isinstance(number, bool) else number


def is_empty(node: Node) -> bool:
    """Whether a node's result has no elements."""
    found = node.meta.get("val")
    return isinstance(found, torch.Tensor) and any(known(size) == 0 for size in found.shape)


def _result(node: Node, item: int | None) -> torch.Tensor:
    found = node.meta["val"]
    if item is not None:
        found = found[item]
    if not isinstance(found, torch.Tensor):
        raise cannot_convert(node, f"its result is a {type(found).__name__} and no tensor")
    return found


def _has_shape(value: Tensor, shape: tuple[Size, ...]) -> bool:
    """Whether a value has a shape that it broadcasts to; of sizes that only torch can write, all but 1 are equal."""
    return len(value.shape) == len(shape) and all(
        mine == wanted or (is_derived(wanted) and mine != 1) for mine, wanted in zip(value.shape, shape, strict=True)
    )


def is_derived(size: Size) -> bool:
    """Whether a size is one that the wire cannot write."""
    return isinstance(size, str) and size.startswith("(")


def _plain(x: Any, dtype: DTypeName) -> Operand:
    """A number as it may stand beside a tensor of this dtype."""
    if isinstance(x, float) and dtype not in FLOATS:
        return int(x)
    return cast(Operand, x)
