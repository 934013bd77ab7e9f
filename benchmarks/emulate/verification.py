"""`python -m benchmarks.emulate.verification`: how long it takes to prove a kernel in the emulator, and where it goes.

For each fusion the best predicted candidate of each scheduler that takes it is compiled, then verified: the small
binding is looked for, its kernel compiled (in a child, a wait here), run on every input set, and the served code run on
its boundary blocks. Seconds of the wall, and of the processor in brackets: other work on the machine lengthens only the
first. The last table is the run of one block, with all checks, of the best predicted kernel with 256 threads.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.arch import Card, card_or_default
from compiler.emulate.launch import Completion
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from compiler.emulated_runs.launching import input_tensor, launch_of, output_tensor
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact, generate
from compiler.wire import bind
from fusetune.wire.parse import parse_binding, parse_fusion
from search.cost.predicting import predictor
from search.proof.emulated import check
from search.proof.emulated.running import ARRAYS, options
from search.proof.small.binding import small_binding
from search.proof.verify.inputs import RANDOM, make_inputs
from search.tuning.candidates.draft import foreseen_here
from search.tuning.candidates.plan import Plan

ROOT = Path(__file__).parents[2]
CASES: dict[str, tuple[str, dict[str, int]]] = {
    "bias_gelu": ("examples/fusions/bias_gelu.json", {"M": 8192}),
    "add": ("examples/fusions/add.json", {"M": 8192, "N": 4096}),
    "transpose": ("examples/fusions/transpose.json", {"M": 8192, "N": 8192}),
    "bcast_add4d": ("benchmarks/suite/fusions/bcast_add4d_f32_discontig.json", {}),
    "silu_mul": ("benchmarks/suite/fusions/silu_mul_bf16_8192x14336.json", {}),
}
PARTS = ("small_binding", "run_set", "run_served")
CANDIDATES = 24
"""Points that are predicted for each scheduler."""

BLOCK_THREADS = 256
"""Threads of the block that is timed alone."""


@dataclass(frozen=True)
class VerificationRow:
    """One kernel. `parts`: seconds of the processor."""

    name: str
    scheduler: str
    outcome: str
    wall_s: float
    cpu_s: float
    parts: dict[str, float]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints, and writes JSON where asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.emulate.verification", description=__doc__)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--json", type=Path, help="file for the figures")
    options_ = parser.parse_args(arguments)
    rows, blocks = [], []
    with CompilePool(1) as pool:
        pool.start()
        print(f"{'fusion':<12} {'scheduler':<9} {'in all':>14}  {'find':>6} {'sets':>6} {'served':>6}  outcome")
        for name in options_.cases:
            for scheduler, generated in best(*CASES[name], card_or_default(None)):
                rows.append(measured(name, scheduler, generated, pool))
                print(_line(rows[-1]), flush=True)
            blocks.append((name, *one_block(block_of(*CASES[name], card_or_default(None)), pool)))
    print(f"\n{'fusion':<12} {'one block':<38} {'processor ms':>12}")
    for name, block, block_ms in blocks:
        print(f"{name:<12} {block:<38} {block_ms:>12.1f}")
    if options_.json is not None:
        figures = {"verifications": [vars(row) for row in rows], "blocks": blocks}
        options_.json.write_text(json.dumps(figures, indent=1))


def best(file: str, sizes: dict[str, int], card: Card) -> Iterator[tuple[str, Generated]]:
    """The kernel that each scheduler is predicted to do best with."""
    seen = set()
    for scheduler, generated in ranked(file, sizes, card):
        if scheduler not in seen:
            seen.add(scheduler)
            yield scheduler, generated


def block_of(file: str, sizes: dict[str, int], card: Card) -> Generated:
    """The best predicted kernel with BLOCK_THREADS threads."""
    return next(made for _, made in ranked(file, sizes, card) if made.kernel.threads == BLOCK_THREADS)


def ranked(file: str, sizes: dict[str, int], card: Card) -> Iterator[tuple[str, Generated]]:
    """Kernels by scheduler, the best predicted first; those of several launches are left out."""
    fusion = bind(parse_fusion((ROOT / file).read_text()), parse_binding({"sizes": sizes}))
    plan = Plan.of(fusion, card)
    for one in plan.ranking(foreseen_here(plan.subject(card), predictor(card)), CANDIDATES, seed=0, seconds=60.0):
        scheduler = one.candidate.scheduler
        made = generate(plan.schedulers[scheduler].trace(fusion, one.candidate.knobs), card.arch)
        if len(made.launches) == 1:
            yield scheduler, made


def measured(name: str, scheduler: str, generated: Generated, pool: CompilePool) -> VerificationRow:
    """Verifies a kernel with a clock on its parts."""
    compiled = artifact(generated, pool.submit(generated.source, generated.arch.name).result())
    spent: dict[str, float] = dict.fromkeys(PARTS, 0.0)
    before = {part: getattr(check, part) for part in PARTS}
    for part in PARTS:
        setattr(check, part, _clocked(before[part], spent, part))
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        found = check.verify(generated, compiled, pool)
    finally:
        for part in PARTS:
            setattr(check, part, before[part])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    outcome = found.fault or found.undone or "verified"
    return VerificationRow(name, scheduler, outcome, wall, cpu, spent)


def one_block(generated: Generated, pool: CompilePool) -> tuple[str, float]:
    """What a block of the small kernel is, and the processor milliseconds of its run, the least of three."""
    small = small_binding(generated)
    built = artifact(small.generated, pool.submit(small.generated.source, generated.arch.name).result())
    fusion: Fusion = small.fusion
    module = parse(built.ptx)
    taken = []
    for _ in range(3):
        inputs = make_inputs(fusion, RANDOM, ARRAYS)
        tensors = [
            input_tensor(fusion.value(n), ARRAYS.bytes_of(x)) for n, x in zip(fusion.inputs, inputs, strict=True)
        ]
        tensors += [output_tensor(fusion.value(n)) for n in fusion.outputs]
        start = time.process_time()
        emulate(module, launch_of(built, tensors), options(Completion.EAGER, races=True, blocks=(0,)))
        taken.append(1e3 * (time.process_time() - start))
    tiling = next(iter(small.tilings.values()))
    tiles, elements = len(tiling.tiles_of(0)), len(tiling.elements([0]))
    return f"{generated.kernel.threads} threads, {tiles} tiles, {elements} elements", min(taken)


def _clocked(work: Callable[..., Any], spent: dict[str, float], name: str) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        try:
            return work(*args, **kwargs)
        finally:
            spent[name] += time.process_time() - start

    return timed


def _line(row: VerificationRow) -> str:
    parts = " ".join(f"{row.parts[part]:>6.2f}" for part in PARTS)
    whole = f"{row.wall_s:.2f} ({row.cpu_s:.2f})"
    return f"{row.name:<12} {row.scheduler:<9} {whole:>14}  {parts}  {row.outcome}"


if __name__ == "__main__":
    main()
