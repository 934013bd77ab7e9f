"""The arguments of a kernel, in the order of its parameters."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.emulate.features.tma.elements import DTYPES
from compiler.emulate.features.tma.swizzle import SWIZZLES
from compiler.emulate.features.tma.tensor_map import FILLS, INTERLEAVES, MAX_RANK
from compiler.emulate.launch import Argument, EmulatedTensorMap, TensorArgument, ValueArgument
from compiler.emulate.spec.elements import ELEMENTS, SCALARS
from compiler.emulate.spec.fields import Node
from compiler.emulate.spec.initial import scalar_bytes
from compiler.emulate.spec.tensors import FIELDS, TensorTable

_FORMS = ("tensor", "tensor_map", "scalar", "bytes", "scratch")
_MAX_U64 = 2**64 - 1
_MAX_VALUE_BYTES = 32764
"""Of all parameters of a kernel (CUDA programming guide, "Function Parameters")."""

_MAX_ELEMENT_STRIDE = 255
"""More than the hardware takes, as the other limits here: what it refuses is reported by the run."""


def declare_inline(argument: Node, table: TensorTable) -> None:
    """Declares the tensor that an argument describes itself: `{"tensor": "y", "shape": …, "dtype": …}`."""
    value = argument.value
    if isinstance(value, dict) and "tensor" in value and value.keys() & {"shape", "dtype", *FIELDS}:
        table.declare(Node(value["tensor"], f"{argument.where}.tensor"), argument, ("tensor", "offset_bytes"))


def read_argument(argument: Node, table: TensorTable) -> Argument:
    """One argument; the tensors that it names are declared. Raises InvalidSpec."""
    if isinstance(argument.value, dict) and "kind" in argument.value:
        return _tagged(argument, table)
    forms = [form for form in _FORMS if isinstance(argument.value, dict) and form in argument.value]
    if len(forms) != 1:
        raise argument.fault(f"an object with one of {', '.join(_FORMS)}", "Say what is passed: see docs/emulator.md.")
    match forms[0]:
        case "tensor":
            fields = argument.fields(("tensor",), ("offset_bytes", "shape", "dtype", *FIELDS))
            offset = fields["offset_bytes"].integer(0, _MAX_U64 >> 1) if "offset_bytes" in fields else 0
            return TensorArgument(table.named(fields["tensor"]), offset)
        case "tensor_map":
            inner = argument.fields(("tensor_map",))["tensor_map"]
            fields = inner.fields(("tensor", *_MAP_REQUIRED), _MAP_OPTIONAL)
            return _tensor_map(table.named(fields["tensor"]), fields, table)
        case "scalar":
            fields = argument.fields(("scalar", "dtype"))
            return _scalar(fields["scalar"], fields["dtype"])
        case "bytes":
            return _bytes(argument.fields(("bytes",))["bytes"])
        case _:
            scratch = argument.fields(("scratch",))["scratch"]
            name = table.add_scratch(scratch) if isinstance(scratch.value, dict) else table.scratch_at(scratch)
            return TensorArgument(name)


def _tagged(argument: Node, table: TensorTable) -> Argument:
    """An argument as a kernel artifact has it, by position."""
    kind = Node(argument.value["kind"], f"{argument.where}.kind").choice("tensor", "tensor_map", "scalar", "scratch")
    match kind:
        case "tensor":
            return TensorArgument(table.at(argument.fields(("kind", "position"))["position"]))
        case "tensor_map":
            fields = argument.fields(("kind", "position", *_MAP_REQUIRED), _MAP_OPTIONAL)
            return _tensor_map(table.at_or_scratch(fields["position"]), fields, table)
        case "scalar":
            fields = argument.fields(("kind", "value", "dtype"))
            return _scalar(fields["value"], fields["dtype"])
        case _:
            return TensorArgument(table.scratch_at(argument.fields(("kind", "index"))["index"]))


def _scalar(value: Node, dtype: Node) -> ValueArgument:
    return ValueArgument(scalar_bytes(ELEMENTS[dtype.choice(*SCALARS)], value))


def _bytes(text: Node) -> ValueArgument:
    """A struct that is passed by value, as hexadecimal digits."""
    digits = text.text("hexadecimal digits")
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        raise text.fault("hexadecimal digits, two a byte", "Write the bytes in memory order.") from None
    if not 1 <= len(data) <= _MAX_VALUE_BYTES:
        raise text.fault(f"1 to {_MAX_VALUE_BYTES} bytes", "Pass what the parameter holds.")
    return ValueArgument(data)


_MAP_REQUIRED = ("dims", "box")
_MAP_OPTIONAL = (
    "strides_bytes",
    "element_strides",
    "dtype",
    "swizzle",
    "interleave",
    "oob_fill",
    "l2_promotion",
    "offset_bytes",
)


def _tensor_map(tensor: str, fields: Mapping[str, Node], table: TensorTable) -> EmulatedTensorMap:
    """A map, everything innermost first. What the hardware forbids is kept as it is: the run reports it."""
    dims = fields["dims"].integers(0, _MAX_U64)
    rank = len(dims)
    if not 1 <= rank <= MAX_RANK:
        raise fields["dims"].fault(f"1 to {MAX_RANK} sizes", "Give one for each dimension, innermost first.")
    if "strides_bytes" not in fields and rank > 1:
        raise fields["dims"].fault(
            f"strides_bytes as well, for {rank} dimensions", f"Add 'strides_bytes' with {rank - 1} integers."
        )
    steps = fields.get("element_strides", Node([1] * rank, "$"))
    return EmulatedTensorMap(
        tensor=tensor,
        dtype=fields["dtype"].choice(*DTYPES) if "dtype" in fields else table.tensors[tensor].dtype,
        dims=dims,
        strides_bytes=fields["strides_bytes"].integers(0, _MAX_U64, rank - 1) if "strides_bytes" in fields else (),
        box=fields["box"].integers(0, 2**32 - 1, rank),
        element_strides=steps.integers(0, _MAX_ELEMENT_STRIDE, rank),
        swizzle=_mode(fields.get("swizzle"), tuple(SWIZZLES)),
        interleave=_mode(fields.get("interleave"), INTERLEAVES),
        oob_fill=fields["oob_fill"].choice(*FILLS) if "oob_fill" in fields else "zero",
        l2_promotion=_promotion(fields.get("l2_promotion")),
        offset_bytes=fields["offset_bytes"].integer(0, _MAX_U64 >> 1) if "offset_bytes" in fields else 0,
    )


def _mode(node: Node | None, modes: tuple[str, ...]) -> str:
    """A swizzle or interleave mode by its name, `"128B"`, or by its bytes, 128; 0 and `"none"` are no mode."""
    if node is None:
        return modes[0]
    spans = {0 if mode == "NONE" else int(mode[:-1]): mode for mode in modes if "_" not in mode}
    found = node.choice(*modes, *spans)
    return str(spans.get(found, found))


def _promotion(node: Node | None) -> int:
    if node is None:
        return 0
    found = node.choice(0, 64, 128, 256, "NONE", "64B", "128B", "256B")
    return found if isinstance(found, int) else 0 if found == "NONE" else int(found[:-1])
