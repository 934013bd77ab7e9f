"""The card's half, in a process of its own: a kernel that faults takes the process's CUDA context with it.

`python -m benchmarks.emulate.on_card DIR forms|fusions FIRST` runs what was prepared from number FIRST on, writes the
tensors of each kernel to DIR/card, and ends early, with exit code 3, after the first kernel that faulted.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.emulate.card import Bytes, Refused, loaded, run
from benchmarks.emulate.compiling import entry, prepared_forms
from benchmarks.emulate.forms import all_forms
from benchmarks.emulate.fusions import launch_of, prepared_fusions
from compiler.emulate.launch import Launch
from fusetune.errors import KernelError

FAULTED = 3
"""Exit code: run again from the next kernel."""

Job = tuple[int, bytes, Launch]


def results(folder: Path, what: str) -> dict[int, dict[str, Bytes] | str]:
    """What every kernel left on the card, or how it failed, by number. Runs as many processes as kernels that fault."""
    out = folder / "card" / what
    out.mkdir(parents=True, exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    while True:
        first = len(list(out.iterdir()))
        command = [sys.executable, "-m", "benchmarks.emulate.on_card", str(folder), what, str(first)]
        ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
        if ended.returncode == 0:
            break
        if ended.returncode != FAULTED and len(list(out.iterdir())) == first:
            (out / f"{first}.txt").write_text(f"the process ended with {ended.returncode}: {ended.stderr[-800:]}")
    return {int(path.stem): _read(path) for path in out.iterdir()}


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
    for compiled, forms in prepared_forms(all_forms(), folder / what):
        yield [(number + k, compiled.cubin, form.launch(entry(k))) for k, form in enumerate(forms)]
        number += len(forms)


def main() -> int:
    """The command."""
    folder, what, first = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    out = folder / "card" / what
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
