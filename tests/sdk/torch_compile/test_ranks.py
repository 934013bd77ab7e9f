"""All ranks change kernels at the same sync point, and to the same ones, however unequal they come to them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import fusetune
from fusetune.torch_compile import CompileBackend
from tests.sdk.torch_compile.inside.interpreted import interpreted
from tests.sdk.torch_compile.reference_kernels import FakeKernels, FixedClock

pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*")

X, Y, W = torch.randn(8, 32), torch.randn(8, 32), torch.randn(32, 32)
STEPS = 14


def around(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.nn.functional.silu(x * 2 + y) @ w, -1) * x


class Rank:
    """A compiled function of one rank. `late`: how many looks its kernels are behind; `slow`: none is faster there."""

    def __init__(self, engine: str, late: int = 0, slow: bool = False) -> None:
        source: Any = FakeKernels(ready_after=late)
        clock = FixedClock(1.0, 2.0) if slow else FixedClock()
        self.backend = CompileBackend(source, clock, None, interpreted)
        options: dict[str, Any] = {"engine": engine, "least_bytes": 0, "strict": True, "swap": "sync_point"}
        self.run = torch.compile(around, backend=self.backend, options=options)

    def step(self) -> None:
        torch.testing.assert_close(self.run(X, Y, W), around(X, Y, W))
        fusetune.wait(60)

    def taken(self) -> list[str]:
        choices = {choice.name: choice for x in self.backend.reported for choice in x.choices}
        return sorted(name for name, choice in choices.items() if choice.is_taken)


def history(first: Rank, second: Rank) -> list[tuple[list[str], list[str]]]:
    """What both have taken after each step."""
    found = []
    for _ in range(STEPS):
        first.step()
        second.step()
        agreed = first.backend.agreed.arrived() & second.backend.agreed.arrived()
        first.backend.agreed.take(agreed)
        second.backend.agreed.take(agreed)
        found.append((first.taken(), second.taken()))
    return found


@pytest.mark.parametrize("engine", ["eager", "inductor"])
def test_a_kernel_is_taken_once_all_have_it(engine: str) -> None:
    torch._dynamo.reset()
    steps = history(Rank(engine), Rank(engine, late=6))
    assert all(one == other for one, other in steps)
    assert len(steps[-1][0]) == 2
    assert steps[0][0] == []


@pytest.mark.parametrize("engine", ["eager", pytest.param("inductor", marks=pytest.mark.long)])
def test_a_kernel_that_is_slower_on_one_is_taken_by_none(engine: str) -> None:
    torch._dynamo.reset()
    assert history(Rank(engine), Rank(engine, slow=True))[-1] == ([], [])


def test_nothing_changes_without_a_sync_point() -> None:
    torch._dynamo.reset()
    rank = Rank("eager")
    for _ in range(6):
        rank.step()
    assert rank.taken() == []
    assert fusetune.sync_point() >= 2
    assert len(rank.taken()) == 2


def one_rank(number: int, folder: str, engine: str) -> None:
    """What a process of `test_two_processes` does."""
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=number, world_size=2)
    rank = Rank(engine, late=9 * number)
    mine: list[list[str]] = []
    for _ in range(STEPS):
        rank.step()
        fusetune.sync_point()
        mine.append(rank.taken())
    gathered: list[Any] = [None, None]
    dist.all_gather_object(gathered, mine)
    assert gathered[0] == gathered[1], gathered
    assert len(mine[-1]) == 2, mine
    dist.destroy_process_group()


@pytest.mark.long
@pytest.mark.parametrize("engine", ["eager", "inductor"])
def test_two_processes(engine: str, tmp_path: Path) -> None:
    ask = (
        "import sys; from tests.sdk.torch_compile.test_ranks import one_rank; one_rank(int(sys.argv[1]), *sys.argv[2:])"
    )
    commands = [[sys.executable, "-c", ask, str(n), str(tmp_path), engine] for n in range(2)]
    ranks = [subprocess.Popen(one, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for one in commands]
    told = [rank.communicate(timeout=300)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(told)[-4000:]
