"""What a function keeps beside what it returns: under jit it is as eager leaves it, and no trace leaves a tensor."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import fusetune
from fusetune.errors import CannotConvert
from tests.sdk.jitting.sources import ReferenceSource, same

pytestmark = pytest.mark.filterwarnings("ignore::fusetune.FusetuneWarning")


class Counting(nn.Module):
    """Counts its calls in a buffer, in place."""

    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x * 2 + self.count


class Replacing(Counting):
    """Puts another tensor in the buffer's place, and keeps its last result."""

    last: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count = self.count + 1
        found = self.last = x * 2
        return found + self.count


class Plain:
    """No module, with a number and a list of its own."""

    def __init__(self) -> None:
        self.count, self.seen = 0, list[torch.Tensor]()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.seen.append(x * 2)
        return self.seen[-1] + self.count


def kept_by(made: Any) -> list[Any]:
    return [made.count, getattr(made, "last", None), *getattr(made, "seen", ())]


def by_variable() -> Callable[[torch.Tensor], torch.Tensor]:
    count, table = 0, dict[int, torch.Tensor]()

    def run(x: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        table[count] = x * 2
        return torch.stack(list(table.values())).sum(0)

    return run


@pytest.mark.parametrize("grad", [False, True], ids=["plain", "gradients"])
@pytest.mark.parametrize("make", [Counting, Replacing, Plain])
@pytest.mark.parametrize("is_closed", [False, True], ids=["itself", "closed-over"])
def test_what_a_call_keeps_is_what_eager_keeps(make: Callable[[], Any], is_closed: bool, grad: bool) -> None:
    mine, theirs = make(), make()
    function = (lambda x: mine(x)) if is_closed else mine
    jitted = fusetune.jit(function, source=ReferenceSource(is_prompt=True), mode="block", grad=grad)
    for _ in range(3):
        x = torch.randn(5, requires_grad=grad)
        same(jitted(x), theirs(x), 4.0)
        for one, other in zip(kept_by(mine), kept_by(theirs), strict=True):
            assert type(one) is type(other)
            same(one, other, 4.0)


@pytest.mark.parametrize("grad", [False, True], ids=["plain", "gradients"])
def test_variables_and_dictionaries(grad: bool) -> None:
    jitted = fusetune.jit(by_variable(), source=ReferenceSource(is_prompt=True), mode="block", grad=grad)
    eager = by_variable()
    for _ in range(3):
        x = torch.randn(5, requires_grad=grad)
        same(jitted(x), eager(x), 4.0)


SEEN = deque[torch.Tensor](maxlen=2)
LAST: torch.Tensor | None = None


def in_a_queue(x: torch.Tensor) -> torch.Tensor:
    SEEN.append(x * 2)
    return SEEN[-1] + 1


def in_a_global(x: torch.Tensor) -> torch.Tensor:
    global LAST
    LAST = x * 2
    return LAST + 1


def in_a_default(x: torch.Tensor, seen: list[torch.Tensor] = []) -> torch.Tensor:  # noqa: B006  # what is tested
    seen.append(x * 2)
    return seen[-1] + 1


def in_a_set(x: torch.Tensor, *, seen: set[torch.Tensor] = set()) -> torch.Tensor:  # noqa: B006  # what is tested
    seen.add(x)
    return x * 2 + 1


def in_an_attribute(x: torch.Tensor) -> torch.Tensor:
    in_an_attribute.last = x * 2  # type: ignore[attr-defined]  # what is tested
    return x * 2 + 1


class Shared:
    """Keeps what it has seen for all of its kind."""

    seen: list[torch.Tensor] = []  # noqa: RUF012  # what is tested
    last: torch.Tensor | None = None


class SharedToo(Shared):
    """One of that kind."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        type(self).last = x * 2
        return x * 2 + 1


def in_a_class(x: torch.Tensor) -> torch.Tensor:
    Shared.last = x * 2
    return x * 2 + 1


def in_a_class_list(x: torch.Tensor, by: Any = SharedToo()) -> torch.Tensor:  # noqa: B008  # what is tested
    by.seen.append(x)
    return x * 2 + 1


class Slotted:
    """With no dictionary."""

    __slots__ = ("last", "scale")

    def __init__(self) -> None:
        self.scale = 2.0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x * self.scale
        return x * 2 + 1


SLOTTED, KIND = Slotted(), SharedToo()


def in_a_slot(x: torch.Tensor) -> torch.Tensor:
    return SLOTTED(x)


KEEPING = [
    pytest.param(in_a_queue, "items of a deque of 0", lambda: list(SEEN), id="queue"),
    pytest.param(in_a_global, "the global variable 'LAST'", lambda: [x for x in [LAST] if x is not None], id="global"),
    pytest.param(in_a_default, "items of a list of 0", lambda: in_a_default.__defaults__[0], id="default"),  # type: ignore[index]  # has one
    pytest.param(in_a_set, "members of a set of 0", lambda: list(in_a_set.__kwdefaults__["seen"]), id="set"),  # type: ignore[index]  # has one
    pytest.param(
        in_an_attribute, "in_an_attribute's attribute 'last'", lambda: list(vars(in_an_attribute)), id="attribute"
    ),
    pytest.param(in_a_class, "Shared's class attribute 'last'", lambda: [x for x in [Shared.last] if x is not None],
                 id="class"),
    pytest.param(in_a_class_list, "items of a list of 0", lambda: list(Shared.seen), id="class-list"),
    pytest.param(KIND, "SharedToo's class attribute 'last'", lambda: [x for x in vars(SharedToo) if x == "last"],
                 id="kind"),
    pytest.param(in_a_slot, "Slotted's attribute 'last'", lambda: [x for x in ["last"] if hasattr(SLOTTED, x)],
                 id="slot"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "what", "held"), KEEPING)
def test_wherever_a_function_keeps_a_tensor_it_is_seen(
    function: Callable[[torch.Tensor], torch.Tensor], what: str, held: Callable[[], list[torch.Tensor]]
) -> None:
    with pytest.raises(CannotConvert, match=what):
        fusetune.from_torch(function)(torch.ones(5))
    assert held() == []


def test_what_is_kept_is_named_and_what_is_read_is_not() -> None:
    with pytest.raises(CannotConvert, match=r"Replacing's attribute 'last'|the key 'count'"):
        fusetune.from_torch(Replacing())(torch.randn(5))
    with pytest.raises(CannotConvert, match="Plain's attribute 'count'"):
        fusetune.from_torch(Plain())(torch.randn(5))
    assert fusetune.from_torch(Counting())(torch.randn(5)).ops
    assert fusetune.from_torch(lambda x: x * SLOTTED.scale + len(KIND.seen))(torch.randn(5)).ops
    table: dict[str, Any] = {"scale": 3.0, "held": [torch.ones(5)]}
    assert fusetune.from_torch(lambda x: x * table["scale"] + table["held"][0])(torch.randn(5)).ops
