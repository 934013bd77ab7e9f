"""Kernel IR: statements of one CUDA kernel, every decision made. The emitter prints it, the cost model counts it.

Offsets are element offsets unless the name says bytes. Expressions range over block, thread and loop variables.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.dtypes import DType
from compiler.ir.expr import Expr, Var, const
from compiler.ir.fusion import Number
from compiler.ir.ops import MathGrade, OpKind
from compiler.ir.tensor import CachePolicy
from compiler.lower.grid_ir import GridStmt, ScratchPointer
from compiler.lower.mma_ir import MmaStmt
from compiler.lower.operands import (
    Barrier,
    ChosenRow,
    Less,
    ListTable,
    NumberParameter,
    Pointer,
    Reg,
    Shared,
    TensorMap,
)
from compiler.lower.sync_ir import (
    AddBytes,
    Arrive,
    ClusterArrive,
    ClusterWait,
    CommitCopies,
    CommitStores,
    ExpectBytes,
    FenceAsync,
    InitBarriers,
    SetRegisters,
    Sync,
    SyncPart,
    WaitBarrier,
    WaitCopies,
    WaitStores,
)
from compiler.lower.tmem_ir import TmemStmt
from compiler.lower.whole_ir import Divisor, WholeNumber

_FROM_THE_FIRST = const(0)


@dataclass(frozen=True, slots=True)
class Declare:
    """A register array of `elems` elements, live to the end of the enclosing body."""

    name: str
    dtype: DType
    elems: int


@dataclass(frozen=True, slots=True)
class Loop:
    """for var in [start, trip): body. `usual`: how often that is in most blocks, where these do not tell."""

    var: Var
    trip: Expr
    unroll: bool
    body: tuple[Stmt, ...]
    start: Expr = _FROM_THE_FIRST
    usual: int | None = None


@dataclass(frozen=True, slots=True)
class If:
    """All conditions hold: then; otherwise: orelse."""

    conditions: tuple[Less, ...]
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class Elected:
    """One thread of the block executes the body."""

    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class GlobalLoad:
    """Loads `width` elements where `guards` and `within` hold; else the registers are zero.

    `tail`: a condition on the lane variable: where only some lanes satisfy it, those are loaded one by one; `head`: the
    same of the first lanes, which may lie before a run. `straddles`: the vector begins at any element, and the two
    aligned ones are loaded that it has parts of; `skipped`: the elements of the first of them before the vector, where
    the tensor itself is aligned, so that they follow from `offset`.
    `within`: what part of the iteration space the source covers, which no choice of tile makes always true.
    `is_written`: the kernel writes this memory too, an output that lies in the input.
    `rows`: what stands in `offset` for indices that are data; they are looked at where something is loaded.
    """

    target: Reg
    tensor: str
    offset: Expr
    width: int
    cache: CachePolicy
    guards: tuple[Less, ...] = ()
    tail: Less | None = None
    within: tuple[Less, ...] = ()
    head: Less | None = None
    straddles: bool = False
    skipped: Expr | None = None
    is_written: bool = False
    rows: tuple[ChosenRow, ...] = ()

    @property
    def ends(self) -> tuple[Less, ...]:
        """What must hold for the vector to be loaded as one: its first and last lane lie inside the run."""
        return _ends(self.head, 0, self.tail, self.width - 1)

    @property
    def some(self) -> tuple[Less, ...]:
        """What must hold for some lane to be loaded."""
        return (*self.guards, *self.within, *_ends(self.head, self.width - 1, self.tail, 0))


@dataclass(frozen=True, slots=True)
class GlobalStore:
    """Stores `width` elements where `guards` hold; `tail` and `head` as in `GlobalLoad`."""

    source: Reg
    tensor: str
    offset: Expr
    width: int
    cache: CachePolicy
    guards: tuple[Less, ...] = ()
    tail: Less | None = None
    head: Less | None = None

    @property
    def ends(self) -> tuple[Less, ...]:
        """What must hold for the vector to be stored as one: its first and last lane lie inside the run."""
        return _ends(self.head, 0, self.tail, self.width - 1)


def _ends(head: Less | None, first: int, tail: Less | None, last: int) -> tuple[Less, ...]:
    asked = ((head, first), (tail, last))
    return tuple(Less(at_lane(c.left, n), at_lane(c.right, n)) for c, n in asked if c is not None)


def at_lane(e: Expr, lane: int) -> Expr:
    """The expression at one lane of a vector."""
    return e.substitute({v: const(lane) for v in e.variables if v.name == "lane"})


@dataclass(frozen=True, slots=True)
class CopyAsync:
    """A thread's copy of `width` elements, global -> shared, by cp.async: under way until `WaitCopies`.

    Guards, `tail` and `within` as in `GlobalLoad`: zeros arrive for elements that do not satisfy them, which are not
    read (PTX ISA, cp.async: src-size).
    """

    target: Shared
    tensor: str
    offset: Expr
    width: int
    cache: CachePolicy
    guards: tuple[Less, ...] = ()
    tail: Less | None = None
    within: tuple[Less, ...] = ()

    @property
    def ends(self) -> tuple[Less, ...]:
        """What must hold for all of the elements to be read: the last lane lies inside the run."""
        return _ends(None, 0, self.tail, self.width - 1)


@dataclass(frozen=True, slots=True)
class SharedLoad:
    """Loads `width` elements from shared memory."""

    target: Reg
    source: Shared
    width: int


@dataclass(frozen=True, slots=True)
class SharedStore:
    """Stores `width` elements to shared memory."""

    source: Reg
    target: Shared
    width: int


@dataclass(frozen=True, slots=True)
class MatrixLoad:
    """The lanes of a warp load matrices of 8 x 8 elements of 16 bits together, `width` elements a lane: two of each.
    Two bytes stand for one such element.

    `source` is the row whose address the lane gives: lane 8 * i + r row r of matrix i. In place 2 * i + b of its
    vector lane t receives of matrix i the element of row t / 4, column 2 * (t % 4) + b, or with `is_transposed` that of
    row 2 * (t % 4) + b, column t / 4 (PTX ISA, ldmatrix).
    """

    target: Reg
    source: Shared
    width: int
    is_transposed: bool


@dataclass(frozen=True, slots=True)
class MatrixStore:
    """The same way back: lanes store the elements that they hold to the rows that they name (PTX ISA, stmatrix)."""

    source: Reg
    target: Shared
    width: int
    is_transposed: bool


@dataclass(frozen=True, slots=True)
class SharedCall:
    """The call of a generator that `group` turns of an unrolled loop share: the first of them makes its `words`."""

    words: str
    group: int
    turn: Var


@dataclass(frozen=True, slots=True)
class Compute:
    """target = kind(operands), one element; half-precision operands are widened to f32 and the result rounded.

    `element`: of a RAND, the number of the one that is drawn; `call`, where it is shared with neighbours.
    """

    kind: OpKind
    target: Reg
    operands: tuple[Reg | Number, ...]
    grade: MathGrade
    element: Expr | None = None
    call: SharedCall | None = None


@dataclass(frozen=True, slots=True)
class Index:
    """target = value: an index, in the type of the register."""

    target: Reg
    value: Expr


@dataclass(frozen=True, slots=True)
class Fill:
    """Every element of a register array becomes what a fold of this kind starts from."""

    name: str
    dtype: DType
    elems: int
    kind: OpKind


@dataclass(frozen=True, slots=True)
class Accumulate:
    """target = kind(target, source) where all guards hold."""

    kind: OpKind
    target: Reg
    source: Reg
    guards: tuple[Less, ...] = ()


@dataclass(frozen=True, slots=True)
class AccumulateRun:
    """target = kind(target, source[i]) for i < width, in any order and in packed instructions; the width is even.

    `of_sizes`: of the elements without their signs, in a target of f32.
    """

    kind: OpKind
    target: Reg
    source: Reg
    width: int
    of_sizes: bool = False


@dataclass(frozen=True, slots=True)
class Opaque:
    """The compiler forgets what it knows of a register array: what it computed of the values is computed again."""

    name: str
    dtype: DType
    elems: int


@dataclass(frozen=True, slots=True)
class Shuffle:
    """x = kind(x, x of the lane at distance `mask`), for each mask in turn and each element x of a register array.

    Masks are powers of two, each twice the one before. All lanes of `members` come here together and end with the same
    bits (PTX ISA, shfl.sync.bfly).
    """

    kind: OpKind
    name: str
    dtype: DType
    elems: int
    masks: tuple[int, ...]
    members: int


@dataclass(frozen=True, slots=True)
class ScanLanes:
    """before = the sum of all elements that lanes before this one have, of each `width` from source on; total = that of
    all `lanes` neighbours, of which the thread is number `lane`.

    All lanes of `members` come here together (PTX ISA, shfl.sync.up).
    """

    before: Reg
    total: Reg
    source: Reg
    width: int
    lanes: int
    lane: Expr
    members: int


@dataclass(frozen=True, slots=True)
class ScanRun:
    """For i < width: running += source[i], and target[i] = running after that, or before it where `is_exclusive`."""

    running: Reg
    target: Reg
    source: Reg
    width: int
    is_exclusive: bool


@dataclass(frozen=True, slots=True)
class RemoteStore:
    """Stores `width` elements to the same place of the shared memory of block `rank` of the cluster, and completes
    their bytes on that block's barrier. Elements of less than 4 bytes take 4 there, and go one by one.
    """

    source: Reg
    target: Shared
    rank: Expr
    width: int
    barrier: Barrier


@dataclass(frozen=True, slots=True)
class Convert:
    """target[i] = source[i] in the target's type for i < width, in packed instructions where there are any."""

    target: Reg
    source: Reg
    width: int


@dataclass(frozen=True, slots=True)
class TmaLoad:
    """A tensor-map tile, global -> shared, completing on `barrier`. Coordinates innermost first.

    `blocks`: of the cluster, to which one copy brings the tile, each completing on its own barrier (PTX ISA,
    cp.async.bulk.tensor: multicast::cluster).
    """

    target: Shared
    tensor_map: str
    coordinates: tuple[Expr, ...]
    barrier: Barrier
    nbytes: int
    blocks: int = 1


@dataclass(frozen=True, slots=True)
class TmaStore:
    """A tensor-map tile, shared -> global."""

    source: Shared
    tensor_map: str
    coordinates: tuple[Expr, ...]
    nbytes: int


@dataclass(frozen=True, slots=True)
class BulkLoad:
    """`nbytes` contiguous bytes, global -> shared, completing on `barrier`; `blocks` as in `TmaLoad`."""

    target: Shared
    tensor: str
    offset: Expr
    barrier: Barrier
    nbytes: int
    blocks: int = 1


@dataclass(frozen=True, slots=True)
class BulkStore:
    """`nbytes` contiguous bytes, shared -> global."""

    source: Shared
    tensor: str
    offset: Expr
    nbytes: int


Stmt = (
    Declare
    | Loop
    | If
    | Elected
    | GlobalLoad
    | GlobalStore
    | CopyAsync
    | CommitCopies
    | WaitCopies
    | SharedLoad
    | SharedStore
    | MatrixLoad
    | MatrixStore
    | Compute
    | Index
    | Fill
    | Accumulate
    | AccumulateRun
    | Opaque
    | Shuffle
    | ScanLanes
    | ScanRun
    | RemoteStore
    | ClusterArrive
    | ClusterWait
    | Convert
    | Divisor
    | WholeNumber
    | TmaLoad
    | TmaStore
    | BulkLoad
    | BulkStore
    | InitBarriers
    | ExpectBytes
    | AddBytes
    | Arrive
    | WaitBarrier
    | Sync
    | SyncPart
    | SetRegisters
    | FenceAsync
    | CommitStores
    | WaitStores
    | TmemStmt
    | MmaStmt
    | GridStmt
)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel: pointers, tensor maps, numbers and scratch memory, its parameters in this order; launch shape,
    dynamic shared memory, statements.

    `cluster`: blocks of a cluster, neighbours in x; `grid` counts all blocks. `tmem_columns`: of tensor memory, that a
    block allocates.
    """

    pointers: tuple[Pointer, ...]
    tensor_maps: tuple[TensorMap, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    smem_bytes: int
    smem_align: int
    max_registers: int | None
    index_bits: int
    body: tuple[Stmt, ...]
    cluster: int = 1
    tmem_columns: int = 0
    numbers: tuple[NumberParameter, ...] = ()
    table: ListTable | None = None
    scratch: tuple[ScratchPointer, ...] = ()

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]
