"""Numbers and tensors that a function reads beside its arguments: another one there is another trace."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import fusetune
from fusetune.jitting.outside import Outside
from tests.sdk.jitting.sources import ReferenceSource

pytestmark = pytest.mark.filterwarnings("ignore::fusetune.FusetuneWarning")


class Settings:
    """Read as a class."""

    scale = 2.0


class Slotted:
    """Without a dictionary."""

    __slots__ = ("scale",)

    def __init__(self) -> None:
        self.scale = 2.0


class Held:
    """With all kinds of attribute, and one inside of another."""

    kind = 2.0

    def __init__(self) -> None:
        self.scale, self.inner = 2.0, types.SimpleNamespace(scale=2.0)

    @property
    def worked_out(self) -> float:
        return self.scale

    def by(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


class Added(nn.Module):
    """A part in a list."""

    amount = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.amount


class Scaled(nn.Module):
    """With a number of its own, a parameter, and a part that hangs on the mode."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.drop = 2.0, nn.Dropout(1.0)
        self.weight = nn.Parameter(torch.full((), 1.0), requires_grad=False)
        self.parts = nn.ModuleList([nn.Identity(), Added()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.drop(x) * self.scale * self.weight
        for part in self.parts:
            found = part(found)
        return found


HELD, SLOTTED, NUMBERS, TABLE = Held(), Slotted(), [2.0], {"scale": 2.0}
FACTOR = 2.0


def helped(x: torch.Tensor) -> torch.Tensor:
    return x * Settings.scale


def keyword(x: torch.Tensor, scale: float = 2.0, *, power: float = 1.0) -> torch.Tensor:
    return x * float(scale**power)


class Inherits(Held):
    """A method that it does not have itself."""


INHERITS, NAMES, BY_NAME = Inherits(), {"b"}, {"none": 0.0}


def put(owner: Any, name: str) -> Callable[[float], None]:
    return lambda value: setattr(owner, name, value)


def hidden(value: float) -> None:
    """A class gets a method of its own, in place of the one that it inherits."""
    if "by" in vars(Inherits):
        del Inherits.by
    if value != HELD.scale:
        Inherits.by = lambda self, x: x * value  # type: ignore[method-assign]  # as notebooks do


def with_name(value: float) -> None:
    NAMES.clear()
    NAMES.add(str(value))


def with_power(value: float) -> None:
    keyword.__kwdefaults__ = {"power": math.log2(value)}


def with_key(value: float) -> None:
    BY_NAME.pop("more", None)
    if value != 2.0:
        BY_NAME["more"] = value


def with_attribute(value: float) -> None:
    vars(INHERITS).pop("more", None)
    if value != 2.0:
        vars(INHERITS)["more"] = value


def shadowed(value: float) -> None:
    vars(HELD).pop("kind", None)
    if value != Held.kind:
        HELD.kind = value


CASES: list[Any] = [
    pytest.param(lambda x: x * Settings.scale, put(Settings, "scale"), id="class"),
    pytest.param(lambda x: x * SLOTTED.scale, put(SLOTTED, "scale"), id="slot"),
    pytest.param(lambda x: x * HELD.scale, put(HELD, "scale"), id="attribute"),
    pytest.param(lambda x: x * HELD.kind, put(Held, "kind"), id="of its class"),
    pytest.param(lambda x: x * HELD.kind, shadowed, id="in place of its class's"),
    pytest.param(lambda x: x * HELD.inner.scale, put(HELD.inner, "scale"), id="inside"),
    pytest.param(lambda x: x * HELD.worked_out, put(HELD, "scale"), id="property"),
    pytest.param(HELD.by, put(HELD, "scale"), id="method"),
    pytest.param(lambda x: HELD.by(x), put(HELD, "scale"), id="method that is called"),
    pytest.param(helped, put(Settings, "scale"), id="itself"),
    pytest.param(lambda x: helped(x), put(Settings, "scale"), id="helper"),
    pytest.param(lambda x: x * NUMBERS[0], lambda value: NUMBERS.__setitem__(0, value), id="list"),
    pytest.param(lambda x: x * TABLE["scale"], lambda value: TABLE.__setitem__("scale", value), id="dictionary"),
    pytest.param(lambda x: keyword(x), lambda v: setattr(keyword, "__defaults__", (v,)), id="helper's default"),
    pytest.param(lambda x: keyword(x, 2.0), with_power, id="its keyword's"),
    pytest.param(lambda x: INHERITS.by(x), hidden, id="method put in place of the inherited"),
    pytest.param(lambda x: x * (2 if "2.0" in NAMES else 3), with_name, id="set"),
    pytest.param(lambda x: x * BY_NAME.get("more", 2.0), with_key, id="key of a dictionary that was not there"),
    pytest.param(lambda x: x * getattr(INHERITS, "more", 2.0), with_attribute, id="attribute that was not there"),
    pytest.param(lambda x: x * FACTOR, lambda value: globals().__setitem__("FACTOR", value), id="global"),
]


@pytest.mark.parametrize(("function", "change"), CASES)
def test_another_number_is_another_trace(function: Any, change: Callable[[float], None]) -> None:
    change(2.0)
    jitted, x = fusetune.jit(function, source=ReferenceSource(is_prompt=True), mode="block"), torch.ones(3)
    found = []
    values = (2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 2.0)  # a call that is repeated is asked in another way
    for value in values:
        change(value)
        found.append(jitted(x)[0].item())
    change(2.0)
    assert found == list(values)
    rows = jitted.keys()
    assert "eager" not in [row["runs"] for row in rows]


def test_a_module_is_traced_again_where_its_mode_its_number_or_its_parameter_is_another() -> None:
    module = Scaled().eval()
    jitted = fusetune.jit(module, source=ReferenceSource(is_prompt=True), mode="block")
    x = torch.ones(3)
    assert jitted(x)[0].item() == 2
    module.train()
    assert jitted(x)[0].item() == 0
    module.eval()
    module.scale = 5.0
    assert jitted(x)[0].item() == 5
    module.weight = nn.Parameter(torch.full((), 3.0), requires_grad=False)
    assert jitted(x)[0].item() == 15
    module.weight.data.fill_(4.0)
    assert jitted(x)[0].item() == 20
    next(x for x in module.parts if isinstance(x, Added)).amount = 0.5
    assert jitted(x)[0].item() == 20.5


def test_a_parameter_of_another_form_is_another_kind_of_call() -> None:
    module, x = Scaled().eval(), torch.ones(3)
    jitted = fusetune.jit(module, source=ReferenceSource(is_prompt=True), mode="block")
    for _ in range(3):
        assert jitted(x).tolist() == [2, 2, 2]
    module.weight.data = torch.arange(3.0)
    for _ in range(3):
        assert jitted(x).tolist() == [0, 2, 4]
    assert len(jitted.keys()) == 2


MODULE = Scaled()


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        pytest.param(lambda: None, True, id="nothing"),
        pytest.param(lambda: setattr(HELD, "unread", 1.0), True, id="what is not read"),
        pytest.param(lambda: setattr(HELD, "scale", 3.0), False, id="a number"),
        pytest.param(lambda: NUMBERS.append(1.0), False, id="a longer list"),
        pytest.param(lambda: NUMBERS.__setitem__(0, 7.0), False, id="an item"),
        pytest.param(lambda: MODULE.drop.eval(), False, id="the mode of a part"),
        pytest.param(lambda: setattr(MODULE.parts, "1", nn.Identity()), False, id="a part"),
        pytest.param(lambda: MODULE.weight.requires_grad_(True), False, id="whether a parameter needs gradients"),
        pytest.param(lambda: setattr(MODULE.weight, "data", torch.ones(2)), False, id="a parameter's size"),
        pytest.param(lambda: MODULE.weight.fill_(2.0), True, id="what is in a parameter"),
    ],
)
def test_what_stood_there_is_told_from_what_stands_there(
    change: Callable[[], Any], stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, made in (("HELD", Held()), ("NUMBERS", [2.0]), ("MODULE", Scaled())):
        monkeypatch.setitem(globals(), name, made)
    outside = Outside(lambda x: MODULE(x * HELD.scale) + NUMBERS[0])
    assert outside.look()
    key = outside.key()
    still = outside.still(key)
    assert still is not None
    assert still()
    change()
    assert still() == stays
    assert (outside.key() == key) == stays
    assert outside.still(("another",)) is None


def test_a_number_that_is_set_anew_in_every_call_stays_right() -> None:
    held = types.SimpleNamespace(scale=0.0)
    jitted, x = (
        fusetune.jit(lambda x: x * held.scale, source=ReferenceSource(is_prompt=True), mode="block"),
        torch.ones(2),
    )
    found = []
    for n in range(80):
        held.scale = float(n // 40)
        found.append(jitted(x)[0].item())
    assert found == [0.0] * 40 + [1.0] * 40
    assert len(jitted.keys()) == 2


def test_of_a_function_that_reads_nothing_else_nothing_is_asked() -> None:
    outside = Outside(lambda x: torch.relu(x) * 2)
    assert not outside.look()
    assert outside.key is tuple


def test_what_every_call_changes_costs_one_trace() -> None:
    counted = types.SimpleNamespace(count=0)

    def run(x: Any) -> Any:
        counted.count += 1
        return x * counted.count

    jitted = fusetune.jit(run, source=ReferenceSource(is_prompt=True), mode="block")
    assert [jitted(torch.ones(2))[0].item() for _ in range(4)] == [1, 2, 3, 4]
    assert len(jitted.keys()) == 1
