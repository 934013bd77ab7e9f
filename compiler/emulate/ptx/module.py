"""PTX as data: module, functions, instructions, operands (PTX ISA 9.0, chapters 4 to 6 and 11)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class StateSpace(StrEnum):
    """State spaces (PTX ISA, "State Spaces"). GENERIC is an address without a space."""

    GENERIC = "generic"
    GLOBAL = "global"
    SHARED = "shared"
    CONST = "const"
    LOCAL = "local"
    PARAM = "param"


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the CUDA source, from `.loc`; `file` as `.file` names it."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Register:
    """A register. `index` numbers the registers of its function densely; two scopes may hold one name twice.

    `type` is the declared type without the dot: pred, b8 .. b128, u.., s.., f...
    """

    name: str
    type: str
    index: int

    @property
    def nbits(self) -> int:
        """Its width; 1 for a predicate."""
        return 1 if self.type == "pred" else int(self.type.lstrip("bsuf"))


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant. An integer is kept as written (it may be negative), a float as the bits of `0f` or `0d`.

    `kind` is "int", "f32" or "f64"; a decimal such as 1.5 is f64 bits and is rounded to the type that reads it.
    """

    value: int
    kind: str = "int"


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as `%tid.x`, `%laneid`, `%clock64`, with its component."""

    name: str


@dataclass(frozen=True, slots=True)
class PtxSymbol:
    """The name of a variable, a kernel parameter or a function; `offset` bytes past it (`name+4`)."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class LabelRef:
    """A branch target, resolved to the index of the instruction that it stands before (may be one past the last)."""

    name: str
    target: int


@dataclass(frozen=True, slots=True)
class Negated:
    """`!p`, or a negated b32 in `lop3`-like forms: only predicates are negated here."""

    register: Register


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a result that nobody takes."""


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, c, d}`."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`d|p`: two results."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`, or `[map, {c0, c1}]` of tensor copies: then `coordinates`, innermost first, and maybe `extra`
    operands (im2col offsets)."""

    base: Register | PtxSymbol | Immediate
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()
    extra: tuple[Operand, ...] = ()


Operand = Register | Immediate | Special | PtxSymbol | LabelRef | Negated | Sink | Vector | Pair | Address


@dataclass(frozen=True, slots=True)
class PtxInstruction:
    """One instruction. `name` is split at the dots: `ld.global.v4.b32` is ("ld", "global", "v4", "b32").

    `guard` is the predicate of `@p` or `@!p`. `ptx_line` counts from 1. `text` is the instruction as written, in one
    line, without guard or semicolon. `used_bytes`: of a load, a bit for each byte that the program looks at
    (`.pragma "used_bytes_mask 31"`: PTX ISA, "Pragma Strings"); the others may be padding that nobody wrote. None: all.
    """

    name: tuple[str, ...]
    operands: tuple[Operand, ...]
    ptx_line: int
    text: str
    guard: Register | None = None
    guard_negated: bool = False
    source: SourceLine | None = None
    used_bytes: int | None = None

    @property
    def opcode(self) -> str:
        """The first word."""
        return self.name[0]

    def has(self, *modifiers: str) -> bool:
        """Whether any of these stands in the name after the opcode."""
        return any(m in self.name[1:] for m in modifiers)


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable or parameter. `initial` are its bytes, zero-padded to `nbytes`; None without an initialiser.

    An initialiser may hold addresses of other variables: (byte offset, symbol) in `relocations`. `nbytes` is 0 for
    `.extern .shared x[]`, which starts the dynamic shared memory.
    """

    name: str
    space: StateSpace
    type: str
    align: int
    nbytes: int
    initial: bytes | None = None
    relocations: tuple[tuple[int, PtxSymbol], ...] = ()
    is_extern: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel (`is_entry`) or a device function. `variables` are the shared, local and param ones declared inside.

    `directives` holds `.maxntid`, `.reqntid`, `.minnctapersm`, `.maxnreg`, `.reqnctapercluster`, `.explicitcluster`…
    as name -> numbers. `branch_tables` are `.branchtargets`: label -> instruction indices. `results` are the return
    parameters of a device function.
    """

    name: str
    is_entry: bool
    params: tuple[Variable, ...]
    registers: tuple[Register, ...]
    variables: tuple[Variable, ...]
    instructions: tuple[PtxInstruction, ...]
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    branch_tables: dict[str, tuple[int, ...]] = field(default_factory=dict)
    results: tuple[Variable, ...] = ()
    is_defined: bool = True


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX module: `version` such as (9, 0), `target` such as sm_90a, module-scope variables, functions by name."""

    version: tuple[int, int]
    target: str
    variables: tuple[Variable, ...]
    functions: dict[str, Function]
    files: dict[int, str]
