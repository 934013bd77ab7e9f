"""What Inductor's cache knows a graph with kernels by."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass

from fusetune.torch_compile.inside import passes
from fusetune.torch_compile.inside.passes import Place, Taking

ONE, OTHER = {("f", "b"): "k1"}, {("f", "b"): "k1", ("g", "b"): "k2"}


class Named(CustomGraphPass):
    """Somebody else's pass."""

    def __init__(self, name: str | None) -> None:
        self.name = name

    def __call__(self, graph: fx.Graph) -> None:
        pass

    def uuid(self) -> str | None:
        return self.name


def taking(keys: dict[tuple[str, str], str], before: Any = None, places: Collection[Place] = ()) -> Taking:
    proposer: Any = None  # a uuid is of what is taken, whoever proposed it
    return Taking(proposer, keys, places, before)


def test_the_uuid_is_of_what_was_taken_and_of_our_own_code(monkeypatch: Any) -> None:
    one = taking(ONE).uuid()
    assert one == taking(dict(ONE)).uuid()
    assert len({one, taking(OTHER).uuid(), taking({("f", "b"): "k3"}).uuid(), taking({}).uuid()}) == 4
    assert (
        taking(ONE, places=[("forward", 0, ("f", "b"))]).uuid()
        != taking(ONE, places=[("forward", 1, ("f", "b"))]).uuid()
    )
    named = taking(ONE, Named("a")).uuid()
    assert len({one, named, taking(ONE, Named("b")).uuid()}) == 3
    assert taking(ONE, Named(None)).uuid() is None  # nothing of it is kept then
    assert taking(ONE, lambda graph: None).uuid() is None
    monkeypatch.setattr(passes, "own_code", lambda: "another version")
    assert taking(ONE).uuid() != one
