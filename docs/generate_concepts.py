"""`make docs`: draws the pictures of docs/concepts from the cases that they show, and from the tables of the hardware.

Cases are those of docs/concepts/cases.json, and the worked examples of the documents (tests/data/document_cases.json).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from compiler.analysis.tmem.patterns import Pattern
from compiler.explain.case import Explained, explain_case
from compiler.explain.tmem_fragment import fragment_by_pattern, fragment_picture
from compiler.explain.tmem_whole import tensor_memory_overview

FOLDER = Path(__file__).with_name("concepts")
IMAGES = FOLDER / "images"
CASES = FOLDER / "cases.json"
DOCUMENT_CASES = Path(__file__).parents[1] / "tests" / "data" / "document_cases.json"


@dataclass(frozen=True, slots=True)
class Image:
    """A file of docs/concepts/images: the picture of that name among those of a case."""

    file: str
    case: str
    picture: str

    def draw(self) -> str:
        """The picture. Raises KeyError for one that its case has not."""
        return {p.name: p.svg for p in explained(self.case).pictures()}[self.picture]


@dataclass(frozen=True, slots=True)
class HardwareFigure:
    """A file of docs/concepts/images that shows the hardware itself, and what draws it."""

    file: str
    draw: Callable[[], str]


_TILES = {"dense-box": "dense box", "strided-box": "strided box", "box-past-the-end": "box past the end"}
_BOXES = {
    "dense-box": "dense box",
    "strided-box": "strided box",
    "box-by-compositing": "box by compositing",
    "box-by-rotation-of-the-outer": "box by rotation: outer split again",
    "box-by-rotation-of-the-inner": "box by rotation: inner split again",
    "box-by-two-rotations": "box by two rotations",
    "five-dimensions": "five dimensions",
    "three-axes-as-one": "three axes seen as one",
}
_SHARED = [f"{number}{letter}" for number in (13, 14, 15) for letter in "abcde"]
_STORES = {"13d", "13e", "14d", "14e", "15b", "15e"}
_TMEM = {
    "warp-xyz": "TMemTutorialR.WarpXYZ",
    "warp-group": "TMemTutorialR.WarpGroupXYZ",
    "warp-groups-on-columns": "TMemTutorialR.WarpGroupXYColZ",
    "warp-groups-in-any-order": "TMemTutorialR.WarpGroupXColYZ",
    "wrong-subpartition": "TMemTutorialC.WrongSubpartition",
    "twice-the-same-subpartition": "TMemTutorialC.WrongSubpartition2",
    "strided-lanes": "16 lanes of every subpartition",
    "matrix-fragments": "fragments of a matrix product",
    "performant-copy": "TMemTutorialR.PerformantVectorizedCopy",
    "not-contiguous": "TMemTutorialC.NotContiguous",
    "one-lane": "TMemTutorialC.OneLane",
    "complicated-lanes": "TMemTutorialR.Complicated1",
    "complicated-columns": "TMemTutorialR.Complicated2",
}
_TMEM_TRANSPOSE = "TMemTutorialR.Transpose"
_FRAGMENTS = {
    Pattern.P32X32B: (2, 0),
    Pattern.P16X64B: (2, 0),
    Pattern.P16X128B: (2, 0),
    Pattern.P16X256B: (1, 0),
    Pattern.P16X32BX2: (2, 4),
}
"""Count of each pattern that is drawn, and columns to the second half."""


def _fragment(pattern: Pattern, num: int, half_offset: int) -> str:
    title = f"{pattern}: which register of which thread holds what"
    return fragment_picture(fragment_by_pattern(pattern, num, half_offset), title)


_TRANSPOSE = "Tutorial.TMABankConflictFreeTranspose"

PICTURES: tuple[Image | HardwareFigure, ...] = (
    *(Image(f"{file}-tile.svg", case, "tv1_tile.svg") for file, case in _TILES.items()),
    *(Image(f"{file}-domains.svg", case, "tv1_domains_tv1.svg") for file, case in _BOXES.items()),
    *(Image(f"swizzle-{n}-domains.svg", f"swizzle of {n} bytes", "tv1_domains_tv1.svg") for n in (32, 64, 128)),
    *(Image(f"swizzle-{n}-banks.svg", f"swizzle of {n} bytes", "tv1_banks.svg") for n in (32, 64, 128)),
    Image("no-swizzle-banks.svg", "three axes seen as one", "tv1_banks.svg"),
    HardwareFigure("tensor-memory.svg", tensor_memory_overview),
    *(HardwareFigure(f"registers-{p}.svg", partial(_fragment, p, *form)) for p, form in _FRAGMENTS.items()),
    *(Image(f"{file}.svg", case, "tv3_tmem.svg") for file, case in _TMEM.items()),
    Image("tmem-transpose-store.svg", _TMEM_TRANSPOSE, "tv2_tmem.svg"),
    Image("tmem-transpose-load.svg", _TMEM_TRANSPOSE, "tv3_tmem.svg"),
    *(
        Image(f"figure-{figure}.svg", f"TMADocTest.Figure{figure}", f"{copy}_domains_tv1.svg")
        for figure in _SHARED
        for copy in (["tv2"] if figure in _STORES else ["tv1"])
    ),
    Image("transpose-load.svg", _TRANSPOSE, "in_smem_domains_in_smem.svg"),
    Image("transpose-banks.svg", _TRANSPOSE, "in_smem_banks.svg"),
    Image("transpose-store.svg", _TRANSPOSE, "out_domains_out.svg"),
)
"""Every picture of the pages."""


@cache
def explained(name: str) -> Explained:
    """The explanation of a case by its name. Raises KeyError."""
    return explain_case(_cases()[name])


@cache
def _cases() -> dict[str, Any]:
    return {case["name"]: case for file in (CASES, DOCUMENT_CASES) for case in json.loads(file.read_text())}


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    for old in IMAGES.glob("*.svg"):
        old.unlink()
    for one in PICTURES:
        (IMAGES / one.file).write_text(one.draw(), encoding="utf-8")
