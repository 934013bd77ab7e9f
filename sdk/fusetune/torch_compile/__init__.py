"""`torch.compile(model, backend="fusetune")`. Importing it imports torch; torch does so when the backend is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx

from fusetune.torch_compile.compiling import Backend
from fusetune.torch_compile.options import Options
from fusetune.torch_compile.report import Report, report_of
from fusetune.torch_compile.sources import KernelSource, StoredKernels

__all__ = ["Backend", "KernelSource", "Options", "Report", "StoredKernels", "backend", "report"]

_process = Backend()


def backend(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """The backend that torch.compile finds under the name of `fusetune`. `options`: see `Options`.

    Raises InvalidRequest for an unknown option.
    """
    return _process(gm, example_inputs, options=options, mode=mode)


def report() -> Report:
    """The regions of all graphs that this process has compiled, as they stand now."""
    return report_of(_process.proposed)
