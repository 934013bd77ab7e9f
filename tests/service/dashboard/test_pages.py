"""Every page in every state, as its reader finds it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from compiler.arch import card_named
from compiler.wire import bind
from fusetune.wire.artifact import VERIFIER
from fusetune.wire.binding import Binding
from fusetune.wire.parse import parse_fusion
from search.tuning.candidates.plan import Plan
from service.dashboard.filters import NOTHING
from service.db import cards, signatures
from service.db.engine import Database
from service.db.models import KernelRow, WorkerRow
from service.db.types import now
from tests.service.dashboard.conftest import Show
from tests.service.dashboard.html_page import HtmlPage
from tests.service.dashboard.seed import (
    COMPILE_ERROR,
    EMULATED,
    EXAMPLES,
    H200,
    NO_GPU_NOTE,
    TRIALS,
    Seeded,
    post,
    publish,
)

STATES = ("done", "running", "queued", "failed", "cancelled", "no_gpu", "fake")


def paths(ids: Seeded) -> list[str]:
    return [
        "/", "/?q=gelu", "/?q=nothing-like-it", "/tunings", "/tunings?state=failed", "/cards",
        f"/tunings?fingerprint={ids.fusion}", f"/fusions/{ids.fusion}", f"/kernels/{ids.kernel}",
        f"/kernels/{ids.fake_kernel}", f"/kernels/{ids.emulated_kernel}", "/tunings/abc",
        *(f"/tunings/{getattr(ids, state)}" for state in STATES),
        f"/tunings/{ids.done}?state=measured&order=newest&page=2", f"/tunings/{ids.done}?page=99",
    ]  # fmt: skip


def test_every_page_keeps_the_rules(show: Show, ids: Seeded) -> None:
    found = {path: show(path, 404 if path.endswith("abc") else 200).faults() for path in paths(ids)}
    assert {path: faults for path, faults in found.items() if faults} == {}


def test_every_link_of_every_page_leads_somewhere(reader: TestClient, show: Show, ids: Seeded) -> None:
    links = {
        one.attrs[name].partition("#")[0]
        for path in paths(ids)
        for one in HtmlPage(reader.get(path).text).walk()
        for name in ("href", "src", "hx-get")
        if one.attrs.get(name, "").startswith("/")
    }
    assert len(links) > 40
    assert {link: status for link in links if (status := reader.get(link).status_code) not in (200, 204)} == {}


@pytest.mark.parametrize("page", ["/", "/tunings", "/cards"])
def test_pages_without_anything_to_show(empty: TestClient, page: str) -> None:
    response = empty.get(page)
    assert response.status_code == 200
    assert HtmlPage(response.text).faults() == []


def test_the_first_page_says_how_to_post_the_first_fusion(empty: TestClient) -> None:
    page = HtmlPage(empty.get("/").text)
    assert "No fusion has been posted yet" in page.texts("h2")
    assert "http://127.0.0.1/v1/tunings" in page.one("pre", id="post-curl").text
    assert "client.tune(" in page.one("pre", id="post-python").text
    assert "python -m service worker" in page.one("p", class_="callout").text


def row_of(page: HtmlPage, name: str) -> dict[str, str]:
    """The first row of that fusion by label."""
    body = next(one for one in page.all("tbody") if one.all("th") and one.all("th")[0].text == name)
    return {cell.attrs["data-label"]: cell.text for cell in body.all("tr")[0].all("td") if "data-label" in cell.attrs}


def test_fusions_show_time_evidence_and_speed_up(show: Show) -> None:
    row = row_of(show("/?q=bias"), "bias_gelu")
    assert row["Evidence"] == "verified on GPUmeasured"
    assert row["Speed-up"].startswith(("2.", "3."))
    assert "over eager torch, op by op, 8.930 µs" in row["Speed-up"]
    assert row["Of the roofline"].endswith("%")
    assert row["Card"] == "H200"
    assert row["Shapes"] == "512\N{MULTIPLICATION SIGN}4096 bf16, 4096 bf16 → 512\N{MULTIPLICATION SIGN}4096 bf16"


def test_a_time_of_the_fake_device_is_marked(show: Show, ids: Seeded) -> None:
    row = row_of(show("/?q=add"), "add")
    assert row["Evidence"] == "fake device, not hardware"
    assert row["Card"] == "fake no hardware"
    page = show(f"/kernels/{ids.fake_kernel}")
    assert "every time on this page is invented" in page.texts("p", class_="callout")[0]
    assert not page.all("span", class_="good")
    assert "its times are invented" in show(f"/tunings/{ids.fake}").text


def test_a_trial_is_told_by_where_it_differs_from_the_best(show: Show, ids: Seeded) -> None:
    rows = show(f"/tunings/{ids.done}?state=measured").one("section", id="trials").one("tbody").all("tr")
    told = [(row.one("summary").text, row.one("details").texts("code")[-1]) for row in rows]
    points = [dict(knob.split("=") for knob in whole.split()[1:]) for _, whole in told]
    best, second = points[0], points[1]
    assert told[0][0] == "flat: " + " ".join(f"{name}={value}" for name, value in best.items())
    assert rows[0].one("details").texts("code") == [told[0][0]], "the whole point once"
    differing = " ".join(f"{name}={value}" for name, value in second.items() if best[name] != value)
    assert told[1][0] == f"flat: {differing}"


def test_an_invented_time_is_compared_with_nothing(show: Show, ids: Seeded) -> None:
    row = row_of(show("/?q=add"), "add")
    assert (row["Of the roofline"], row["Speed-up"]) == (NOTHING, NOTHING)
    for path in (f"/kernels/{ids.fake_kernel}", f"/tunings/{ids.fake}"):
        page = show(path)
        assert not page.all("span", class_="meter")
        assert "as fast" not in page.text
        assert "Why it is trusted" not in page.texts("h2")
        assert not page.all("span", class_="good") or path.startswith("/tunings")
    trials = show(f"/tunings/{ids.fake}").one("section", id="trials")
    assert not trials.all("span", class_="good")
    assert "Invented median" in trials.one("thead").text


def test_a_kernels_conditions_have_names_and_units(show: Show, ids: Seeded) -> None:
    page = show(f"/kernels/{ids.kernel}")
    said = dict(zip(page.texts("dt"), page.texts("dd"), strict=True))
    assert (said["Memory clock"], said["Power"]) == ("3,201 MHz", "412 W")


def test_a_share_above_the_floor_is_explained(database: Database, client: TestClient, ids: Seeded) -> None:
    with database.write() as session:
        row = session.get_one(KernelRow, ids.kernel)
        row.floor_us = (row.median_us or 0) * 1.01
    page = HtmlPage(client.get(f"/kernels/{ids.kernel}").text)
    assert page.one("span", class_="meter").text == "101 %"
    assert "reads are quicker than writes" in page.text


def test_a_running_tuning_says_that_its_worker_is_gone(database: Database, client: TestClient, ids: Seeded) -> None:
    def callouts() -> list[str]:
        return HtmlPage(client.get(f"/tunings/{ids.running}").text).texts("p", class_="callout")

    with database.write() as session:
        session.get_one(WorkerRow, "hopper-0").heartbeat_at = now()
    assert callouts() == []
    with database.write() as session:
        session.get_one(WorkerRow, "hopper-0").heartbeat_at = now() - timedelta(days=9)
    (callout,) = callouts()
    assert callout.startswith("Its worker, hopper-0, gives no sign of life.")


def test_a_fusion_without_a_kernel_links_its_newest_tuning(show: Show, ids: Seeded) -> None:
    page = show("/?q=transpose")
    cell = page.one("td", class_="wide")
    assert cell.text.startswith("No kernel. Its newest tuning: running")
    assert cell.one("a").attrs["href"] == f"/tunings/{ids.running}"


@pytest.mark.parametrize(
    ("query", "names"),
    [
        pytest.param("q=gelu", ["bias_gelu"], id="name"),
        pytest.param("q=PERMUTE", ["transpose"], id="operator"),
        pytest.param("q=bd8b65fd", ["bias_gelu"], id="fingerprint"),
        pytest.param("q=bias+gelu", ["bias_gelu"], id="every-word"),
        pytest.param("q=bias+permute", [], id="one-word-too-many"),
        pytest.param("q=%25", [], id="percent-is-no-wildcard"),
        pytest.param("q=%00", ["add", "bias_gelu", "transpose"], id="nul"),
        pytest.param("card=0000000000000000", [], id="unknown-card"),
        pytest.param("q=&card=", ["add", "bias_gelu", "transpose"], id="form-left-empty"),
    ],
)
def test_search(show: Show, query: str, names: list[str]) -> None:
    page = show(f"/?{query}")
    assert sorted(body.all("th")[0].text for body in page.all("tbody")) == names
    assert bool(page.texts("p", class_="empty")) is not bool(names)


def test_search_by_card(show: Show) -> None:
    options = {one.text: one.attrs["value"] for one in show("/").all("option")}
    page = show(f"/?card={options['fake']}")
    assert [body.all("th")[0].text for body in page.all("tbody")] == ["add"]
    assert page.one("option", selected="").text == "fake"


@pytest.mark.parametrize(
    ("state", "badge", "said"),
    [
        pytest.param("done", "done", "the budget was spent", id="done"),
        pytest.param("running", "running", "searching", id="running"),
        pytest.param("queued", "queued", "1 tuning ahead of it", id="queued"),
        pytest.param("failed", "failed", COMPILE_ERROR, id="failed"),
        pytest.param("cancelled", "cancelled", "Cancelled before a worker had begun.", id="cancelled"),
        pytest.param("no_gpu", "done", NO_GPU_NOTE, id="no-gpu"),
    ],
)
def test_a_tuning_says_how_it_is(show: Show, ids: Seeded, state: str, badge: str, said: str) -> None:
    status = show(f"/tunings/{getattr(ids, state)}").one("section", id="status")
    assert status.all("span", class_="badge")[0].text == badge
    assert said in status.text


@pytest.mark.parametrize("state", STATES)
def test_only_what_changes_is_asked_for_again(show: Show, ids: Seeded, state: str) -> None:
    page = show(f"/tunings/{getattr(ids, state)}")
    is_active = state in ("running", "queued")
    assert ("hx-trigger" in page.one("section", id="status").attrs) is is_active
    assert bool(page.all("button", id="cancel")) is is_active
    assert bool(page.all("meta", http_equiv="refresh")) is is_active


def trials_of(page: HtmlPage) -> list[tuple[int, str]]:
    rows = page.one("section", id="trials").one("tbody").all("tr")
    return [(int(row.all("th")[0].text.replace(",", "")), row.one("span", class_="badge").text) for row in rows]


def test_trials_are_paged(show: Show, ids: Seeded) -> None:
    seen: list[int] = []
    for number in range(1, 8):
        page = show(f"/tunings/{ids.done}?order=number&page={number}")
        found = trials_of(page) if page.one("section", id="trials").all("tbody") else []
        seen += [trial for trial, _ in found]
        following = page.all("a", id="page-on")
        if not following:
            break
        assert f"page={number + 1}" in following[0].attrs["href"]
    assert seen == list(range(TRIALS))


def test_trials_by_state_and_time(show: Show, ids: Seeded) -> None:
    page = show(f"/tunings/{ids.done}?state=measured")
    medians = [
        float(row.all("span", class_="figure")[0].text.split()[0])
        for row in page.one("section", id="trials").one("tbody").all("tr")
    ]
    assert {state for _, state in trials_of(page)} == {"measured"}
    assert medians == sorted(medians)
    assert page.one("a", id="chip-measured").attrs["aria-current"] == "true"
    newest = [number for number, _ in trials_of(show(f"/tunings/{ids.done}?order=newest"))]
    assert newest == sorted(newest, reverse=True)


def test_a_duplicate_shows_no_time_of_its_own(show: Show, ids: Seeded) -> None:
    page = show(f"/tunings/{ids.done}?state=duplicate")
    for row in page.one("section", id="trials").one("tbody").all("tr"):
        assert row.all("td")[1].text.startswith("same code as trial")


def test_predicted_times_stand_apart(show: Show, ids: Seeded) -> None:
    page = show(f"/tunings/{ids.no_gpu}")
    assert all("≈" in cell.text for cell in page.all("td", class_="predicted"))
    assert "not measured" in page.one("th", class_="predicted").text
    assert page.one("section", id="trials").texts("span", class_="figure") == []
    assert page.one("section", id="status").texts("span", class_="figure") == []


def test_the_served_kernels_trial_is_the_first_and_told_apart(show: Show, ids: Seeded) -> None:
    """Where nothing was timed, too: the best predicted of the verified ones."""
    untimed = show(f"/tunings/{ids.no_gpu}").one("section", id="trials")
    assert trials_of(show(f"/tunings/{ids.no_gpu}"))[0] == (2, "verified")
    assert "none was timed: the best predicted of the verified ones first" in untimed.one("caption").text
    (served,) = untimed.all("tr", class_="best")
    assert (served.all("th")[0].text, served.all("td")[0].text) == ("2", "verified served")
    timed = show(f"/tunings/{ids.done}").one("section", id="trials")
    assert "the fastest first" in timed.one("caption").text
    (best,) = timed.all("tr", class_="best")
    assert best.all("td")[0].text == "measured served"


@pytest.mark.parametrize("path", ["/tunings/{done}", "/tunings/{no_gpu}", "/kernels/{kernel}"])
def test_what_a_prediction_is_made_of_is_said_and_never_as_measured(show: Show, ids: Seeded, path: str) -> None:
    page = show(path.format(done=ids.done, no_gpu=ids.no_gpu, kernel=ids.kernel))
    said = page.texts("p", class_="predicted")
    assert said
    for text in said:
        assert text.startswith("The model's guess of ")
        assert "not measured: memory bandwidth " in text, "the largest first"
        assert "launch and ramp 1.900 µs, memory latency 0.400 µs" in text
        assert "spills" not in text, "what takes no time is not worth a word"


def test_refusals_by_rule(show: Show, ids: Seeded) -> None:
    rules = show(f"/tunings/{ids.done}").one("section", id="rules")
    rows = {row.one("code").text: row.texts("td") for row in rules.one("tbody").all("tr")}
    assert "A box has at most 256 elements in a dimension." in rules.text, "why a rule refuses stands beside its name"
    fusion = parse_fusion((EXAMPLES / "bias_gelu.json").read_text())
    plan = Plan.of(bind(fusion, Binding(sizes={"M": 8192})), H200)
    refused = plan.refused["redundant_rows"]
    assert rows["redundant_rows"][:2] == [f"{refused:,}", f"{100 * refused / plan.points:,.0f} %"]
    assert rows["tensor_map_boxes_are_1_to_256"][0] == "0"
    assert rows["tensor_map_boxes_are_1_to_256"][3].startswith("i0_s: box[0]: found 512, limit 256.")
    assert all(row[0] != "0" or row[2] != "0" for row in rows.values())


def test_a_finished_tuning_links_its_kernel(show: Show, ids: Seeded) -> None:
    page = show(f"/tunings/{ids.done}")
    assert page.one("a", class_="button").attrs["href"] == f"/kernels/{ids.kernel}"


def test_a_kernel_shows_all_that_is_known(show: Show, ids: Seeded, reader: TestClient) -> None:
    page = show(f"/kernels/{ids.kernel}")
    artifact = reader.get(f"/v1/kernels/{ids.kernel}").json()
    assert "".join(page.one("pre", id="source")._texts()) == artifact["source"]
    assert "".join(page.one("pre", id="ptx")._texts()) == artifact["ptx"]
    assert len("".join(page.one("pre", id="steps")._texts()).splitlines()) == len(artifact["trace"]["steps"])
    assert "as fast" in page.text
    assert "random, large, tiny, ties, signed zeros, infinities and NaN" in page.text
    assert artifact["fingerprint"] in page.one("pre", id="call").text


def test_a_kernel_of_the_emulator_says_what_ran_and_what_did_not(show: Show, ids: Seeded) -> None:
    text = show(f"/kernels/{ids.emulated_kernel}").text.replace("\N{MULTIPLICATION SIGN}", "x")
    for said in (
        "verified in emulator",
        "predicted, not measured",
        "model says ",
        "It was not timed.",
        "emulator Input sets",
        "2 x 1024, 2 x 1024",
        "sizes of the same schedule class, grid 4 x 1 x 1",
        "eager, lazy, random 1",
        "3 blocks of 16: 0, 14, 15",
        "Not run: 13 of the 16 blocks of the served code; its timing.",
    ):
        assert said in text
    assert "Median time" not in text
    tuning = show(f"/tunings/{ids.no_gpu}").text
    assert "kernels were verified in the emulator" in tuning
    assert "model says " in tuning


@pytest.mark.parametrize(
    ("columns", "badge", "said"),
    [
        pytest.param(
            {}, "older proof", f"Proven by an older verifier (number {VERIFIER - 1}, today's is {VERIFIER}); it is "
            "proven again before it is served.", id="to-be-proven-again",
        ),
        pytest.param({"superseded_at": now()}, "older proof", "; it is not served.", id="replaced"),
        pytest.param(
            {"superseded_at": now(), "refuted": "row 3 has no expert"}, "found wrong",
            "A later verifier has found it wrong: row 3 has no expert. It is not served.", id="found-wrong",
        ),
    ],
)  # fmt: skip
def test_a_kernel_of_an_older_verifier_says_so_and_never_that_it_is_right(
    database: Database, client: TestClient, ids: Seeded, columns: dict[str, Any], badge: str, said: str
) -> None:
    with database.write() as session:
        row = session.get_one(KernelRow, ids.kernel)
        for name, value in {"verifier": VERIFIER - 1, "generator": "fusetune 0.1", **columns}.items():
            setattr(row, name, value)
    page = HtmlPage(client.get(f"/kernels/{ids.kernel}").text)
    assert page.faults() == []
    for text in (badge, said, "not verified"):
        assert text in page.text
    assert "It is still right" not in page.text
    assert f"/v1/kernels/{ids.kernel}" not in {one.attrs.get("href") for one in page.walk()}
    if not columns:
        assert badge in HtmlPage(client.get(f"/fusions/{ids.fusion}").text).text


def test_a_provisional_kernel_is_marked(database: Database, client: TestClient, ids: Seeded) -> None:
    with database.write() as session:
        session.get_one(KernelRow, ids.kernel).provisional = {"at_most": 0.25, "expected": None, "error": None}
    text = client.get(f"/kernels/{ids.kernel}").text
    assert HtmlPage(text).faults() == []
    assert ">provisional</span>" in text
    assert "the best takes at most 25" in text


def test_a_kernel_says_what_timing_again_found_and_who_signed_it(
    database: Database, client: TestClient, ids: Seeded
) -> None:
    before = HtmlPage(client.get(f"/kernels/{ids.kernel}").text)
    assert "Timed again" not in before.text
    assert "nobody" in before.texts("dd")
    key = "ab" * 32
    with database.write() as session:
        row = session.get_one(KernelRow, ids.kernel)
        row.checked = {
            "at": "2026-01-02T03:04:05Z", "median_us": 12.5, "p10_us": 12.25, "p90_us": 13.0, "before_us": 10.0,
            "slower": 0.25, "generator": "g9", "driver": "999.1", "clock_limit_mhz": 1500, "marks": ["busy"],
        }  # fmt: skip
        signatures.put(session, row.artifact_sha256, key, bytes(64))
    page = HtmlPage(client.get(f"/kernels/{ids.kernel}").text)
    assert page.faults() == []
    for said in ("Timed again", "generator g9, driver 999.1, clock limit 1500 MHz, marked busy", "25 % slower", key):
        assert said in page.text
    assert "nobody" not in page.texts("dd")


def test_a_kernel_of_several_launches_shows_each_of_them(database: Database, client: TestClient) -> None:
    """Its knobs, grid and cluster, what it reads and writes, and the memory that they hand a result on in."""
    with database.write() as session:
        subject = post(session, "col_sum", {"M": 16384, "N": 4096})
        number = next(n for n, one in enumerate(subject.candidates) if one.scheduler.startswith("launches"))
        id, point = publish(session, subject, number, 90.0, None).id, subject.candidates[number].knobs
    page = HtmlPage(client.get(f"/kernels/{id}").text)
    assert page.faults() == []
    launches = client.get(f"/v1/kernels/{id}").json()["launches"]
    rows = {row.all("th")[0].text: row.texts("td") for row in page.all("tr") if row.all("td")}
    times = " \N{MULTIPLICATION SIGN} "
    assert list(rows) == ["fused_0", "fused_1"]
    assert [row[0] for row in rows.values()] == [times.join(map(str, one["grid"])) for one in launches]
    clusters = [
        "\N{EN DASH}" if one["cluster"] == [1, 1, 1] else times.join(map(str, one["cluster"])) for one in launches
    ]
    assert [row[1] for row in rows.values()] == clusters
    for said in (
        "launch 0:",
        "launch 1:",
        "launch reads (i0), writes (s0)",
        "launch reads (s0), writes",
        "Scratch memory",
    ):
        assert said in page.text
    knobs = [dict(zip(one.texts("dt"), one.texts("dd"), strict=True)) for one in page.all("dl", class_="knobs")]
    *own, shared = knobs
    assert shared == {"math": point["math"]}
    assert [one["cluster"] for one in own] == [str(point["0.cluster"]), str(point["1.cluster"])]
    assert {name for one in own for name in one} == {name[2:].replace("_", " ") for name in point if name[1] == "."}


def test_a_kernel_whose_class_has_no_smaller_sizes_names_none(database: Database, client: TestClient) -> None:
    nowhere = EMULATED.model_copy(
        update={"shapes": (), "strides": (), "grid": (0, 0, 0), "code_hash": "", "ptx_sha256": ""}
    )
    with database.write() as session:
        subject = post(session, "add", {"M": 4096, "N": 4096})
        id = publish(session, subject, 2, None, None, nowhere).id
    text = HtmlPage(client.get(f"/kernels/{id}").text).text
    assert "3 blocks of 16" in text
    assert "sizes of the same schedule class" not in text


def test_cards_and_their_workers(show: Show) -> None:
    page = show("/cards")
    rows = {row.all("th")[0].text: row.texts("td") for row in page.all("tr") if row.all("td")}
    assert rows["hopper-0 hopper"][0] == "alive"
    assert rows["hopper-1 hopper"][0] == "not alive"
    assert rows["builder-0 builder"][1] == "compiles and emulates no NVIDIA driver on this machine"
    assert "no hardware: its times are invented" in page.one("h2", id=page.all("h2")[-1].attrs["id"]).text
    assert page.all("td", data_label="Works on")[1].all("a")


@pytest.mark.parametrize(
    ("attached", "said"),
    [
        (False, "No worker serves this card: any that is up compiles for it and proves kernels in the emulator."),
        (True, "No worker serves this card."),
    ],
    ids=["of-the-table", "only-away"],
)
def test_a_card_that_no_worker_serves(database: Database, client: TestClient, attached: bool, said: str) -> None:
    with database.write() as session:
        card = cards.put(session, card_named("B300"), "580" if attached else None, attached=attached)
    panel = next(s for s in HtmlPage(client.get("/cards").text).all("section") if card.id in str(s.attrs))
    assert panel.all("p", class_="note")[-1].text == said
