"""What Inductor's cache knows a graph with kernels by."""

from __future__ import annotations

from typing import Any

from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass

from fusetune.torch_compile.inside import passes
from fusetune.torch_compile.inside.passes import Looking, Proposer, Taking

ONE, OTHER = {("f", "b"): "k1"}, {("f", "b"): "k1", ("g", "b"): "k2"}


class Named(CustomGraphPass):
    """Somebody else's pass."""

    def __init__(self, name: str | None) -> None:
        self.name = name

    def __call__(self, graph: fx.Graph) -> None:
        pass

    def uuid(self) -> str | None:
        return self.name


def taking(keys: dict[tuple[str, str], str], before: Any = None) -> Taking:
    return Taking(Proposer(lambda *_: (_ for _ in ()).throw(AssertionError), 0), keys, before)


def test_the_uuid_is_of_what_was_taken_and_of_our_own_code(monkeypatch: Any) -> None:
    one = taking(ONE).uuid()
    assert one == taking(dict(ONE)).uuid()
    assert len({one, taking(OTHER).uuid(), taking({("f", "b"): "k3"}).uuid(), taking({}).uuid()}) == 4
    named = taking(ONE, Named("a")).uuid()
    assert len({one, named, taking(ONE, Named("b")).uuid()}) == 3
    assert taking(ONE, Named(None)).uuid() is None  # nothing of it is kept then
    assert taking(ONE, lambda graph: None).uuid() is None
    looking = Looking(taking({}).proposer)
    looking.uuid()
    monkeypatch.setattr(passes, "own_code", lambda: "another version")
    assert taking(ONE).uuid() != one
