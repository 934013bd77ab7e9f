"""The searches behind the kernels of a pack travel with it, are kept once, and later searches learn of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select
from typer.testing import CliRunner

from compiler.arch import card_named
from compiler.wire import bind
from fusetune.wire.artifact import VERIFIER
from fusetune.wire.pack import PackFile, PackWriter, history_member
from fusetune.wire.parse import parse_binding, parse_fusion
from service.cli.pack import pack as command
from service.db import kernels, trials, tunings
from service.db.models import FusionRow, KernelRow, TrialRow, TuningRow
from service.jobs.past import PastTunings
from tests.service.api.test_deleting import looked_up
from tests.service.api.test_malformed import check
from tests.service.api.test_packs import proven, rewritten, send
from tests.service.api.test_tunings import opened
from tests.service.api.world import REQUEST, World, changed

BODY = {**REQUEST, "card": "H200", "budget_s": 7}
TRIALS: list[dict[str, Any]] = [
    {"number": 0, "state": "measured", "scheduler": "flat", "point": {"vector": 4}, "median_us": 10.0, "p10_us": 4.0,
     "p90_us": 11.0, "predicted_us": 9.5, "predicted_terms": {"read": 9.0}, "samples_us": [10.0, 10.1],
     "code_hash": "c" * 64, "launch_hash": "d" * 64, "seconds": {"compile": 0.5}},
    {"number": 1, "state": "verified", "scheduler": "flat", "point": {"vector": 8}, "predicted_us": 8.0},
    {"number": 2, "state": "compiled", "scheduler": "flat", "point": {"vector": 2}, "predicted_us": 12.0},
    {"number": 4, "state": "illegal", "scheduler": "flat", "point": {"vector": 16}, "reason": "too wide",
     "violations": [{"rule": "r", "where": "T1", "found": 16, "limit": 8, "fix": "Less.", "message": "Less."}]},
    {"number": 5, "state": "duplicate", "scheduler": "flat", "point": {"vector": 1}, "duplicate_of": 0},
]  # fmt: skip


def searched(service: World, **facts: Any) -> tuple[str, KernelRow]:
    """A search that ended with a kernel, and its trials."""
    row = proven(service)
    tuning = opened(service, {**BODY, "refresh": True})["id"]
    with service.db.write() as session:
        for trial in TRIALS:
            trials.record(session, tuning, trial)
        kept = session.get_one(KernelRow, row.id)
        kept.tuning_id, kept.trial_number = tuning, 0
        if facts.get("state") != "running":
            tunings.finish(session, tuning, "done", **{"ended": "budget", "kernel_id": row.id, **facts})
    return tuning, row


def packed(service: World, query: str = "?history=true") -> bytes:
    found = service.client.get(f"/v1/pack{query}")
    assert found.status_code == 200
    return bytes(found.content)


def count(service: World, kind: Any) -> int:
    with service.db.read() as session:
        return session.scalar(select(func.count()).select_from(kind)) or 0


def told(service: World, tuning: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the API says of a search, without what differs by where it is, and of its trials."""
    view = service.client.get(f"/v1/tunings/{tuning}").json()
    found = service.client.get(f"/v1/tunings/{tuning}/trials").json()["items"]
    for here in ("worker", "kernel", "first", "enough", "want", "tied"):
        view.pop(here, None)
    for one in found:
        one.pop("recorded_at")
    return view, found


def test_a_search_is_told_as_it_was_where_it_was_made(sites: list[World]) -> None:
    one, other = sites
    tuning, row = searched(one)
    answer = send(other, packed(one)).json()
    assert (answer["kernels"], answer["trials"], answer["left"]) == (1, len(TRIALS), [])
    assert told(other, tuning) == told(one, tuning)
    assert looked_up(other, row)["tuning"] == tuning


def test_points_of_before_come_under_the_names_of_today(sites: list[World]) -> None:
    one, other = sites
    tuning, row = searched(one)
    with one.db.write() as session:
        session.get_one(TrialRow, (tuning, 0)).point = {"registers": 40}
        session.get_one(KernelRow, row.id).point = {"registers": 64}
    send(other, packed(one))
    with other.db.read() as session:
        assert session.get_one(TrialRow, (tuning, 0)).point == {"resident": 1536}
        assert session.get_one(KernelRow, row.id).point == {"resident": 1024}


def test_without_history_no_search_comes(sites: list[World]) -> None:
    one, other = sites
    tuning, row = searched(one)
    assert send(other, packed(one, "")).json()["trials"] == 0
    assert (count(other, TuningRow), count(other, TrialRow)) == (0, 0)
    assert looked_up(other, row)["tuning"] is None
    assert send(other, packed(one)).json()["trials"] == len(TRIALS)
    assert looked_up(other, row)["tuning"] == tuning, "it came later, of a kernel that was known"


def test_what_is_there_is_never_doubled(sites: list[World]) -> None:
    one, other = sites
    tuning, _ = searched(one)
    content = packed(one)
    assert [send(other, content).json()["trials"] for _ in range(3)] == [len(TRIALS), 0, 0]
    assert send(one, packed(other)).json()["trials"] == 0, "back where it came from"
    for service in sites:
        assert (count(service, TuningRow), count(service, TrialRow)) == (1, len(TRIALS))
    with other.db.write() as session:
        session.get_one(TrialRow, (tuning, 0)).median_us = 9.0
    send(other, content)
    with other.db.read() as session:
        assert session.get_one(TrialRow, (tuning, 0)).median_us == 9.0, "what is here is left as it is"


def test_later_searches_learn_from_it(sites: list[World]) -> None:
    one, other = sites
    _, row = searched(one)
    key = (row.fingerprint, row.binding, row.card_id, row.policy)
    with other.db.read() as session:
        assert trials.proven(session, *key[:2], [row.card_id]) == []
    send(other, packed(one))
    with other.db.read() as session:
        assert trials.proven(session, *key[:2], [row.card_id]) == [{"scheduler": "flat", "point": {"vector": 8}}]
    larger = opened(other, {**BODY, "binding": {"sizes": {"M": 256}}})
    near = (row.fingerprint, larger["binding"], row.card_id, row.policy)
    fusion = bind(parse_fusion(REQUEST["fusion"]), parse_binding({"sizes": {"M": 256}}))
    (past,) = PastTunings(other.db, near).alike(fusion, card_named("H200"))
    assert (past.candidate.scheduler, past.candidate.knobs) == ("flat", {"vector": 4})


def test_a_search_of_another_service_is_no_answer_here(sites: list[World]) -> None:
    """It stood on other workers: with its kernel deleted, who asks has a search made."""
    one, other = sites
    tuning, row = searched(one)
    send(other, packed(one))
    other.client.delete(f"/v1/kernels/{row.id}")
    assert opened(other, BODY)["id"] != tuning
    again = send(other, packed(one)).json()
    assert (again["kernels"], again["left"]) == (0, [f"{row.id}: it was deleted here"])
    with other.db.read() as session:
        assert kernels.get(session, row.id) is None


def test_a_search_that_goes_on_is_left_out(sites: list[World]) -> None:
    one, _ = sites
    searched(one, state="running")
    assert not [name for name in PackFile(packed(one)).manifest.members if name.startswith("history/")]


def test_the_trials_of_what_is_not_served_come_all_the_same(sites: list[World]) -> None:
    one, other = sites
    tuning, row = searched(one)
    content = packed(one)
    older = with_member(
        rewritten(content, verifier=VERIFIER - 1), history_member(tuning), lambda d: d, of=PackFile(content)
    )
    answer = send(other, older).json()
    assert (answer["kernels"], answer["trials"], len(answer["left"])) == (0, len(TRIALS), 1)
    assert looked_up(other, row) is None


def with_member(content: bytes, name: str, change: Callable[[Any], Any], of: PackFile | None = None) -> bytes:
    """The pack with another document under a name, whole in itself."""
    before, pack = PackFile(content), PackWriter()
    for one in before.manifest.kernels:
        pack.add(one.view, before.member(f"kernels/{one.view.artifact_sha256}.json"), one.binding)
    for member in before.manifest.members:
        if not member.startswith("kernels/") and member != name:
            pack.add_document(member, json.loads(before.member(member)))
    document = change(json.loads((of or before).member(name)))
    pack._members[name] = document if isinstance(document, bytes) else json.dumps(document).encode()
    return pack.content()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(lambda d: {**d, "fingerprint": "0" * 64}, "it is of no kernel of the pack", id="another-fusion"),
        pytest.param(lambda d: {**d, "card": "0" * 16}, "it is of no kernel of the pack", id="another-card"),
        pytest.param(lambda d: {**d, "id": "0" * 32}, "it is of another tuning", id="another-id"),
        pytest.param(lambda d: {**d, "trials": d["trials"][:1] * 2}, "two trials of one number", id="a-number-twice"),
        pytest.param(lambda d: {**d, "state": "running"}, "state", id="goes-on"),
        pytest.param(lambda d: {**d, "more": 1}, "more", id="unknown-field"),
        pytest.param(lambda d: {**d, "created_at": "2026-01-01T00:00:00"}, "created_at", id="no-time-zone"),
        pytest.param(lambda d: changed(d, "trials", 0, "median_us", value=-1), "trials.0.median_us", id="time"),
        pytest.param(lambda d: changed(d, "trials", 0, "number", value=2**31), "trials.0.number", id="number"),
        pytest.param(lambda d: changed(d, "trials", 0, "state", value="won"), "trials.0.state", id="trial-state"),
        pytest.param(lambda d: json.dumps(changed(d, "spent_s", value=float("nan"))).encode(), "no JSON", id="nan"),
        pytest.param(
            lambda d: json.dumps(d).encode().replace(b'us": 9.5', b'us": 1e999'),
            "no JSON document",
            id="no-such-number",
        ),
        pytest.param(lambda d: b"[" * 100_000, "no JSON document", id="deep"),
    ],
)
def test_a_history_that_contradicts_itself_is_refused_with_its_pack(
    sites: list[World], change: Callable[[Any], Any], why: str
) -> None:
    one, other = sites
    tuning, _ = searched(one)
    refused = send(other, with_member(packed(one), history_member(tuning), change))
    check(refused, 422, "unusable-pack")
    assert why in refused.json()["detail"]
    assert [count(other, kind) for kind in (FusionRow, KernelRow, TuningRow, TrialRow)] == [0, 0, 0, 0]


def test_a_text_that_no_database_holds_is_kept_without_it(sites: list[World]) -> None:
    one, other = sites
    tuning, _ = searched(one)
    content = with_member(packed(one), history_member(tuning), lambda d: {**d, "note": "a\x00b"})
    assert send(other, content).json()["trials"] == len(TRIALS)
    assert other.client.get(f"/v1/tunings/{tuning}").json()["note"] == "a\ufffdb"


def test_a_document_of_another_format_is_left_out_by_name(sites: list[World]) -> None:
    one, other = sites
    tuning, _ = searched(one)
    answer = send(other, with_member(packed(one), history_member(tuning), lambda d: {"schema_version": "1.0.0"})).json()
    assert (answer["kernels"], answer["trials"]) == (1, 0)
    assert answer["left"] == [f"history/{tuning}.json: it is no fusetune.history/1, so its trials are not taken in"]


def test_what_was_taken_in_is_pruned_and_deleted_like_any_other(sites: list[World]) -> None:
    one, other = sites
    tuning, row = searched(one)
    send(other, packed(one))
    with other.db.write() as session:
        assert trials.samples(session, tuning, 0) == []
    gone = other.client.delete(f"/v1/fusions/{row.fingerprint}").json()
    assert (gone["kernels"], gone["tunings"], gone["trials"]) == (1, 1, len(TRIALS))


def test_from_the_command_line(sites: list[World], tmp_path: Path) -> None:
    one, _ = sites
    searched(one)
    out = tmp_path / "p.ftpack"

    def run(*words: object) -> Any:
        return CliRunner().invoke(command, [str(word) for word in words])

    assert run("export", "--history", "--out", out, "--data-dir", tmp_path / "one").exit_code == 0
    done = run("import", out, "--data-dir", tmp_path / "other")
    assert done.stdout == "1 kernels were taken in, 0 were known, 0 left out. 5 trials of their searches are new.\n"
