"""The tensors and scratch buffers that a document declares."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path

from compiler.emulate.launch import EmulatedTensor
from compiler.emulate.spec.fields import Node, invalid, quoted
from compiler.emulate.spec.initial import SpecLayout, dense_strides, element_named, fill

MAX_BYTES = 2**32
"""Of all tensors together, and of the elements of one: they are kept in memory."""

FIELDS = ("init", "seed", "strides", "align")
"""What a tensor may have beside `shape` and `dtype`."""

DEFAULT_ALIGN = 256
"""As of memory from `cudaMalloc` (CUDA programming guide, "Size and Alignment Requirement")."""

_MAX_ALIGN = 256
_MAX_RANK = 32
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")


class TensorTable:
    """Tensors by name, in the order of their declaration. `folder`: where files of initial values are looked up."""

    def __init__(self, folder: Path) -> None:
        self.tensors: dict[str, EmulatedTensor] = {}
        self.layouts: dict[str, SpecLayout] = {}
        self._scratch: list[str] = []
        self._folder = folder
        self._bytes = 0

    def declare(self, name: Node, tensor: Node, ignored: tuple[str, ...] = ()) -> None:
        """Adds the tensor that `tensor` describes; its fields `ignored` are read elsewhere. Raises InvalidSpec."""
        fields = tensor.fields(("shape", "dtype"), (*FIELDS, *ignored))
        key = name.text("the name of a tensor")
        if not _NAME.fullmatch(key):
            raise name.fault("1 to 100 letters, digits and _ . + -", "Rename the tensor.")
        if key in self.tensors:
            raise name.fault("a name of its own for each tensor", "Declare it once, or rename one of them.")
        layout = self._layout(fields["shape"], fields["dtype"], fields.get("strides"))
        seed = fields["seed"].integer(0, 2**64 - 1) if "seed" in fields else 0
        data, initialized = fill(layout, fields.get("init", Node("poison", tensor.where)), seed, self._folder)
        align = _align(fields["align"]) if "align" in fields else DEFAULT_ALIGN
        if align % layout.element.nbytes:
            raise fields["align"].fault(f"a multiple of {layout.element.nbytes}, the size of an element", "Raise it.")
        self.layouts[key] = layout
        self.tensors[key] = EmulatedTensor(
            key, layout.element.name, layout.shape, data, initialized, layout.valid(), align
        )

    def _layout(self, shape: Node, dtype: Node, strides: Node | None) -> SpecLayout:
        element = element_named(dtype)
        sizes = shape.integers(0, MAX_BYTES)
        if len(sizes) > _MAX_RANK:
            raise shape.fault(f"at most {_MAX_RANK} dimensions", "Merge some.")
        steps = dense_strides(sizes) if strides is None else strides.integers(0, MAX_BYTES, len(sizes))
        layout = SpecLayout(element, sizes, steps)
        needed = self._bytes + max(layout.nbytes, prod(sizes) * element.nbytes)
        if needed > MAX_BYTES:
            given = shape if strides is None else strides
            found = f"{quoted(given.value)}: {needed} bytes with the tensors before it"
            raise invalid(given.where, found, f"at most {MAX_BYTES} bytes in all", "Reduce the sizes.")
        self._bytes = needed
        return layout

    def add_scratch(self, scratch: Node) -> str:
        """Adds a scratch buffer, `{"bytes": n, "align": n, "init": "none" | "zero"}`; returns the name that it gets."""
        fields = scratch.fields(("bytes",), ("align", "init"))
        nbytes = fields["bytes"].integer(1, MAX_BYTES)
        init = fields["init"].choice("none", "zero") if "init" in fields else "none"
        name = f"scratch{len(self._scratch)}"
        while name in self.tensors:
            name = f"_{name}"
        document = {
            "shape": [nbytes],
            "dtype": "u8",
            "init": "zeros" if init == "zero" else "poison",
            "align": fields["align"].value if "align" in fields else DEFAULT_ALIGN,
        }
        self.declare(Node(name, scratch.where), Node(document, scratch.where))
        del self.layouts[name]
        self._scratch.append(name)
        return name

    def named(self, name: Node) -> str:
        """The name that a node holds, of a tensor that there is. Raises InvalidSpec."""
        key = name.text("the name of a tensor")
        if key not in self.layouts:
            known = ", ".join(self.layouts) or "none is declared"
            raise name.fault(f"the name of a tensor ({known})", "Declare it under $.tensors, or with the argument.")
        return key

    def at(self, position: Node) -> str:
        """The name of the tensor at a position, counted from 0. Raises InvalidSpec."""
        names = tuple(self.layouts)
        if not names:
            raise position.fault("a tensor at that position", "Declare tensors under $.tensors.")
        return names[position.integer(0, len(names) - 1)]

    def at_or_scratch(self, position: Node) -> str:
        """The same, where positions go on with the scratch buffers: what a tensor map may be of. Raises InvalidSpec."""
        names = (*self.layouts, *self._scratch)
        return names[position.integer(0, max(len(names) - 1, 0))] if names else self.at(position)

    def scratch_at(self, index: Node) -> str:
        """The name of a declared scratch buffer. Raises InvalidSpec."""
        if not self._scratch:
            raise index.fault("a scratch buffer of that index", "Declare scratch buffers under $.scratch.")
        return self._scratch[index.integer(0, len(self._scratch) - 1)]


def _align(align: Node) -> int:
    found = align.integer(1, _MAX_ALIGN)
    if found & (found - 1):
        raise align.fault("a power of two", "Use the bytes that divide the address: 1, 2, 4, … 256.")
    return found
