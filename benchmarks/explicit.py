"""Explicit schedules timed on a GPU: `python -m benchmarks.explicit FILE [NAME ...]`, microseconds a case.

A case is lowered as given, verified against its operators and timed as the search times a candidate, so that its time
stands beside that of a tuned kernel of the same fusion.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compiler.arch import arch_named, arch_names
from compiler.explicit.artifact import explicit_artifact, meaning
from compiler.explicit.generate import generate_explicit
from compiler.nvrtc import CompilePool
from search.measure.cuda import CudaDevice
from search.measure.device import Effort, MeasureResult


def measured(case: Mapping[str, Any], effort: Effort = Effort.ALL_SETS) -> MeasureResult:
    """One case on the GPU of this machine. Raises what `generate_explicit` does, CompileError and DeviceLost."""
    with CudaDevice() as device, CompilePool(workers=1, time_limit_s=60.0) as pool:
        capability = device.facts().capability
        arch = next(a for name in arch_names() if (a := arch_named(name)).capability == capability)
        made = generate_explicit(case, arch)
        device.open(meaning(made))
        return device.measure(explicit_artifact(made, pool.submit(made.source, arch.name).result()), effort)


def main(arguments: Sequence[str]) -> None:
    """Prints a line for each case of the file, or for those named."""
    cases = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    for case in cases if isinstance(cases, list) else [cases]:
        if len(arguments) == 1 or case["name"] in arguments[1:]:
            print(case["name"], measured(case))


if __name__ == "__main__":
    main(sys.argv[1:])
