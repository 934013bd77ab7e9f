"""What a fusion's output must be at chosen elements only, for tensors too large to be worked out whole.

Every operator but a view takes the elements of its operands at one position, so a fusion at a list of positions is a
fusion over vectors: its inputs are what each view reads there. `expect` and `compare` then say what is right, with the
bounds that hold for whole tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion, Op, Operand, Value
from compiler.ir.ops import POINTWISE, OpKind
from search.verify.arrays import Array

Offsets = npt.NDArray[np.int64]
View = tuple[int | None, ...]
"""For each dimension of a value, the dimension of the output that runs along it, or None where it is at 0."""


@dataclass(frozen=True)
class Points:
    """A fusion over vectors, one element a point, and its inputs as flat storages."""

    fusion: Fusion
    storages: list[Array]


def at_points(fusion: Fusion, output: str, positions: Offsets, read: Callable[[str, Offsets], Array]) -> Points:
    """`fusion` at the elements of `output` with these row-major positions.

    `read` gives the elements of an input at offsets into its storage. Raises Unsupported for an operator whose result
    at a position depends on more than one position of an operand.
    """
    shape = fusion.value(output).shape
    places = [np.asarray(at, np.int64) for at in np.unravel_index(positions, shape)]
    made = _Flat(fusion, places, len(positions), read)
    name = made.value(output, tuple(range(len(shape))))
    if name in made.inputs:  # the output is a view of an input: an operator of its own, so that it is no input
        name = made.add(Op(OpKind.COPY, (name,), ""), made.like[name])
    flat = Fusion(tuple(made.values), tuple(made.inputs), tuple(made.ops), (name,), fusion.fingerprint, "points")
    return Points(flat, list(made.inputs.values()))


@dataclass
class _Flat:
    """The fusion over vectors while it is made."""

    fusion: Fusion
    places: list[Offsets]
    count: int
    read: Callable[[str, Offsets], Array]
    inputs: dict[str, Array] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    known: dict[tuple[str, View], str] = field(default_factory=dict)
    like: dict[str, Value] = field(default_factory=dict)
    _inputs: list[Value] = field(default_factory=list)
    _results: list[Value] = field(default_factory=list)

    @property
    def values(self) -> list[Value]:
        """Inputs first, then results in order."""
        return [*self._inputs, *self._results]

    def value(self, name: str, view: View) -> str:
        """The vector of value `name` seen through `view`."""
        key = (name, view)
        if key not in self.known:
            self.known[key] = self._make(name, view)
        return self.known[key]

    def add(self, op: Op, like: Value) -> str:
        """Appends an operator; the name of its result."""
        name = f"v{len(self.ops)}"
        self.ops.append(Op(op.kind, op.inputs, name))
        self._results.append(self._vector(name, like))
        self.like[name] = like
        return name

    def _make(self, name: str, view: View) -> str:
        op = self.fusion.producer(name)
        if op is None:
            return self._input(name, view)
        if op.kind in (OpKind.PERMUTE, OpKind.BROADCAST_TO):
            return self.value(str(op.inputs[0]), self._through(op, view))
        if op.kind not in POINTWISE | {OpKind.COPY}:
            fix = "Compare such outputs whole."
            raise Unsupported(f"an output at chosen elements behind operator {op.kind}", fix)
        operands: list[Operand] = [self.value(x, view) if isinstance(x, str) else x for x in op.inputs]
        return self.add(Op(op.kind, tuple(operands), ""), self.fusion.value(name))

    def _through(self, op: Op, view: View) -> View:
        """The view of the operand that is `view` of the result of a permute or broadcast_to."""
        source, result = self.fusion.value(str(op.inputs[0])).shape, self.fusion.value(op.output).shape
        if op.kind is OpKind.PERMUTE:
            found: list[int | None] = [None] * len(source)
            for d, dim in enumerate(op.dims):
                found[dim] = view[d]
            return tuple(found)
        return tuple(view[dim] if source[d] == result[dim] else None for d, dim in enumerate(op.dims))

    def _input(self, name: str, view: View) -> str:
        value = self.fusion.value(name)
        offsets = np.zeros(self.count, np.int64)
        for stride, dim in zip(value.strides, view, strict=True):
            if dim is not None:
                offsets += self.places[dim] * stride
        new = f"i{len(self.inputs)}"
        self.inputs[new] = self.read(name, offsets)
        self._inputs.append(self._vector(new, value))
        self.like[new] = value
        return new

    def _vector(self, name: str, like: Value) -> Value:
        return Value(name, (self.count,), like.dtype, (1,), like.dtype.nbytes)
