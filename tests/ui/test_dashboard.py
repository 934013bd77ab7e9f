"""The dashboard in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Dialog, Page, Route, expect

from service.db import kernels, trials, tunings
from service.db.models import TuningRow
from tests.service.dashboard.seed import begin, post, publish, trial, tune
from tests.service.dashboard.tensor_memory import publish_with_tensor_memory
from tests.ui.conftest import Service

EVERY = (
    "/", "/tunings", "/cards", "/fusions/{fusion}", "/kernels/{kernel}", "/kernels/{fake_kernel}", "/tunings/{done}",
    "/tunings/{running}", "/tunings/{queued}", "/tunings/{failed}", "/tunings/{cancelled}", "/tunings/{no_gpu}",
    "/tunings/{fake}", "/docs", "/login",
)  # fmt: skip


UNTIMED = ("/tunings/{queued}", "/tunings/{cancelled}", "/tunings/{no_gpu}")
"""Without a measured trial there is no chart to wait for."""


def test_from_a_fusion_to_its_kernel_and_tuning_by_links(clean: Page) -> None:
    clean.goto("/")
    clean.get_by_role("link", name="bias_gelu").click()
    expect(clean.get_by_role("heading", level=1)).to_have_text("bias_gelu")
    clean.locator("tr", has_text="measured").locator("td[data-label=Time] a").first.click()
    expect(clean.get_by_role("heading", level=1)).to_have_text("Kernel of bias_gelu")
    expect(clean.locator("#chart.drawn .main-svg").first).to_be_visible()
    clean.get_by_role("link", name=re.compile("^tuning ")).click()
    expect(clean.locator("#status .badge").first).to_have_text("done")
    clean.get_by_role("link", name="Open the kernel").click()
    expect(clean).to_have_url(re.compile("/kernels/"))


def test_the_map_of_tensor_memory_is_drawn(clean: Page, service: Service) -> None:
    with service.database.write() as session:
        id = publish_with_tensor_memory(session, post(session, "add", {"M": 128, "N": 16})).id
    clean.goto(f"/kernels/{id}")
    store, load = clean.locator("details.map").all()
    expect(store.locator("img").first).to_be_visible()
    expect(load.locator("img").first).to_be_hidden()
    load.locator("summary").click()
    expect(load.locator("img").first).to_be_visible()
    wide = "images => images.map(image => image.complete && image.naturalWidth > 100 && image.naturalHeight > 100)"
    assert clean.locator("details.map img").evaluate_all(wide) == [True] * 4
    assert clean.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "pictures scroll in their frame"


def test_a_long_name_stays_on_a_narrow_page(clean: Page, service: Service) -> None:
    clean.set_viewport_size({"width": 390, "height": 800})
    clean.goto(f"/tunings/{service.ids.done}")
    clean.evaluate("document.querySelector('h1').textContent = 'a_long_name'.repeat(7)")
    assert clean.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_by_keyboard_alone(clean: Page) -> None:
    clean.goto("/")
    clean.keyboard.press("Tab")
    expect(clean.get_by_role("link", name="Skip to the content")).to_be_focused()
    expect(clean.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
    clean.keyboard.press("Enter")
    expect(clean.locator("#main")).to_be_focused()
    for _ in range(3):  # past the three links of the summary
        clean.keyboard.press("Tab")
    clean.keyboard.press("Tab")
    expect(clean.get_by_label("Search")).to_be_focused()
    clean.keyboard.type("gelu")
    clean.keyboard.press("Enter")
    expect(clean.locator("tbody")).to_have_count(1)
    expect(clean).to_have_url(re.compile("q=gelu"))
    clean.get_by_role("link", name="bias_gelu").focus()
    outline = clean.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    clean.keyboard.press("Enter")
    expect(clean).to_have_url(re.compile("/fusions/"))


def test_a_running_tuning_changes_before_the_readers_eyes(clean: Page, service: Service) -> None:
    subject = service.ids.subject
    clean.goto(f"/tunings/{service.ids.running}")
    expect(clean.locator("#chart.drawn .scatterlayer .point").first).to_be_visible()
    clean.evaluate("window.notReloaded = true; document.getElementById('chip-measured').focus()")
    dots = clean.locator("#chart .scatterlayer .trace").first.locator(".point")
    before = dots.count()

    with service.database.write() as session:
        found = trial(subject, 50, "measured") | {"median_us": 70.25, "p10_us": 70.0, "p90_us": 70.5}
        trials.record(session, service.ids.running, found)
        tunings.advance(session, service.ids.running, "settling the leaders", 48.0)
    expect(clean.locator("#status")).to_contain_text("settling the leaders")
    expect(clean.locator("#status .large")).to_have_text("70.25 µs")
    expect(clean.locator("#trials tbody tr").first).to_contain_text("70.25 µs")
    expect(clean.locator("#announce")).to_contain_text("best so far 70.25 µs, trial 50")
    expect(dots).to_have_count(before + 1)
    expect(clean.locator("#chip-measured")).to_be_focused()

    with service.database.write() as session:
        row = session.get_one(TuningRow, service.ids.running)
        kernel = publish(session, subject, 50, 70.25, row)
        tunings.finish(session, row.id, "done", ended="budget", kernel_id=kernel.id)
    expect(clean.locator("#status .badge").first).to_have_text("done")
    expect(clean.get_by_role("link", name="Open the kernel")).to_be_visible()
    expect(clean.locator("#cancel")).to_have_count(0)
    assert clean.evaluate("window.notReloaded")

    asked: list[str] = []
    clean.on("request", lambda request: asked.append(request.url))
    clean.wait_for_timeout(2500)
    assert [url for url in asked if "/live" in url] == []  # it has ended: nothing is asked for again


def test_a_tuning_without_a_gpu_ends_with_its_chart_and_its_texts_up_to_date(clean: Page, service: Service) -> None:
    """The last change comes while the chart of the one before is still asked for."""
    with service.database.write() as session:
        mine = tune(session, service.ids.subject, policy="seen to its end")
        begin(session, service.ids.subject, mine)
    clean.goto(f"/tunings/{mine.id}")
    note = clean.locator("#chart-note")
    expect(note).to_contain_text("No trial is timed yet.")
    expect(clean.locator("#chart")).to_be_hidden()
    held: list[Route] = []
    clean.route("**/chart.json", lambda route: route.continue_() if held else held.append(route))
    with service.database.write() as session:
        trials.record(session, mine.id, trial(service.ids.subject, 0, "compiled"))
    expect(note).to_contain_text("Nothing is timed yet: these are times that a model of the card predicts")
    (asked,) = held
    stale = asked.fetch()
    with service.database.write() as session:
        trials.record(session, mine.id, trial(service.ids.subject, 1, "compiled"))
        tunings.finish(session, mine.id, "done", ended="compiled", note="no GPU")
    expect(note).to_contain_text("Nothing was timed")
    expect(note.locator("h2")).to_have_text("Predicted times")
    asked.fulfill(response=stale)
    expect(clean.locator("#chart.drawn .scatterlayer .trace").first.locator(".point")).to_have_count(2)


def test_what_was_said_to_listeners_is_not_said_again(clean: Page, service: Service) -> None:
    with service.database.write() as session:
        mine = tune(session, service.ids.subject, policy="said once")
        begin(session, service.ids.subject, mine)
        trials.record(session, mine.id, trial(service.ids.subject, 0, "measured") | {"median_us": 50.0})
    clean.goto(f"/tunings/{mine.id}")
    clean.evaluate("""() => {
      window.said = [];
      const box = document.getElementById("announce");
      new MutationObserver(() => window.said.push(box.textContent)).observe(box, { childList: true, subtree: true });
    }""")
    for number, us in ((1, 60.0), (2, 55.0), (3, 40.0)):
        with service.database.write() as session:
            found = trial(service.ids.subject, number, "measured") | {"median_us": us}
            trials.record(session, mine.id, found)
        expect(clean.locator("#chip-all .tally")).to_have_text(str(number + 1))
    expect(clean.locator("#announce")).to_contain_text("trial 3")
    assert clean.evaluate("window.said") == ["transpose: running, best so far 40.00 µs, trial 3."]
    with service.database.write() as session:
        tunings.finish(session, mine.id, "failed", error="of this test")


def test_a_list_of_two_cards_fits_a_laptop(clean: Page) -> None:
    clean.set_viewport_size({"width": 1280, "height": 800})
    clean.goto("/")
    assert clean.evaluate(
        "(() => { const box = document.querySelector('.panel.scroll'); return box.scrollWidth <= box.clientWidth; })()"
    )


def test_the_state_filter_is_in_the_address(clean: Page, service: Service) -> None:
    clean.goto(f"/tunings/{service.ids.done}")
    clean.evaluate("window.notReloaded = true")
    clean.locator("#chip-duplicate").click()
    badges = clean.locator("#trials tbody .badge")
    expect(badges.first).to_have_text("duplicate")
    assert set(badges.all_inner_texts()) == {"duplicate"}
    expect(clean).to_have_url(re.compile("state=duplicate"))
    assert clean.evaluate("window.notReloaded")
    clean.reload()
    assert set(badges.all_inner_texts()) == {"duplicate"}
    clean.locator("#chip-all").click()
    clean.locator("#page-on").click()
    expect(clean.locator("#trials caption")).to_contain_text("page 2 of")
    clean.go_back()
    expect(clean.locator("#trials caption")).not_to_contain_text("page 2 of")
    clean.go_back()
    expect(badges.first).to_have_text("duplicate")
    expect(clean.locator("#chart.drawn .main-svg").first).to_be_visible()


def test_what_a_reader_has_opened_stays_open(clean: Page, service: Service) -> None:
    clean.goto(f"/tunings/{service.ids.queued}")
    with service.database.write() as session:
        for number in range(2):
            trials.record(session, service.ids.queued, trial(service.ids.subject, number, "wrong_result"))
    clean.locator("#trial-0 summary").click()
    expect(clean.locator("#trial-0 code")).to_be_visible()
    with service.database.write() as session:
        trials.record(session, service.ids.queued, trial(service.ids.subject, 2, "wrong_result"))
    expect(clean.locator("#trial-2")).to_be_visible()
    expect(clean.locator("#trial-0 code")).to_be_visible()


def test_cancelling_asks_first(clean: Page, service: Service) -> None:
    with service.database.write() as session:
        mine = tune(session, service.ids.subject, policy="of this test").id
    clean.goto(f"/tunings/{mine}")
    asked: list[str] = []

    def decline(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    clean.once("dialog", decline)
    clean.locator("#cancel").click()
    assert len(asked) == 1
    expect(clean.locator("#status .badge").first).to_have_text("queued")
    clean.once("dialog", lambda dialog: dialog.accept())
    clean.locator("#cancel").click()
    expect(clean.locator("#status .badge").first).to_have_text("cancelled")
    with service.database.read() as session:
        assert session.get_one(TuningRow, mine).state == "cancelled"


def test_the_chart_has_floor_baseline_and_winner(clean: Page, service: Service) -> None:
    clean.goto(f"/tunings/{service.ids.done}")
    legend = clean.locator("#chart .legendtext")
    expect(legend).to_have_count(5)
    texts = legend.all_text_contents()
    assert [text.split(":")[0] for text in texts] == [
        "trial, measured", "best so far", "served kernel", "roofline floor, computed",
        "baseline eager torch, op by op, measured",
    ]  # fmt: skip
    with service.database.read() as session:
        history = trials.history(session, service.ids.done)
        kernel = kernels.get(session, service.ids.kernel)
        assert kernel is not None
        assert (kernel.trial_number, kernel.median_us) in history
    assert clean.locator("#chart .scatterlayer .trace").first.locator(".point").count() == len(history)


def test_the_theme_is_chosen_and_kept(clean: Page) -> None:
    clean.emulate_media(color_scheme="dark")
    clean.goto("/")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = clean.evaluate(ground)
    clean.get_by_role("button", name="Theme: auto").click()
    light = clean.evaluate(ground)
    assert light != dark
    clean.goto("/tunings")
    assert clean.evaluate(ground) == light
    clean.get_by_role("button", name="Theme: light").click()
    assert clean.evaluate(ground) == dark
    clean.get_by_role("button", name="Theme: dark").click()
    expect(clean.get_by_role("button", name="Theme: auto")).to_be_visible()
    assert clean.evaluate("localStorage.getItem('fusetune-theme')") is None


def test_the_chart_follows_the_theme(clean: Page, service: Service) -> None:
    clean.goto(f"/tunings/{service.ids.done}")
    line = clean.locator("#chart .scatterlayer .trace").nth(1).locator("path.js-line")
    expect(line).to_be_attached()
    before = line.evaluate("one => getComputedStyle(one).stroke")
    clean.get_by_role("button", name="Theme: auto").click()
    clean.get_by_role("button", name="Theme: light").click()
    expect(line).not_to_have_css("stroke", before)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_a_narrow_screen_and_is_legible(clean: Page, service: Service, scheme: str) -> None:
    clean.set_viewport_size({"width": 360, "height": 740})
    clean.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    widths: dict[str, int] = {}
    illegible: dict[str, list[str]] = {}
    for path in EVERY:
        clean.goto(path.format(**vars(service.ids)))
        if path not in UNTIMED:
            expect(clean.locator("#chart:not(.drawn)")).to_have_count(0)
        widths[path] = clean.evaluate("document.documentElement.scrollWidth")
        if poor := clean.evaluate(_CONTRAST):
            illegible[path] = poor
    assert {path: width for path, width in widths.items() if width > 360} == {}
    assert illegible == {}


_CONTRAST = """() => {
  // WCAG 2.2, 1.4.3: text against the nearest opaque ground, 4.5 to 1 (3 to 1 where it is large).
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => {
    const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = colour.slice(0, 3).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = rgba(getComputedStyle(one).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *:not(svg *)")) {
    const own = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    if (!own || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const [high, low] = [light(rgba(style.color)), light(ground(element))].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    const least = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
    if (ratio < least) poor.push(`${element.textContent.trim()}: ${ratio.toFixed(2)}`);
  }
  return poor;
}"""


def test_code_is_copied(clean: Page, service: Service) -> None:
    clean.context.grant_permissions(["clipboard-read", "clipboard-write"])
    clean.goto(f"/kernels/{service.ids.kernel}")
    clean.locator("[data-copy=call]").click()
    expect(clean.locator("[data-copy=call]")).to_have_text("Copied")
    assert clean.evaluate("navigator.clipboard.readText()") == clean.locator("#call").text_content()


def test_the_source_is_downloaded(clean: Page, service: Service) -> None:
    clean.goto(f"/kernels/{service.ids.kernel}")
    with clean.expect_download() as download:
        clean.locator(".code", has=clean.locator("#source")).get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == f"{service.ids.kernel}.cu"
    assert download.value.path().read_text(encoding="utf-8") == clean.locator("#source").text_content()


def test_an_unused_service_says_what_to_do(clean: Page, unused: str) -> None:
    clean.goto(unused)
    expect(clean.get_by_role("heading", name="No fusion has been posted yet")).to_be_visible()
    assert unused in str(clean.locator("#post-curl").text_content())


def test_a_live_page_says_when_the_service_is_away(page: Page, service: Service) -> None:
    page.goto(f"/tunings/{service.ids.queued}")
    expect(page.locator("#offline")).to_be_hidden()
    page.route("**/live?*", lambda route: route.abort())
    expect(page.locator("#offline")).to_have_text("What is shown may be old: the service gives no answer.")
    page.unroute("**/live?*")
    expect(page.locator("#offline")).to_be_hidden()


def test_focus_stays_where_it_is_while_a_list_is_asked_for_again(clean: Page, service: Service) -> None:
    clean.goto("/tunings")
    link = clean.locator(f"#tuning-{service.ids.queued}")
    link.focus()
    clean.evaluate("document.getElementById('list').dataset.old = 'yes'")
    expect(clean.locator("#list[data-old]")).to_have_count(0)
    expect(link).to_be_focused()


def test_without_javascript_everything_can_be_read(browser_page_without_script: Page, service: Service) -> None:
    page = browser_page_without_script
    page.goto(f"{service.url}/tunings/{service.ids.done}")
    expect(page.locator("#chart")).to_contain_text("The chart needs JavaScript")
    expect(page.locator("#improvements li")).not_to_have_count(0)
    page.locator("#chip-measured").click()
    assert set(page.locator("#trials tbody .badge").all_inner_texts()) == {"measured"}
    expect(page.locator("#theme")).to_be_hidden()
