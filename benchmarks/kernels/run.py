"""Times tuned kernels beside eager torch and torch.compile: `python -m benchmarks.kernels.run --kernels DIR`.

One process, one case after the other; the results so far are written after each case. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import gc
import json
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch

from benchmarks.kernels import plugin, table
from benchmarks.kernels.cases import (
    SUITE,
    Case,
    Implementation,
    Tensors,
    as_allowed,
    bytes_moved,
    finished,
    idiom,
    load,
    make_inputs,
    matmul_flops,
    peers,
    plain,
)
from benchmarks.kernels.judging import Judge
from benchmarks.kernels.limits import CardLimits, measure_limits
from benchmarks.kernels.reference import Agreement
from benchmarks.kernels.table import CaseResult, TableRow
from benchmarks.kernels.timing import ROUNDS, GraphTimer, Timer, WallClockTimer, interleave, l2_bytes, set_count
from benchmarks.kernels.winner import describe
from compiler.arch import card_or_default
from compiler.errors import CompilerError

Build = Callable[[Case], Implementation | None]
P = ParamSpec("P")
T = TypeVar("T")


def _compiled(mode: str | None) -> Build:
    def build(case: Case) -> Implementation:
        compiled: Implementation = torch.compile(plain(case, case["torch"]), mode=mode, dynamic=False, fullgraph=True)
        return finished(case, compiled)  # gradients are taken outside, as users take them

    return build


def _eager(case: Case) -> Implementation:
    return peers(case).get("eager") or idiom(case)


MODES: dict[str, Build] = {
    "eager": _eager,
    "default": _compiled(None),
    "max": _compiled("max-autotune-no-cudagraphs"),
}
"""What a user would otherwise run. `main` adds `plugin`, the tuned kernels, and what a case has beside these."""

INPUT_SEED = 20_000
CHECK_SEED = 10_000


def _others(case: Case) -> dict[str, Build]:
    """What the case names beside the modes: torch's fused optimizers, say."""
    return {name: _given(call) for name, call in peers(case).items() if name not in MODES}


def _given(call: Implementation) -> Build:
    return lambda case: call


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with code 2 and a sentence where it makes no sense."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels.run", description=__doc__)
    parser.add_argument("--kernels", type=Path, help="folder with tuned kernels (default: $FUSETUNE_KERNELS)")
    parser.add_argument("--cases", default="*", help="ids or globs, comma separated")
    parser.add_argument("--modes", default="eager,default,max,plugin", help=f"of {', '.join([*MODES, 'plugin'])}")
    parser.add_argument("--suite", type=Path, default=SUITE, help="trusted file: its torch lines are executed")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="the small form of each case: shows that a run works")
    parser.add_argument("--no-limits", dest="limits", action="store_false", help="do not measure the card's limits")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    args = parser.parse_args(argv)
    args.modes = [mode for mode in args.modes.split(",") if mode]
    for mode in args.modes:
        if mode not in (*MODES, "plugin"):
            parser.error(f"--modes: found {mode!r}, expected some of {', '.join([*MODES, 'plugin'])}.")
    if args.rounds < 1:
        parser.error(f"--rounds: found {args.rounds}, expected 1 or more.")
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("no GPU found. `--device cpu --tiny` shows that a run works, without figures worth keeping.")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Runs, prints the table, and returns 1 if any implementation failed or was wrong."""
    argv = sys.argv[1:] if argv is None else argv
    args = parse(argv)
    try:
        cases = load([p for p in args.cases.split(",") if p], tiny=args.tiny, path=args.suite)
        kernels = (
            plugin.StoredKernels.from_folder(args.kernels or plugin.folder_from_env())
            if "plugin" in args.modes
            else None
        )
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    command = shlex.join(["python", "-m", "benchmarks.kernels.run", *argv])
    builders = {mode: kernels.build if mode == "plugin" and kernels else MODES[mode] for mode in args.modes}
    with torch.no_grad():
        return _run_all(args, cases, builders, kernels, command)


def _winner(kernels: plugin.StoredKernels | None, case: Case) -> dict[str, Any] | None:
    """What the table says of the tuned kernel; None where there is none, or where it is of another generator."""
    artifact = kernels.find(case) if kernels else None
    if artifact is None:
        return None
    try:
        return describe(artifact, card_or_default(artifact.timing.card if artifact.timing else None))
    except CompilerError as error:
        return {"error": str(error)}


def _run_all(
    args: argparse.Namespace,
    cases: Sequence[Case],
    builders: Mapping[str, Build],
    kernels: plugin.StoredKernels | None,
    command: str,
) -> int:
    """Measures the limits, then every case; the table is written anew after each. Returns the exit code."""
    started = time.monotonic()
    limits = None
    if args.limits and args.device == "cuda":
        limits = measure_limits(matmul=any(matmul_flops(case) for case in cases))
        print(table.summary(limits), flush=True)
    rows: list[TableRow] = []
    for case in cases:
        others = _others(case) if "eager" in args.modes else {}
        with as_allowed(case):
            rows.append(run_case(case, {**builders, **others}, limits, device=args.device, rounds=args.rounds))
        rows[-1].winner = _winner(kernels, case)
        if limits:
            rows[-1].like_us = next((row.least_us() for row in rows if row.case == case.get("floor_case")), None)
        print(f"[{time.monotonic() - started:4.0f} s] {case['id']}", file=sys.stderr, flush=True)
        if args.json:
            args.json.parent.mkdir(parents=True, exist_ok=True)
            args.json.write_text(json.dumps(table.to_json(rows, limits, command), indent=1) + "\n")
    print(table.to_text(rows, args.modes))
    for mode in args.modes:
        mean = table.geometric_mean(rows, mode)
        print(f"geometric mean of time/floor, {mode}: {'-' if mean is None else f'{mean:.3f}'}")
    print(f"{command}: {time.monotonic() - started:.0f} s")
    failed = any(r.error or (r.agreement and not r.agreement.ok) for row in rows for r in row.results.values())
    return 1 if failed else 0


def run_case(
    case: Case, builders: Mapping[str, Build], limits: CardLimits | None, *, device: str, rounds: int = ROUNDS
) -> TableRow:
    """Prepares every implementation, holds each against the reference, then times all of them in turns."""
    read, written = bytes_moved(case)
    row = TableRow(case["id"], read + written)
    if limits:
        row.limit_us = limits.limit_us(read, written, matmul_flops(case))
        row.copy_us = limits.copy_us(read + written)
    sets = [make_inputs(case, device, INPUT_SEED)]
    ready: dict[str, Implementation] = {}
    for mode, build in builders.items():
        call = _attempt(row, mode, _prepare, build, case, sets[0])
        if call is not None:
            ready[mode] = call
    agreements = _compare_all(case, row, ready, device)
    sets += [make_inputs(case, device, INPUT_SEED + i) for i in range(1, set_count(row.bytes, l2_bytes()))]
    timers: dict[str, Timer] = {}
    for mode in agreements:
        timer = _attempt(row, mode, _new_timer, device, ready[mode], sets)
        if timer is not None:
            timers[mode] = timer
    for mode, timed in interleave(timers, rounds).items():
        row.results[mode] = CaseResult(timed, agreements[mode])
        timers[mode].close()
    row.results = {mode: row.results[mode] for mode in builders if mode in row.results}
    if "torch._dynamo" in sys.modules:  # importing it takes seconds: not for runs that compile nothing
        torch.compiler.reset()
    del sets, ready, timers
    _release(device)
    return row


def _prepare(build: Build, case: Case, inputs: Tensors) -> Implementation | None:
    """Called once: what compiles or tunes does it on the first call. None: there is no such implementation."""
    call = build(case)
    if call is not None:
        call(*inputs)
    return call


def _compare(judge: Judge, call: Implementation, draws_ours: bool) -> Agreement:
    return judge.agreement(call, draws_ours=draws_ours)


def _new_timer(device: str, call: Implementation, sets: Sequence[Tensors]) -> Timer:
    return GraphTimer(call, sets) if device == "cuda" else WallClockTimer(call, sets)


def _compare_all(case: Case, row: TableRow, ready: Mapping[str, Implementation], device: str) -> dict[str, Agreement]:
    judge = Judge(case, make_inputs(case, device, CHECK_SEED))
    agreements = {}
    for mode, call in ready.items():
        found = _attempt(row, mode, _compare, judge, call, mode == "plugin")
        if found is not None:
            agreements[mode] = found
        _release(device)
    del judge
    _release(device)
    return agreements


def _attempt(row: TableRow, mode: str, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """What the action returns; a failure is noted in the row, costs only this implementation, and gives None."""
    try:
        result = action(*args, **kwargs)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return result
    except Exception as error:  # noqa: BLE001 (an implementation under test may raise anything; it is reported)
        traceback.print_exc()
        row.results[mode] = CaseResult(error=f"{type(error).__name__}: {error}")
        return None


def _release(device: str) -> None:
    if device == "cuda":
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main())
