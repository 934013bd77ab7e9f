"""Random fusions built in processes of their own: drawn, scheduled at one point, compiled. What a GPU then runs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any, TypeVar

from compiler.errors import CompileError
from compiler.nvrtc import Compiled, compile_now
from compiler.pipeline import artifact
from tests.search.random_fusions.cases import Case, random_case
from tests.search.random_fusions.proving import Kernel, Outcome, kernels

T = TypeVar("T")


@dataclass(frozen=True)
class Built:
    """A case with an artifact as JSON, or with what went wrong. Nothing in it belongs to a process."""

    outcome: Outcome
    artifact: str = ""

    @property
    def case(self) -> Case:
        return self.outcome.kernel.case


class InThisProcess:
    """Compiles where it is called: in a process that may be lost."""

    def submit(self, source: str, arch: str) -> Future[Compiled]:
        done: Future[Compiled] = Future()
        try:
            done.set_result(compile_now(source, arch))
        except CompileError as error:
            done.set_exception(error)
        return done


def build(seed: int, limits: str) -> Built:
    """The case of a seed at one point of one of its schedulers."""
    case = random_case(seed, limits)
    (kernel,) = kernels(case, seed, 1, InThisProcess())
    return built(kernel)


def built(kernel: Kernel) -> Built:
    """What came of a kernel that was compiled in this process."""
    bare = Kernel(kernel.case, kernel.seed, kernel.candidate)
    if kernel.made is None or kernel.compiled is None:
        return Built(Outcome(bare, kernel.fault, kernel.unsupported))
    try:
        compiled = kernel.compiled.result()
    except CompileError as error:
        return Built(Outcome(bare, fault=f"CompileError: {error}"))
    return Built(Outcome(bare), artifact(kernel.made, compiled).model_dump_json())


def built_by(processes: int, seeds: range, limits: str) -> Generator[Built, None, None]:
    """Every seed's case, as they are done."""
    return in_processes(processes, build, [(seed, limits) for seed in seeds])


def in_processes(
    processes: int, make: Callable[..., T], arguments: Iterable[tuple[Any, ...]]
) -> Generator[T, None, None]:
    """What `make` makes of each, as they are done, in processes of their own. Who stops asking ends what waits."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        try:
            for done in as_completed([pool.submit(make, *some) for some in arguments]):
                yield done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def with_fault(built: Built, fault: str) -> Outcome:
    """What a GPU found wrong."""
    return replace(built.outcome, fault=fault)
