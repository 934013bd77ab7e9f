"""The card's half, in a process of its own: a kernel that faults or leaks takes the process's CUDA context with it.

`python -m benchmarks.blackwell.on_card NAME ARCH FILE` runs the question of that name and writes its output to FILE.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.blackwell.catalogue import question_named
from benchmarks.blackwell.question import HardwareQuestion, Words
from benchmarks.emulate.card import card_name, loaded, run
from benchmarks.emulate.compiling import compile_source
from compiler.arch import arch_named, arch_names
from fusetune.errors import KernelError, NoDevice
from fusetune.launch.driver import device_attribute

HANG_S = 60.0
"""Without a result for as long, compiling included, the kernel counts as hanging."""


def attached() -> tuple[str, str]:
    """The card's name and its compile target. Raises NoDevice where none is attached that has tensor memory."""
    name = card_name()
    capability = tuple(device_attribute(0, f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
    for arch in map(arch_named, arch_names()):
        if arch.capability == capability and arch.has_tmem:
            return name, arch.name
    raise NoDevice(f"{name} has no tensor memory", "Attach a B200 or a B300.", True)


def card_words(question: HardwareQuestion, arch: str) -> Words | str:
    """The output on the card, or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "y.npy"
        command = [sys.executable, "-m", "benchmarks.blackwell.on_card", question.name, arch, str(out)]
        try:
            child = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
        except subprocess.TimeoutExpired:
            return f"no result in {HANG_S:.0f} s: it hangs"
        if child.returncode or not out.exists():
            lines = (child.stderr.strip() or f"exit code {child.returncode}").splitlines()
            return f"failed: {lines[-1]}"
        found: Words = np.load(out)
        return found


def main(argv: list[str]) -> int:
    """The command."""
    name, arch, out = argv
    question = question_named(name)
    launch = question.launch(arch)
    with loaded(compile_source(question.source, arch).cubin) as module:
        try:
            np.save(out, run(module, launch)["y"].view(np.uint32))
        except KernelError as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
