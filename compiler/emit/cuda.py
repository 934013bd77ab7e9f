"""Prints a kernel as CUDA C++: one statement of kernel IR, one function, one template with the shape of its output.

The entry's name is fixed and nothing of the candidate stands in the text: equal schedules give equal machine code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from compiler.analysis.loops.loop_nest import WARP_VAR
from compiler.analysis.memory.matrix import matrices_in
from compiler.analysis.memory.resources import blocks_with_room
from compiler.arch import REGISTER_BYTES, WARP_THREADS
from compiler.emit.accesses import CACHE, global_load, global_store, straddling_load
from compiler.emit.address import address
from compiler.emit.bulk_loads import bulk_load
from compiler.emit.folds import accumulate, accumulate_run, conditions, fill, index_value, scan_lanes, scan_run, shuffle
from compiler.emit.functions import pieces_for, pieces_for_casts, pieces_for_folds
from compiler.emit.gathers import gather, gathers_bytes
from compiler.emit.grid import over_grid
from compiler.emit.lists import TABLE, chunk_of_list, table_type
from compiler.emit.mma import by_tensor_cores, function_of, instructions_of
from compiler.emit.pieces import pieces
from compiler.emit.selects import folded_under
from compiler.emit.tensor_memory import on_tensor_memory
from compiler.emit.text import total
from compiler.emit.values import ELEMENT, compute, convert, divisor, parameter, reg, whole_number
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.fusion import Literal
from compiler.ir.ops import OpKind
from compiler.lower.grid_ir import AwaitTold, DealtShare, DealtSteps, PartsBehind, ScratchLoad, ScratchStore, Tell
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
    at_lane,
)
from compiler.lower.mma_ir import CommitMma, HoldRegisters, Mma, MmaAsync, MmaFence, TensorMma, WaitMma
from compiler.lower.operands import Barrier, Less, Shared
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
from compiler.lower.tmem_ir import TmemCommit, TmemCopy, TmemShift
from compiler.lower.traversal import expressions, walk
from compiler.lower.whole_ir import Divisor, WholeNumber

ENTRY = "fusetune_kernel"
"""Name of every generated kernel; of several launches `fusetune_kernel_0`, `fusetune_kernel_1`, …"""


def emit(kernel: Kernel) -> str:
    """The whole translation unit of a kernel, without includes."""
    return emit_launches((kernel,))


def entries(launches: int) -> tuple[str, ...]:
    """The names of the kernels of so many launches, in order."""
    return (ENTRY,) if launches == 1 else tuple(f"{ENTRY}_{number}" for number in range(launches))


def emit_launches(kernels: Sequence[Kernel]) -> str:
    """One translation unit of the kernels of several launches: the device pieces once, then one entry each."""
    widths = {kernel.index_bits for kernel in kernels}
    # One array of shared memory is declared in every kernel, and its declarations have to agree.
    align = max(kernel.smem_align for kernel in kernels)
    lines = [
        pieces(sorted({piece for kernel in kernels for piece in _pieces_of(kernel)})),
        *(["struct alignas(64) TensorMap { u8 bytes[128]; };\n"] if any(k.tensor_maps for k in kernels) else []),
        *([f"{_index_type(kernels[0])}\n"] if len(widths) == 1 else []),
        *(f"{table_type(k.table)}\n" for k in kernels if k.table is not None),
        *(f"{function_of(i)}\n" for i in instructions_of(s for k in kernels for s in k.body)),
    ]
    for kernel, name in zip(kernels, entries(len(kernels)), strict=True):
        lines += [
            f'extern "C" __global__ void {_launch_bounds(kernel)} {name}({_parameters(kernel)}) {{',
            *([f"  {_index_type(kernel)}"] if len(widths) > 1 else []),
            *_prologue(replace(kernel, smem_align=align)),
            *_block(kernel.body, 1),
            "}",
            "",
        ]
    return "\n".join(lines)


def _index_type(kernel: Kernel) -> str:
    return f"typedef {'u64' if kernel.index_bits == 64 else 'u32'} Index;"


def kernel_text(kernel: Kernel) -> str:
    """The kernel alone, without the device pieces before it: what a person reads."""
    return kernel_only(emit(kernel))


def kernel_only(source: str) -> str:
    """The kernels of a translation unit that `emit` has written; the whole text where it has none."""
    return source[max(0, source.find('extern "C"')) :]


def _pieces_of(kernel: Kernel) -> set[str]:
    """The device code that the statements call."""
    used = {"types"}
    for s in walk(kernel.body):
        match s:
            case GlobalLoad(straddles=True):
                used.add("straddle")
            case GlobalLoad(is_written=True):
                used.add("written")
            case GlobalLoad() if s.rows:
                used |= {"global", "row"}
            case GlobalLoad() | GlobalStore():
                used.add("global")
            case CopyAsync() | CommitCopies() | WaitCopies():
                used |= {"copy_async", "shared"}
            case SharedLoad() | SharedStore():
                used.add("shared")
            case MatrixLoad() | MatrixStore():
                used |= {"matrix", "shared"}
            case Compute(kind=OpKind.RAND):
                used |= {"random", "convert"}
            case Compute():
                dtypes = {s.target.dtype, *(x.dtype for x in s.operands if not isinstance(x, Literal))}
                used |= pieces_for(dtypes, (s.kind,))
            case Convert():
                used |= pieces_for_casts(s.source.dtype, s.target.dtype)
            case Index():
                used.add("convert")
            case Divisor() | WholeNumber():
                used.add("whole")
            case ScanLanes() | ScanRun():
                used |= {"scan"}
            case Fill() | Shuffle():
                used |= pieces_for_folds(s.kind, s.dtype)
            case AccumulateRun(of_sizes=True):
                used.add("fold_sizes")
            case Accumulate() | AccumulateRun():
                used |= pieces_for_folds(s.kind, s.target.dtype)
            case Opaque():
                used.add("opaque")
            case ClusterArrive(releases=True):
                used |= {"cluster_ring", "shared"}
            case RemoteStore() | ClusterArrive() | ClusterWait():
                used |= {"cluster", "shared"}
            case TmaLoad() | BulkLoad() if s.blocks > 1:
                used |= {"multicast", "shared"}
            case TmaLoad() | TmaStore() | BulkLoad() | BulkStore() | FenceAsync() | CommitStores() | WaitStores():
                used |= {"tma", "shared"}
            case InitBarriers() | ExpectBytes() | WaitBarrier():
                used |= {"mbarrier", "shared", "tma", "elect"}
            case AddBytes() | SyncPart() | SetRegisters():
                used |= {"roles", "shared"}
            case Arrive() if s.blocks > 1:
                used |= {"cluster_ring", "shared"}
            case Arrive():
                used |= {"mma_free" if s.by_mma else "mbarrier", "shared"}
            case Elected():
                used.add("elect")
            case Loop() if gathers_bytes(s):
                used.add("bytes")
            case Declare() | Loop() | If() | Sync() | PartsBehind() | DealtShare() | DealtSteps():
                pass
            case TmemCopy() | TmemShift() | TmemCommit():
                used.add("tmem_copy")
            case Mma():
                used.add("mma_sync")
            case AwaitTold() | Tell():
                used.add("told")
            case ScratchLoad():
                used.add("written")
            case ScratchStore():
                used.add("global")
            case TensorMma():
                used |= {"tensor_mma", "shared"}
            case MmaAsync() | MmaFence() | CommitMma() | WaitMma() | HoldRegisters():
                used |= {"wgmma", "shared"}
            case _:
                used |= {"tmem", "shared"}
    return used


def _launch_bounds(kernel: Kernel) -> str:
    """The cap on registers is expressed as the number of blocks that must be resident."""
    if shared := [s.before for s in walk(kernel.body) if isinstance(s, SetRegisters)]:
        return f"__maxnreg__({shared[0]})"  # what the parts of a block share is what it was given
    if kernel.max_registers is None:
        return f"__launch_bounds__({kernel.threads})"
    blocks = blocks_with_room(kernel.threads, kernel.max_registers)
    return f"__launch_bounds__({kernel.threads}, {blocks})"


def _parameters(kernel: Kernel) -> str:
    listed = () if kernel.table is None else dict(kernel.table.pointers)
    pointers = [
        f"{'' if p.written else 'const '}{ELEMENT[p.dtype]}* {'' if p.is_alias else '__restrict__ '}{p.name}"
        for p in kernel.pointers
        if p.name not in listed
    ]
    if kernel.table is not None:
        pointers.append(f"const __grid_constant__ {TABLE} lists")
    pointers += [f"const __grid_constant__ TensorMap {m.name}" for m in kernel.tensor_maps]
    pointers += [f"const {ELEMENT[x.dtype]} {parameter(x)}" for x in kernel.numbers]
    pointers += [f"{ELEMENT[p.dtype]}* __restrict__ {p.name}" for p in kernel.scratch]
    return ", ".join(pointers)


def _prologue(kernel: Kernel) -> list[str]:
    """The indices, with their ranges: those that launch bounds imply the compiler does not use (NVRTC 13), and keeps
    conditions that always hold."""
    lines = _block_indices(kernel) if kernel.table is None else chunk_of_list(kernel, kernel.table)
    for a, n in zip("xyz", kernel.block, strict=True):
        if n > 1:
            lines += [f"  const Index t{a} = threadIdx.{a};", f"  __builtin_assume(t{a} < {n}u);"]
    if any(v.name == WARP_VAR for e in expressions(kernel.body) for v in e.variables):
        lines += _warp(kernel)
    if kernel.smem_bytes:
        lines.append(f"  extern __shared__ __align__({kernel.smem_align}) u8 shared_memory[];")
        lines.append("  const u32 smem = ft_shared_address(shared_memory);")
    if any(isinstance(s, MmaAsync | TensorMma) for s in walk(kernel.body)):
        lines.append("  const u32 matrices = ft_matrix_address(smem);")
    return lines


def _warp(kernel: Kernel) -> list[str]:
    """The number of the warp in its block, threads counted in x first (CUDA guide, thread hierarchy)."""
    threads = Expr()
    inside = 1
    for a, n in zip("xyz", kernel.block, strict=True):
        threads, inside = threads + var(Var(f"t{a}", n)) * inside, inside * n
    return [f"  const Index {WARP_VAR} = {total(threads // WARP_THREADS)};"]


def _block_indices(kernel: Kernel) -> list[str]:
    """Blocks of a cluster are neighbours in x: `cx` is the rank in it, `bx` counts clusters."""
    c, (x, _, _) = kernel.cluster, kernel.grid
    lines = [f"  const Index b{a} = blockIdx.{a};" for a, n in zip("xyz", kernel.grid, strict=True) if n > 1]
    if c == 1:
        return lines
    first = [f"  const Index cx = blockIdx.x % {c}u;"]
    return [*first, *([f"  const Index bx = blockIdx.x / {c}u;"] if x > c else []), *lines[1:]]


def _block(body: Iterable[Stmt], depth: int, unrolled: frozenset[str] = frozenset()) -> list[str]:
    """`unrolled`: the variables of the unrolled loops around."""
    pad = "  " * depth
    return [pad + line for s in body for line in _statement(s, unrolled)]


def _statement(s: Stmt, unrolled: frozenset[str]) -> list[str]:
    match s:
        case Declare():
            return [f"alignas(16) {ELEMENT[s.dtype]} {s.name}[{s.elems}];"]
        case Loop():
            return _loop(s, unrolled)
        case If():
            return _if(s, unrolled)
        case Elected():
            return ["if (ft_is_elected()) {", *_block(s.body, 1, unrolled), "}"]
        case GlobalLoad():
            return global_load(s, unrolled)
        case GlobalStore():
            return global_store(s, unrolled)
        case CopyAsync():
            return [_copy_async(s, unrolled)]
        case CommitCopies():
            return ["ft_copy_commit();"]
        case WaitCopies():
            return [f"ft_copy_wait<{s.pending}>();"]
        case SharedLoad():
            return [f"ft_load_shared<{s.width * s.target.dtype.nbytes}>(&{reg(s.target)}, {_shared(s.source)});"]
        case SharedStore():
            return [f"ft_store_shared<{s.width * s.source.dtype.nbytes}>({_shared(s.target)}, &{reg(s.source)});"]
        case MatrixLoad():
            return [f"ft_load_matrices{_matrices(s)}(&{reg(s.target)}, {_shared(s.source)});"]
        case MatrixStore():
            return [f"ft_store_matrices{_matrices(s)}({_shared(s.target)}, &{reg(s.source)});"]
        case Compute():
            return [f"{reg(s.target)} = {compute(s)};"]
        case Index():
            return [f"{reg(s.target)} = {index_value(s)};"]
        case Fill():
            return fill(s)
        case Accumulate():
            return accumulate(s)
        case AccumulateRun():
            return accumulate_run(s)
        case Opaque():
            return [f"ft_opaque<{s.elems * s.dtype.nbytes}>(&{s.name}[0]);"]
        case Shuffle():
            return shuffle(s)
        case ScanLanes():
            return [scan_lanes(s)]
        case ScanRun():
            return [scan_run(s)]
        case RemoteStore():
            nbytes = s.width * s.source.dtype.nbytes
            there = f"{_shared(s.target)}, {_barrier(s.barrier)}, {total(s.rank)}"
            return [f"ft_store_remote<{nbytes}>({there}, &{reg(s.source)});"]
        case ClusterArrive(releases=True):
            return ["ft_cluster_depart();"]
        case ClusterArrive():
            return ["ft_cluster_arrive();"]
        case ClusterWait():
            return ["ft_cluster_wait();"]
        case Convert():
            return [convert(s)]
        case Divisor():
            return [f"const FtDivisor {s.name} = {divisor(s)};"]
        case WholeNumber():
            return [f"{reg(s.target)} = {whole_number(s)};"]
        case TmaLoad() | BulkLoad():
            return [bulk_load(s, _shared(s.target), _barrier(s.barrier), unrolled)]
        case TmaStore():
            coordinates = ", ".join(f"::i32({total(c)})" for c in s.coordinates)
            return [f"ft_tma_store_{len(s.coordinates)}d(&{s.tensor_map}, {_shared(s.source)}, {coordinates});"]
        case BulkStore():
            return [f"ft_bulk_store({address(s.tensor, s.offset, unrolled)}, {_shared(s.source)}, {s.nbytes}u);"]
        case InitBarriers():
            return _init_barriers(s)
        case ExpectBytes():
            return [f"ft_mbarrier_expect_tx({_barrier(s.barrier)}, {s.nbytes}u);"]
        case AddBytes():
            return [f"ft_mbarrier_add_bytes({_barrier(s.barrier)}, {s.nbytes}u);"]
        case Arrive():
            freed = "ft_mma_free" if s.by_mma else "ft_mbarrier_free"
            blocks = f"_in_blocks<{s.blocks}u>" if s.blocks > 1 else ""
            return [f"{freed}{'_by_warp' if s.of_warp else ''}{blocks}({_barrier(s.barrier)});"]
        case SyncPart():
            return [f"ft_sync_part({total(s.group + s.number)}, {s.threads}u);"]
        case SetRegisters():
            return [f"ft_{'raise' if s.more else 'lower'}_registers<{s.count}u>();"]
        case WaitBarrier():
            return [f"ft_mbarrier_wait({_barrier(s.barrier)}, {total(s.parity)});"]
        case Sync():
            return ["__syncthreads();"]
        case FenceAsync():
            return ["ft_fence_async_shared();"]
        case CommitStores():
            return ["ft_bulk_commit();"]
        case WaitStores():
            return ["ft_bulk_wait_read<0>();"]
        case Mma() | MmaAsync() | MmaFence() | CommitMma() | WaitMma() | HoldRegisters() | TensorMma():
            return [by_tensor_cores(s)]
        case PartsBehind() | DealtShare() | DealtSteps() | AwaitTold() | Tell() | ScratchLoad() | ScratchStore():
            return over_grid(s)
        case _:
            return [on_tensor_memory(s)]


def _loop(s: Loop, unrolled: frozenset[str]) -> list[str]:
    if gathers_bytes(s):
        return gather(s)
    name = s.var.name
    inside = unrolled | {name} if s.unroll else unrolled
    return [
        "#pragma unroll" if s.unroll else "#pragma unroll 1",
        f"for (Index {name} = {total(s.start)}; {name} < {total(s.trip)}; ++{name}) {{",
        *_block(s.body, 1, inside),
        "}",
    ]


def _if(s: If, unrolled: frozenset[str]) -> list[str]:
    match s:
        case If(then=(SharedLoad(target=target, source=source, width=1),), orelse=(Index(target=same) as other,)) if (
            target == same and target.dtype.nbytes <= REGISTER_BYTES
        ):
            # A predicate: after a branch, each row of a tile waits for the stores of the row before.
            load = f"ft_load_shared_if<{target.dtype.nbytes}>"
            guard = conditions(s.conditions)
            return [*_statement(other, unrolled), f"{load}({guard}, &{reg(target)}, {_shared(source)});"]
    if (words := straddling_load(s, unrolled)) is not None:
        return words
    if targets := folded_under(s):
        kept = [f"const {ELEMENT[t.dtype]} {t.name}_before = {reg(t)};" for t in targets]
        last = [f"{reg(t)} = ({conditions(s.conditions)}) ? {reg(t)} : {t.name}_before;" for t in targets]
        return ["{", *("  " + line for line in kept), *_block(s.then, 1, unrolled), *("  " + x for x in last), "}"]
    lines = [f"if ({conditions(s.conditions)}) {{", *_block(s.then, 1, unrolled)]
    if s.orelse:
        lines += ["} else {", *_block(s.orelse, 1, unrolled)]
    return [*lines, "}"]


def _copy_async(s: CopyAsync, unrolled: frozenset[str]) -> str:
    """Of a vector that a bound may cut, as many bytes are read as lanes are inside."""
    e = s.target.dtype.nbytes
    places = f"{_shared(s.target)}, {address(s.tensor, s.offset, unrolled)}"
    where = conditions((*s.guards, *s.within))
    name = f"ft_copy_async{'_of' if s.tail is not None else '_if' if where else ''}<{s.width * e}, {CACHE[s.cache]}>"
    if s.tail is None:
        return f"{name}({', '.join((where, places) if where else (places,))});"
    read = _bytes_inside(s.tail, s.width, e)
    return f"{name}({f'({where}) ? ({read}) : 0u' if where else read}, {places});"


def _bytes_inside(tail: Less, width: int, nbytes: int) -> str:
    """Bytes of the first lanes of a vector, those that satisfy a condition, as an expression of CUDA."""
    each = [Less(at_lane(tail.left, lane), at_lane(tail.right, lane)) for lane in range(width)]
    room = each[0].right - each[0].left
    if each[-1].right - each[-1].left == room - (width - 1):
        rest = f"{conditions(each[:1])} ? u32({total(room)}) * {nbytes}u : 0u"
        return f"{conditions(each[-1:])} ? {width * nbytes}u : {rest}"
    return " + ".join(f"({conditions((one,))} ? {nbytes}u : 0u)" for one in each)


def _shared(place: Shared) -> str:
    return f"smem + u32({total(place.byte_offset)})" if place.byte_offset != const(0) else "smem"


def _matrices(s: MatrixLoad | MatrixStore) -> str:
    """How many, and by which of their sides lanes hold them."""
    held = s.target if isinstance(s, MatrixLoad) else s.source
    return f"{'_transposed' if s.is_transposed else ''}<{matrices_in(s.width, held.dtype.nbytes)}>"


def _barrier(b: Barrier) -> str:
    return f"smem + u32({total(b.byte_offset)})"


def _init_barriers(s: InitBarriers) -> list[str]:
    arrivals = s.arrivals or (1,) * s.count
    return [
        "if (ft_is_elected()) {",
        *(f"  ft_prefetch_tensor_map(&{name});" for name in s.tensor_maps),
        *(f"  ft_mbarrier_init(smem + {s.byte_offset + 8 * i}u, {n}u);" for i, n in enumerate(arrivals)),
        *(["  ft_fence_mbarrier_init();"] if s.fenced else []),
        "}",
    ]
