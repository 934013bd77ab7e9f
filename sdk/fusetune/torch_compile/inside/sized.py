"""`SizedGraph`: one graph at settled sizes: its regions, what became of them, and its versions with kernels."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from fusetune.torch_compile.choosing import Engine, KernelChoice, LibraryChoice
from fusetune.torch_compile.inside.compiling import Run, apart, earlier_pass, look, with_kernels
from fusetune.torch_compile.inside.host import Host
from fusetune.torch_compile.inside.notes import GraphNotes, TimedKernel
from fusetune.torch_compile.inside.otherwise import Instead, RegionTrial, by_inductor
from fusetune.torch_compile.inside.passes import Looking, Proposer, Taking, own_code, uuid_of
from fusetune.torch_compile.inside.products import LibraryKernel
from fusetune.torch_compile.inside.regions import PortableRegion
from fusetune.torch_compile.inside.traced import TracedGraph, fakes_of
from fusetune.torch_compile.inside.ways import best_ways, tell_the_others
from fusetune.torch_compile.options import CompileOptions
from fusetune.torch_compile.requesting import Asking
from fusetune.torch_ops import hold

log = logging.getLogger("fusetune.torch_compile")

Key = tuple[str, str]

PATIENCE_S, PATIENCE = 30.0, 20.0
"""While kernels are still searched for, a graph is compiled again with those that came at most so often: every 30 s,
and for a twentieth of the time."""


@dataclass(frozen=True)
class RegionInside:
    """A region of a graph inside Inductor, for reports. `why`: why no kernel can stand for it."""

    graph: str
    number: int
    line: str
    operators: int
    moved_bytes: int
    choices: Sequence[KernelChoice] = ()
    why: str = ""
    engine: Engine = "inductor"

    @property
    def name(self) -> str:
        """Graph and number."""
        return f"{self.graph}/{self.number}"


@dataclass(frozen=True)
class Version:
    """A graph compiled with the kernels of `keys` where its regions are."""

    run: Run
    keys: frozenset[Key]
    name: str


class SizedGraph:
    """`version` is what runs; None: the graph as Inductor alone compiles it. It changes in `settle`, or in `take` where
    ranks agree. Without `fakes` it is a graph that cannot be compiled again."""

    def __init__(
        self,
        host: Host,
        traced: TracedGraph,
        options: CompileOptions,
        inputs: Sequence[Any],
        label: str,
        asking: Asking,
    ) -> None:
        self.host, self.traced, self.options, self.label, self.asking = host, traced, options, label, asking
        self.device = next((x.device for x in inputs if isinstance(x, torch.Tensor)), torch.device("cpu"))
        self.patches = options.patches
        self.key = traced.key(inputs, str(sorted(self.patches.items())), str(options.least_bytes), own_code())
        self.fakes = fakes_of(inputs)
        self.proposer = Proposer(host.lower, options.least_bytes)
        self.regions: list[PortableRegion] | None = None
        self.choices: dict[Key, KernelChoice] = {}
        self.reported: list[RegionInside] = []
        self.version: Version | None = None
        self.error: Exception | None = None
        self.agreed: set[Key] = set()
        self._next: Version | None = None
        self._busy = self._has_looked = False
        self._changed = self._took_s = 0.0
        self._written: frozenset[Key] = frozenset()
        self._given_up: set[frozenset[Key]] = set()
        self._quiet_since: int | None = None

    @property
    def is_quiet(self) -> bool:
        """Whether nothing comes of `settle`, unless a kernel fails."""
        return self._quiet_since == self.host.failures

    def recall(self) -> bool:
        """Takes what an earlier process has found of the graph; whether it did."""
        found = self.host.notes.read(self.key, self._device_name())
        if found is None:
            return False
        self._know(found.regions)
        for key, choice in self.choices.items():
            choice.settle(self.host.source())
            code = getattr(choice.kernel, "artifact", None)
            verdict = None if code is None else found.verdict(key, code.code_hash)
            if verdict is not None and choice.state == "arrived":
                choice.judge(verdict.otherwise_us, verdict.kernel_us)
        self._written = frozenset((x.fingerprint, x.binding) for x in found.verdicts)
        return True

    def at_once(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> bool:
        """Compiles with the kernels that are known to be faster, in place of the graph as it is; whether there were
        any. Called while Dynamo compiles; `gm` is taken over then."""
        wanted = self._wanted()
        if not wanted or self.options.swap == "sync_point":
            return False
        taking = self._taking(wanted)
        run = with_kernels(gm, inputs, self.patches, taking, self.host.inner)
        self.version = Version(run, wanted, self._name_of(wanted))
        self._take_choices(wanted)
        return True

    def settle(self) -> None:
        """Between steps: what came is looked at, at most one region is timed, and versions change."""
        if self.error is not None and self.options.strict:
            raise self.error
        if self._busy:
            return
        if self.regions is None:
            if not self._has_looked and self.error is None:
                self._do(self._look)
            return
        source = self.host.source()
        for choice in self.choices.values():
            choice.settle(source)
        self.asking.ask_again(choice for choice in self.choices.values() if choice.kernel is None)
        self._time_one()
        if self._next is not None and self.options.swap == "step":
            self._swap()
        failures = self.host.failures
        is_done = self._renew() and all(choice.kernel is not None for choice in self.choices.values())
        self._quiet_since = failures if is_done else None

    def block(self) -> None:
        """All of it at once, while the caller waits, for the kernels at most as long as the options say."""
        if self.regions is None:
            self._look()
        choices = list(self.choices.values())
        self.asking.wait(choices, self.options.budget_s)
        for _ in range(1 + len(choices)):  # code to time beside is made for all, then each is timed
            self._time_one()
            self.host.background.wait()
            self._timed(choices)
        if (wanted := self._wanted()) != self._running():
            self._compile(wanted)
            self._swap()

    def _timed(self, choices: Sequence[KernelChoice]) -> None:
        """Waits for what is being timed."""
        while any(choice.state == "timing" for choice in choices):
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            for choice in choices:
                choice.settle(self.host.source())

    def arrived(self) -> set[str]:
        """What ranks have to agree on: kernels that are faster here, then the version that is compiled of those."""
        names = {choice.name for key, choice in self.choices.items() if choice.is_faster and key not in self.agreed}
        return names if self._next is None else {*names, self._next.name}

    def take(self, names: set[str]) -> int:
        """Agreed on by all ranks."""
        new = {key for key, choice in self.choices.items() if choice.name in names}
        taken = len(new - self.agreed)
        self.agreed |= new
        if self._next is not None and self._next.name in names:
            self._swap()
        return taken

    def _ways(self) -> list[PortableRegion]:
        """The regions whose kernels should run."""
        is_free = self.options.swap == "step"

        def may_run(key: Key) -> bool:
            return self.choices[key].is_faster and (is_free or key in self.agreed)

        return best_ways(self.regions or (), self.choices, may_run, by_time=is_free)

    def _wanted(self) -> frozenset[Key]:
        """The kernels that should run."""
        return frozenset(x.key for x in self._ways())

    def _running(self) -> frozenset[Key]:
        return frozenset() if self.version is None else self.version.keys

    def _is_open(self, choice: KernelChoice) -> bool:
        if choice.state == "waiting" and self.asking.is_silent:
            return False
        return choice.is_open(self.host.source())

    def _renew(self) -> bool:
        """Has a version compiled with what is wanted, if that has changed and no more of it will soon; whether nothing
        of that kind is left to do."""
        wanted = self._wanted()
        is_waiting = any(self._is_open(choice) for choice in self.choices.values())
        if self._next is not None or wanted == self._running() or wanted in self._given_up:
            if wanted == self._running() and self.options.swap == "step":
                tell_the_others(self.choices.values())
            self._keep()
            return self._next is None and not is_waiting and self.options.swap == "step"
        patience = max(PATIENCE_S, PATIENCE * self._took_s)
        if not is_waiting or time.monotonic() - self._changed >= patience:
            self._given_up.add(wanted)  # unless it comes off
            self._do(lambda: self._compile(wanted))
        return False

    def _swap(self) -> None:
        assert self._next is not None
        self.version, self._next = self._next, None
        self._take_choices(self.version.keys)
        self._changed = time.monotonic()

    def _take_choices(self, keys: frozenset[Key]) -> None:
        for key in keys:
            self.choices[key].take()
        tell_the_others(self.choices.values())

    def _look(self) -> None:
        self._has_looked = True
        looking = Looking(self.proposer)
        look(self.traced, self.fakes, self.patches, looking)
        self._know([
            said if isinstance(said, PortableRegion)
            else RegionInside(f"{self.label}{kind}", n, "", region.operators, region.moved_bytes, why=said)
            for n, (kind, region, said) in enumerate(looking.found)
        ])  # fmt: skip
        self._write()

    def _know(self, found: Sequence[PortableRegion | RegionInside]) -> None:
        """What regions there are, for the first time; kernels are asked for."""
        regions = [x for x in found if isinstance(x, PortableRegion)]
        for x in found:
            if isinstance(x, RegionInside):
                self.reported.append(x)
                continue
            choice = self._choice_of(x)
            self.choices[choice.key] = choice
            self.reported.append(
                RegionInside(f"{self.label}{x.graph}", x.number, x.line, x.operators, x.moved_bytes, (choice,))
            )
        self.asking.ask(self.choices.values())
        self._changed = time.monotonic()
        self.regions = regions

    def _choice_of(self, x: PortableRegion) -> KernelChoice:
        if not x.library:
            return self.host.choices.of(x.fusion, x.binding, x.moved_bytes)
        like = KernelChoice(x.fusion, x.binding, x.moved_bytes, self.host.choices.engine)
        return self.host.choices.adopt(LibraryChoice(x.key, LibraryKernel(x), like))

    def _time_one(self) -> None:
        """Has one kernel timed that came, beside what Inductor makes of its region."""
        if any(choice.state == "timing" for choice in self.choices.values()):
            return
        arrived = [key for key, choice in self.choices.items() if choice.state == "arrived"]
        with self.host.lock:
            new = [key for key in arrived if key not in self.host.trials]
            self.host.trials.update(dict.fromkeys(new))
        if new:
            self._do(lambda: self._prepare(new))
            return
        for key in arrived:
            if (trial := self.host.trials[key]) is not None and trial.has_room():
                self._time(self.choices[key], trial)
                return

    def _prepare(self, keys: Sequence[Key]) -> None:
        for key in keys:
            region = self._region_of(key)
            try:
                run = by_inductor(region, self.device, self.patches, self.host.inner)
            except Exception as error:
                self.choices[key].fail(error)
                raise
            self.host.trials[key] = RegionTrial(region, self.device, run)

    def _time(self, choice: KernelChoice, trial: RegionTrial) -> None:
        try:
            choice.time(self.host.clock(self.device), *trial.both(choice.kernel))
        except Exception as error:
            choice.fail(error)
            log.warning("a kernel could not be timed, its region stays with Inductor: %s", error)
            if self.options.strict:
                raise

    def _region_of(self, key: Key) -> PortableRegion:
        return next(x for x in self.regions or () if x.key == key)

    def _taking(self, wanted: frozenset[Key]) -> Taking:
        keys = {key: hold(self.choices[key].kernel, self._instead(key)) for key in sorted(wanted)}
        places = [(x.graph, x.number, x.key) for x in self._ways() if x.key in keys]
        return Taking(self.proposer, keys, places, earlier_pass(self.patches), strict=self.options.strict)

    def _instead(self, key: Key) -> Instead:
        choice = self.choices[key]

        def failed(error: Exception) -> None:
            if choice.state != "failed":
                choice.fail(error)
                self.host.failures += 1
                log.warning("a kernel failed, its region runs without it: %s", error)

        return Instead(self._region_of(key), self.device, failed, self.options.strict)

    def _compile(self, wanted: frozenset[Key]) -> None:
        started = time.monotonic()
        taking = self._taking(wanted)
        with apart(self.traced):
            run = with_kernels(self.traced.copy(), self.fakes, self.patches, taking, self.host.inner)
        self._took_s = time.monotonic() - started
        self._next = Version(run, wanted, self._name_of(wanted))
        self._given_up.discard(wanted)
        self._write()

    def _name_of(self, wanted: frozenset[Key]) -> str:
        return f"{self.key}:{uuid_of({key: '/'.join(key) for key in wanted})}"

    def _do(self, job: Callable[[], None]) -> None:
        """On the thread. What fails is tried once more, as not all of torch is made for threads; what fails again
        leaves the graph as it is."""
        self._busy = True

        def done() -> None:
            try:
                try:
                    job()
                except Exception as error:  # noqa: BLE001 (told, and tried once more)
                    log.info("compiled once more, after %s: %s", type(error).__name__, error)
                    job()
            except Exception as error:  # noqa: BLE001 (the program goes on, whatever it was)
                self.error = error
                log.warning("a graph stays as Inductor compiles it: %s: %s", type(error).__name__, error)
            finally:
                self._busy = False

        self.host.background.add(done)

    def _keep(self) -> None:
        """Has written down what was measured, once nothing more is."""
        known = frozenset(key for key, choice in self.choices.items() if choice.otherwise_us is not None)
        if known != self._written and not any(choice.state == "timing" for choice in self.choices.values()):
            self._written = known
            self.host.background.add(self._write)

    def _write(self) -> None:
        judged = [choice for choice in self.choices.values() if choice.otherwise_us is not None]
        verdicts = [
            TimedKernel(fingerprint=x.key[0], binding=x.key[1], code=x.kernel.artifact.code_hash,
                    otherwise_us=x.otherwise_us or 0.0, kernel_us=x.kernel_us or 0.0)
            for x in judged if x.kernel is not None
        ]  # fmt: skip
        notes = GraphNotes(device=self._device_name(), regions=tuple(self.regions or ()), verdicts=tuple(verdicts))
        self.host.notes.write(self.key, notes)

    def _device_name(self) -> str:
        return torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else self.device.type
