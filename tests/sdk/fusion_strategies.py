"""Random valid fusions for property tests, as documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, get_args

from hypothesis import strategies as st

from fusetune.wire.extent import Extent
from fusetune.wire.fusion import (
    FORMAT,
    MODEL_OF_OP,
    TYPED_FOLDS,
    BinaryName,
    CompareName,
    DTypeName,
    ReduceName,
    UnaryName,
)
from fusetune.wire.op_check import FLOATS, INDEX_TYPES, OpCheck, TensorType
from fusetune.wire.op_types import result_type

SIZES = {"M": 5, "N": 3}
"""What the symbols of random fusions are bound to."""

Document = dict[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

UNARY = list(get_args(UnaryName))
BINARY = list(get_args(BinaryName))
COMPARE = list(get_args(CompareName))
REDUCE = list(get_args(ReduceName))

COMPILED = ["copy", "cast", "unary", "binary", "broadcast_to", "permute"]
FOLDED = ["reduce", "typed", "scan", "truth", "arg"]
VIEWED = ["reshape", "slice", "flip", "pad", "full", "cat", "iota"]
ALL = [*COMPILED, "compare", "where", *VIEWED, "take", "gather", *FOLDED, "matmul"]
BINDABLE = [kind for kind in ALL if kind not in ("take", "gather", "matmul")]
"""What the compiler binds, whatever an index is computed by."""


class _Grower:
    """Adds operators that fit what is there."""

    def __init__(self, draw: Draw, dtypes: list[str]) -> None:
        self.draw = draw
        self.dtypes = dtypes
        self.types: dict[str, TensorType] = {}
        self.ops: list[Document] = []
        self.symbols: set[str] = set()

    def pick(self, options: list[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def add(self, op: str, ins: list[Any], **attributes: Any) -> None:
        document = {"op": op, "in": ins, "out": f"r{len(self.ops)}", **attributes}
        parsed: Any = MODEL_OF_OP[op].model_validate(document)
        check = OpCheck("here")
        operands = tuple(self.types[x] if isinstance(x, str) and x in self.types else float(x) for x in ins)
        found = result_type(parsed, operands, check)
        if found is not None and found.rank <= 5:
            self.ops.append(document)
            self.types[document["out"]] = found

    def names(self, keep: Callable[[TensorType], bool] = lambda _: True) -> list[str]:
        return [name for name, found in self.types.items() if keep(found)]

    def partner(self, name: str) -> Any:
        """A tensor of the same type, or a number that fits."""
        same = self.names(lambda t: t == self.types[name])
        numbers = [0, 1] if self.types[name].dtype not in FLOATS else [0, 1, 2, 2.5, -0.0, "inf", "-inf", "nan"]
        return self.pick([*same, *numbers])

    def grow(self, kind: str) -> None:
        name = self.pick(self.names())
        found = self.types[name]
        rank = found.rank
        match kind:
            case "copy":
                self.add("copy", [name])
            case "cast":
                self.add("cast", [name], dtype=self.pick(self.dtypes))
            case "unary":
                self.add(self.pick(UNARY), [name])
            case "binary" | "compare":
                ins = [name, self.partner(name)]
                self.add(self.pick(BINARY if kind == "binary" else COMPARE), ins if self.pick([0, 1]) else ins[::-1])
            case "where":
                for condition in self.names(lambda t: t.dtype == "bool" and t.shape == found.shape)[:1]:
                    if self.pick([True, True, False]):
                        self.add("where", [condition, name, self.partner(name)])
                    else:
                        self.add(
                            "where", [condition, *self.pick([(1, 0), (0, 1), (1, 1)])], dtype=self.pick(self.dtypes)
                        )
            case "broadcast_to":
                self._broadcast(name, found)
            case "permute" if rank:
                self.add("permute", [name], dims=list(self.draw(st.permutations(range(rank)))))
            case "reshape" if rank:
                self.add("reshape", [name], shape=[-1])
            case "slice" if rank:
                dim = self.pick(list(range(rank)))
                self.add("slice", [name], dim=dim, start=0, stop=self.pick([1, 2]), **self.pick([{}, {"step": 2}]))
            case "flip" if rank:
                self.add("flip", [name], dims=self.draw(st.lists(st.integers(0, rank - 1), min_size=1, unique=True)))
            case "pad":
                low, high = ([self.pick([0, 1, 2]) for _ in range(rank)] for _ in range(2))
                self.add("pad", [name], low=low, high=high, value=self.pick([0, 1]))
            case "full":
                self.add("full", [], shape=[2, 3], value=self.pick([0, 1]), dtype=self.pick(self.dtypes))
            case "cat" if rank:
                ins = self.pick([[name], [name, name]])
                self.add("cat", ins, dim=self.pick(list(range(rank))))
            case "iota":
                self.add("iota", [], shape=[2, 3], dim=self.pick([0, 1]), dtype="i32")
            case "take" | "gather" if rank:
                same = rank if kind == "gather" else None
                for index in self.names(lambda t: t.dtype in INDEX_TYPES and same in (None, t.rank))[:1]:
                    self.add(kind, [name, index], dim=self.pick(list(range(-rank, rank))))
            case "reduce" if rank:
                dims = self.draw(st.lists(st.integers(0, rank - 1), min_size=1, unique=True))
                self.add(self.pick(REDUCE), [name], dims=dims, keepdim=self.pick([False, True]))
            case "typed" if rank:
                dims = self.draw(st.lists(st.integers(0, rank - 1), min_size=1, unique=True))
                self.add(self.pick(sorted(TYPED_FOLDS)), [name], dims=dims, dtype=self.pick(self.dtypes))
            case "scan" if rank:
                dtype = {"dtype": self.pick(self.dtypes)} if self.pick([0, 0, 1]) else {}
                self.add("cumsum", [name], dim=self.pick(list(range(-rank, rank))), **dtype)
            case "truth" if rank:
                dims = self.draw(st.lists(st.integers(-rank, -1), min_size=1, unique=True))
                self.add(self.pick(["any", "all"]), [name], dims=dims, keepdim=self.pick([False, True]))
            case "arg":
                dim = self.pick([{}, *({"dim": d} for d in range(rank))])
                self.add(self.pick(["argmax", "argmin"]), [name], keepdim=self.pick([False, True]), **dim)
            case "matmul" if rank >= 2:
                dims = [*range(rank - 2), rank - 1, rank - 2]
                self.add("permute", [name], dims=dims)
                self.add("matmul", [name, self.ops[-1]["out"]])

    def _broadcast(self, name: str, found: TensorType) -> None:
        sizes = [extent.size for extent in found.shape]
        if None in sizes or found.rank > 3:
            return
        at = self.draw(st.integers(0, found.rank))
        new = self.pick([1, 2, *sorted(self.symbols)])
        grown = [new if size == 1 else size for size in sizes]
        shape = [*grown[:at], new, *grown[at:]]
        self.add("broadcast_to", [name], shape=shape, dims=[i + (i >= at) for i in range(found.rank)])


@st.composite
def documents(draw: Draw, kinds: list[str] = ALL, dtypes: list[str] | None = None) -> Document:
    """A valid fusion document. Symbols are those of SIZES; every operator of `kinds` may be in it."""
    dtypes = dtypes or list(get_args(DTypeName))
    grower = _Grower(draw, dtypes)
    sizes = st.sampled_from([1, 2, 4, "M", "N"])
    shapes = [draw(st.lists(sizes, max_size=3)) for _ in range(2)]
    inputs = []
    for i in range(draw(st.integers(1, 3))):
        shape, dtype = draw(st.sampled_from(shapes)), draw(st.sampled_from(dtypes))
        inputs.append({"name": f"x{i}", "shape": shape, "dtype": dtype})
        grower.symbols |= {size for size in shape if isinstance(size, str)}
        grower.types[f"x{i}"] = TensorType(tuple(map(Extent.of, shape)), dtype)
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=8)):
        grower.grow(kind)
    if not grower.ops:
        grower.add("copy", ["x0"])
    results = [op["out"] for op in grower.ops]
    outputs = draw(st.lists(st.sampled_from(results), min_size=1, max_size=3, unique=True))
    document = {"format": FORMAT, "inputs": inputs, "ops": grower.ops, "outputs": [{"name": n} for n in outputs]}
    copied: Document = json.loads(json.dumps(document))
    return copied


def sizes_for(document: Document) -> dict[str, int]:
    """The sizes of the symbols that stand in the document's inputs."""
    used = {size for tensor in document["inputs"] for size in tensor["shape"] if isinstance(size, str)}
    return {symbol: size for symbol, size in SIZES.items() if symbol in used}
