"""What a search begins with: the best points of fusions of kin, as the nearest legal ones of its own spaces."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

import pytest

from compiler.arch import card_named
from compiler.ir.fusion import Fusion
from search.space.constraints import Constraint
from search.space.knobs import Knob, KnobValue
from search.space.space import Space
from search.tuning.candidates.candidate import Candidate
from search.tuning.history import (
    Kin,
    Past,
    apart,
    begun_from,
    nearest_of,
    same_at_other_sizes,
    starts,
    structure_of,
)
from search.tuning.past_folders import PastFolders
from search.tuning.results import TunedSubject, write_outcome
from search.tuning.tuner import SearchOutcome
from tests.search.schedulers.fusions import permute, silu_of_sum
from tests.search.schedulers.row_fusions import layer_norm, softmax
from tests.service.jobs.benches import winner

H100, H200 = card_named("H100 SXM"), card_named("H200")
SPACE = Space(
    "flat",
    (Knob("threads", (64, 128, 256)), Knob("vector", (1, 2, 4, 8)), Knob("load", ("vector", "bulk"))),
    (Constraint("wide", ("threads", "vector"), lambda t, v: (t < 256) | (v < 8), "too many registers"),),
)


@pytest.mark.parametrize(
    ("point", "nearest"),
    [
        pytest.param({"threads": 128, "vector": 4, "load": "bulk"}, (128, 4, "bulk"), id="as-it-is"),
        pytest.param({"threads": 512, "vector": 2, "load": "bulk"}, (256, 2, "bulk"), id="the-nearest-number"),
        pytest.param({"threads": 128, "vector": 4, "load": "tma"}, (128, 4, "vector"), id="the-first-word"),
        pytest.param({"threads": 128, "vector": 4}, (128, 4, "vector"), id="a-knob-that-it-had-not"),
        pytest.param({"threads": 128, "vector": 4, "load": "bulk", "rows": 2}, (128, 4, "bulk"), id="one-that-is-gone"),
        pytest.param({"threads": 256, "vector": 8, "load": "bulk"}, (128, 8, "bulk"), id="the-nearest-legal"),
        pytest.param({"threads": 128, "rows": 4}, None, id="too-little-in-common"),
    ],
)
def test_a_point_of_elsewhere_is_the_nearest_legal_one(
    point: dict[str, KnobValue], nearest: tuple[KnobValue, ...] | None
) -> None:
    found = nearest_of(SPACE, point)
    assert (None if found is None else tuple(found[knob.name] for knob in SPACE.knobs)) == nearest


def past(kin: Kin, vector: int, far: float = 0.0, scheduler: str = "flat") -> Past:
    point: dict[str, KnobValue] = {"threads": 64, "vector": vector, "load": "vector"}
    return Past(Candidate.of(scheduler, point), kin, (far, 0), f"{kin.name} {vector}")


def test_the_nearest_kin_and_sizes_come_first_and_each_candidate_once() -> None:
    pasts = [
        past(Kin.STRUCTURE, 1),
        past(Kin.CARD, 8, 0.0),
        past(Kin.SIZES, 2, 3.0),
        past(Kin.SIZES, 4, 1.0),
        past(Kin.CARD, 4, 0.0),
        past(Kin.SIZES, 1, 0.0, "gone"),
    ]
    found = starts(pasts, {"flat": SPACE})
    assert [candidate.knobs["vector"] for _, candidate in found] == [4, 2, 8, 1]
    assert Counter(of.kin for of, _ in found) == {Kin.SIZES: 2, Kin.CARD: 1, Kin.STRUCTURE: 1}
    assert begun_from(found) == "Begun from 2 of other sizes, 1 of other cards, 1 of fusions of its structure."
    assert len(starts(pasts, {"flat": SPACE}, at_most=2)) == 2
    assert starts([], {"flat": SPACE}) == []


def test_what_won_at_many_sizes_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Mapping[str, KnobValue]] = []

    def nearest(space: Space, point: Mapping[str, KnobValue]) -> dict[str, KnobValue] | None:
        looked.append(point)
        return nearest_of(space, point)

    monkeypatch.setattr("search.tuning.history.nearest_of", nearest)
    found = starts([past(Kin.SIZES, 2, far) for far in (3.0, 1.0, 2.0)], {"flat": SPACE})
    assert [of.apart[0] for of, _ in found] == [1.0]
    assert len(looked) == 1


@pytest.mark.parametrize(
    ("sizes", "others", "far"),
    [
        ([1000, 64], [1000, 64], (0.0, 0)),
        ([1024, 64], [4096, 64], (2.0, 0)),
        ([1024, 64], [512, 32], (2.0, 2)),
        ([8], [8, 8], (inf, 0)),
    ],
)
def test_sizes_are_apart_by_doublings(sizes: list[int], others: list[int], far: tuple[float, int]) -> None:
    assert apart(sizes, others) == far


ROWS = softmax((64, 512), (1,), "bf16")


@pytest.mark.parametrize(
    ("other", "is_same", "is_alike"),
    [
        pytest.param(softmax((256, 1000), (1,), "bf16"), True, True, id="other-sizes"),
        pytest.param(softmax((64, 512), (1,), "f16"), False, True, id="another-type"),
        pytest.param(softmax((64, 512), (0,), "bf16"), False, False, id="along-another-dimension"),
        pytest.param(layer_norm((64, 512), (1,), "bf16"), False, False, id="another-structure"),
    ],
)
def test_fusions_of_kin(other: Fusion, is_same: bool, is_alike: bool) -> None:
    assert (same_at_other_sizes(other) == same_at_other_sizes(ROWS)) is is_same
    assert (structure_of(other) == structure_of(ROWS)) is is_alike


def test_operators_make_no_other_structure_and_are_no_other_size() -> None:
    one, other = silu_of_sum((96, 200), (1,), "bf16"), silu_of_sum((96, 200), (0,), "bf16")
    assert structure_of(one) != structure_of(other)
    assert same_at_other_sizes(permute((64, 96), (1, 0), "f32")) == same_at_other_sizes(permute((8, 8), (1, 0), "f32"))


def kept(folder: Path, name: str, fusion: Fusion, card: str, us: float | None = 10.0, **changes: Any) -> None:
    subject = TunedSubject(name, fusion, card, 10, 5)
    found = None if us is None else winner(us)
    (folder / name).mkdir(parents=True)
    write_outcome(folder / name, subject, SearchOutcome(found, (), "budget"))
    if changes:
        document = json.loads((folder / name / "results.json").read_text())
        document["results"][name] |= changes
        (folder / name / "results.json").write_text(json.dumps(document))


def test_folders_of_results_are_a_history(tmp_path: Path) -> None:
    wide, narrow = softmax((64, 1024), (1,), "bf16"), softmax((64, 256), (1,), "bf16")
    kept(tmp_path, "wide", wide, H100.name)
    kept(tmp_path, "there", narrow, H200.name)
    kept(tmp_path, "half", softmax((64, 512), (1,), "f16"), H100.name)
    kept(tmp_path, "norm", layer_norm((64, 512), (1,), "bf16"), H100.name)
    kept(tmp_path, "none", wide, H100.name, us=None)
    kept(tmp_path, "damaged", wide, H100.name, winner={"scheduler": "flat"})
    kept(tmp_path, "older", wide, H100.name, alike=None, structure=None)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "results.json").write_text("[]")
    found = {one.name: (one.kin, one.apart) for one in PastFolders(tmp_path).alike(ROWS, H100)}
    assert found == {"wide": (Kin.SIZES, (1.0, 0)), "there": (Kin.CARD, (1.0, 1)), "half": (Kin.STRUCTURE, (0.0, 0))}


def test_in_a_large_space_a_point_that_is_near_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for the nearest of hundreds of millions takes longer than a search."""
    knobs = tuple(Knob(f"k{n}", tuple(range(32))) for n in range(6))
    rule = Constraint("sum", ("k0", "k1"), lambda a, b: a + b < 20, "too large together")
    monkeypatch.setattr(Space, "nearest_legal", None)
    wanted: dict[str, KnobValue] = {"k0": 25, "k1": 7, "k2": 3, "k3": 30, "k4": 0, "k5": 9}
    space = Space("large", knobs, (rule,))
    found = nearest_of(space, wanted)
    assert found is not None
    assert space.is_legal(found)
    assert {name: found[name] for name in ("k2", "k3", "k4", "k5")} == {"k2": 3, "k3": 30, "k4": 0, "k5": 9}
    assert abs(found["k0"] - 25) + abs(found["k1"] - 7) <= 16  # type: ignore[operator]  # numbers; 13 is the least
    empty = Space("none", knobs, (Constraint("none", ("k0",), lambda a: a < 0, "nothing"),))
    assert nearest_of(empty, wanted) is None
