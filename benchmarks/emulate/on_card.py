"""The card's half, in a process of its own: a kernel that faults takes the process's CUDA context with it.

`python -m benchmarks.emulate.on_card DIR forms|fusions FIRST` runs what was prepared from number FIRST on, writes the
tensors of each kernel to DIR/card, and ends early, with exit code 3, after the first kernel that faulted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.emulate.card import Bytes, Refused, card_name, loaded, run
from benchmarks.emulate.compiling import entry, prepared_forms
from benchmarks.emulate.forms import chosen
from benchmarks.emulate.fusions import launch_of, prepared_fusions
from compiler.emulate.launch import Launch
from fusetune.errors import KernelError

FAULTED = 3
"""Exit code: run again from the next kernel."""

HANG_S = 30.0
"""Without a result for as long, starting included, the kernel that runs counts as hanging."""

_DESCRIPTION = "card.txt"

Job = tuple[int, bytes, Launch]


def results(folder: Path, what: str) -> dict[int, dict[str, Bytes] | str]:
    """What every kernel left on the card, or how it failed, by number. Runs as many processes as kernels that fault."""
    out = folder / "card" / what
    out.mkdir(parents=True, exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    while (failure := _run_from(folder, what, out)) is not None:
        if failure:
            (out / f"{_done(out)}.txt").write_text(failure, encoding="utf-8")
    return {int(path.stem): _read(path) for path in out.iterdir()}


def _done(out: Path) -> int:
    return len(list(out.iterdir()))


def _run_from(folder: Path, what: str, out: Path) -> str | None:
    """Runs a child from the first kernel that has no result. None when all have one, else why the next one has none, or
    nothing where the child told itself."""
    first = _done(out)
    command = [sys.executable, "-m", "benchmarks.emulate.on_card", str(folder), what, str(first)]
    log = out.parent / f"{what}.log"
    with log.open("w", encoding="utf-8") as stream:
        child = subprocess.Popen(command, stdout=stream, stderr=stream)
    done, since = first, time.monotonic()
    while child.poll() is None:
        time.sleep(0.05)
        if _done(out) != done:
            done, since = _done(out), time.monotonic()
        elif time.monotonic() - since > HANG_S:
            child.kill()
            child.wait()
            return f"no result in {HANG_S:.0f} s: it hangs"
    if child.returncode == 0:
        return None
    if child.returncode == FAULTED or _done(out) > first:
        return ""
    return f"the process ended with {child.returncode}: {log.read_text(encoding='utf-8')[-800:]}"


def described(folder: Path) -> str:
    """The card that `results` used: its name and driver; nothing where it never ran."""
    path = folder / "card" / _DESCRIPTION
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _read(path: Path) -> dict[str, Bytes] | str:
    if path.suffix == ".txt":
        return path.read_text(encoding="utf-8")
    with np.load(path) as found:
        return dict(found)


def _write(path: Path, tensors: dict[str, Bytes]) -> None:
    arrays: dict[str, Any] = dict(tensors)
    np.savez(path, **arrays)


def jobs(folder: Path, what: str) -> Iterator[list[Job]]:
    """The kernels in their order, those of one module together."""
    if what == "fusions":
        for number, candidate in enumerate(prepared_fusions(folder / what)):
            yield [(number, candidate.artifact.cubin, launch_of(candidate))]
        return
    number = 0
    for compiled, forms in prepared_forms(chosen(folder / what), folder / what):
        yield [(number + k, compiled.cubin, form.launch(entry(k))) for k, form in enumerate(forms)]
        number += len(forms)


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.emulate.on_card", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("what", choices=("forms", "fusions"))
    parser.add_argument("first", type=int)
    given = parser.parse_args(argv)
    folder, what, first = given.folder, given.what, given.first
    out = folder / "card" / what
    (out.parent / _DESCRIPTION).write_text(card_name(), encoding="utf-8")
    for group in jobs(folder, what):
        rest = [job for job in group if job[0] >= first]
        if not rest:
            continue
        with loaded(rest[0][1]) as module:
            for number, _, launch in rest:
                try:
                    _write(out / f"{number}.npz", run(module, launch))
                except (KernelError, Refused) as error:
                    (out / f"{number}.txt").write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
                    if not isinstance(error, Refused):
                        return FAULTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
