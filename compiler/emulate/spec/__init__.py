"""A launch described in JSON (docs/emulator.md, "SPEC"): kernel, grid, arguments, tensors and what they hold.

fields.py      strict reading: every value knows its place in the document
elements.py    element types, rounding, random values
initial.py     where the elements of a tensor lie and what they hold before the run
tensors.py     the tensors and scratch buffers of a document
arguments.py   the arguments of a kernel
document.py    the whole
fitting.py     the launch held against the kernel that it is for
"""

from compiler.emulate.spec.document import Spec, read_launches, read_spec
from compiler.emulate.spec.fields import InvalidSpec
from compiler.emulate.spec.fitting import fit, kernel_called
from compiler.emulate.spec.initial import SpecLayout

__all__ = ["InvalidSpec", "Spec", "SpecLayout", "fit", "kernel_called", "read_launches", "read_spec"]
