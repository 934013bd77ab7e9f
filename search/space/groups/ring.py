"""Rings, knobs of all schedulers: circular buffers in shared memory whose stages are filled while others are used.

    stages      tiles of a block in shared memory at a time; 1: no ring
    prefetch    of the stages, how many are filled ahead, counted from their number. -1: all but the one in use, whose
                end a barrier of the block tells. -2: one less, so that no thread waits: each says on an mbarrier that
                it has read a stage, and the one that fills it again looks an iteration later
    fill        who asks for the copies. "elected": one of the threads that compute. "warp": a warp of its own, as far
                ahead as stages are free. "warp_registers": such a warp, which gives its registers to the others

(nvFuser, circular buffers; nvFuser, warp specialisation; PTX ISA, setmaxnreg.) On an H200 it mattered little who fills
a ring: of 62 pairs that are equal otherwise (rows, tiles, columns, pointwise) the one filled by a warp took 0.91 to
1.05 of the time of the other, 1.00 in the middle.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from compiler.arch import MAX_REGISTER_CAP, REGISTER_UNIT, REGISTERS_PER_SM, SETMAXNREG_LEAST, WARPGROUP_THREADS, Arch
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import BufferKind
from compiler.schedule import steps
from search.space.builder import TraceBuilder
from search.space.constraints import Constraint
from search.space.knobs import Knob, KnobValue

ELECTED, WARP, WARP_REGISTERS = FILLS = ("elected", "warp", "warp_registers")
ALL_BUT_ONE, ALL_BUT_TWO = PREFETCHES = (-1, -2)

SHALLOW = (1, 2, 3, 4)
DEEP = (5, 6, 8, 10, 12, 16)
"""Stages of what is read all the time, a tile of each after the other: the operands of products."""

KNOBS: dict[str, tuple[KnobValue, ...]] = {"stages": (*SHALLOW, *DEEP), "prefetch": PREFETCHES, "fill": FILLS}


def ring_knobs(most: int, *, persistent: bool = True) -> tuple[Knob, ...]:
    """The knobs of rings of `most` stages, 1 for none. `persistent`: a knob says how many blocks share a
    multiprocessor, and so its registers."""
    fills = FILLS if persistent else FILLS[:2]
    return (
        Knob("stages", tuple(range(1, most + 1))),
        Knob("prefetch", PREFETCHES if most > 2 else PREFETCHES[:1]),
        Knob("fill", fills if most > 1 else FILLS[:1]),
    )


@dataclass(frozen=True)
class Rings:
    """What constraints read of a scheduler.

    `ringed`: of the knobs `axes`, where bulk copies fill what a loop of the block turns with; `threads`: knobs whose
    product is the threads of a block, x first; `blocks`: the knob that says how many persistent blocks share a
    multiprocessor, if there is one.
    """

    arch: Arch
    axes: tuple[str, ...]
    ringed: Callable[..., Any]
    threads: tuple[str, ...]
    blocks: str | None = None


def ring_constraints(r: Rings) -> list[Constraint]:
    """What rings may be, and which of them would only repeat another. Shared memory is the schedulers' to count."""
    resident = (r.blocks,) if r.blocks is not None else ()
    return [
        Constraint(
            "redundant_stages",
            (*r.axes, "stages"),
            lambda *knobs: (knobs[-1] == 1) | r.ringed(*knobs[:-1]),
            "Stages overlap the tiles of one block.",
        ),
        Constraint(
            "redundant_prefetch",
            ("stages", "prefetch", "fill"),
            lambda stages, ahead, fill: (ahead == ALL_BUT_ONE) | (stages > 2) & (fill == ELECTED),
            "A stage to spare is the third, and of use to threads that fill stages themselves.",
        ),
        Constraint(
            "redundant_fill",
            ("stages", "fill"),
            lambda stages, fill: (fill == ELECTED) | (stages > 1),
            "Rings are filled.",
        ),
        Constraint(
            "warp_specialized_block_is_whole_warp_groups",
            ("fill", *r.threads),
            _whole_groups,
            "Beside warps that load, whole groups of four warps compute; of two dimensions the first divides a group.",
        ),
        Constraint(
            "block_fits_the_architecture",
            ("fill", *r.threads),
            lambda fill, *threads: (
                (fill == ELECTED) | (_all(threads) + WARPGROUP_THREADS <= r.arch.max_threads_per_block)
            ),
            f"A block has at most {r.arch.max_threads_per_block} threads, those that load among them.",
        ),
        Constraint(
            "persistent_blocks_are_resident",
            ("fill", *resident, *r.threads),
            lambda fill, *knobs: _fit(r.arch, fill, *(knobs if resident else (1, *knobs))),
            "Blocks with warps that load fit their multiprocessors.",
        ),
        *(_sharing(resident[0], r.threads) if resident else ()),
    ]


def copied_rings(axes: tuple[str, ...], copied: Callable[..., Any]) -> Constraint:
    """Rings that threads fill by cp.async, where `copied` of the knobs `axes`: each thread waits for its own copies, so
    no other asks for them, and the barrier that shows them to all tells as well that a stage is free."""
    return Constraint(
        "threads_fill_the_rings_they_copy",
        (*axes, "prefetch", "fill"),
        lambda *knobs: ~copied(*knobs[:-2]) | (knobs[-2] == ALL_BUT_ONE) & (knobs[-1] == ELECTED),
        "Threads that copy by cp.async fill the stages that they use, all but the one in use.",
    )


def _sharing(blocks: str, threads: tuple[str, ...]) -> list[Constraint]:
    def shared(fill: Any, resident: Any, *extents: Any) -> Any:
        blocks, computing = np.maximum(resident, 1), _all(extents)
        even = _even_registers(blocks, computing)
        more = compute_registers(blocks, computing)
        return (fill != WARP_REGISTERS) | (even > SETMAXNREG_LEAST) & (
            more > np.minimum(even, MAX_REGISTER_CAP - REGISTER_UNIT)
        )

    return [
        Constraint(
            "redundant_fill",
            ("fill", blocks, *threads),
            shared,
            "Registers move: threads that compute have more than an even share, and those that load the fewest.",
        )
    ]


def _even_registers(blocks: Any, threads: Any) -> Any:
    """Registers of a thread where all have as many, in whole units."""
    return REGISTERS_PER_SM // (blocks * (threads + WARPGROUP_THREADS)) // REGISTER_UNIT * REGISTER_UNIT


def compute_registers(blocks: Any, threads: Any) -> Any:
    """Registers of a thread that computes, where `blocks` blocks of so many, and of those that load, share the file of
    a multiprocessor: a multiple of 8."""
    shared = _even_registers(blocks, threads) * (threads + WARPGROUP_THREADS)
    return np.minimum(
        (shared - SETMAXNREG_LEAST * WARPGROUP_THREADS) // threads // REGISTER_UNIT * REGISTER_UNIT, MAX_REGISTER_CAP
    )


def turn(b: TraceBuilder, shared: Iterable[str], point: Mapping[str, Any], threads: tuple[int, ...]) -> None:
    """Makes rings of the shared tensors, as the point says. `threads`: of the block in each dimension, x first."""
    if point["stages"] == 1:
        return
    stages, ahead, fill = point["stages"], point["prefetch"], point["fill"]
    options: dict[str, Any] = {}
    if fill != ELECTED:
        outermost = [p for p, n in zip((ParallelType.TIDX, ParallelType.TIDY), threads, strict=False) if n > 1][-1]
        options = {"kind": BufferKind.WARP_SPECIALIZED, "on": outermost}
    if fill == WARP_REGISTERS:
        options["registers"] = (SETMAXNREG_LEAST, int(compute_registers(point["blocks_per_sm"], prod(threads))))
    if ahead == ALL_BUT_TWO:
        options["war_mbarrier"] = True
    for name in shared:
        b.do(steps.CircularBuffer(name, stages, ahead, **options))


def _all(extents: tuple[Any, ...]) -> Any:
    """Threads of all dimensions together."""
    return reduce(operator.mul, extents)


def _whole_groups(fill: Any, x: Any, y: Any = 1) -> Any:
    """Warps that load are appended to the outermost dimension in use (`analysis.block_parts`)."""
    whole = (x * y % WARPGROUP_THREADS == 0) & ((y == 1) | (WARPGROUP_THREADS % x == 0))
    return (fill == ELECTED) | whole


def _fit(arch: Arch, fill: Any, blocks: Any, *extents: Any) -> Any:
    return (fill == ELECTED) | (blocks * (_all(extents) + WARPGROUP_THREADS) <= arch.max_threads_per_sm)
