"""Pictures: what is drawn where, that SVG is well formed whatever the names, and the same every time."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from compiler.analysis.id.graph import id_graph
from compiler.analysis.tma.tensor_map import MapDim
from compiler.explain.banks import BankedTile, bank_notes, banked_tile, banks
from compiler.explain.domain_graph import domain_graph
from compiler.explain.global_tile import global_tile
from compiler.explain.roles import COLOURS, MEANINGS, TmaRole, coordinates_of, roles_of
from compiler.explain.svg import picture, text
from compiler.ir.domain import ScheduledFusion
from compiler.ir.size import Size
from tests.compiler.explain.copies import load_case, scheduled, strided_copy

SVG = "{http://www.w3.org/2000/svg}"


def words(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def fills(svg: str) -> list[str]:
    return [node.get("fill", "") for node in ElementTree.fromstring(svg).iter(f"{SVG}rect")]


def test_roles_of_a_strided_copy() -> None:
    sf, graph, copy = strided_copy()
    t = sf.tensor("tv1")
    found = {axis.name: role for axis in (*t.logical, *(a for e in t.exprs for a in e.outputs)) if (
        role := roles_of(graph, copy).get(graph.group(axis))
    )}  # fmt: skip
    assert found == {
        "tv1.0": TmaRole.PARTITIONED, "tv1.1": TmaRole.PARTITIONED, "tv1.2": TmaRole.COORDINATE, "tv1.3": TmaRole.BOX,
        "tv1.4": TmaRole.COORDINATE, "tv1.5": TmaRole.BOX, "tv1.6": TmaRole.TILE, "tv1.7": TmaRole.STRIDE,
    }  # fmt: skip


def test_the_coordinate_of_an_implicit_box_of_one_is_the_dimension() -> None:
    _, graph, copy = strided_copy()
    rows = copy.dims[1].partitioned if copy.dims else ()
    whole = MapDim(rows, (), (), None, Size(16), Size(32), Size(1), Size(1), Size(1))
    assert coordinates_of(graph, replace(copy, non_bulk=copy.non_bulk | {*rows}), whole) == rows


def test_an_implicitly_whole_box_has_no_coordinate() -> None:
    _, graph, copy = strided_copy()
    rows = copy.dims[1].partitioned if copy.dims else ()
    whole = MapDim(rows, rows, rows, None, Size(16), Size(32), Size(16), Size(16), Size(1))
    assert coordinates_of(graph, replace(copy, bulk=copy.bulk | {*rows}), whole) == ()
    assert roles_of(graph, replace(copy, dims=(whole,)))[rows[0]] is TmaRole.BOX


def test_the_graph_has_every_axis_once_in_the_colour_of_its_role() -> None:
    sf, graph, copy = strided_copy()
    svg = domain_graph(graph, sf.tensor("tv1"), roles_of(graph, copy), "title")
    assert words(svg).count("i5{4}") == 1
    assert [w for w in words(svg) if re.fullmatch(r"i\d\{\d+\}", w)] == [
        "i0{16}", "i1{32}", "i2{4}", "i3{8}", "i4{4}", "i5{4}", "i6{2}", "i7{3}",
    ]  # fmt: skip
    for role in (TmaRole.PARTITIONED, TmaRole.COORDINATE, TmaRole.BOX, TmaRole.TILE, TmaRole.STRIDE):
        axes = {TmaRole.TILE: 1, TmaRole.STRIDE: 1}.get(role, 2)
        assert fills(svg).count(COLOURS[role]) == axes + 1, role  # and once in the legend
        assert MEANINGS[role] in words(svg)
    assert MEANINGS[TmaRole.INSIDE] not in words(svg)
    assert "loop: i4 BIDy, i2 BIDx, i7, i6 Bulk, i3 Bulk" in words(svg)


def test_splits_that_make_holes_say_how_many() -> None:
    sf, graph, _ = strided_copy()
    svg = domain_graph(graph, sf.tensor("tv1"), {}, "title")
    assert [w for w in words(svg) if "split" in w] == ["split", "split", "split with 2 holes"]


def test_no_two_axes_of_a_graph_cover_each_other() -> None:
    steps = [{"do": "split", "axis": 0, "factor": 4}, {"do": "split", "axis": 2, "factor": 4}]
    steps += [{"do": "reorder", "map": {"1": 2}}, {"do": "merge", "axis": 0}, {"do": "split", "axis": 0, "factor": 2}]
    steps += [{"do": "swizzle", "axes": [2, 3]}]
    sf = scheduled(load_case("crossing", [16, 16], steps))
    svg = _graph_of(sf)
    boxes = [
        (float(n.get("x", 0)), float(n.get("y", 0)), float(n.get("width", 0)), float(n.get("height", 0)))
        for n in ElementTree.fromstring(svg).iter(f"{SVG}rect")
        if n.get("rx") == "4"
    ]
    assert len(boxes) == 10
    for i, (x, y, w, h) in enumerate(boxes):
        for x2, y2, w2, h2 in boxes[:i]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def _graph_of(sf: ScheduledFusion) -> str:
    return domain_graph(id_graph(sf), sf.tensor("tv1"), {}, "t")


def test_the_tile_in_global_memory() -> None:
    _, _, copy = strided_copy()
    svg = global_tile(copy, "title") or ""
    assert "32 x 16 elements in 4 x 4 boxes" in words(svg)
    assert "one box: 8 x 4" in words(svg)
    assert "tile 8 x 2, element strides 1 x 3" in words(svg)
    # Two rows of tile and two passed over, in the tensor and in the box, and once in the legend.
    assert fills(svg).count(COLOURS[TmaRole.TILE]) == 5
    assert fills(svg).count(COLOURS[TmaRole.BOX]) == 5
    assert not any("past the end" in w for w in words(svg))


@pytest.mark.parametrize(
    ("size", "is_load", "note"),
    [
        pytest.param(32, True, None, id="whole-boxes"),
        pytest.param(30, True, "past the end: zeros are read", id="load-past-the-end"),
        pytest.param(30, False, "past the end: nothing is written", id="store-past-the-end"),
    ],
)
def test_boxes_past_the_end_are_marked(size: int, is_load: bool, note: str | None) -> None:
    _, _, copy = strided_copy()
    assert copy.dims
    dims = (replace(copy.dims[0], size=Size(size)), copy.dims[1])
    svg = global_tile(replace(copy, dims=dims, is_load=is_load), "title") or ""
    assert [w for w in words(svg) if w.startswith("past the end")] == ([note] if note else [])


def test_of_very_many_boxes_the_first_are_drawn() -> None:
    _, _, copy = strided_copy()
    assert copy.dims
    dims = (replace(copy.dims[0], size=Size(8 * 10**6)), copy.dims[1])
    svg = global_tile(replace(copy, dims=dims), "title") or ""
    assert "8000000 x 16 elements in 1000000 x 4 boxes, the first 12 x 4 shown" in words(svg)
    assert len(svg) < 20_000


def test_dimensions_that_are_not_drawn_are_named() -> None:
    _, _, copy = strided_copy()
    assert copy.dims
    svg = global_tile(replace(copy, dims=(*copy.dims, copy.dims[1])), "title") or ""
    assert "dimension 2, not drawn: boxes of 4 in 16" in words(svg)
    assert global_tile(replace(copy, dims=None), "title") is None


@pytest.mark.parametrize(("span", "period"), [(32, 2), (64, 4), (128, 8)])
def test_a_swizzle_keeps_chunks_in_their_128_bytes_and_repeats(span: int, period: int) -> None:
    tile = BankedTile(64, span, span)
    places = {(r, c): tile.address(r, c) for r in range(64) for c in range(span // 16)}
    assert sorted(places.values()) == [16 * i for i in range(len(places))]
    for (r, c), at in places.items():
        assert at // 128 == (r * span + 16 * c) // 128
        assert tile.address(r + period * (128 // span), c) == at + 128 * period


@pytest.mark.parametrize(
    ("tile", "row", "column"),
    [
        pytest.param(BankedTile(32, 128, 0), (4, 4), (32, 4), id="dense-128"),
        pytest.param(BankedTile(32, 64, 0), (4, 4), (16, 4), id="dense-64"),
        pytest.param(BankedTile(32, 32, 0), (4, 4), (8, 4), id="dense-32"),
        pytest.param(BankedTile(32, 32, 32), (4, 4), (4, 4), id="swizzled-32"),
        pytest.param(BankedTile(32, 64, 64), (4, 4), (4, 4), id="swizzled-64"),
        pytest.param(BankedTile(32, 128, 128), (4, 4), (4, 4), id="swizzled-128"),
        pytest.param(BankedTile(1, 16, 0), (1, 1), (1, 1), id="one-chunk"),
    ],
)
def test_swizzled_tiles_have_no_bank_conflicts(tile: BankedTile, row: tuple[int, int], column: tuple[int, int]) -> None:
    """The documents' claim: rows and columns of a swizzled tile are free of conflicts."""
    assert (tile.row_wavefronts(), tile.column_wavefronts()) == (row, column)
    assert bank_notes(tile)[1].endswith("no bank conflict" if column[0] == column[1] else "-way bank conflict")


def test_the_picture_of_banks_has_every_chunk_where_it_lies() -> None:
    tile = BankedTile(8, 64, 64)
    cells = [w for w in words(banks(tile, "title")) if w.startswith("row ")]
    by_address = sorted((tile.address(r, c), f"row {r}, chunk {c}") for r in range(8) for c in range(4))
    assert cells == [name for _, name in by_address]


@pytest.mark.parametrize(
    ("inner", "found"),
    [
        pytest.param(8, BankedTile(2, 32, 0), id="two-chunks"),
        pytest.param(6, None, id="no-whole-chunks"),
    ],
)
def test_a_tile_of_whole_chunks_is_drawn(inner: int, found: BankedTile | None) -> None:
    _, _, copy = strided_copy()
    assert copy.dims
    dims = (replace(copy.dims[0], tile_size=Size(inner)), copy.dims[1])
    assert banked_tile(replace(copy, dims=dims)) == found


@pytest.mark.parametrize("name", ["<&>\"'", "\x00\x1b\ud800\u202e", "é"])
def test_names_from_documents_leave_a_picture_well_formed(name: str) -> None:
    svg = picture(10, 10, name, [text(0, 0, name)])
    assert ElementTree.fromstring(svg.encode()).tag == f"{SVG}svg"


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(lambda: global_tile(strided_copy()[2], "t"), id="tile"),
        pytest.param(lambda: banks(BankedTile(8, 128, 128), "t"), id="banks"),
        pytest.param(lambda: _graph_of(strided_copy()[0]), id="graph"),
    ],
)
def test_the_same_facts_are_the_same_picture(draw: Callable[[], str]) -> None:
    assert draw() == draw()
