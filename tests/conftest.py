"""Options of the test suite, the order of its tests, and how its processes collect garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy  # noqa: F401 - Hypothesis takes care of its random numbers too
import pytest
from hypothesis import given, is_hypothesis_test, settings, strategies

from compiler.nvrtc import CompilePool
from tests import scratch
from tests.compilers import PtxPool, SharedPool
from tests.nursery import Nursery

if TYPE_CHECKING:
    from search.proof.emulated.apart import Prover

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("fusetune", settings(), deadline=None)
settings.load_profile("fusetune")

YOUNG = 1_000_000
"""Objects made before young ones are collected: at Python's 700 a fifth of the suite's time is spent collecting, at
100,000 an eleventh. Most of what is made by then is kept for good, and looked at in vain."""

EXAMPLES_SHARE, LEAST_EXAMPLES = 3, 20
"""A property is tried on one in so many of its examples, but on no fewer than so many; in the long run on all."""

scratch.use()  # before anything asks where temporary files lie
gc.disable()  # what is imported and collected here stays: going through it again and again finds nothing


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files from what is generated now")


@given(strategies.none())
def _first(_: None) -> None:
    """The first property of a process, before which Hypothesis looks at every object there is."""


@pytest.hookimpl(trylast=True)
def pytest_sessionstart() -> None:
    _first()  # while there are few


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The service's tests first: they wait for processes, and as the last ones would leave nothing to do meanwhile.
    Properties are in both runs, in the ordinary one on a share of their examples."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/service/"))
    is_long, is_ordinary = _is_long(config), "not long" in config.option.markexpr
    for law in (one for one in items if isinstance(one, pytest.Function) and is_hypothesis_test(one.obj)):
        if is_long:
            law.add_marker("long")
        elif is_ordinary and law.get_closest_marker("long") is None:
            _try_a_share(law.obj)


def _is_long(config: pytest.Config) -> bool:
    return "long" in config.option.markexpr.replace("not long", "")


def _try_a_share(law: Any) -> None:
    """Once, however many parameters the test has."""
    test = getattr(law, "__func__", law)
    chosen: settings = test._hypothesis_internal_use_settings  # as the plugin of Hypothesis itself asks for them
    few = max(min(LEAST_EXAMPLES, chosen.max_examples), chosen.max_examples // EXAMPLES_SHARE)
    if not hasattr(test, "tried_on_a_share"):
        test.tried_on_a_share = True
        test._hypothesis_internal_use_settings = settings(chosen, max_examples=few)


def pytest_collection_finish() -> None:
    gc.freeze()  # without collecting first, which takes a second and frees a tenth
    gc.set_threshold(YOUNG, 20, 20)
    gc.enable()


def pytest_sessionfinish() -> None:
    """What is left without an owner is told, once: pytest and the interpreter go through everything thrice more."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def machine_pool() -> Iterator[CompilePool]:
    """A compiler process, started by the first who asks for a kernel."""
    with SharedPool() as shared:
        yield shared


@pytest.fixture(scope="session")
def pool(machine_pool: CompilePool) -> CompilePool:
    """What compiles the kernels of a folder: to machine code, unless the folder says otherwise."""
    return machine_pool


@pytest.fixture(scope="session")
def ptx_pool(pytestconfig: pytest.Config, machine_pool: CompilePool) -> Iterator[CompilePool]:
    """A compiler for kernels that are only emulated: to PTX; in the long run to machine code, so that ptxas has had
    every one of them."""
    if _is_long(pytestconfig):
        yield machine_pool
        return
    with PtxPool() as shared:
        yield shared


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """What processes are forked from."""
    with Nursery() as found:
        yield found


@pytest.fixture(scope="module")
def forked(nursery: Nursery) -> Iterator[None]:
    """Children of `compiler.child` are forked from the nursery: for tests of what they are asked, not of how they
    start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("compiler.child.spawned", nursery.child)
        yield


@pytest.fixture(scope="session")
def prover() -> Iterator[Prover]:
    """A proving child, started by the first who asks for it."""
    from tests.borrowed import KeptProver  # most of the compiler: not for a run of tests that do without

    kept = KeptProver()
    yield kept
    kept.close()


@pytest.fixture
def borrowed(monkeypatch: pytest.MonkeyPatch, machine_pool: CompilePool, prover: Prover) -> None:
    """Commands and workers in this process compile and prove in children that are up already."""
    from tests.borrowed import borrow

    borrow(monkeypatch, machine_pool, prover)
