"""The pages of docs/concepts: every picture is as the tool draws it today, and the pages say what the tool says."""

from __future__ import annotations

import json
import re

import pytest

from compiler.judging import judge_all
from docs.generate_concepts import CASES, FOLDER, IMAGES, PICTURES, HardwareFigure, Image, explained

PAGES = sorted(FOLDER.glob("*.md"))
DOCUMENTS = json.loads(CASES.read_text())


@pytest.mark.parametrize("image", PICTURES, ids=lambda image: image.file)
def test_a_picture_is_up_to_date(image: Image | HardwareFigure) -> None:
    assert (IMAGES / image.file).read_text() == image.draw(), f"{image.file} is out of date: run `make docs`"


def test_there_are_no_other_pictures() -> None:
    assert sorted(path.name for path in IMAGES.iterdir()) == sorted(image.file for image in PICTURES)


def test_every_picture_is_shown_and_every_link_leads_somewhere() -> None:
    links = {link for page in PAGES for link in re.findall(r"\]\(([^)#]+)\)", page.read_text())}
    assert [link for link in links if not (FOLDER / link).exists()] == []
    assert {image.file for image in PICTURES} == {link.removeprefix("images/") for link in links if "images/" in link}


def test_every_page_is_listed() -> None:
    listed = set(re.findall(r"\]\(([a-z-]+\.md)\)", (FOLDER / "README.md").read_text()))
    assert listed == {page.name for page in PAGES} - {"README.md"}


def test_every_example_is_legal() -> None:
    assert [(v.name, [str(x) for x in v.violations], v.error) for v in judge_all(DOCUMENTS) if not v.legal] == []


@pytest.mark.parametrize(
    ("case", "box", "tile", "swizzle", "correctness"),
    [
        ("dense box", (8, 4), (8, 4), "none", "strong"),
        ("strided box", (8, 4), (8, 2), "none", "weak"),
        ("box past the end", (8, 4), (8, 4), "none", "strong"),
        ("box by compositing", (32,), (32,), "none", "strong"),
        ("box by rotation: outer split again", (32,), (32,), "none", "strong"),
        ("box by rotation: inner split again", (4,), (4,), "none", "strong"),
        ("box by two rotations", (64,), (64,), "none", "strong"),
        ("five dimensions", (16, 4, 1, 2, 2), (16, 4, 1, 2, 2), "none", "strong"),
        ("three axes seen as one", (256,), (256,), "none", "strong"),
        ("swizzle of 32 bytes", (16, 64), (16, 64), "32B", "strong"),
        ("swizzle of 64 bytes", (32, 64), (32, 64), "64B", "strong"),
        ("swizzle of 128 bytes", (64, 64), (64, 64), "128B", "strong"),
    ],
)
def test_copies_are_what_the_pages_say(
    case: str, box: tuple[int, ...], tile: tuple[int, ...], swizzle: str, correctness: str
) -> None:
    (found,) = explained(case).verdict.tma
    assert (found.box, found.tile, found.swizzle, found.correctness) == (box, tile, swizzle, correctness)


@pytest.mark.parametrize(
    ("case", "lanes", "columns", "pattern"),
    [("16 lanes of every subpartition", 64, 8, "16x32bx2"), ("fragments of a matrix product", 64, 32, "16x256b")],
)
def test_tensor_memory_is_what_the_page_says(case: str, lanes: int, columns: int, pattern: str) -> None:
    (found,) = explained(case).verdict.tmem
    assert (found.lanes, found.columns, found.pattern) == (lanes, columns, pattern)


@pytest.mark.parametrize("figure", [f"{n}{x}" for n in (13, 14, 15) for x in "abcde"])
def test_figures_are_legal_or_not_as_the_page_says(figure: str) -> None:
    illegal = figure.startswith("13") or figure in ("15c", "15d", "15e")
    assert explained(f"TMADocTest.Figure{figure}").verdict.legal is not illegal
