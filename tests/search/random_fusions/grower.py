"""Operators added one at a time to a random fusion, each with what is known of its result.

Every method takes values that its operator has a meaning on, and inserts what keeps the result comparable: clamps,
scalings, offsets. `Full` is raised where a tensor would be too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod, sqrt
from random import Random
from typing import Any

from compiler.ir.ops import BINARY, BITS, UNARY
from search.proof.verify.scalars import ordinary
from tests.search.random_fusions.bounds import bounds_of, products
from tests.search.random_fusions.known import (
    FLOATS,
    FP8,
    HALVES,
    INTEGER_RANGE,
    INTEGERS,
    LARGEST,
    LARGEST_INPUT,
    PRECISION,
    Known,
)
from tests.search.random_fusions.layouts import random_layout

Document = dict[str, Any]
Shape = tuple[int, ...]

MOST_RANK = 6
AWAY = 0.125
"""Arguments of log, sqrt, rsqrt, reciprocal and div are at least as large."""

LARGEST_EXPONENT = 4.0
"""Of exp, which multiplies an absolute error of its argument by its result."""

LARGEST_SATURATING = 16.0
"""Of functions with a flat side, which for larger arguments give numbers too small for f32."""

OF_BITS = frozenset(kind.value for kind in UNARY | BINARY if kind.row.takes <= BITS)
"""Operators on integers."""

GENTLE = frozenset(kind.value for kind in UNARY | BINARY if not kind.row.rounds and not kind.row.jumps) - OF_BITS
"""Arithmetic that rounds nothing: it picks an operand or changes its sign."""

JUMPY = frozenset(kind.value for kind in UNARY if kind.row.jumps)
"""Functions of exact values only: a rounding would turn their answer."""


class Full(Exception):
    """The operator would make a tensor larger than the fusion may have, or is one too many."""


@dataclass(frozen=True)
class Limits:
    """What a random fusion may have: sizes of dimensions to draw from, elements of a tensor, inputs, moves, and
    operators, but for a few more that outputs may need."""

    sizes: tuple[int, ...]
    most_elems: int
    most_inputs: int = 4
    most_moves: int = 7
    most_ops: int = 256


class Grower:
    """A fusion document in the making; `random` decides everything."""

    def __init__(self, random: Random, limits: Limits) -> None:
        self.random = random
        self.limits = limits
        self.inputs: list[Document] = []
        self.layouts: list[Document] = []
        self.scalars: list[Document] = []
        self.ops: list[Document] = []
        self.values: list[Known] = []

    # Values ---------------------------------------------------------------------------------------------------------

    def input(self, shape: Shape, dtype: str) -> Known:
        """A new tensor that the caller passes."""
        self._expect_room(shape)
        name = f"x{len(self.inputs)}"
        layout = random_layout(self.random, shape, dtype, 4 * self.limits.most_elems)
        self.inputs.append({"name": name, "shape": list(shape), "dtype": dtype})
        self.layouts.append(layout)
        low, high = (-LARGEST_INPUT, LARGEST_INPUT) if dtype in FLOATS else INTEGER_RANGE[dtype]
        bits = PRECISION.get(dtype, 64)
        strides = layout.get("strides", [1] * len(shape))
        varies = tuple(n > 1 and stride > 0 for n, stride in zip(shape, strides, strict=True))
        return self._keep(Known(name, shape, dtype, low, high, True, bits, False, varies))

    def iota(self, shape: Shape, dim: int, dtype: str) -> Known:
        """The position along `dim`; a dtype that counts that far."""
        top = shape[dim] - 1
        far = 2 ** PRECISION[dtype] if dtype in FLOATS else INTEGER_RANGE[dtype][1]
        dtype = dtype if top <= far else "i32"
        like = Known("", shape, dtype, 0, top, True, 64, False, tuple(d == dim and n > 1 for d, n in enumerate(shape)))
        return self.op("iota", (), like, shape=list(shape), dim=dim, dtype=dtype)

    def rand(self, shape: Shape) -> Known:
        """Random numbers by a seed and an offset that the caller passes."""
        state = self.input((), "i64"), self.input((), "i64")
        varies = tuple(n > 1 for n in shape)
        like = Known("", shape, "f32", 0, 1, True, PRECISION["f32"], False, varies)
        return self.op("rand", state, like, shape=list(shape))

    # Elementwise ----------------------------------------------------------------------------------------------------

    def copy(self, x: Known) -> Known:
        return self.op("copy", (x,), x)

    def cast(self, x: Known, dtype: str) -> Known:
        """`x` in another dtype. Inexact floats have no integer: they become `dtype` only if it is a float."""
        if dtype == x.dtype or (not x.is_exact and dtype not in FLOATS):
            return x
        if dtype in FLOATS and x.is_float:
            if PRECISION[dtype] >= PRECISION[x.dtype] and dtype not in FP8:
                return self.op("cast", (x,), replace(x, dtype=dtype), dtype=dtype)
            return self.op("cast", (x,), self.rounded(replace(x, dtype=dtype), (x,)), dtype=dtype)
        if dtype in FLOATS:
            x = self.clamp(x, -(2 ** min(PRECISION[dtype], 9)), 2 ** min(PRECISION[dtype], 9))
            return self.op("cast", (x,), replace(x, dtype=dtype, precision=64), dtype=dtype)
        low, high = INTEGER_RANGE[dtype]
        if dtype == "bool":
            return self.op("cast", (x,), replace(x, dtype=dtype, low=0, high=1, precision=64), dtype=dtype)
        if x.low < low or x.high > high:
            x = self.clamp(x, max(low, -100), 100)
        return self.op("cast", (x,), replace(x, dtype=dtype, precision=64), dtype=dtype)

    def clamp(self, x: Known, low: int, high: int) -> Known:
        """`x` between two integers; itself if it lies there."""
        if x.low < low:
            x = self.binary("maximum", x, low)
        return self.binary("minimum", x, high) if x.high > high else x

    def small(self, x: Known, most: float) -> Known:
        """`x` with elements of at most this size: a float scaled by a power of two, an integer clamped."""
        if x.magnitude <= most:
            return x
        if not x.is_float:
            return self.clamp(x, -int(most), int(most))
        if x.is_coarse:
            return self.clamp(x, -int(most), int(most)) if most >= 1 else x
        factor = 1.0
        while x.magnitude * factor > most:
            factor /= 2
        return self.binary("mul", x, factor)

    def away(self, x: Known) -> Known:
        """A positive float away from 0."""
        return x if x.low >= AWAY else self.binary("add", self.unary("abs", x), 0.5)

    def arithmetic(self, x: Known) -> Known:
        """`x` as a value that arithmetic has a meaning on: no bool, and no float of 8 bits."""
        if x.dtype == "bool":
            return self.cast(x, self.random.choice((*INTEGERS, "f32")))
        return self.computable(x)

    def computable(self, x: Known) -> Known:
        """`x` itself, or in f32 if it is a float of 8 bits."""
        return self.cast(x, "f32") if x.dtype in FP8 else x

    def unary(self, name: str, x: Known) -> Known:
        """A function of a number; what is coarse gets only what rounds nothing, unsigned ones keep their sign."""
        x = self.computable(x)
        name = name if has_meaning(name, x) else "neg"
        if name == "neg" and x.dtype == "u8":
            name = "abs"
        if name in ("log", "log1p", "log2", "sqrt", "rsqrt", "reciprocal") and x.low < AWAY:
            x = self.away(self.cast(x, "f32") if x.dtype in HALVES else x)
        grows = name in ("exp", "exp2", "expm1") and (x.high > LARGEST_EXPONENT or x.low < -16 * LARGEST_EXPONENT)
        if name in ("square", "sin", "cos") or grows:
            x = self.small(x, LARGEST_EXPONENT if x.is_float else 11)
        if not x.is_float and name in ("neg", "abs") and x.low <= INTEGER_RANGE[x.dtype][0]:
            x = self.clamp(x, -100, 100)
        if name in ("sigmoid", "silu", "gelu", "gelu_erf", "tanh", "erf"):
            x = self.small(x, LARGEST_SATURATING)
        low, high = bounds_of(name, (x.low, x.high))
        result = replace(x, low=low, high=high)
        if name not in GENTLE | JUMPY and x.is_float:
            result = self.rounded(result, (x,))
        return self.op(name, (x,), result)

    def binary(self, name: str, x: Known, y: Known | float) -> Known:
        """Of one shape and dtype, or with a number that has few bits. Nothing is taken from unsigned ones."""
        x, y = self.computable(x), self.computable(y) if isinstance(y, Known) else y
        if name in OF_BITS:
            return self._of_bits(name, x, y)
        if name == "sub" and x.dtype == "u8":
            name = "add"
        other = y if isinstance(y, Known) else None
        operands = (x, y)
        if name not in GENTLE:
            if (x.is_float and x.is_coarse) or (other is not None and other.is_coarse):
                name = "maximum"
            elif not x.is_float:
                most = {"i8": 11, "u8": 15, "i16": 180, "i32": 30000, "i64": 30000}[x.dtype]
                operands = (self.small(x, most), self.small(other, most) if other is not None else y)
            elif name == "mul" and other is not None:
                operands = (self.small(x, 16.0), self.small(other, 16.0))
            elif name == "div" and other is not None:
                operands = (x, self.away(other))
            elif name == "pow":
                operands = (self.small(self.away(x), 16.0), self.small(other, 2.0) if other is not None else y)
        first, second = operands
        a = (first.low, first.high)
        b = (second.low, second.high) if isinstance(second, Known) else (second, second)
        low, high = bounds_of(name, a, b)
        known = tuple(v for v in operands if isinstance(v, Known))
        result = replace(first, low=low, high=high, varies=either(known))
        result = self.rounded(result, known) if name not in GENTLE and x.is_float else _mixed(result, known)
        made = self.op(name, operands, result)
        return self.small(made, LARGEST[x.dtype]) if x.is_float else made

    def scaled(self, x: Known) -> Known:
        """`x` times a scalar of the call; of what is coarse, the greater one. Bounds are those of the `random` set."""
        number, first = ordinary(len(self.scalars)), len(self.ops)
        name = f"c{len(self.scalars)}"
        self.scalars.append({"name": name, "dtype": "f64"})
        made = self.binary("mul", x, number)
        for op in self.ops[first:]:
            op["in"] = [name if isinstance(operand, float) and operand == number else operand for operand in op["in"]]
        return made

    def _of_bits(self, name: str, x: Known, y: Known | float) -> Known:
        """Of integers or bools; shifted to the left little enough that nothing leaves."""
        if name == "bitwise_left_shift":
            x = self.small(x, 11)
            y = self.small(y, 3) if isinstance(y, Known) else max(-3, min(y, 3))
        known = tuple(v for v in (x, y) if isinstance(v, Known))
        low, high = INTEGER_RANGE[x.dtype]
        return self.op(name, (x, y), replace(x, low=low, high=high, varies=either(known)))

    def fma(self, x: Known, y: Known, z: float) -> Known:
        """`x * y + z` of floats of one shape and dtype, and a number; of what is coarse, the greater one."""
        x, y = self.computable(x), self.computable(y)
        if x.is_coarse or y.is_coarse:
            return self.binary("maximum", x, y)
        x, y = self.small(x, 16.0), self.small(y, 16.0)
        low, high = products((x.low, x.high), (y.low, y.high))
        result = replace(x, low=low + z, high=high + z, varies=either((x, y)))
        return self.small(self.op("fma", (x, y, z), self.rounded(result, (x, y))), LARGEST[x.dtype])

    def compare(self, name: str, x: Known, y: Known | float) -> Known:
        """Exact operands only: a rounding would turn the answer."""
        if name not in ("eq", "ne"):
            x, y = self.computable(x), self.computable(y) if isinstance(y, Known) else y
        known = tuple(v for v in (x, y) if isinstance(v, Known))
        assert all(v.is_exact for v in known), "comparing what is rounded has no one answer"
        result = Known("", x.shape, "bool", 0, 1, True, 64, False, either(known))
        return self.op(name, (x, y), result)

    def where(self, condition: Known, x: Known | float, y: Known | float) -> Known:
        """`x` where the condition holds, else `y`; of one dtype, one of them may be a number."""
        known = tuple(v for v in (x, y) if isinstance(v, Known))
        bounds = [(v.low, v.high) if isinstance(v, Known) else (v, v) for v in (x, y)]
        result = replace(
            known[0],
            low=min(low for low, _ in bounds),
            high=max(high for _, high in bounds),
            varies=either((condition, *known)),
        )
        return self.op("where", (condition, x, y), _mixed(result, known))

    def one_of(self, condition: Known, x: float, y: float, dtype: str) -> Known:
        """One of two numbers, which the dtype holds."""
        result = Known("", condition.shape, dtype, min(x, y), max(x, y), True, 64, False, condition.varies)
        return self.op("where", (condition, x, y), result, dtype=dtype)

    def masked_out(self, condition: Known, x: Known) -> Known:
        """`x` where the condition holds, else -inf, which a maximum and an exponential take away again."""
        return self.op("where", (condition, x, "-inf"), replace(x, varies=either((condition, x))))

    # Views ----------------------------------------------------------------------------------------------------------

    def broadcast_to(self, x: Known, shape: Shape, dims: Sequence[int]) -> Known:
        """Input dimension i is output dimension dims[i]; a size of 1 expands."""
        of = {d: i for i, d in enumerate(dims)}
        varies = tuple(d in of and x.varies[of[d]] for d in range(len(shape)))
        result = replace(x, shape=shape, varies=varies)
        return self.op("broadcast_to", (x,), result, shape=list(shape), dims=list(dims))

    def permute(self, x: Known, dims: Sequence[int]) -> Known:
        result = replace(x, shape=tuple(x.shape[d] for d in dims), varies=tuple(x.varies[d] for d in dims))
        return self.op("permute", (x,), result, dims=list(dims))

    def reshape(self, x: Known, shape: Shape) -> Known:
        does = all(v for v, n in zip(x.varies, x.shape, strict=True) if n > 1)
        return self.op("reshape", (x,), replace(x, shape=shape, varies=(does,) * len(shape)), shape=list(shape))

    def slice(self, x: Known, dim: int, start: int, stop: int, step: int = 1) -> Known:
        shape = (*x.shape[:dim], -(-(stop - start) // step), *x.shape[dim + 1 :])
        varies = tuple(v and n > 1 for v, n in zip(x.varies, shape, strict=True))
        every = {"step": step} if step > 1 else {}
        return self.op("slice", (x,), replace(x, shape=shape, varies=varies), dim=dim, start=start, stop=stop, **every)

    def flip(self, x: Known, dims: Sequence[int]) -> Known:
        return self.op("flip", (x,), x, dims=list(dims))

    def pad(self, x: Known, low: Sequence[int], high: Sequence[int], value: float) -> Known:
        """A number that the dtype of `x` holds around it."""
        shape = tuple(n + a + b for n, a, b in zip(x.shape, low, high, strict=True))
        result = replace(x, shape=shape, low=min(x.low, value), high=max(x.high, value))
        return self.op("pad", (x,), result, low=list(low), high=list(high), value=value)

    def full(self, shape: Shape, value: float, dtype: str) -> Known:
        """A number that the dtype holds everywhere."""
        like = Known("", shape, dtype, value, value, True, 64, False, (False,) * len(shape))
        return self.op("full", (), like, shape=list(shape), value=value, dtype=dtype)

    def cat(self, xs: Sequence[Known], dim: int) -> Known:
        """One after the other; of one dtype, and of one shape but for `dim`."""
        first = xs[0]
        shape = (*first.shape[:dim], sum(x.shape[dim] for x in xs), *first.shape[dim + 1 :])
        result = replace(
            first,
            shape=shape,
            low=min(x.low for x in xs),
            high=max(x.high for x in xs),
            varies=tuple(all(x.varies[d] for x in xs) for d in range(len(shape))),
        )
        return self.op("cat", tuple(xs), _mixed(result, tuple(xs)), dim=dim)

    # Reads at places that are data -----------------------------------------------------------------------------------

    def take(self, x: Known, index: Known, dim: int) -> Known:
        """`x` where `index` says along `dim`, in the place of which it has the dimensions of `index`."""
        shape = (*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])
        along = tuple(x.varies[dim] and v for v in index.varies)
        result = replace(x, shape=shape, varies=(*x.varies[:dim], *along, *x.varies[dim + 1 :]))
        return self.op("take", (x, index), result, dim=dim)

    def gather(self, x: Known, index: Known, dim: int) -> Known:
        """`x` at the own position, but along `dim` where `index` says."""
        varies = tuple(
            (x.varies[dim] and v) or (d != dim and x.varies[d] and n > 1)
            for d, (v, n) in enumerate(zip(index.varies, index.shape, strict=True))
        )
        return self.op("gather", (x, index), replace(x, shape=index.shape, varies=varies), dim=dim)

    # Reductions -----------------------------------------------------------------------------------------------------

    def reduce(self, name: str, x: Known, dims: Sequence[int], keepdim: bool) -> Known:
        """Sums of coarse values, of bools and of integers that would not fit are given another form."""
        x = self.computable(x)
        length = prod(x.shape[d] for d in dims)
        if name == "prod":
            return self._product(x, dims, keepdim, length)
        if name in ("sum", "mean"):
            if x.is_coarse:
                name = "amax"
            elif x.dtype == "bool":
                x = self.cast(x, "i32")
            if not x.is_float:
                name = "sum" if name == "mean" else name
            if name == "sum":
                x = self._summable(x, length)
        result = _without(x, dims, keepdim)
        if name in ("sum", "mean"):
            times = length if name == "sum" else 1
            result = replace(result, low=x.low * times, high=x.high * times)
            result = self.rounded(result, (x,)) if x.is_float else result
        made = self.op(name, (x,), result, dims=sorted(dims), keepdim=keepdim)
        # The bound of a long sum is far above what it comes to: sums grow as the root of their length.
        if name == "sum" and x.is_float and length > 1:
            root = x.magnitude * sqrt(length)
            made = replace(made, low=max(made.low, -root) if made.low < 0 else made.low)
            self.values[-1] = made
        return made

    def counted(self, x: Known, dims: Sequence[int], keepdim: bool) -> Known:
        """The sum of bools, or of few small integers, in i64."""
        x = x if x.dtype == "bool" else self.small(x, 100)
        result = _without(x, dims, keepdim, dtype="i64")
        times = prod(x.shape[d] for d in dims)
        result = replace(result, low=x.low * times, high=x.high * times)
        return self.op("sum", (x,), result, dims=sorted(dims), keepdim=keepdim, dtype="i64")

    def truth(self, name: str, x: Known, dims: Sequence[int], keepdim: bool) -> Known:
        """Whether any, or all, are other than 0; of exact elements."""
        assert x.is_exact, "a rounding may turn what is 0"
        result = replace(_without(x, dims, keepdim, dtype="bool"), low=0, high=1)
        return self.op(name, (x,), result, dims=sorted(dims), keepdim=keepdim)

    def arg(self, name: str, x: Known, dim: int | None, keepdim: bool) -> Known:
        """The index of an extreme element; of what is rounded only where nothing reads it but an output."""
        x = self.computable(x)
        dims = tuple(range(x.rank)) if dim is None else (dim,)
        top = prod(x.shape[d] for d in dims) - 1
        result = replace(_without(x, dims, keepdim, dtype="i64"), low=0, high=top)
        return self.op(name, (x,), result, keepdim=keepdim, **({} if dim is None else {"dim": dim}))

    def cumsum(self, x: Known, dim: int) -> Known:
        """Sums up to each element; of integers in i64."""
        x, length = self.computable(x), x.shape[dim]
        x = self.small(x, max(0.5, 16 * LARGEST[x.dtype] / length) if x.is_float else 1000)
        low, high = min(x.low, x.low * length), max(x.high, x.high * length)
        varies = tuple(v or (d == dim and n > 1) for d, (v, n) in enumerate(zip(x.varies, x.shape, strict=True)))
        result = replace(x, low=low, high=high, varies=varies)
        result = self.rounded(result, (x,)) if x.is_float else replace(result, dtype="i64", precision=64)
        return self.op("cumsum", (x,), result, dim=dim)

    def _product(self, x: Known, dims: Sequence[int], keepdim: bool, length: int) -> Known:
        """Of floats near one, and of integers so small that nothing wraps."""
        if x.is_coarse:
            return self.reduce("amax", x, dims, keepdim)
        if not x.is_float:
            largest = 1 if length > 30 else 2
            x = self.clamp(x, -largest, largest)
            result = replace(_without(x, dims, keepdim, dtype="i64"), low=-(largest**length), high=largest**length)
            return self.op("prod", (x,), result, dims=sorted(dims), keepdim=keepdim)
        beside = min(0.5, 4 / length)
        x = self.binary("add", self.small(x, beside), 1.0)
        result = replace(_without(x, dims, keepdim), low=(1 - beside) ** length, high=(1 + beside) ** length)
        return self.op("prod", (x,), self.rounded(result, (x,)), dims=sorted(dims), keepdim=keepdim)

    def _summable(self, x: Known, length: int) -> Known:
        if not x.is_float:
            most = min(INTEGER_RANGE[x.dtype][1] // length, 1000)
            if most < 4:
                x, most = self.cast(x, "i64"), 1000
            return self.clamp(x, -most, most)
        return self.small(x, max(0.5, 16 * LARGEST[x.dtype] / length))

    # Inside ---------------------------------------------------------------------------------------------------------

    def rounded(self, result: Known, operands: Sequence[Known]) -> Known:
        """A result that is rounded to its dtype."""
        result = _mixed(result, operands)
        bits = min(result.precision, PRECISION[result.dtype])
        return replace(
            result, is_exact=False, precision=bits, is_coarse=result.is_coarse or result.dtype in HALVES + FP8
        )

    def op(self, op: str, operands: Sequence[Known | float | str], result: Known, **attributes: Any) -> Known:
        self._expect_room(result.shape)
        if len(result.shape) > MOST_RANK or len(self.ops) >= self.limits.most_ops:
            raise Full
        name = f"r{len(self.ops)}"
        ins = [x.name if isinstance(x, Known) else x for x in operands]
        self.ops.append({"op": op, "in": ins, "out": name, **attributes})
        return self._keep(replace(result, name=name))

    def _keep(self, value: Known) -> Known:
        self.values.append(value)
        return value

    def _expect_room(self, shape: Shape) -> None:
        if prod(shape) > self.limits.most_elems:
            raise Full


def has_meaning(name: str, x: Known) -> bool:
    """Whether a function of `x` has one answer, to within its tolerance."""
    if name in OF_BITS:
        return not x.is_float
    if name in JUMPY and x.is_float:
        return x.is_exact
    if x.is_float and not x.is_coarse:
        return True
    return name in GENTLE or (name in ("square", "sign") and not x.is_float)


def _without(x: Known, dims: Sequence[int], keepdim: bool, dtype: str = "") -> Known:
    """`x` with what lies along the dimensions folded, in a dtype of its own or that of `x`."""
    shape = tuple(1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims)
    varies = tuple(d not in dims and v for d, v in enumerate(x.varies) if keepdim or d not in dims)
    result = replace(x, shape=shape, varies=varies)
    return replace(result, dtype=dtype, precision=64, is_coarse=False) if dtype else result


def _mixed(result: Known, operands: Sequence[Known]) -> Known:
    """As exact and as fine as all operands are."""
    inexact = [x.precision for x in operands if not x.is_exact]
    return replace(
        result,
        is_exact=not inexact,
        precision=min(inexact, default=64),
        is_coarse=any(x.is_coarse for x in operands),
    )


def either(operands: Sequence[Known]) -> tuple[bool, ...]:
    return tuple(any(flags) for flags in zip(*(x.varies for x in operands), strict=True))
