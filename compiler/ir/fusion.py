"""A bound fusion: a graph of operators over tensors of known sizes. What the scheduler starts from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from compiler.dtypes import DType
from compiler.ir.ops import MathGrade, OpKind


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the fusion. Strides are in elements; `align` is what is known of its address, in bytes.

    Op results that are not outputs live nowhere in particular; their strides are dense by convention.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...]
    align: int = 16

    @property
    def elems(self) -> int:
        n = 1
        for extent in self.shape:
            n *= extent
        return n

    @property
    def storage_elems(self) -> int:
        """Elements from its first to its last in memory, holes of its strides included."""
        return storage_elems(self.shape, self.strides)

    @property
    def storage_bytes(self) -> int:
        """The same in bytes."""
        return self.storage_elems * self.dtype.nbytes


@dataclass(frozen=True, slots=True)
class Literal:
    """A number operand; it takes the other operand's dtype: an int, exact, beside integers and bools, else a float."""

    value: int | float

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number that is told at each call: as a fusion has it, f64 or i64, or as an operand.

    An operand stands where a literal may, in the type in which the kernel gets it: f32 beside floats of up to 32 bits,
    f64 beside f64, i64 beside integers.
    """

    name: str
    dtype: DType

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}"


Number = Literal | Scalar
"""An operand that is no tensor."""

Operand = str | Number


@dataclass(frozen=True, slots=True)
class Op:
    """`output = kind(inputs)`.

    `dims`: for permute, output dimension i is input dimension dims[i]; for broadcast_to, input dimension i is output
    dimension dims[i]; for a reduction, the input dimensions that are folded, ascending (they are kept with size 1 where
    the result has the operand's rank); for slice, cat, iota and a scan, the one dimension concerned; for flip and pad,
    those that are turned around and that get longer; for take and gather, that of the first operand which the second
    one chooses along. Empty for all others.
    `start`: of a slice, the first index taken; every `step`th from there on is. Of a scan, 1 where an element itself is
    left out of its sum, else 0.
    `low`: of a pad, how many places it puts before each of `dims`. What they and those behind hold is its second
    operand, that of a `full` its only one: a number, rounded to the dtype. The operands of a rand have no dimensions,
    its result has any.
    `grade`: of a function, how exactly it is computed; before that is chosen, the coarsest form it may take
    (`compiler.ir.pinned`).
    `is_term`: a product that a sum folds and nothing else reads: it may go into the accumulator as it is, not rounded.
    """

    kind: OpKind
    inputs: tuple[Operand, ...]
    output: str
    dims: tuple[int, ...] = ()
    start: int = 0
    grade: MathGrade = MathGrade.EXACT
    is_term: bool = False
    step: int = 1
    low: tuple[int, ...] = ()

    @property
    def fills_with(self) -> int | float:
        """What a pad or a full puts where there is no operand."""
        (value,) = (x.value for x in self.inputs if isinstance(x, Literal))
        return value

    @property
    def tensor_inputs(self) -> tuple[str, ...]:
        return tuple(x for x in self.inputs if isinstance(x, str))


@dataclass(frozen=True)
class Fusion:
    """Inputs, operators in topological order, outputs. `values` holds inputs first, then results in op order.

    Names are canonical, so that equal graphs give equal kernels: `i0..` inputs in order, `v0..` op results in
    canonical order.

    `aliases`: outputs that are written into the memory of an input, which is like them, each with that input.
    `is_list`: its vectors are lists of tensors, of any lengths, and what it says holds of each element.
    `singles`: of a fusion over lists, the inputs that are lists of single elements, one beside each tensor.
    `orders`: inputs and outputs whose dimension k is dimension order[k] of the caller's tensor, if there is one.
    `is_pinned`: every operator has one form, which all kernels that are made of the fusion keep (`compiler.ir.pinned`).
    `scalars`: `c0..` in the order of a call, which passes them after the tensors; launches of a fusion have all of it.
    """

    values: tuple[Value, ...]
    inputs: tuple[str, ...]
    ops: tuple[Op, ...]
    outputs: tuple[str, ...]
    fingerprint: str
    binding_hash: str
    is_pinned: bool = False
    scalars: tuple[Scalar, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    orders: tuple[tuple[str, tuple[int, ...]], ...] = ()
    is_list: bool = False
    singles: tuple[str, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Value]:
        return {v.name: v for v in self.values}

    def value(self, name: str) -> Value:
        return self.by_name[name]

    def producer(self, name: str) -> Op | None:
        """The op that makes `name`, or None for an input."""
        return self._makers.get(name)

    @cached_property
    def _makers(self) -> dict[str, Op]:
        return {op.output: op for op in self.ops}

    @property
    def alias_places(self) -> dict[int, int]:
        """The positions of the outputs that are written into the memory of an input, each with that input's."""
        return {self.outputs.index(output): self.inputs.index(name) for output, name in self.aliases}

    def memory_of(self, name: str) -> str:
        """Whose memory a tensor lies in: its own, but for outputs that are written into an input."""
        return dict(self.aliases).get(name, name)

    @property
    def grades(self) -> dict[str, MathGrade]:
        """The results of functions that may be, or are, computed otherwise than exactly."""
        return {op.output: op.grade for op in self.ops if op.grade is not MathGrade.EXACT}

    @property
    def terms(self) -> tuple[str, ...]:
        """The products that are terms of a sum and no values of their own."""
        return tuple(op.output for op in self.ops if op.is_term)

    def behind(self, name: str) -> Iterator[Op]:
        """Every operator that a value depends on, its own one included, each once."""
        wanted = {name}
        for op in reversed(self.ops):
            if op.output in wanted:
                wanted.update(op.tensor_inputs)
                yield op

    def operand_dtype(self, op: Op) -> DType:
        """The type of an elementwise operator's operands, and of the numbers among them; of a `where`, of what it
        chooses from."""
        if op.kind is OpKind.WHERE and not any(isinstance(x, str) for x in op.inputs[1:]):
            return self.value(op.output).dtype
        return self.value(op.tensor_inputs[-1]).dtype

    def consumers(self, name: str) -> tuple[Op, ...]:
        return tuple(op for op in self.ops if name in op.inputs)


def storage_elems(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements from the first to the last that a strided tensor reaches."""
    return 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))
