"""The short printed form of kernel IR: what tests, errors and `show` print. One line a statement, blocks indented.

    kernel grid (528, 1, 1) block (128, 1, 1) shared 32784 bytes aligned to 128, 32-bit indices
      map_i0_s: tensor map of tensor 0, bf16 dims (4096, 8192) strides (8192) bytes, box (256, 2)
      v0: bf16 global, tensor 1, written

    init barriers: 2 from byte 32768, prefetch map_i0_s
    for k0 < 24:
      elected:
        expect 1024 bytes on barrier[(k0 % 2) * 8 + 32768]
        tma load i0_s@[(k0 % 2) * 16384] = map_i0_s(0, k0 * 2), 1024 bytes on barrier[(k0 % 2) * 8 + 32768]

`x[i +: n]` are the `n` elements from `i`; `t@[b]` is byte `b` of dynamic shared memory, in tensor `t`, and
`t@[l | c]` lane `l`, column `c` of the block's tensor memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from compiler.analysis.memory.matrix import matrices_in
from compiler.arch import TMEM_COLUMN_BITS
from compiler.ir.expr import Expr, const
from compiler.ir.fusion import Number
from compiler.ir.ops import MathGrade
from compiler.ir.printer import numbers_text
from compiler.ir.tensor import CachePolicy
from compiler.lower.grid_ir import (
    AwaitTold,
    DealtShare,
    DealtSteps,
    PartsBehind,
    ScratchLoad,
    ScratchPointer,
    ScratchStore,
    Tell,
)
from compiler.lower.kernel_ir import (
    Accumulate,
    AccumulateRun,
    BulkLoad,
    BulkStore,
    Compute,
    Convert,
    CopyAsync,
    Declare,
    Elected,
    Fill,
    GlobalLoad,
    GlobalStore,
    If,
    Index,
    Kernel,
    Loop,
    MatrixLoad,
    MatrixStore,
    Opaque,
    RemoteStore,
    ScanLanes,
    ScanRun,
    SharedLoad,
    SharedStore,
    Shuffle,
    Stmt,
    TmaLoad,
    TmaStore,
)
from compiler.lower.mma_ir import (
    CommitMma,
    HoldRegisters,
    MatrixPlace,
    Mma,
    MmaAsync,
    MmaFence,
    MmaStmt,
    TensorMma,
    WaitMma,
)
from compiler.lower.operands import Barrier, Less, ListTable, NumberParameter, Pointer, Reg, Shared, TensorMap, Tmem
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
from compiler.lower.tmem_ir import (
    TmemAddress,
    TmemAllocate,
    TmemCommit,
    TmemCopy,
    TmemDeallocate,
    TmemFenceAfter,
    TmemFenceBefore,
    TmemLoad,
    TmemRelinquish,
    TmemShift,
    TmemStmt,
    TmemStore,
    Unpack,
    WaitTmemLoads,
    WaitTmemStores,
)
from compiler.lower.whole_ir import Divisor, WholeNumber


def kernel_ir_text(kernel: Kernel) -> str:
    """A kernel: how it is launched, its parameters in order, then its statements."""
    smem = f" shared {kernel.smem_bytes} bytes aligned to {kernel.smem_align}," if kernel.smem_bytes else ""
    launched = f"grid {numbers_text(kernel.grid)} block {numbers_text(kernel.block)}"
    head = f"kernel {launched}{smem} {kernel.index_bits}-bit indices"
    if kernel.tmem_columns:
        head += f", {kernel.tmem_columns} columns of tensor memory"
    if kernel.cluster > 1:
        head += f", clusters of {kernel.cluster}"
    if kernel.max_registers is not None:
        head += f", at most {kernel.max_registers} registers a thread"
    parameters = [*map(_pointer, kernel.pointers), *map(_tensor_map, kernel.tensor_maps), *map(_number, kernel.numbers)]
    parameters += [_list_table(kernel.table)] if kernel.table is not None else []
    parameters += map(_scratch, kernel.scratch)
    return "\n".join([head, *(f"  {p}" for p in parameters), "", statements_text(kernel.body)])


def statements_text(body: Iterable[Stmt]) -> str:
    """Statements alone, as they stand in `kernel_ir_text`."""
    return "\n".join(line for s in body for line in _lines(s))


def _lines(s: Stmt) -> list[str]:
    match s:
        case Declare():
            return [f"declare {s.name}: {s.dtype}[{s.elems}]"]
        case Loop():
            first = "" if s.start == const(0) else f"{_free(s.start)} <= "
            return [
                f"{'unroll' if s.unroll else 'for'} {first}{s.var} < {_free(s.trip)}{_at_most(s)}:",
                *_block(s.body),
            ]
        case If():
            otherwise = ["else:", *_block(s.orelse)] if s.orelse else []
            return [f"if {_all(s.conditions)}:", *_block(s.then), *otherwise]
        case Elected():
            return ["elected:", *_block(s.body)]
        case GlobalLoad():
            across = f"{' across words' if s.straddles else ''}{' written too' if s.is_written else ''}"
            access = f"{_reg(s.target, s.width)} = {s.tensor}[{_range(s.offset, s.width)}]{across}"
            within = f" within {_all(s.within)}" if s.within else ""
            rows = "".join(f", {r.var} = {_reg(r.index, 1)} < {r.extent}, number {_free(r.number)}" for r in s.rows)
            return [f"load {access}{_cache(s.cache)}{_guards(s.guards, s.tail, s.head)}{within}{rows}"]
        case GlobalStore():
            access = f"{s.tensor}[{_range(s.offset, s.width)}] = {_reg(s.source, s.width)}"
            return [f"store {access}{_cache(s.cache)}{_guards(s.guards, s.tail, s.head)}"]
        case CopyAsync():
            access = f"{_shared(s.target)} = {s.tensor}[{_range(s.offset, s.width)}]"
            within = f" within {_all(s.within)}" if s.within else ""
            return [f"copy async {access}{_cache(s.cache)}{_guards(s.guards, s.tail)}{within}"]
        case CommitCopies():
            return ["commit copies"]
        case WaitCopies():
            return [f"wait copies, {_groups(s.pending)} pending"]
        case SharedLoad():
            return [f"load {_reg(s.target, s.width)} = {_shared(s.source)}"]
        case SharedStore():
            return [f"store {_shared(s.target)} = {_reg(s.source, s.width)}"]
        case MatrixLoad():
            return [f"load {_reg(s.target, s.width)} = {_matrices(s)} at {_shared(s.source)}"]
        case MatrixStore():
            return [f"store {_matrices(s)} at {_shared(s.target)} = {_reg(s.source, s.width)}"]
        case Compute():
            grade = "" if s.grade is MathGrade.EXACT else f" grade {s.grade}"
            operands = [*map(_operand, s.operands), *([] if s.element is None else [f"element {_free(s.element)}"])]
            if s.call is not None:
                operands.append(f"{s.call.group} turns of {s.call.turn} by {s.call.words}")
            return [f"{_typed(s.target)} = {s.kind}({', '.join(operands)}){grade}"]
        case Convert():
            return [f"convert {_typed(s.target, s.width)} = {_typed(s.source, s.width)}"]
        case Divisor():
            return [f"{s.name} = divisor {_operand(s.value)}, {s.low} to {s.high}"]
        case WholeNumber():
            by = f" / {s.divisor}" if s.divisor else ""
            return [f"{_typed(s.target)} = whole number {_reg(s.source)}{by}, {s.low} to {s.high}"]
        case Index():
            return [f"{_typed(s.target)} = index {_free(s.value)}"]
        case Fill():
            return [f"fill {s.name}: start of {s.kind}"]
        case Accumulate():
            guards = f" if {_all(s.guards)}" if s.guards else ""
            return [f"{_typed(s.target)} = {s.kind} with {_reg(s.source)}{guards}"]
        case AccumulateRun():
            sizes = "the size of " if s.of_sizes else ""
            return [f"{_typed(s.target)} = {s.kind} with {sizes}each of {_reg(s.source, s.width)}"]
        case Opaque():
            return [f"forget {s.name}"]
        case Shuffle():
            return [f"shuffle {s.name} = {s.kind} over lanes at {numbers_text(s.masks)} of {s.members:#x}"]
        case ScanLanes():
            sums = f"{_reg(s.before)}, {_reg(s.total)} = sums before lane {_free(s.lane)} of {s.lanes}, and of all"
            return [f"{sums}, of {_reg(s.source, s.width)} of {s.members:#x}"]
        case ScanRun():
            which = "before" if s.is_exclusive else "up to"
            sums = f"{_typed(s.target, s.width)} = sums {which} each of {_reg(s.source, s.width)}"
            return [f"{sums} from {_reg(s.running)} on"]
        case RemoteStore():
            return [
                f"store block {_free(s.rank)} {_shared(s.target)} = {_reg(s.source, s.width)} on {_barrier(s.barrier)}"
            ]
        case ClusterArrive():
            return [f"cluster arrive{' releasing' if s.releases else ''}"]
        case ClusterWait():
            return ["cluster wait"]
        case TmaLoad():
            tile = f"{_shared(s.target)} = {s.tensor_map}({_exprs(s.coordinates)})"
            return [f"tma load {tile}, {s.nbytes} bytes on {_barrier(s.barrier)}{_blocks(s)}"]
        case TmaStore():
            return [f"tma store {s.tensor_map}({_exprs(s.coordinates)}) = {_shared(s.source)}, {s.nbytes} bytes"]
        case BulkLoad():
            run = f"{_shared(s.target)} = {s.tensor}[{_free(s.offset)}]"
            return [f"bulk load {run}, {s.nbytes} bytes on {_barrier(s.barrier)}{_blocks(s)}"]
        case BulkStore():
            return [f"bulk store {s.tensor}[{_free(s.offset)}] = {_shared(s.source)}, {s.nbytes} bytes"]
        case InitBarriers():
            prefetch = f", prefetch {', '.join(s.tensor_maps)}" if s.tensor_maps else ""
            arrivals = f" of {numbers_text(s.arrivals)} arrivals" if s.arrivals else ""
            fence = "" if s.fenced else ", no fence"
            return [f"init barriers: {s.count} from byte {s.byte_offset}{arrivals}{prefetch}{fence}"]
        case ExpectBytes():
            return [f"expect {s.nbytes} bytes on {_barrier(s.barrier)}"]
        case AddBytes():
            return [f"expect {s.nbytes} bytes more on {_barrier(s.barrier)}"]
        case Arrive():
            unfenced = " unfenced" if s.by_mma else ""
            blocks = f" in {s.blocks} blocks" if s.blocks > 1 else ""
            return [f"{'warps ' if s.of_warp else ''}arrive {_barrier(s.barrier)}{unfenced}{blocks}"]
        case SyncPart():
            group = f" of group {_free(s.group)}" if s.group != Expr() else ""
            return [f"sync {s.threads} threads at barrier {s.number}{group}"]
        case SetRegisters():
            return [f"{'raise' if s.more else 'lower'} registers from {s.before} to {s.count}"]
        case WaitBarrier():
            return [f"wait {_barrier(s.barrier)} parity {_free(s.parity)}"]
        case Sync():
            return ["sync"]
        case FenceAsync():
            return ["fence async"]
        case CommitStores():
            return ["commit stores"]
        case WaitStores():
            return ["wait stores"]
        case Mma() | MmaAsync() | MmaFence() | CommitMma() | WaitMma() | HoldRegisters() | TensorMma():
            return [_by_tensor_cores(s)]
        case PartsBehind():
            return [f"parts {s.count}: {_free(s.value)}"]
        case DealtShare():
            first, last = (f"{e} / {s.blocks}" for e in (s.first, s.last))
            return [f"share {s.begin} to {s.end}: {first} to {last}"]
        case DealtSteps():
            share = f"[{_free(s.begin)}, {_free(s.end)})"
            return [f"steps {s.first} to {s.stop}: of {s.steps} from {_free(s.at)} on those in {share}"]
        case AwaitTold():
            return [f"await {s.told}[{_free(s.place)}]"]
        case Tell():
            return [f"tell {s.told}[{_free(s.place)}]"]
        case ScratchLoad():
            return [f"load {_reg(s.target, s.width)} = {s.scratch}[{_range(s.offset, s.width)}]"]
        case ScratchStore():
            return [f"store {s.scratch}[{_range(s.offset, s.width)}] = {_reg(s.source, s.width)}"]
        case _:
            return [_on_tensor_memory(s)]


def _by_tensor_cores(s: MmaStmt) -> str:
    match s:
        case MmaAsync():
            left = _reg(s.left, 1) if isinstance(s.left, Reg) else _matrix(s.left)
            product = f"{left} @ {_matrix(s.right)} + itself unless {_free(s.adds)} is 0"
            return f"mma {_reg(s.target, s.instruction.held)} = {product}, {s.instruction}"
        case Mma():
            left, right, target = (_reg(r, 1) for r in (s.left, s.right, s.target))
            return f"mma {target} = {left} @ {right} + itself, {s.instruction}"
        case TensorMma():
            product = f"{_matrix(s.left)} @ {_matrix(s.right)} + itself unless {_free(s.adds)} is 0"
            return f"mma {_tmem(s.target)} = {product}, {s.instruction}"
        case MmaFence():
            return "mma fence"
        case CommitMma():
            return "commit mma"
        case WaitMma():
            return f"wait mma, {_groups(s.pending)} pending"
        case HoldRegisters():
            return f"hold {s.name}"
        case _:
            assert_never(s)


def _matrix(m: MatrixPlace) -> str:
    swizzle = f" {m.span}B" if m.span else ""
    rows = " rows side by side" if m.is_transposed else ""
    return f"{_shared(m.place)}{swizzle}{rows}, leading {m.leading} stride {m.stride}"


def _on_tensor_memory(s: TmemStmt) -> str:
    match s:
        case TmemAllocate():
            return f"tmem allocate {s.columns} columns, address to byte {s.byte_offset}"
        case TmemRelinquish():
            return "tmem relinquish"
        case TmemAddress():
            return f"tmem address from byte {s.byte_offset}"
        case TmemDeallocate():
            return f"tmem deallocate {s.columns} columns"
        case TmemLoad():
            return f"tmem load {_words(s.target, s.registers)} = {_form(s)} at {_tmem(s.source)}"
        case TmemStore():
            return f"tmem store {_form(s)} at {_tmem(s.target)} = {_words(s.source, s.registers)}"
        case TmemCopy():
            rows = f"{s.row_bytes} bytes a lane, leading {s.leading} stride {s.stride}"
            return f"tmem copy {_tmem(s.target)} = {_shared(s.source)}, {rows}"
        case TmemCommit():
            return f"tmem commit {_barrier(s.barrier)}"
        case TmemShift():
            return f"tmem shift rows at {_tmem(s.rows)}"
        case Unpack():
            return f"unpack {_reg(s.target)} = {_reg(s.source)}, {s.nbytes} bytes"
        case WaitTmemLoads():
            return "wait tmem loads"
        case WaitTmemStores():
            return "wait tmem stores"
        case TmemFenceBefore():
            return "tmem fence before sync"
        case TmemFenceAfter():
            return "tmem fence after sync"
        case _:
            assert_never(s)


def _form(s: TmemLoad | TmemStore) -> str:
    apart = f" halves {s.half_offset} apart" if s.half_offset is not None else ""
    return f"{s.pattern} x{s.repeats}{apart}"


def _tmem(place: Tmem) -> str:
    return f"{place.tensor}@[{_free(place.lane)} | {_free(place.column)}]"


def _words(r: Reg, words: int) -> str:
    """Registers that so many words of 4 bytes come to."""
    return _reg(r, words * TMEM_COLUMN_BITS // r.dtype.nbits)


def _block(body: Iterable[Stmt]) -> list[str]:
    return ["  " + line for s in body for line in _lines(s)]


def _pointer(p: Pointer) -> str:
    alias = ", at the address of another" if p.is_alias else ""
    return f"{p.name}: {p.dtype} global, tensor {p.position}, {'written' if p.written else 'read'}{alias}"


def _scratch(p: ScratchPointer) -> str:
    return f"{p.name}: {p.dtype} scratch, {p.nbytes} bytes{', zeroed' if p.is_zeroed else ''}"


def _tensor_map(m: TensorMap) -> str:
    strides = f" strides {numbers_text(m.strides_bytes)} bytes" if m.strides_bytes else ""
    swizzle = f", swizzle {m.swizzle} bytes" if m.swizzle else ""
    every = f" element strides {numbers_text(m.element_strides)}" if set(m.element_strides) - {1} else ""
    dims = f"{m.element} dims {numbers_text(m.dims)}{strides}, box {numbers_text(m.box)}{every}{swizzle}"
    return f"{m.name}: tensor map of tensor {m.position}, {dims}"


def _list_table(t: ListTable) -> str:
    pointers = ", ".join(" in ".join(map(str, pointer)) for pointer in t.pointers)
    rows = f"{t.rows} rows of {', '.join(t.slots)}"
    single = f"; single elements: {numbers_text(t.single)}" if t.single else ""
    return f"table of lists: slots {pointers}; {rows}; chunks of {t.chunk} elements, words of {t.step}{single}"


def _at_most(s: Loop) -> str:
    """The variable's own extent, where the trip count may stay below it."""
    return "" if s.trip.is_const and s.trip.const == s.var.extent else f", at most {s.var.extent}"


def _cache(policy: CachePolicy) -> str:
    return "" if policy is CachePolicy.DEFAULT else f" cache {policy}"


def _guards(guards: Sequence[Less], tail: Less | None, head: Less | None = None) -> str:
    text = f" if {_all(guards)}" if guards else ""
    ends = [c for c in (head, tail) if c is not None]
    return f"{text} each lane if {_all(ends)}" if ends else text


def _number(p: NumberParameter) -> str:
    return f"{p.name}: {p.dtype} by value, scalar {p.position}"


def _all(conditions: Iterable[Less]) -> str:
    return " and ".join(map(str, conditions))


def _reg(r: Reg, width: int = 1) -> str:
    return f"{r.name}[{_range(r.offset, width)}]"


def _typed(r: Reg, width: int = 1) -> str:
    return f"{_reg(r, width)}: {r.dtype}"


def _operand(x: Reg | Number) -> str:
    return str(x) if isinstance(x, Number) else _typed(x)


def _shared(place: Shared) -> str:
    return f"{place.tensor}@[{_free(place.byte_offset)}]"


def _matrices(s: MatrixLoad | MatrixStore) -> str:
    count = matrices_in(s.width, (s.target if isinstance(s, MatrixLoad) else s.source).dtype.nbytes)
    return f"{count} {'transposed ' if s.is_transposed else ''}matri{'x' if count == 1 else 'ces'}"


def _blocks(s: TmaLoad | BulkLoad) -> str:
    return f" of each of {s.blocks} blocks" if s.blocks > 1 else ""


def _barrier(b: Barrier) -> str:
    if not b.name:
        return f"barrier[{_free(b.byte_offset)}]"
    return f"{b.name}[{_bare(_free(b.place))}]"


def _bare(words: str) -> str:
    """Without brackets around all of it."""
    depth = 0
    for at, letter in enumerate(words):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return words[1:-1] if at and at == len(words) - 1 else words
    return words


def _range(offset: Expr, width: int) -> str:
    return _free(offset) if width == 1 else f"{_free(offset)} +: {width}"


def _exprs(exprs: Iterable[Expr]) -> str:
    return ", ".join(map(_free, exprs))


def _free(e: Expr) -> str:
    """An expression where no operator stands beside it: without the brackets of a sum."""
    text = str(e)
    return text[1:-1] if len(e.terms) + bool(e.const) > 1 else text


def _groups(count: int) -> str:
    return "1 group" if count == 1 else f"{count} groups"
