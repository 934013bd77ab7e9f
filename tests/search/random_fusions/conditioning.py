"""Whether the results of a random fusion can be compared: they hardly change when every operator is disturbed.

A difference of equal numbers, a ratio of cancelled ones: what rounding leaves of these is its own result, and neither a
kernel nor the reference is wrong about it. Here each case is worked out twice from the same inputs, in f64 and with
every operator rounded to its dtype and disturbed by as much as an approximate instruction may err; results that then
differ by more than a kernel may are not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from compiler.dtypes import DType
from compiler.ir.ops import BINARY, COMPARE, UNARY, OpKind
from compiler.ir.ops.philox import uniform
from compiler.reference import round_to
from compiler.reference.operators import exact
from search.proof.verify.scalars import ordinary
from tests.search.random_fusions.known import FLOATS, FP8, INTEGER_RANGE

Array = Any
Document = Mapping[str, Any]

DISTURBANCE = 2.0**-21
"""Relative, of an f32 result: exp as ex2.approx errs by 2^-22 and the rounding of its argument (PTX ISA, "ex2")."""

TOLERANCE = {"f64": (2.0**-44, 2.0**-48), "f32": (2.0**-13, 2.0**-20), "f16": (2.0**-9, 2.0**-14)}
TOLERANCE |= {"bf16": (2.0**-7, 2.0**-12), "f8e4m3": (2.0**-3, 2.0**-8), "f8e5m2": (2.0**-2, 2.0**-7)}
"""Relative to the element, and to the largest: those of search.proof.verify.tolerance, without what reductions add."""

_INTEGERS = {
    "i8": np.int8, "u8": np.uint8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "bool": np.bool_,
}  # fmt: skip
_WIDENED = frozenset(_INTEGERS) - {"i64", "bool"}
_SUMS = frozenset({"add", "sub", "sum", "mean", "cumsum"})
_EXACT = frozenset(kind.value for kind in UNARY | BINARY if not kind.row.rounds) | {OpKind.FLOOR_DIVIDE}
_MOVES = {"copy", "permute", "broadcast_to", "reshape", "slice", "flip", "pad", "cat", "take", "gather"}
_KEEPS = _SUMS | _EXACT | _MOVES | {"cast"}
"""Operators whose results are as large as their operands."""


def is_conditioned(document: Document, binding: Document, seed: int = 0) -> bool:
    """Whether disturbing every operator leaves outputs within their tolerance, and integers and bools as they are."""
    inputs = _inputs(document, binding, np.random.default_rng(seed))
    with np.errstate(all="ignore"):
        plain = _Values(document, inputs, None)
        disturbed = _Values(document, inputs, np.random.default_rng(seed + 1))
        return not plain.overflows and all(_near(plain, disturbed, output["name"]) for output in document["outputs"])


def _inputs(document: Document, binding: Document, rng: np.random.Generator) -> list[Array]:
    found = []
    for tensor, layout in zip(document["inputs"], binding["inputs"], strict=True):
        shape, dtype = tuple(tensor["shape"]), tensor["dtype"]
        drawn = tuple(1 if s == 0 else n for n, s in zip(shape, layout.get("strides", shape), strict=True))
        if dtype in FLOATS:
            values = _rounded(np.asarray(rng.standard_normal(drawn)), dtype)
        else:
            low, high = INTEGER_RANGE[dtype]
            values = np.asarray(
                rng.integers(max(low, -100), min(high, 100), drawn, endpoint=True).astype(_INTEGERS[dtype])
            )
        found.append(np.broadcast_to(values, shape))
    return found


def _chosen(op: Document, x: Array, index: Array) -> Array:
    """What an index chooses; one that is out of range, which no input set draws, the nearest that is not."""
    index = np.clip(index.astype(np.int64), 0, x.shape[op["dim"]] - 1)
    return np.take(x, index, op["dim"]) if op["op"] == "take" else _along(x, index, op["dim"])


def _along(x: Array, index: Array, dim: int) -> Array:
    part = tuple(slice(None) if d == dim else slice(0, n) for d, n in enumerate(index.shape))
    return np.take_along_axis(x[part], index, dim)


class _Values:
    """Every value of a fusion by name; `rng` disturbs the operators, None leaves them as they are."""

    def __init__(self, document: Document, inputs: list[Array], rng: np.random.Generator | None) -> None:
        self.of: dict[str, Array] = {}
        self.dtypes: dict[str, str] = {}
        self.overflows = False
        self.producers = {op["out"]: op for op in document["ops"]}
        self._rng = rng
        self._scalars = {scalar["name"]: ordinary(n) for n, scalar in enumerate(document.get("scalars", ()))}
        for tensor, array in zip(document["inputs"], inputs, strict=True):
            self.of[tensor["name"]], self.dtypes[tensor["name"]] = array, tensor["dtype"]
        for op in document["ops"]:
            self.of[op["out"]], self.dtypes[op["out"]] = self._made(op)

    def scale(self, name: str) -> float:
        """The largest number that a value, or a sum that it is made of, has."""
        found, pending, seen = _largest(self.of[name]), [name], set()
        while pending:
            name = pending.pop()
            op = self.producers.get(name)
            if name in seen or op is None:
                continue
            seen.add(name)
            operands = [x for x in op["in"] if isinstance(x, str) and x in self.of]
            if op["op"] in _SUMS:
                found = max([found, *(_largest(self.of[x]) for x in operands)])
            if op["op"] in _KEEPS:
                pending += operands
        return found

    def _made(self, op: Document) -> tuple[Array, str]:
        kind = op["op"]
        names = [x for x in op["in"] if isinstance(x, str) and x in self.of]
        dtype = op["dtype"] if "dtype" in op and kind != "cast" else self.dtypes[names[-1]]
        args = [self._operand(x, dtype) for x in op["in"]]
        if kind == "cast":
            return self._cast(args[0], op["dtype"]), op["dtype"]
        if kind in COMPARE:
            return exact(OpKind(kind), args, np), "bool"
        if kind in _VIEWS:
            return _VIEWS[kind](op, args), dtype
        if kind == "full":
            return np.full(op["shape"], self._operand(op["value"], dtype)), dtype
        if kind in ("take", "gather"):
            return _chosen(op, self.of[op["in"][0]], self.of[op["in"][1]]), self.dtypes[op["in"][0]]
        if kind == "rand":
            places = np.arange(math.prod(op["shape"])).reshape(op["shape"])
            seed, offset = (self.of[x].astype(np.int64) for x in names)
            return uniform(np, seed, offset, places), op.get("dtype", "f32")
        if kind == "iota":
            along = np.arange(op["shape"][op["dim"]]).reshape(
                [-1 if d == op["dim"] else 1 for d in range(len(op["shape"]))]
            )
            return self._stored(np.broadcast_to(along, op["shape"]), dtype, is_exact=True), dtype
        if kind in _PLACES:
            return _PLACES[kind](args[0], axis=op.get("dim"), keepdims=op["keepdim"]), "i64"
        if kind in _TRUTH:
            return _TRUTH[kind](args[0] != 0, axis=tuple(op["dims"]), keepdims=op["keepdim"]), "bool"
        if kind == "cumsum":
            dtype = dtype if dtype in FLOATS else "i64"
            return self._stored(np.cumsum(args[0], axis=op["dim"]), dtype, is_exact=False), dtype
        if kind in _REDUCE:
            said = op.get("dtype") or ("i64" if kind == "prod" and dtype not in FLOATS else dtype)
            args, dtype = [args[0] if said == dtype else self._cast(args[0], said)], said
            wide = args[0].astype(np.int64) if dtype in _WIDENED else args[0]
            made = np.asarray(_REDUCE[kind](wide, axis=tuple(op["dims"]), keepdims=op["keepdim"]))
            return self._stored(made, dtype, is_exact=kind in ("amax", "amin")), dtype
        wide = [x.astype(np.int64) if dtype in _WIDENED else x for x in args]
        return self._stored(np.asarray(exact(OpKind(kind), wide, np)), dtype, is_exact=kind in _EXACT), dtype

    def _operand(self, x: Any, dtype: str) -> Array:
        if isinstance(x, str) and x in self.of:
            return self.of[x]
        x = self._scalars.get(x, x)
        return np.asarray(float(x)) if dtype in FLOATS else np.asarray(x).astype(_INTEGERS[dtype])

    def _cast(self, x: Array, dtype: str) -> Array:
        if dtype == "bool":
            return x != 0
        if dtype in FLOATS:
            wide = x.astype(np.float64)
            return wide if self._rng is None else _rounded(wide, dtype)
        return self._stored(np.trunc(x), dtype, is_exact=True)

    def _stored(self, x: Array, dtype: str, is_exact: bool) -> Array:
        """A result in its dtype; integers that do not fit are no case for a comparison."""
        if dtype not in FLOATS:
            low, high = INTEGER_RANGE[dtype]
            self.overflows |= bool((~((x >= low) & (x <= high))).any())
            return x.astype(_INTEGERS[dtype])
        x = x.astype(np.float64)
        if self._rng is None or is_exact:
            return x
        if dtype == "f32":
            x = x * (1 + self._rng.uniform(-DISTURBANCE, DISTURBANCE, x.shape))
        return _rounded(x, dtype)


def _near(plain: _Values, disturbed: _Values, name: str) -> bool:
    x, y = plain.of[name], disturbed.of[name]
    if plain.dtypes[name] not in FLOATS:
        return bool((x == y).all())
    relative, of_largest = TOLERANCE[plain.dtypes[name]]
    allowed = relative * np.abs(x) + of_largest * plain.scale(name)
    return bool(((np.abs(x - y) <= allowed) | (np.isnan(x) & np.isnan(y)) | (x == y)).all())


def _largest(x: Array) -> float:
    return float(np.max(np.where(np.isfinite(x), np.abs(x), 0), initial=0))


def _rounded(x: Array, dtype: str) -> Array:
    """To nearest even, kept as f64."""
    if dtype in FP8:
        return np.asarray(round_to(np.asarray(x, np.float64), DType(dtype), np))
    if dtype != "bf16":
        return x.astype({"f64": np.float64, "f32": np.float32, "f16": np.float16}[dtype]).astype(np.float64)
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    upper = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), np.nan, upper.view(np.float32).reshape(x.shape).astype(np.float64))


def _broadcast(op: Document, args: list[Array]) -> Array:
    sizes = dict(zip(op["dims"], args[0].shape, strict=True))
    return np.broadcast_to(args[0].reshape([sizes.get(d, 1) for d in range(len(op["shape"]))]), op["shape"])


def _slice(op: Document, args: list[Array]) -> Array:
    return args[0][(slice(None),) * op["dim"] + (slice(op["start"], op["stop"], op.get("step", 1)),)]


def _pad(op: Document, args: list[Array]) -> Array:
    return np.pad(args[0], list(zip(op["low"], op["high"], strict=True)), constant_values=op["value"])


_VIEWS: dict[str, Callable[[Document, list[Array]], Array]] = {
    "copy": lambda op, args: args[0],
    "broadcast_to": _broadcast,
    "permute": lambda op, args: args[0].transpose(op["dims"]),
    "reshape": lambda op, args: args[0].reshape(op["shape"]),
    "slice": _slice,
    "flip": lambda op, args: np.flip(args[0], op["dims"]),
    "pad": _pad,
    "cat": lambda op, args: np.concatenate(args, axis=op["dim"]),
    "where": lambda op, args: np.where(*args),
}

_PLACES: dict[str, Callable[..., Array]] = {"argmax": np.argmax, "argmin": np.argmin}
_TRUTH: dict[str, Callable[..., Array]] = {"any": np.any, "all": np.all}
_REDUCE: dict[str, Callable[..., Array]] = {
    "sum": np.sum,
    "prod": np.prod,
    "mean": np.mean,
    "amax": np.max,
    "amin": np.min,
}
