"""How a notebook shows fusions and kernels: whole, and with nothing in it taken for markup."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from fusetune import Binding, FusionBuilder, Kernel
from tests.sdk.fake_service import artifact, bias_gelu


class Shown(HTMLParser):
    """The texts of a page; raises where an element is left open or closed twice."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_fusion_is_shown_with_its_inputs_and_operators() -> None:
    shown = Shown(bias_gelu()._repr_html_()).texts
    assert shown[:3] == ["input", "dtype", "shape"]
    assert shown[3:6] == ["x", "bf16", "(M, 64)"]
    assert any("out = cast" in text and "-> output" in text for text in shown)


def test_a_scalar_is_shown_as_one() -> None:
    f = FusionBuilder()
    f.output(f.input("x", (4,), "f32") * f.scalar("s"), name="out")
    assert Shown(f.build()._repr_html_()).texts[6:9] == ["s", "f64", "by value"]


@pytest.mark.parametrize("source", ["", "a < b && c > d; // <script>"])
def test_a_kernel_is_shown_with_its_evidence_and_its_source(source: str) -> None:
    kernel = Kernel(artifact(bias_gelu(), Binding(sizes={"M": 8}), source=source))
    shown = Shown(kernel._repr_html_()).texts
    assert any("correct: verified_on_gpu, time: measured" in text for text in shown)
    assert "bf16[8, 64]" in shown
    assert (source in shown) is bool(source)
