"""`Session`: a graph of Dynamo's that Inductor runs as it is, until a version with kernels has been compiled beside it.

A step, forward and backward, runs one version: the backward belongs to the forward that it came of. Versions change
between steps alone. What takes time is done on a thread; where nothing is new a step costs a comparison.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

from torch import fx

from fusetune.torch import is_capturing
from fusetune.torch_compile.inside.compiling import Run, as_it_is
from fusetune.torch_compile.inside.host import Host
from fusetune.torch_compile.inside.sized import RegionInside, SizedGraph
from fusetune.torch_compile.inside.traced import TracedGraph, may_be_compiled_again, open_positions, sizes_at
from fusetune.torch_compile.options import CompileOptions
from fusetune.torch_compile.reporting import summary
from fusetune.torch_compile.requesting import Asking

log = logging.getLogger("fusetune.torch_compile")

CALLS_BEFORE = 1
"""A graph is looked at after so many calls: the first step is Inductor's alone, its backward too."""

MOST_SIZES = 8
"""Sizes for which versions of one graph with open sizes are compiled; others run it as it is."""


MOST_COUNTED = 256
"""Sizes that are counted: of a graph that has new ones with every call, none is met again."""


class Session:
    """Called like the graph."""

    def __init__(
        self,
        host: Host,
        gm: fx.GraphModule,
        inputs: Sequence[Any],
        options: CompileOptions,
        label: str,
        asking: Asking,
    ) -> None:
        self.host, self.options, self.label = host, options, label
        self.traced = TracedGraph(gm) if may_be_compiled_again(inputs) else None
        self.asking = asking
        self.graphs: dict[object, SizedGraph] = {}
        self._open = open_positions(inputs, gm)
        self._calls: dict[object, int] = {}
        self._lock = threading.Lock()
        self._last_line = ""
        self._plain = self._compiled(gm, inputs)

    @property
    def reported(self) -> list[RegionInside]:
        """The regions that are known."""
        return [x for graph in list(self.graphs.values()) for x in graph.reported]

    def __call__(self, *args: Any) -> Any:
        """One step's forward."""
        sizes = () if self._open is None else sizes_at(args, self._open)
        if self._lock.acquire(blocking=False):  # another thread is at it else
            try:
                graph = self._settled(sizes, args)
            finally:
                self._lock.release()
        else:
            graph = self.graphs.get(sizes)
        version = None if graph is None else graph.version
        return (self._plain if version is None else version.run)(*args)

    def arrived(self) -> set[str]:
        """For a sync point."""
        return {name for graph in list(self.graphs.values()) for name in graph.arrived()}

    def take(self, names: set[str]) -> int:
        """At a sync point."""
        return sum(graph.take(names) for graph in list(self.graphs.values()))

    def _compiled(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Run:
        """What runs at first: with the kernels that an earlier process has found faster, else as Inductor has it."""
        if self.traced is not None and self._open is None and self.options.mode != "block":
            try:
                graph = self._graph((), inputs)
                if graph.recall() and graph.at_once(self.traced.copy(), inputs):
                    assert graph.version is not None
                    return graph.version.run
            except Exception as error:
                if self.options.strict:
                    raise
                log.warning("a graph starts as Inductor compiles it: %s: %s", type(error).__name__, error)
        return as_it_is(gm, inputs, self.options.patches, self.host.inner)

    def _settled(self, sizes: object, args: Sequence[Any]) -> SizedGraph | None:
        graph = self.graphs.get(sizes)
        if graph is not None and graph.is_quiet:
            return graph
        if self.traced is None or is_capturing():
            return graph
        if self.options.mode != "block" and (calls := self._calls.get(sizes, 0)) < CALLS_BEFORE:
            if len(self._calls) < MOST_COUNTED:
                self._calls[sizes] = calls + 1
            return graph
        if graph is None and len(self.graphs) < MOST_SIZES:
            graph = self._graph(sizes, args)
            graph.recall()
        if graph is None:
            return None
        if self.options.mode == "block" and graph.regions is None:
            self._block(graph)
        graph.settle()
        self._tell()
        return graph

    def _block(self, graph: SizedGraph) -> None:
        try:
            graph.block()
        except Exception as error:
            if self.options.strict:
                raise
            log.warning("a graph runs as Inductor compiles it: %s: %s", type(error).__name__, error)

    def _graph(self, sizes: object, inputs: Sequence[Any]) -> SizedGraph:
        assert self.traced is not None
        made = SizedGraph(self.host, self.traced, self.options, inputs, self.label, self.asking)
        self.graphs[sizes] = made
        return made

    def _tell(self) -> None:
        line = summary(self.reported, "inductor")
        if line != self._last_line and self.reported:
            self._last_line = line
            log.info(line)
