"""How many of the operators that models compute are in regions, at the sizes that models are used at, without memory.

python -m benchmarks.models.coverage

An operator counts if it is in a region, or could be with a neighbour that it hands something to or has something of;
views, constants and parts of results are none.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch._subclasses import FakeTensorMode

from benchmarks.models.asked import RegionsInside
from benchmarks.models.catalogue import MODELS, Model, Setting
from benchmarks.models.tuning import FolderSource
from fusetune.torch_compile import CompileBackend
from fusetune.torch_compile.regions.operators import name_of
from fusetune.torch_compile.regions.propose import propose
from fusetune.torch_compile.regions.reach import Reach
from fusetune.torch_compile.regions.units import Role, UnitGraph

PLACES = {
    "eager": "fusetune.torch_compile.compiling.propose",
    "inductor": "fusetune.torch_compile.inside.passes.propose",
}
"""Where each engine has regions proposed."""


@dataclass(frozen=True)
class Coverage:
    """Of one graph: operators in regions, operators that could be, and the names of those that are left."""

    inside: int
    of: int
    outside: tuple[str, ...]

    @property
    def share(self) -> float:
        """Of those that could be."""
        return self.inside / self.of if self.of else 1.0


def covered(model: Model, engine: str, layers: int | None = None, least_bytes: int = 0) -> list[Coverage]:
    """The forward and the backward graph of a training step."""
    torch._dynamo.reset()
    with FakeTensorMode(allow_non_fake_inputs=True), _counted(engine) as found:
        module, inputs = model.make(Setting(torch.device("cpu"), layers=layers))
        backend = CompileBackend(FolderSource())
        if engine == "eager":
            compiled: Any = torch.compile(
                module, backend=backend, options={"least_bytes": least_bytes, "engine": "eager"}
            )
            compiled(*inputs).float().square().mean().backward()
        else:
            with contextlib.suppress(Exception):  # it ends where nothing is run
                torch.compile(module, backend=RegionsInside(backend))(*inputs)
    return found


@contextlib.contextmanager
def _counted(engine: str) -> Iterator[list[Coverage]]:
    found: list[Coverage] = []

    def counted(graph: torch.fx.Graph, say: Callable[..., bool], **options: Any) -> Any:
        flow, regions = propose(graph, say, **options)
        inside = {unit.index for region in regions for unit in region.units}
        could = _could(flow, inside)
        left = tuple(name_of(flow.units[u].head) for u in could if u not in inside)
        found.append(Coverage(len(inside), len(could), left))
        return flow, regions

    with mock.patch(PLACES[engine], counted):
        yield found


def _could(flow: UnitGraph, inside: set[int]) -> list[int]:
    """The operators that count. What is worked out of constants alone is a constant."""
    reach = Reach(flow)
    varies: set[int] = set()
    for unit in flow.units:
        if unit.role is Role.FOREIGN or flow.sources[unit.index] & varies:
            varies.add(unit.index)
    ours = [u for u in flow.units if u.role is Role.COMPUTE and u.index in varies | inside]
    return [u.index for u in ours if u.index in inside or any(reach.may_merge(u.index, n) for n in _near(flow, u))]


def _near(flow: UnitGraph, unit: Any) -> list[int]:
    """The units that may be in a region and that hand something to this one, or have something of it."""
    around = [*flow.sources[unit.index], *(u.index for u in flow.solid() if unit.index in flow.sources[u.index])]
    return [n for n in around if flow.units[n].role is Role.COMPUTE]


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a table and writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--out", type=Path, default=Path("build/models/coverage.json"))
    given = parser.parse_args(arguments)
    rows = []
    for name in given.models.split(","):
        for engine in PLACES:
            for direction, found in zip(("forward", "backward"), covered(MODELS[name], engine), strict=False):
                rows.append({"model": name, "engine": engine, "direction": direction, "inside": found.inside,
                             "of": found.of, "outside": found.outside})  # fmt: skip
                print(f"{name:10s} {engine:9s} {direction:9s} {found.inside:4d} of {found.of:4d}  {found.share:.1%}  "
                      f"{' '.join(found.outside)}", flush=True)  # fmt: skip
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
