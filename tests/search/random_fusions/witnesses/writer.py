"""A fusion document that grows by operators for whose values nobody vouches: they need not be near any reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any, get_args

from fusetune.wire import parse_binding, parse_fusion
from fusetune.wire.bound import apply_binding
from fusetune.wire.fusion import FORMAT, BinaryName, CompareName, UnaryName
from tests.search.random_fusions.cases import Case

Shape = tuple[int, ...]
View = Callable[[str], str]
"""From a value to what is seen of it, which is of one shape for all values of one shape."""

_OF_ONE = get_args(UnaryName)
_OF_TWO = (*get_args(BinaryName), *get_args(CompareName))
ELEMENTWISE = frozenset({*_OF_ONE, *_OF_TWO, "where", "cast", "copy"})

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Writer:
    """A case's document in the making. Values are names."""

    def __init__(self, case: Case, random: Random) -> None:
        self.random = random
        self.ops = list(case.document["ops"])
        self.copies: list[tuple[str, str]] = []
        """Values, each with itself spelled again."""
        self._inputs = list(case.document["inputs"])
        self._layouts = list(case.binding["inputs"])
        self._scalars = {name: case.document[name] for name in ("scalars",) if name in case.document}
        bound = apply_binding(parse_fusion(case.document), parse_binding(case.binding))
        self.shapes: dict[str, Shape] = {n: tuple(int(str(e)) for e in t.shape) for n, t in bound.types.items()}
        self.dtypes: dict[str, str] = {n: str(t.dtype) for n, t in bound.types.items()}

    def case(self, name: str, outputs: Sequence[str]) -> Case:
        """What was written, with these outputs."""
        document = {
            "format": FORMAT,
            "inputs": self._inputs,
            **self._scalars,
            "ops": self.ops,
            "outputs": [{"name": output} for output in outputs],
        }
        return Case(name, document, {"sizes": {}, "inputs": self._layouts})

    def input(self, shape: Shape, dtype: str) -> str:
        """A new dense tensor that the caller passes."""
        name = f"y{len(self._inputs)}"
        self._inputs.append({"name": name, "shape": list(shape), "dtype": dtype})
        self._layouts.append({})
        return self._known(name, shape, dtype)

    def op(
        self, kind: str, operands: Sequence[str | float], shape: Shape, dtype: str, words: Mapping[str, Any] = _NOTHING
    ) -> str:
        """Any operator; `words` are its fields."""
        name = f"w{len(self.ops)}"
        self.ops.append({"op": kind, "in": list(operands), "out": name, **words})
        return self._known(name, shape, dtype)

    def apply(self, kind: str, *operands: str | float) -> str:
        """An elementwise operator that keeps the dtype of its last tensor."""
        last = [x for x in operands if isinstance(x, str)][-1]
        return self.op(kind, operands, self.shapes[last], self.dtypes[last])

    def compare(self, kind: str, x: str, y: str | float) -> str:
        return self.op(kind, (x, y), self.shapes[x], "bool")

    def cast(self, x: str, dtype: str) -> str:
        return x if self.dtypes[x] == dtype else self.op("cast", (x,), self.shapes[x], dtype, {"dtype": dtype})

    def iota(self, shape: Shape, dim: int) -> str:
        return self.op("iota", (), shape, "i32", {"shape": list(shape), "dim": dim, "dtype": "i32"})

    def broadcast(self, x: str, shape: Shape, dims: Sequence[int]) -> str:
        return self._view("broadcast_to", x, shape, {"shape": list(shape), "dims": list(dims)})

    def permute(self, x: str, order: Sequence[int]) -> str:
        return self._view("permute", x, tuple(self.shapes[x][d] for d in order), {"dims": list(order)})

    def reshape(self, x: str, shape: Shape) -> str:
        return self._view("reshape", x, shape, {"shape": list(shape)})

    def slice(self, x: str, dim: int, start: int, stop: int) -> str:
        shape = self.shapes[x]
        return self._view(
            "slice", x, (*shape[:dim], stop - start, *shape[dim + 1 :]), {"dim": dim, "start": start, "stop": stop}
        )

    def cat(self, parts: Sequence[str], dim: int) -> str:
        shape = list(self.shapes[parts[0]])
        shape[dim] = sum(self.shapes[x][dim] for x in parts)
        return self.op("cat", parts, tuple(shape), self.dtypes[parts[0]], {"dim": dim})

    def reduce(self, kind: str, x: str, dims: Sequence[int], keepdim: bool = False) -> str:
        shape = tuple(1 if d in dims else n for d, n in enumerate(self.shapes[x]) if keepdim or d not in dims)
        return self._view(kind, x, shape, {"dims": sorted(dims), "keepdim": keepdim})

    def folded(self, kind: str, x: str, dims: Sequence[int]) -> str:
        """What a reduction of `x` comes to, in the shape of `x` again."""
        return self.broadcast(self.reduce(kind, x, dims, keepdim=True), self.shapes[x], range(len(self.shapes[x])))

    def again(self, x: str, depth: int, view: View) -> str:
        """A view of `x`, worked out once more from that view of what it is made of, up to `depth` operators back; where
        the chain begins, or comes from what is no elementwise operator, the value itself is looked at."""
        producers = {op["out"]: op for op in self.ops}
        made: dict[tuple[str, int], str] = {}
        turned: dict[tuple[str | float, ...], bool] = {}  # alike for products that say the same, which are one product

        def spelled(name: str, left: int) -> str:
            op = producers.get(name)
            if (name, left) not in made:
                is_leaf = op is None or not left or op["op"] not in ELEMENTWISE
                made[name, left] = view(name) if is_leaf or op is None else respelled(op, left - 1)
            return made[name, left]

        def respelled(op: Mapping[str, Any], left: int) -> str:
            operands = [spelled(x, left) if x in self.shapes else x for x in op["in"]]
            if op["op"] == "mul" and turned.setdefault(tuple(op["in"]), self.random.random() < 0.3):
                operands.reverse()
            words = {k: v for k, v in op.items() if k not in ("op", "in", "out")}
            shape = next(self.shapes[x] for x in operands if x in self.shapes)
            copy = self.op(op["op"], operands, shape, self.dtypes[op["out"]], words)
            self.copies.append((op["out"], copy))
            return copy

        return spelled(x, depth)

    def _view(self, kind: str, x: str, shape: Shape, words: Mapping[str, Any]) -> str:
        return self.op(kind, (x,), shape, self.dtypes[x], words)

    def _known(self, name: str, shape: Shape, dtype: str) -> str:
        self.shapes[name], self.dtypes[name] = shape, dtype
        return name
