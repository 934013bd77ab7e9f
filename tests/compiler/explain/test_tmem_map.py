"""The maps of tensor memory: which warp, and which register of which thread, holds what, held against the emulator."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from compiler.analysis.tmem.patterns import Pattern
from compiler.emulate.features.tmem.layout import fragment, registers_of
from compiler.explain.case import explain_case
from compiler.explain.tmem_fragment import fragment_by_pattern, fragment_lines, fragment_picture
from compiler.explain.tmem_map import TensorMemoryMap, tensor_memory_maps
from docs.generate_concepts import CASES as PAGE_CASES
from tests.compiler.documents import CASES

NUMS = (1, 2, 4, 8, 16, 32, 64, 128)


def exists(pattern: Pattern, num: int) -> bool:
    try:
        registers_of(pattern, num)
    except ValueError:
        return False
    return True


FORMS = [(pattern, num) for pattern in Pattern for num in NUMS if exists(pattern, num)]


@pytest.mark.parametrize(("pattern", "num"), FORMS)
@pytest.mark.parametrize("split", [3, 40])
def test_a_fragment_is_the_emulators(pattern: Pattern, num: int, split: int) -> None:
    """Two tables written apart: the compiler's, which the map is made of, and the witness's."""
    split = max(split, num)
    found = fragment_by_pattern(pattern, num, split)
    witness = fragment(pattern, num, split=split)
    expected = {
        (int(lane), int(column)): (thread, register)
        for thread in range(32)
        for register, (lane, column) in enumerate(
            zip(witness.lanes[thread, :, 0], witness.columns[thread, :, 0], strict=True)
        )
    }
    assert dict(found.cells) == expected
    assert (found.name, found.registers) == (f"{pattern}.x{num}", registers_of(pattern, num))


@pytest.mark.parametrize(
    ("pattern", "num", "line"),
    [
        pytest.param(Pattern.P32X32B, 2, "3     t3 r0   t3 r1", id="32x32b"),
        pytest.param(Pattern.P16X64B, 1, "9     t5 r0   t7 r0", id="16x64b: odd threads in the upper 8 lanes"),
        pytest.param(Pattern.P16X128B, 1, "8     t0 r1   t1 r1   t2 r1   t3 r1", id="16x128b"),
        pytest.param(
            Pattern.P16X256B,
            1,
            "1     t4 r0   t4 r1   t5 r0   t5 r1   t6 r0   t6 r1   t7 r0   t7 r1",
            id="16x256b",
        ),
        pytest.param(Pattern.P16X32BX2, 2, "15    t15 r0  t15 r1  t31 r0  t31 r1", id="16x32bx2"),
    ],
)
def test_a_fragment_as_text(pattern: Pattern, num: int, line: str) -> None:
    assert line in list(fragment_lines(fragment_by_pattern(pattern, num, num)))


def test_what_goes_on_alike_is_cut_and_says_so() -> None:
    lines = list(fragment_lines(fragment_by_pattern(Pattern.P32X32B, 128)))
    assert lines[1].endswith("7  ...")
    assert [line.split()[0] for line in lines[2:]] == ["0", "1", "2", "3", "...", "31"]
    assert "... 128 columns" in fragment_picture(fragment_by_pattern(Pattern.P32X32B, 128), "title")
    assert "..." not in fragment_picture(fragment_by_pattern(Pattern.P32X32B, 16), "title")


def maps(name: str) -> list[TensorMemoryMap]:
    documents = [*CASES, *json.loads(PAGE_CASES.read_text())]
    schedule = explain_case(next(c for c in documents if c["name"] == name)).schedule
    assert schedule is not None
    return list(tensor_memory_maps(schedule))


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        pytest.param(
            "TMemTutorialR.WarpGroupXColYZ",
            ["columns       0   1    2   3", "lanes 32-63   w1  w9   w5  w13  subpartition 1"],
            id="warp-groups-on-columns",
        ),
        pytest.param(
            "TMemTutorialC.WrongSubpartition",
            ["lanes 32-63   w0!  subpartition 1", "!: warp w reaches subpartition w mod 4 alone"],
            id="out-of-reach",
        ),
        pytest.param("TMemTutorialC.NotContiguous", ["lane 1    w2!  subpartition 0"], id="no-pattern"),
        pytest.param("TMemTutorialC.NotContiguous", ["... 128 runs of lanes in all"], id="many-lanes"),
        pytest.param("TMemTutorialC.TooManyLanes", ["which warps reach what is not known"], id="not-known"),
        pytest.param(
            "16 lanes of every subpartition", ["lanes 96-111  w3   subpartition 3", "16x32bx2.x4"], id="strided"
        ),
        pytest.param(
            "TMemTutorialR.VectorizeMultipleOf4Bytes/float16_x2",
            ["a register holds 2 elements, the lowest bits first"],
            id="narrow",
        ),
    ],
)
def test_the_text_of_a_schedule(name: str, lines: list[str]) -> None:
    text = maps(name)[0].text
    places = [text.index(line) for line in lines]
    assert all(a < b for a, b in pairwise(places))


def test_a_load_that_is_like_the_store_is_said_once() -> None:
    store, load = maps("TMemTutorialR.WarpGroupXYZ")
    assert (store.title, load.title) == ("store to tv2", "load from tv2")
    assert load.text == "that of: store to tv2"
    store, load = maps("TMemTutorialR.Vectorization/st_128_ld_1")
    assert "32x32b.x128" in store.text
    assert "32x32b.x1:" in load.text


@pytest.mark.parametrize("name", ["TMemTutorialC.OneLane", "TMemTutorialC.TooManyLanes"])
def test_without_a_pattern_there_is_no_picture_of_registers(name: str) -> None:
    assert [(one.by_register, one.by_warp[:4]) for one in maps(name)] == [("", "<svg")] * 2


@pytest.mark.parametrize("case", [c for c in CASES if "TMem" in c["name"]], ids=lambda c: c["name"])
def test_every_case_of_the_documents_has_its_maps(case: Any) -> None:
    explained = explain_case(case)
    assert explained.schedule is not None
    found = list(tensor_memory_maps(explained.schedule))
    assert [one.output for one in found] == [one.output for one in explained.schedule.tensor_memory.accesses]
    text = explained.text()
    assert all(f"Map: {one.title}" in text for one in found)
    names = {picture.name for picture in explained.pictures()}
    assert {f"{one.output}_tmem.svg" for one in found} <= names
    assert {f"{one.output}_registers.svg" for one in found if one.by_register} <= names
    if explained.verdict.legal:
        assert all(one.by_register for one in found)
