"""A search begins with what won for fusions of kin, whatever their fingerprints; their rows say which are."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.event import listen

from compiler.arch import Card, card_named
from compiler.wire import bind
from fusetune.wire.parse import parse_binding, parse_fusion
from search.tuning.history import Kin
from service.db import cards, fusions, kernels
from service.db.models import KernelRow, TuningRow
from service.jobs.past import PastTunings, fill_kin, kin_of
from tests.service.db.rows import kernel
from tests.service.jobs.sites import BINDING, Site, fusion_of

H100, H200 = card_named("H100 SXM"), card_named("H200")
OTHER_ROWS = {"sizes": {"M": 32}}
SUM = {
    "format": "fusetune.fusion/1",
    "inputs": [{"name": "x", "shape": ["M", 256], "dtype": "f32"}],
    "ops": [{"op": "sum", "in": ["x"], "out": "y", "dims": [1], "keepdim": False}],
    "outputs": [{"name": "y"}],
}


def key_of(site: Site, document: dict[str, Any], binding: dict[str, Any] = BINDING, card: Card = H200) -> kernels.Key:
    """The key of a fusion that was posted."""
    bound = bind(parse_fusion(document), parse_binding(binding))
    with site.db.write() as session:
        fusions.put(session, bound.fingerprint, document, "y", None)
        fusions.put_binding(session, bound.fingerprint, bound.binding_hash, binding)
        return bound.fingerprint, bound.binding_hash, cards.put(session, card, attached=True).id, "policy"


def published(site: Site, key: kernels.Key, **columns: Any) -> None:
    with site.db.write() as session:
        kernels.publish(session, kernel(session, key, repr(key).encode(), **columns))


@pytest.mark.parametrize("is_known", [True, False], ids=["of this version", "of an earlier one"])
@pytest.mark.parametrize(
    ("other", "binding", "card", "kin"),
    [
        pytest.param(fusion_of("square"), OTHER_ROWS, H200, Kin.SIZES, id="other-rows"),
        pytest.param(fusion_of("square", width=512), BINDING, H200, Kin.SIZES, id="of-another-width"),
        pytest.param(fusion_of("square"), BINDING, H100, Kin.CARD, id="another-card"),
        pytest.param(fusion_of("square", width=512), BINDING, H100, Kin.CARD, id="another-card-and-width"),
        pytest.param(fusion_of("exp"), BINDING, H200, Kin.STRUCTURE, id="another-operator"),
        pytest.param(fusion_of("square", dtype="f16"), OTHER_ROWS, H200, Kin.STRUCTURE, id="another-type"),
        pytest.param(fusion_of("exp"), BINDING, H100, None, id="another-operator-elsewhere"),
        pytest.param(SUM, BINDING, H200, None, id="another-structure"),
        pytest.param(fusion_of("square"), BINDING, H200, None, id="itself"),
    ],
)
def test_kernels_of_kin_are_found(
    site: Site, other: dict[str, Any], binding: dict[str, Any], card: Card, kin: Kin | None, is_known: bool
) -> None:
    own = key_of(site, fusion_of("square"))
    bound = bind(parse_fusion(other), parse_binding(binding))
    published(site, key_of(site, other, binding, card), **(kin_of(bound) if is_known else {}))
    fusion = bind(parse_fusion(fusion_of("square")), parse_binding(BINDING))
    found = PastTunings(site.db, own).alike(fusion, H200)
    assert [past.kin for past in found] == ([] if kin is None else [kin])
    assert [past.candidate.knobs for past in found] == ([] if kin is None else [{"vector": 8}])


def test_what_they_are_of_kin_with_is_worked_out_once_and_of_what_can_be(site: Site) -> None:
    for width in (64, 128, 256):
        published(site, key_of(site, fusion_of("square", width=width)))
    gone = key_of(site, fusion_of("square", width=8))
    with site.db.write() as session:
        row = fusions.get(session, gone[0])
        assert row is not None
        row.document = {**row.document, "ops": [{"op": "of_the_future", "in": ["x"], "out": "y"}]}
    published(site, gone)
    assert [fill_kin(site.db, 3) for _ in range(3)] == [3, 1, 0]
    with site.db.read() as session:
        rows = session.scalars(select(KernelRow)).all()
    assert sorted(row.sizes or [] for row in rows) == [[], [64, 64], [64, 128], [64, 256]]
    assert len({row.alike for row in rows}) == len({row.structure for row in rows}) == 2
    assert [row.fingerprint for row in rows if row.alike == ""] == [gone[0]]


def test_a_fusion_that_breaks_us_is_met_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker fills in what is lacking, as it starts: a fault that stays would end each of them."""
    published(site, key_of(site, fusion_of("square")))
    monkeypatch.setattr("service.jobs.past.structure_of", {}.__getitem__)
    assert [fill_kin(site.db, 3) for _ in range(2)] == [1, 0]


def test_how_many_statements_it_takes_does_not_grow_with_the_fusions(site: Site) -> None:
    for width in (64, 128, 256):
        published(site, key_of(site, fusion_of("square", width=width)))
    asked = list[str]()
    listen(site.db.engine, "before_cursor_execute", lambda c, cursor, statement, *rest: asked.append(statement))
    with site.db.read() as session:
        assert len(kernels.without_kin(session, 3)) == 3
    assert len([one for one in asked if one.startswith("SELECT")]) == 1


def test_a_tuning_begins_with_the_best_point_of_another_size(site: Site) -> None:
    """And says so, by another fingerprint, with the fake device."""
    first = site.post(fusion_of("square", width=256), trials_limit=6)
    site.worker()
    assert site.ended(first).state == "done"
    with site.db.read() as session:
        won = session.scalars(select(KernelRow)).one()
    second = site.post(fusion_of("square", width=512), trials_limit=2)
    row: TuningRow = site.ended(second)
    assert row.fingerprint != won.fingerprint
    assert row.timeline is not None
    assert row.timeline["begun_from"] == "Begun from 1 of other sizes."
    assert site.trials(second)[0].candidate.knobs == won.point
