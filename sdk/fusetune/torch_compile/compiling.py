"""`torch.compile(backend="fusetune")`: Dynamo and AOTAutograd above, regions with kernels below, eager for the rest."""

from __future__ import annotations

import itertools
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from fusetune.errors import CannotConvert, FusetuneError, FusetuneWarning
from fusetune.graph import decompositions
from fusetune.graph.clean import numbers_as_literals
from fusetune.graph.lines import line_of
from fusetune.jitting.clocks import Clock, EventClock, HostClock
from fusetune.running import KernelSource, default_source
from fusetune.store import Store
from fusetune.torch import is_capturing
from fusetune.torch_compile.agreeing import AgreedFunctions
from fusetune.torch_compile.around import around
from fusetune.torch_compile.calls import RegionCall
from fusetune.torch_compile.choosing import KernelChoice, KernelChoices
from fusetune.torch_compile.listing import ListCall, lowered_lists
from fusetune.torch_compile.lowering import Lowered, Sayable, alike, drawing_eager_of, eager_of, lowered
from fusetune.torch_compile.options import CompileOptions
from fusetune.torch_compile.program import Boxed, Call, boxed, calls_of, held_by, program
from fusetune.torch_compile.regions.bits import keeping_decisions
from fusetune.torch_compile.regions.of_one_type import split_by_types
from fusetune.torch_compile.regions.order import steps_of
from fusetune.torch_compile.regions.products import WithProducts, with_products
from fusetune.torch_compile.regions.propose import propose
from fusetune.torch_compile.regions.region import Region
from fusetune.torch_compile.reporting import Proposed, ReportedRegion, summary
from fusetune.torch_compile.requesting import Asking
from fusetune.torch_compile.steps import Steps
from fusetune.torch_compile.trouble import nobody_to_ask

if TYPE_CHECKING:
    from fusetune.torch_compile.inside.host import Host
    from fusetune.torch_compile.inside.notes import Notes
    from fusetune.torch_compile.inside.sessions import Session

log = logging.getLogger("fusetune.torch_compile")


class CompileBackend:
    """What torch.compile calls with each graph.

    `source`: where kernels come from, by default the store on disk and a service; `clock`: what times them; `notes`:
    what is kept of graphs, by default beside the store, and nothing with a source of one's own; `inner`: what makes
    code in Inductor's place. `proposed` are the regions of all graphs that run beside eager, in order.
    """

    def __init__(
        self,
        source: KernelSource | None = None,
        clock: Clock | None = None,
        notes: Notes | None = None,
        inner: Callable[..., Any] | None = None,
    ) -> None:
        self.choices = KernelChoices()
        self.proposed: list[Proposed] = []
        self.agreed = AgreedFunctions()
        self._source, self._clock, self._notes, self._inner = source, clock, notes, inner
        self._lowered: dict[object, Lowered | FusetuneError] = {}
        self._sayable: dict[str, Sayable] = {}
        self._numbers = itertools.count()
        self._warned: set[str] = set()
        self._inside: list[Session] = []
        self._host: Host | None = None

    def __call__(
        self,
        gm: fx.GraphModule,
        example_inputs: Sequence[Any],
        *,
        options: Mapping[str, Any] | None = None,
        mode: str | None = None,
    ) -> Callable[..., Any]:
        """Raises InvalidRequest for options that are unknown; with `strict` whatever goes wrong."""
        chosen = CompileOptions.read(options, mode)
        self.warn_once(chosen)
        made = self._beside_inductor if chosen.host == "inductor" else self._beside_eager
        return made(gm, example_inputs, chosen)

    def _beside_eager(
        self, gm: fx.GraphModule, example_inputs: Sequence[Any], chosen: CompileOptions
    ) -> Callable[..., Any]:
        from torch._dynamo.backends.common import aot_autograd
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        session = _Session(self, chosen)
        compiled: Callable[..., Any] = aot_autograd(
            fw_compiler=session.compiler("forward"),
            bw_compiler=session.compiler("backward"),
            inference_compiler=session.compiler("inference"),
            partition_fn=session.steps.noting(keeping_decisions(min_cut_rematerialization_partition)),
            decompositions=apart(),
            keep_inference_input_mutations=True,
        )(gm, example_inputs)
        return compiled

    def _beside_inductor(
        self, gm: fx.GraphModule, example_inputs: Sequence[Any], chosen: CompileOptions
    ) -> Callable[..., Any]:
        from torch._inductor.exc import InductorError

        from fusetune.torch_compile.inside.compiling import as_it_is
        from fusetune.torch_compile.inside.sessions import Session
        from fusetune.torch_compile.inside.traced import copied

        if self._source is None and not torch.cuda.is_available():
            return as_it_is(gm, example_inputs, chosen.patches, self._inner)
        label, kept = f"graph{next(self._numbers)}/", copied(gm)  # a compilation takes its graph over
        try:
            made = Session(self._inside_host(), gm, example_inputs, chosen, label, self.asking(chosen))
        except InductorError as error:
            if chosen.strict:
                raise
            log.warning("Inductor fails over a graph, which runs in eager: %s", str(error).splitlines()[0])
            return self._beside_eager(kept, example_inputs, chosen)
        self._inside.append(made)
        if chosen.swap == "sync_point":
            self.agreed.add(made)
        return made

    def _inside_host(self) -> Host:
        from fusetune.torch_compile.inside.host import Host
        from fusetune.torch_compile.inside.notes import Notes

        if self._host is None:
            kept = self._notes or Notes(Store().root / "graphs" if self._source is None else None)
            self._host = Host(lambda: self.source, self.clock, self.lower, kept, self._inner)
        return self._host

    @property
    def source(self) -> KernelSource:
        """Where kernels come from."""
        return default_source() if self._source is None else self._source

    @property
    def reported(self) -> list[ReportedRegion]:
        """The regions of all graphs, beside eager and inside Inductor."""
        return [*self.proposed, *(x for session in self._inside for x in session.reported)]

    def sayable(self, rng: str) -> Sayable:
        """What fusions can say, remembered."""
        return self._sayable.setdefault(rng, Sayable(rng))

    def next_name(self, kind: str) -> str:
        """A graph's name: one a graph of the process."""
        return f"{kind}{next(self._numbers)}"

    def lower(self, region: Region, eager: Boxed) -> Lowered:
        """The region's fusion; alike regions are lowered once. Raises FusetuneError."""
        key = alike(region.nodes, region.inputs, region.outputs)
        if key not in self._lowered:
            try:
                columns = region.columns
                self._lowered[key] = lowered(region, eager) if columns is None else lowered_lists(columns)
            except FusetuneError as error:
                self._lowered[key] = error
        found = self._lowered[key]
        if isinstance(found, FusetuneError):
            raise found
        return found

    def clock(self, device: torch.device | None) -> Clock:
        """What times a region on this device."""
        if self._clock is not None:
            return self._clock
        return EventClock(device) if device is not None and device.type == "cuda" else HostClock()

    def asking(self, options: CompileOptions) -> Asking:
        """Who asks for kernels for a function of these options: nobody where none can come, or none is wanted."""
        is_alone = self._source is None and nobody_to_ask(options) is not None
        return Asking(lambda: self.source, is_silent=options.mode == "cached" or is_alone)

    def warn_once(self, options: CompileOptions) -> None:
        """What keeps kernels from coming, told once: no card, no service, or none that may be asked."""
        trouble = nobody_to_ask(options) if self._source is None else None
        if trouble is None and (said := getattr(self.source, "trouble", None)) is not None:
            trouble = str(said).rstrip(".")
        if trouble is not None and not self._warned:
            self._warned.add(trouble)
            who = "eager runs" if options.host == "eager" else "Inductor runs alone"
            text = f"{trouble}: {who}, and fusetune.report() shows what would be tuned."
            warnings.warn(text, FusetuneWarning, stacklevel=2)


class _Session:
    """One traced function: its forward and backward graph change kernels together."""

    def __init__(self, backend: CompileBackend, options: CompileOptions) -> None:
        self.backend, self.options = backend, options
        self.calls: list[RegionCall] = []
        self.proposed: list[Proposed] = []
        self.asking = backend.asking(options)
        self.last_line = ""
        self._decided: list[KernelChoice] = []  # a step looks no further once all are
        self._states: list[str] = []
        self.steps = Steps()
        if options.swap == "sync_point":
            backend.agreed.add(self)

    def compiler(self, kind: str) -> Callable[[fx.GraphModule, Sequence[Any]], Any]:
        def compile_graph(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
            try:
                return self._compiled(gm, kind)
            except Exception as error:  # what can run in eager does
                if self.options.strict:
                    raise
                log.warning("a graph runs in eager as a whole: %s: %s", type(error).__name__, error)
                return _as_it_is(gm, kind)

        return compile_graph

    def begin(self) -> None:
        """Between steps: what came is looked at, and kernels change."""
        if is_capturing() or self.steps.is_open:
            return
        count = sum([len(call.choices) for call in self.calls])
        if count and count == len(self._decided) and [x.state for x in self._decided] == self._states:
            return
        choices = self.choices
        for choice in choices:
            choice.settle(self.backend.source)
            if self.options.swap == "step":
                choice.take()
        self.asking.ask_again(choice for choice in choices if choice.kernel is None)
        self.settle()
        self.backend.warn_once(self.options)
        line = summary(self.proposed, "eager")
        if line != self.last_line:
            self.last_line = line
            log.info(line)
        found = [choice for call in self.calls for choice in call.choices.values()]
        self._decided = [choice for choice in found if choice.is_final]
        self._states = [choice.state for choice in self._decided]

    def settle(self) -> None:
        """Regions take over what their choices have come to."""
        for call in self.calls:
            call.settle()

    @property
    def choices(self) -> list[KernelChoice]:
        """Of all regions, each once."""
        return list({choice.key: choice for call in self.calls for choice in call.choices.values()}.values())

    def arrived(self) -> set[str]:
        """For a sync point: what was measured faster here."""
        return {choice.name for choice in self.choices if choice.state == "faster"}

    def take(self, names: set[str]) -> int:
        """At a sync point: what was faster on every rank. The next step runs it."""
        return sum(choice.take() for choice in self.choices if choice.name in names)

    def _compiled(self, gm: fx.GraphModule, kind: str) -> Boxed:
        gm.graph.eliminate_dead_code()
        numbers_as_literals(gm)
        split_by_types(gm.graph)
        flow, regions = propose(gm.graph, self.backend.sayable(self.options.rng), least_bytes=self.options.least_bytes)
        name = self.backend.next_name(kind)
        made = [self._proposed(region, name, n) for n, region in enumerate(regions)]
        ways = with_products(flow, regions, self.options.least_bytes)
        wide = [self._around(way, made, name, n) for n, way in enumerate(ways, start=len(made))]
        covered = {n for way, x in zip(ways, wide, strict=True) if x.call is not None for n in way.covers}
        placed = [*(x for n, x in enumerate(made) if n not in covered), *wide]
        made += wide
        kept = {id(x.region): call for x in placed if (call := x.call) is not None}
        steps = steps_of(flow, [x.region for x in placed if x.call is not None])
        calls = [
            call
            for step in steps
            for call in (
                calls_of(step.nodes)
                if step.region is None
                else [Call(step.gives, kept[id(step.region)], step.reads, {}, is_boxed=True)]
            )
        ]
        run = program(_placeholders(gm.graph), [*held_by(gm), *calls], _outputs(gm.graph), name)
        self.proposed += made
        self.backend.proposed += made
        self._request([call for x in made if (call := x.call) is not None])
        return run if kind == "backward" else _between_steps(self.begin, run, self.steps.begin)

    def _around(self, way: WithProducts, made: Sequence[Proposed], graph: str, number: int) -> Proposed:
        """A region with products in it. Without a kernel the calls of those that it covers run in it, which it is timed
        against; what speaks against it costs those nothing."""
        covered = [(x.region, x.call) for x in (made[n] for n in way.covers) if x.call is not None]
        try:
            otherwise = around(way.region, covered, f"{graph}_{number}")
            return self._made(way.region, graph, number, otherwise)
        except FusetuneError as error:
            return Proposed(graph, number, _line(way.region), way.region, None, str(error).split("\n")[0])

    def _proposed(self, region: Region, graph: str, number: int) -> Proposed:
        try:
            return self._made(region, graph, number)
        except FusetuneError as error:
            if self.options.strict:
                raise
            return Proposed(graph, number, _line(region), region, None, str(error).split("\n")[0])

    def _made(self, region: Region, graph: str, number: int, otherwise: Boxed | None = None) -> Proposed:
        """A region with its call. `otherwise`: what runs without a kernel, if not its operators. Raises
        FusetuneError."""
        eager = eager_of(region, f"{graph}_{number}")
        backend = self.backend
        fusion = backend.lower(region, eager)
        if fusion.converted.draws:
            if otherwise is not None:  # which draws by itself, from what a kernel does not start from
                raise CannotConvert("the region", "it draws random numbers, with its product")
            eager = drawing_eager_of(region, f"{graph}_{number}")

        def bind(tensors: Sequence[Any]) -> KernelChoice:
            binding = fusion.converted.binding([*tensors, *_starts(fusion)])
            return backend.choices.of(fusion.converted.fusion, binding, region.moved_bytes)

        clock, run = backend.clock(region.units[0].device), otherwise or eager
        strict, columns = self.options.strict, region.columns
        call = (
            RegionCall(fusion, run, bind, clock, strict)
            if columns is None
            else ListCall(fusion, run, bind, clock, strict, region, columns)
        )
        if call.is_static:  # else a call tells the sizes
            call.choose([node.meta["val"] for node in region.inputs])
        self.calls.append(call)
        return Proposed(graph, number, _line(region), region, call)

    def _request(self, calls: Sequence[RegionCall]) -> None:
        """Asks for what is not here, the heaviest first; with `block` waits for it."""
        wanted = [choice for call in calls for choice in call.choices.values()]
        self.asking.ask(wanted)
        if self.options.mode == "block":
            self.asking.wait(wanted, self.options.budget_s)


def apart() -> dict[Any, Callable[..., Any]]:
    """What AOTAutograd takes apart: what is part of no region as it is, and is once it is taken apart.

    All else stays whole, so that a region without a kernel runs by eager's own operators, with eager's memory. Regions
    are taken apart when they are lowered.
    """
    aten = torch.ops.aten
    table = {op: rule for op, rule in decompositions().items() if getattr(op, "overloadpacket", None) in _RESIZES}
    return table | {aten.convolution.default: _bias_apart}


_RESIZES = (torch.ops.aten.upsample_nearest2d, torch.ops.aten.upsample_nearest2d_backward)


def _bias_apart(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *rest: Any) -> Any:
    """A convolution on CUDA adds its bias in a pass of its own: what follows can take that along."""
    if bias is None or x.device.type != "cuda":
        return NotImplemented
    found = torch.ops.aten.convolution.default(x, weight, None, *rest)
    return found + bias.view(1, -1, *[1] * (x.dim() - 2))


def _line(region: Region) -> str:
    return next((found for node in region.nodes if (found := line_of(node))), "")


def _starts(found: Lowered) -> list[torch.Tensor]:
    """Stand-ins for what random numbers start from, where a binding is made."""
    count = sum(isinstance(x, str) for x in found.converted.inputs)
    return [torch.empty((), dtype=torch.int64, device="meta")] * count


def _placeholders(graph: fx.Graph) -> list[fx.Node]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def _outputs(graph: fx.Graph) -> Any:
    return next(node for node in graph.nodes if node.op == "output").args[0]


def _as_it_is(gm: fx.GraphModule, name: str) -> Boxed:
    nodes = [node for node in gm.graph.nodes if node.op == "call_function"]
    return program(_placeholders(gm.graph), [*held_by(gm), *calls_of(nodes)], _outputs(gm.graph), name)


def _between_steps(begin: Callable[[], None], run: Boxed, begun: Callable[[Sequence[Any]], None]) -> Boxed:
    def step(args: list[Any]) -> Any:
        begin()
        found = run(args)
        begun(found)
        return found

    return boxed(step)
