"""What explanations say: the roles by their names, the tensor map's fields, why holes hold what they do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compiler.analysis.id.graph import id_graph
from compiler.analysis.tma.tensor_map import Correctness, MapDim
from compiler.arch import arch_named
from compiler.explain.case import explain_case
from compiler.explain.copy_words import copy_words
from compiler.explain.names import axes_names, counted, listed
from compiler.explain.nest_words import nest_words
from compiler.explain.shared_words import shared_words
from compiler.explain.tma_words import correctness_words, tensor_map_words
from compiler.ir.size import Size
from compiler.legality.rules import Schedule
from compiler.schedule.explicit import MalformedCase
from tests.compiler.documents import CASES, REFUSED, mutants
from tests.compiler.explain.copies import STRIDED, load_case, scheduled, strided_copy
from tests.compiler.explicit.cases import multicast_bias
from tests.compiler.model import copies, fusion


def case_named(name: str) -> dict[str, Any]:
    return next(case for case in CASES if case["name"] == name)


def lines_of(case: dict[str, Any]) -> list[str]:
    return [" ".join(line.split()) for line in explain_case(case).text().splitlines()]


def test_every_role_of_a_strided_copy_is_named() -> None:
    _, graph, copy = strided_copy()
    lines = [" ".join(line.split()) for line in tensor_map_words(graph, copy, 0)]
    assert lines[lines.index("dimension 1") :][:6] == [
        "dimension 1",
        "partitioned tv1.i0{16}",
        "box tv1.i5{4}",
        "coordinate tv1.i4{4}",
        "tile tv1.i6{2}",
        "stride tv1.i7{3}",
    ]
    for field in ("sizes 32 x 16", "strides 128 bytes", "box 8 x 4", "tile 8 x 2, 64 bytes", "element strides 1 x 3"):
        assert field in lines
    assert "view: the axes of the memory, as they are" in lines


def test_boxes_without_a_box_axis_and_of_everything_are_said_to_be_implicit() -> None:
    _, graph, copy = strided_copy()
    assert copy.dims
    rows = copy.dims[1].partitioned
    one = MapDim(rows, (), (), None, Size(16), Size(32), Size(1), Size(1), Size(1))
    whole = MapDim(rows, rows, rows, None, Size(16), Size(32), Size(16), Size(16), Size(1))
    lines = "\n".join(tensor_map_words(graph, replace(copy, dims=(one, whole)), None))
    assert "implicitly one element" in lines
    assert "implicitly the whole dimension" in lines
    assert "as no swizzle of the hardware" in lines


def test_merged_axes_are_a_view_and_a_collapse() -> None:
    steps = [{"do": "merge", "axis": 0}, {"do": "split", "axis": 0, "factor": 64}]
    steps += [{"do": "parallelize", "axis": 0, "type": "BIDx"}, {"do": "parallelize", "axis": 1, "type": "Bulk"}]
    lines = lines_of(load_case("flat", [16, 32], steps))
    assert "view: merge tv1.i0{16}, tv1.i1{32} to tv1.i2{512}" in lines
    composed = [{"do": "parallelize", "axis": 0, "type": "BIDx"}, {"do": "parallelize", "axis": 1, "type": "Bulk"}]
    lines = lines_of(load_case("compositing", [16, 32], composed))
    assert "partitioned merge(tv1.i0{16}, tv1.i1{32})" in lines
    assert "collapsed of 2 contiguous axes" in lines
    assert "coordinate tv1.i0{16}" in lines


@pytest.mark.parametrize(
    ("correctness", "words"),
    [
        (Correctness.STRONG, "strongly correct: "),
        (Correctness.STRONG_WITH_PREDICATE, "strongly correct with a predicate"),
        (Correctness.WEAK, "weakly correct"),
        (None, "not known"),
    ],
)
def test_what_holes_hold(correctness: Correctness | None, words: str) -> None:
    _, _, copy = strided_copy()
    assert words in next(correctness_words(replace(copy, correctness=correctness)))


@pytest.mark.parametrize(("is_load", "words"), [(True, "fills in zero"), (False, "writes nothing")])
def test_what_the_copy_engine_does_past_the_end(is_load: bool, words: str) -> None:
    _, _, copy = strided_copy()
    assert words in next(correctness_words(replace(copy, correctness=Correctness.STRONG, is_load=is_load)))


def test_the_dimension_that_makes_a_copy_weak_is_named() -> None:
    _, _, copy = strided_copy()
    reason = list(correctness_words(copy))[1]
    assert "dimension 1 (element stride 3 does not divide the box of 4" in reason
    assert "dimension 0" not in reason


def test_a_copy_without_a_tensor_map_says_so() -> None:
    _, graph, copy = strided_copy()
    assert "no tensor map was found" in "\n".join(tensor_map_words(graph, replace(copy, dims=None), None))


def test_tensors_say_where_they_are_computed_and_laid_out() -> None:
    steps = [{"do": "split", "axis": 1, "factor": 8}, {"do": "parallelize", "axis": 0, "type": "BIDx"}]
    steps += [{"tv": "tv2", **step} for step in steps]
    steps += [{"do": "inline_at", "position": 1}, {"do": "circular_buffer", "stages": 3, "prefetch": 2}]
    sf = scheduled(load_case("inlined", [16, 32], steps))
    lines = [line.strip() for line in nest_words(sf)]
    assert "loops: i0{16} BIDx, i2{4}, i3{8}" in lines
    assert "computed: inside the first 1 loop of tv2" in lines
    assert "memory: each block has its own; laid out in the order of its loops" in lines
    assert "circular buffer: 3 stages, 2 filled ahead" in lines


@pytest.mark.parametrize(
    ("axis", "words"),
    [
        pytest.param(1, "1 wavefront, at best 1: no bank conflict", id="along-rows"),
        pytest.param(0, "32 wavefronts, at best 1: 32-way bank conflict", id="down-a-column"),
    ],
)
def test_what_threads_pay_in_shared_memory(axis: int, words: str) -> None:
    sf = scheduled(load_case("read", [32, 32], [{"do": "parallelize", "tv": "tv2", "axis": axis, "type": "TIDx"}]))
    *_, total, line = shared_words(sf, id_graph(sf), Schedule(sf, arch_named("sm_90a")).shared_bytes)
    assert total == "in all: 4104 bytes a block"
    assert line.startswith("tv2: reads tv1, 4 bytes a thread")
    assert line.endswith(words)


@pytest.mark.parametrize(
    ("chain", "dtype", "words"),
    [
        ("g l g", "float32", ["tv1 <- tv0: vector, 4 bytes a thread at a time"]),
        ("g s g", "float16", ["tv1 <- tv0: vector, 2 bytes a thread at a time, by way of registers"]),
        ("g s=cp_async g", "float64", ["tv1 <- tv0: cp.async, 8 bytes a thread at a time"]),
        ("g l g", "float4_e2m1", ["tv1 <- tv0: vector, 4 bits a thread at a time"]),
        ("g s=tma g", "float32", []),
    ],
)
def test_the_instruction_of_each_copy_by_threads(chain: str, dtype: str, words: list[str]) -> None:
    document = copies((32,), chain)
    for t in document["tensors"].values():
        t["dtype"] = dtype
    found = [line for line in copy_words(fusion(document)) if line.startswith("tv1")]
    assert found == words


def test_a_run_of_a_bulk_copy_without_tensor_map() -> None:
    steps = [{"do": "parallelize", "axis": 0, "type": "BIDx"}, {"do": "parallelize", "axis": 1, "type": "Bulk"}]
    case = load_case("run", [16, 32], steps)
    lines = lines_of({**case, "ops": [{**case["ops"][0], "via": "bulk1d"}, case["ops"][1]]})
    assert "tv1: load of one run of neighbouring elements, without tensor map" in lines
    assert "run: 32 elements, 128 bytes" in lines
    assert "runs begin 32 elements apart" in lines
    without = lines_of({**case, "ops": [{**case["ops"][0], "via": "bulk1d"}, case["ops"][1]], "schedule": []})
    assert "no run was found; what is wrong stands below" in without


def test_what_passes_between_threads() -> None:
    case = load_case("passed", [32, 32], [{"do": "parallelize", "axis": 0, "type": "TIDx"}])
    case["ops"][0].pop("via")
    case["schedule"].append({"do": "parallelize", "tv": "tv2", "axis": 1, "type": "TIDx"})
    assert "tv1 to tv2: across TIDx, behind a barrier of the block" in lines_of(case)


def test_tensor_memory_is_explained_by_lane_and_column() -> None:
    lines = lines_of(case_named("TMemTutorialR.WarpGroupXColYZ"))
    assert "tv2: in tensor memory, 128 of 128 lanes x 4 columns of 4 bytes" in lines
    assert "lanes: i0{128}" in lines
    assert "columns: i1{2}, i2{2}" in lines
    assert "allocated: 32 columns, a power of two of at least 32" in lines
    assert any(line.startswith("load into tv3: 1 word of 4 bytes a thread, pattern 32x32b") for line in lines)
    assert any(line.startswith("store from tv1: 1 word of 4 bytes a thread, pattern 32x32b") for line in lines)


def test_an_illegal_case_is_explained_as_far_as_it_goes() -> None:
    lines = lines_of(case_named("TMADocTest.Figure13a"))
    assert lines[0] == "TMADocTest.Figure13a: illegal on sm_90a"
    assert "box 128 x 4" in lines
    refused = explain_case(REFUSED)
    assert (refused.schedule, refused.pictures()) == (None, ())
    assert "there is no axis 7" in refused.text()


def test_conditions_for_launch_are_listed() -> None:
    case = {**STRIDED, "tensors": {**STRIDED["tensors"], "tv0": {**STRIDED["tensors"]["tv0"], "symbolic": True}}}
    explained = explain_case(case)
    assert explained.verdict.kept
    text = explained.text()
    for kept in explained.verdict.kept:
        assert kept.expr in text.replace("\n    ", "")


def test_every_case_of_the_documents_is_explained() -> None:
    for case in CASES:
        explained = explain_case(case)
        assert explained.text()
        names = [p.name for p in explained.pictures()]
        assert len(set(names)) == len(names)
        assert names or not any(op.get("via") in ("tma", "ld_tmem") for op in case["ops"])


def test_no_document_makes_a_traceback() -> None:
    explained = 0
    for document in mutants(seed=3, count=100):
        try:
            found = explain_case(document)
        except MalformedCase:
            continue
        found.text()
        found.pictures()
        explained += 1
    assert explained > 30


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (listed([]), "none"),
        (listed(["a"]), "a"),
        (listed(["a", "b", "c"]), "a, b and c"),
        (counted(1, "axis"), "1 axis"),
        (counted(2, "axis"), "2 axes"),
        (counted(0, "stage"), "0 stages"),
        (axes_names(()), "none"),
    ],
)
def test_lists_and_numbers_in_words(words: str, text: str) -> None:
    assert words == text


def test_who_gets_what_a_multicast_copies_is_said() -> None:
    text = explain_case(multicast_bias()).text()
    assert "bs in shared memory, of all blocks of a cluster, the first of which asks" in " ".join(text.split())


def test_a_copy_is_explained_as_tiles() -> None:
    lines = lines_of(case_named("Tutorial.TMABankConflictFreeTranspose"))
    at = lines.index("As tiles")
    assert lines[at + 2 : at + 4] == ["copy 32 x 32 f32, global -> shared", "path TMA, 4096 bytes an access"]
    assert "shared 8 requests, 4 wavefronts each, no conflicts" in lines
