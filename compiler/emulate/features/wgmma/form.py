"""The forms of wgmma.mma_async: shape and types of a name, operands behind them (PTX ISA, "wgmma.mma_async")."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.emulate.binder import UnknownForm
from compiler.emulate.features.mma.matrices import DEPTH
from compiler.emulate.numeric.products import ACCUMULATORS, ELEMENT_BITS
from compiler.emulate.ptx.module import Immediate, Operand, PtxInstruction, Vector

ROWS = 64
"""Rows of a product, of A and of D."""

_RESULTS = {
    ("f16", "f16"): ("f32", "f16"),
    ("bf16", "bf16"): ("f32",),
    ("tf32", "tf32"): ("f32",),
    **{(a, b): ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")},
    **{(a, b): ("s32",) for a in ("s8", "u8") for b in ("s8", "u8")},
    ("b1", "b1"): ("s32",),
}
"""Accumulators by the types of A and B."""

_FLOAT_COLUMNS = range(8, 257, 8)
_INTEGER_COLUMNS = (8, 16, 24, *range(32, 257, 16))


@dataclass(frozen=True, slots=True)
class WarpgroupForm:
    """m64, `columns`, `depth` elements along k, types. A may be in `registers`. A transposed operand is MN-major."""

    columns: int
    depth: int
    d: str
    a: str
    b: str
    registers: bool
    saturates: bool
    negates: bool
    transposes_a: bool
    transposes_b: bool

    @property
    def name(self) -> str:
        """Shape and types, for the counters."""
        return f"m{ROWS}n{self.columns}k{self.depth}.{self.d}.{self.a}.{self.b}"

    @property
    def registers_of_d(self) -> int:
        """32-bit registers a thread that hold D."""
        return self.columns * ACCUMULATORS[self.d].itemsize // 8

    @property
    def chain(self) -> tuple[int, str]:
        """What products on one accumulator have in common that need no fence between them."""
        return self.columns, self.d


def form_of(insn: PtxInstruction, target: str) -> WarpgroupForm:
    """The form that name and operands say. Raises UnknownForm for what there is not, and for shapes not known here."""
    name = ".".join(insn.name)
    if target != "sm_90a":
        raise UnknownForm(f"{name} on {target}: it exists on sm_90a only")
    words = tuple(w for w in insn.name[2:] if w != "satfinite")
    saturates = insn.has("satfinite")
    if words[-4:] == ("b1", "b1", "and", "popc"):
        words = words[:-2]
    if len(words) != 6 or words[:2] != ("sync", "aligned"):
        raise UnknownForm(f"the form {name}")
    shape, d, a, b = words[2:]
    columns, _, depth = shape.removeprefix(f"m{ROWS}n").partition("k")
    allowed = _INTEGER_COLUMNS if d == "s32" else _FLOAT_COLUMNS
    if (
        d not in _RESULTS.get((a, b), ())
        or not (columns.isdigit() and depth.isdigit())
        or int(columns) not in allowed
        or int(depth) != 8 * DEPTH // ELEMENT_BITS[a]
        or (saturates and (d != "s32" or a == "b1"))
        or (a == "b1" and insn.name[-2:] != ("and", "popc"))
    ):
        raise UnknownForm(f"the form {name}")
    in_registers = isinstance(insn.operands[1], Vector)
    signs, transposed = _immediates(insn, d, a, in_registers)
    negates = signs[0] * signs[1] < 0
    return WarpgroupForm(int(columns), int(depth), d, a, b, in_registers, saturates, negates, *transposed)


def _immediates(insn: PtxInstruction, d: str, a: str, in_registers: bool) -> tuple[tuple[int, int], tuple[bool, bool]]:
    """The signs of A and B, and whether each is transposed: the operands after the predicate scale-d."""
    tail = [_immediate(o, insn) for o in insn.operands[4:]]
    transposes = (not in_registers) + 1 if ELEMENT_BITS[a] == 16 else 0
    if len(tail) != (0 if d == "s32" else 2 + transposes):
        raise UnknownForm(f"the operands of {insn.text}")
    if d == "s32":
        return (1, 1), (False, False)
    signs, bits = (tail[0], tail[1]), tail[2:]
    if not set(signs) <= {1, -1} or not set(bits) <= {0, 1}:
        raise UnknownForm(f"imm-scale other than 1 and -1, or a transposition other than 0 and 1, in {insn.text}")
    if not bits:
        return signs, (False, False)
    return signs, (bool(bits[0]) and not in_registers, bool(bits[-1]))


def _immediate(operand: Operand, insn: PtxInstruction) -> int:
    if not isinstance(operand, Immediate):
        raise UnknownForm(f"the operands of {insn.text}")
    return operand.value
