"""Shapes, dtypes and every fault of a fusion, with symbols left open or sizes put in.

The same walk serves both: a bound fusion is a fusion without symbols, so what a symbol left undecided (slice bounds,
limits) is decided when the walk is repeated on the bound one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fusetune.wire.advice import nearest
from fusetune.wire.cycles import cycle, cycle_text
from fusetune.wire.extent import Extent, Size, dense_strides, product
from fusetune.wire.fusion import (
    BroadcastTo,
    Filled,
    Fusion,
    Input,
    Iota,
    Operand,
    Output,
    Pad,
    Rand,
    Reshape,
    Slice,
    literal_value,
)
from fusetune.wire.op_check import ITEM_BYTES, OpCheck, OperandType, ScalarType, TensorType, shape_text
from fusetune.wire.op_types import result_type
from fusetune.wire.problems import InvalidDocument, Problem
from fusetune.wire.recent import recent

MAX_RANK = 8
MAX_EXTENT = 2**32
MAX_TENSOR_BYTES = 2**48
MAX_OPS = 256
MAX_INPUTS = 64
MAX_OUTPUTS = 64
MAX_OPERANDS = 64
"""Own limits. cuTensorMapEncodeTiled takes sizes up to 2^32; 48 bits are more than any card's memory, and keep every
byte offset inside a signed 64-bit integer; the counts bound the work that one document can ask for."""

MAX_PROBLEMS = 100
"""After so many faults no further operator is looked at: nobody reads more, and each proposes names like it."""


@dataclass(frozen=True, slots=True)
class Inference:
    """`types`: every value whose type could be told. `problems`: every fault, in the order of the document."""

    types: Mapping[str, TensorType]
    problems: tuple[Problem, ...]


@recent
def infer(fusion: Fusion) -> Inference:
    """Types of all values and all faults of `fusion`."""
    return _Walk(fusion).run()


def checked_types(fusion: Fusion) -> Mapping[str, TensorType]:
    """Types of all values. Raises InvalidDocument with every fault, if there is one."""
    inference = infer(fusion)
    if inference.problems:
        raise InvalidDocument(inference.problems)
    return inference.types


class _Walk:
    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion
        self.types: dict[str, TensorType] = {}
        self.scalars: dict[str, ScalarType] = {}
        self.defined: dict[str, str] = {}
        self.problems: list[Problem] = []

    def fault(self, where: str, found: object, expected: str, fix: str) -> None:
        self.problems.append(Problem(where, str(found), expected, fix))

    def run(self) -> Inference:
        if self._counts_fit():
            self._inputs()
            self._scalars()
            self._ops()
            self._outputs()
            self._symbols()
            self._lists()
        return Inference(self.types, tuple(self.problems))

    def _counts_fit(self) -> bool:
        """Counts come first: nothing else is looked at in a document that is too large."""
        fits = True
        fusion = self.fusion
        for where, items, limit in (
            ("inputs", fusion.inputs, MAX_INPUTS),
            ("scalars", fusion.numbers, MAX_INPUTS),
            ("ops", fusion.ops, MAX_OPS),
            ("outputs", fusion.outputs, MAX_OUTPUTS),
        ):
            if len(items) > limit:
                fits = False
                self.fault(where, f"{len(items)} entries", f"at most {limit}", "Split the fusion in two.")
        for i, op in enumerate(fusion.ops):
            if len(op.ins) > MAX_OPERANDS:
                fits = False
                self.fault(f"ops[{i}].in", f"{len(op.ins)} operands", f"at most {MAX_OPERANDS}", "Join in steps.")
        if not fusion.outputs:
            self.fault("outputs", "no entries", "at least 1", "Name the values that the fusion returns.")
        return fits

    def _define(self, name: str, where: str) -> bool:
        if name in self.defined:
            self.fault(
                where, repr(name), f"a new name ({self.defined[name]} defines {name!r})", "Rename one of the two."
            )
            return False
        self.defined[name] = where
        return True

    def _inputs(self) -> None:
        for i, tensor in enumerate(self.fusion.inputs):
            where = f"inputs[{i}]"
            found = TensorType(tuple(map(Extent.of, tensor.shape)), tensor.dtype)
            if tensor.strides is not None and len(tensor.strides) != len(tensor.shape):
                self.fault(
                    f"{where}.strides",
                    f"{len(tensor.strides)} strides",
                    f"{len(tensor.shape)}, one for each dimension",
                    "Correct the strides, or remove them for a dense tensor.",
                )
            fits = self._within_limits(found, f"{where}.shape")
            if self._define(tensor.name, f"{where}.name") and fits:
                self.types[tensor.name] = found

    def _scalars(self) -> None:
        for i, scalar in enumerate(self.fusion.numbers):
            if self._define(scalar.name, f"scalars[{i}].name"):
                self.scalars[scalar.name] = ScalarType(scalar.name, scalar.dtype)

    def _ops(self) -> None:
        defined_at = {op.out: i for i, op in reversed(list(enumerate(self.fusion.ops)))}
        makers = {name: self.fusion.ops[i] for name, i in defined_at.items()}
        for i, op in enumerate(self.fusion.ops):
            if len(self.problems) >= MAX_PROBLEMS:
                break
            ahead = {x: cycle(op, x, makers) for x in op.ins if isinstance(x, str) and defined_at.get(x, -1) >= i}
            operands = [self._operand(x, f"ops[{i}].in[{j}]", defined_at, ahead) for j, x in enumerate(op.ins)]
            is_new = self._define(op.out, f"ops[{i}].out")
            known = tuple(x for x in operands if x is not None)
            if len(known) != len(operands):
                continue
            result = result_type(op, known, OpCheck(f"ops[{i}]", self.problems))
            if result is not None and is_new and self._within_limits(result, f"ops[{i}]"):
                self.types[op.out] = result

    def _operand(
        self, operand: Operand, where: str, defined_at: Mapping[str, int], ahead: Mapping[str, tuple[str, ...]]
    ) -> OperandType | None:
        """The operand's type; None if it has none, which is a fault unless it was one already where it was defined.

        `ahead`: the operands that are defined no earlier, each with the cycle that it closes, if it does.
        """
        number = literal_value(operand)
        if number is not None:
            return number
        name = str(operand)
        if name in self.scalars:
            return self.scalars[name]
        if name in self.types:
            return self.types[name]
        if name not in self.defined:
            if ahead.get(name):
                found = f"{name!r} in a cycle: {cycle_text(ahead[name])}"
                fix = "Break the cycle: no order of the ops computes it. Rename a result if another value was meant."
                self.fault(where, found, "a value that does not need this op's own result", fix)
            elif name in defined_at:
                expected = f"a value defined before it is used (ops[{defined_at[name]}] defines it)"
                self.fault(where, repr(name), expected, "Move the op that defines it to the front.")
            else:
                fix = f"{nearest(name, list(self.defined))}Name an input or the result of an earlier op."
                self.fault(where, repr(name), "a known value", fix)
        return None

    def _within_limits(self, found: TensorType, where: str) -> bool:
        before = len(self.problems)
        if found.rank > MAX_RANK:
            self.fault(where, f"rank {found.rank}", f"at most {MAX_RANK}", "Merge dimensions that stay together.")
            return False
        for dim, extent in enumerate(found.shape):
            if extent.constant is not None and extent.constant > MAX_EXTENT:
                self.fault(where, f"{extent} in dimension {dim}", f"at most {MAX_EXTENT} in each", "Split the tensor.")
        elems = product(extent for extent in found.shape if extent.constant is not None)
        if elems is not None and elems.constant is not None and found.shape:
            nbytes = elems.constant * ITEM_BYTES[found.dtype]
            if nbytes >= MAX_TENSOR_BYTES and before == len(self.problems):
                self.fault(where, f"{nbytes} bytes ({found})", f"less than {MAX_TENSOR_BYTES}", "Split the tensor.")
        return before == len(self.problems)

    def _outputs(self) -> None:
        inputs = {tensor.name: tensor for tensor in self.fusion.inputs}
        seen: dict[str, int] = {}
        taken: dict[str, int] = {}
        for i, output in enumerate(self.fusion.outputs):
            where = f"outputs[{i}]"
            if output.name in seen:
                expected = f"a value that is not returned yet (outputs[{seen[output.name]}] is the same)"
                self.fault(f"{where}.name", repr(output.name), expected, "Return it once, or a copy of it.")
                continue
            seen[output.name] = i
            if output.name in inputs:
                fix = "Add a copy op and return its result."
                self.fault(f"{where}.name", f"input {output.name!r}", "the result of an op", fix)
            elif output.name in self.scalars:
                fix = "Return what an op makes of it and of a tensor."
                self.fault(f"{where}.name", f"scalar {output.name!r}", "the result of an op", fix)
            elif output.name not in self.defined:
                fix = f"{nearest(output.name, list(self.defined))}Name the result of an op."
                self.fault(f"{where}.name", repr(output.name), "a known value", fix)
            elif output.name in self.types:
                self._stated_facts(output, self.types[output.name], where)
                self._alias(output, inputs, taken.setdefault(output.alias or "", i) == i, where)

    def _stated_facts(self, output: Output, found: TensorType, where: str) -> None:
        """What an output states beside its name is redundant: it must be what inference finds."""
        if output.shape is not None and tuple(map(Extent.of, output.shape)) != found.shape:
            self.fault(f"{where}.shape", list(output.shape), shape_text(found.shape), "Correct it or remove it.")
        if output.dtype is not None and output.dtype != found.dtype:
            self.fault(f"{where}.dtype", output.dtype, found.dtype, "Correct it, remove it, or cast before returning.")
        if output.strides is not None and len(output.strides) != found.rank:
            expected = f"{found.rank}, one for each dimension"
            fix = "Correct the strides, or remove them for a dense tensor."
            self.fault(f"{where}.strides", f"{len(output.strides)} strides", expected, fix)

    def _alias(self, output: Output, inputs: Mapping[str, Input], is_first: bool, where: str) -> None:
        """An output lies in the memory of an input of its own shape and dtype, and is the only one that does."""
        if output.alias is None:
            return
        at, source = f"{where}.alias", inputs.get(output.alias)
        if source is None:
            fix = f"{nearest(output.alias, list(inputs))}Name an input, or leave the alias out for a new tensor."
            self.fault(at, repr(output.alias), "the name of an input", fix)
            return
        if not is_first:
            fix = "Let the other output have memory of its own."
            self.fault(at, f"input {source.name!r}", "an input that no other output is written into", fix)
        found, wanted = self.types[output.name], self.types.get(source.name)
        if wanted is not None and found != wanted:
            expected = f"a value like input {source.name!r}, {wanted}"
            self.fault(at, f"{output.name!r}, {found}", expected, "Cast or reshape it, or leave the alias out.")
        if output.strides is not None and (source.strides or ()) != output.strides:
            fix = "Remove the strides: the output has those of the input."
            self.fault(f"{where}.strides", list(output.strides), f"those of input {source.name!r}", fix)

    def _lists(self) -> None:
        """Lists are all of one size, which stands for that of each tensor, or of single elements, one beside each
        tensor; beside the lists are single elements for all."""
        if not any(tensor.list for tensor in self.fusion.inputs):
            return
        size = self.fusion.list_size
        if size is None:
            if self.fusion.outputs:  # one that is being built may get its lists yet
                fix = "Let one input be a list of tensors, with a symbol for their size, or take `list` away."
                self.fault("inputs", "lists of single elements alone", "a list of tensors that they stand beside", fix)
            return
        for i, tensor in enumerate(self.fusion.inputs):
            expected = "no dimension: one element beside the lists"
            if tensor.list:
                expected = f"[{size}], as of every list, or no dimension: one element beside each tensor"
            legal = ((size,), ()) if tensor.list else ((),)
            if tensor.shape not in legal or tensor.strides is not None:
                found = f"{shape_text(tuple(map(Extent.of, tensor.shape)))}"
                fix = "Give all lists one symbol for their size, and no strides: their tensors are dense, of any shape."
                self.fault(f"inputs[{i}].shape", found, expected, fix)
        for i, output in enumerate(self.fusion.outputs):
            made = self.types.get(output.name)
            if made is not None and (made.rank != 1 or made.shape[0] != Extent.of(size) or output.strides):
                fix = "Return lists, whose tensors are dense."
                self.fault(f"outputs[{i}].name", str(made), f"[{size}], as of every list", fix)

    def _symbols(self) -> None:
        """A symbol gets its value from an input's shape; one that stands in none has no value at a call."""
        known = {size for tensor in self.fusion.inputs for size in tensor.shape if isinstance(size, str)}
        told: set[str] = set()
        for where, size in _sizes_of_ops(self.fusion):
            if isinstance(size, str) and size not in known and size not in told:
                told.add(size)
                fix = f"{nearest(size, list(known))}Use a symbol of an input's shape, or write the size."
                self.fault(where, f"symbol {size!r}", "a symbol that stands in the shape of an input", fix)


def _sizes_of_ops(fusion: Fusion) -> Iterator[tuple[str, Size]]:
    for i, output in enumerate(fusion.outputs):
        yield from ((f"outputs[{i}].strides[{j}]", stride) for j, stride in enumerate(output.strides or ()))
    for i, op in enumerate(fusion.ops):
        match op:
            case BroadcastTo() | Reshape() | Iota() | Rand() | Filled():
                yield from ((f"ops[{i}].shape[{j}]", size) for j, size in enumerate(op.shape))
            case Slice():
                yield f"ops[{i}].start", op.start
                yield f"ops[{i}].stop", op.stop
            case Pad():
                yield from ((f"ops[{i}].low[{j}]", size) for j, size in enumerate(op.low))
                yield from ((f"ops[{i}].high[{j}]", size) for j, size in enumerate(op.high))
            case _:
                pass


def strides_are_dense(shape: tuple[Extent, ...], strides: tuple[Size, ...]) -> bool:
    """Row-major without gaps. The stride of a size of 1 says nothing, and is not looked at."""
    return len(shape) == len(strides) and all(
        size.constant == 1 or dense == Extent.of(stride)
        for size, dense, stride in zip(shape, dense_strides(shape), strides, strict=True)
    )
