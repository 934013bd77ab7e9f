"""`torch.compile(model, backend="fusetune")`. Importing it imports torch; torch does so when the backend is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx

from fusetune.torch_compile.asking import RegionRequest, regions_of
from fusetune.torch_compile.compiling import CompileBackend
from fusetune.torch_compile.options import CompileOptions
from fusetune.torch_compile.reporting import RegionReport, report_of

__all__ = ["CompileBackend", "CompileOptions", "RegionReport", "RegionRequest", "backend", "regions_of", "report"]

_process = CompileBackend()


def backend(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """The backend that torch.compile finds under the name of `fusetune`. `options`: see `CompileOptions`.

    Raises InvalidRequest for an unknown option.
    """
    return _process(gm, example_inputs, options=options, mode=mode)


def report() -> RegionReport:
    """The regions of all graphs that this process has compiled, as they stand now."""
    return report_of(_process.reported)
