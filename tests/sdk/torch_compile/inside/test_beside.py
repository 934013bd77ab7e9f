"""A compilation on another thread goes unnoticed: compiled functions run on, and random numbers come as they would."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from fusetune.torch_compile.inside.beside import beside_the_program, is_elsewhere

pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*")


class Held:
    """A job on another thread that waits in its midst."""

    def __init__(self, job: Callable[[Callable[[], None]], None]) -> None:
        self.reached, self.released = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=job, args=(self.pause,))

    def pause(self) -> None:
        self.reached.set()
        assert self.released.wait(60)

    def __enter__(self) -> None:
        self.thread.start()
        assert self.reached.wait(60)

    def __exit__(self, *exc: object) -> None:
        self.released.set()
        self.thread.join(60)


def traced(pause: Callable[[], None]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        pause()
        return x * 2

    with beside_the_program():
        make_fx(function, tracing_mode="fake")(torch.randn(4))


def test_a_compiled_function_runs_while_another_is_traced() -> None:
    run = torch.compile(lambda x: x + 1, backend="eager")
    x = torch.randn(4)
    run(x)
    with Held(traced):
        assert is_elsewhere()
        torch.testing.assert_close(run(x), x + 1)
        torch.testing.assert_close(torch.nn.Linear(4, 2)(x).shape, torch.Size([2]))
    assert not is_elsewhere()


def test_on_its_own_thread_a_trace_is_one() -> None:
    run = torch.compile(lambda x: x + 1, backend="eager")
    run(torch.randn(4))
    with beside_the_program(), pytest.raises(RuntimeError, match="symbolically trace"):
        make_fx(lambda x: run(x), tracing_mode="fake")(torch.randn(4))


def test_random_numbers_are_not_drawn_again() -> None:
    def compiles(pause: Callable[[], None]) -> None:
        from torch._dynamo.utils import preserve_rng_state

        with beside_the_program(), preserve_rng_state():
            pause()

    torch.manual_seed(0)
    expected = [torch.rand(()).item() for _ in range(4)]
    torch.manual_seed(0)
    found = [torch.rand(()).item()]
    with Held(compiles):
        found += [torch.rand(()).item() for _ in range(2)]
    found.append(torch.rand(()).item())
    assert found == expected


def test_others_may_put_a_state_back_meanwhile() -> None:
    torch.manual_seed(0)
    state = torch.get_rng_state()
    first = torch.rand(()).item()
    with Held(traced):
        torch.random.set_rng_state(state)
    assert torch.rand(()).item() == first
