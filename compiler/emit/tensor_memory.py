"""Statements of tensor memory as CUDA C++: one call each, with the address of the warp."""

from __future__ import annotations

from typing import assert_never

from compiler.emit.text import total
from compiler.emit.values import reg
from compiler.ir.expr import const
from compiler.lower.operands import Tmem
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


def on_tensor_memory(s: TmemStmt) -> str:
    """The call that carries out the statement."""
    match s:
        case TmemAllocate():
            return f"ft_tmem_allocate(smem + {s.byte_offset}u, {s.columns}u);"
        case TmemRelinquish():
            return "ft_tmem_relinquish();"
        case TmemAddress():
            return f"const u32 tmem = ft_tmem_address(smem + {s.byte_offset}u);"
        case TmemDeallocate():
            return f"ft_tmem_deallocate(tmem, {s.columns}u);"
        case TmemLoad():
            return f"ft_tmem_load_{_form(s)}(&{reg(s.target)}, {tmem_address(s.source)});"
        case TmemStore():
            return f"ft_tmem_store_{_form(s)}({tmem_address(s.target)}, &{reg(s.source)});"
        case TmemCopy():
            tile = f"smem + u32({total(s.source.byte_offset)}), {s.leading}u, {s.stride}u"
            return f"ft_tmem_copy_128x{8 * s.row_bytes}b({tmem_address(s.target)}, {tile});"
        case TmemShift():
            return f"ft_tmem_shift({tmem_address(s.rows)});"
        case TmemCommit():
            return f"ft_tmem_commit(smem + u32({total(s.barrier.byte_offset)}));"
        case Unpack():
            return f"memcpy(&{reg(s.target)}, &{reg(s.source)}, {s.nbytes});"
        case WaitTmemLoads():
            return "ft_tmem_wait_loads();"
        case WaitTmemStores():
            return "ft_tmem_wait_stores();"
        case TmemFenceBefore():
            return "ft_tmem_fence_before_sync();"
        case TmemFenceAfter():
            return "ft_tmem_fence_after_sync();"
        case _:
            assert_never(s)


def _form(s: TmemLoad | TmemStore) -> str:
    half = f"<{s.half_offset}>" if s.half_offset is not None else ""
    return f"{s.pattern}_x{s.repeats}{half}"


def tmem_address(place: Tmem) -> str:
    """A place in an allocation: lane in bits 31:16, column in bits 15:0 (PTX ISA, tensor memory addressing)."""
    lane = [f"(u32({total(place.lane)}) << 16)"] if place.lane != const(0) else []
    column = [f"u32({total(place.column)})"] if place.column != const(0) else []
    return " + ".join(["tmem", *lane, *column])
