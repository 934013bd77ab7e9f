"""Products in words and pictures: instructions, fragments, and who waits for whom."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from compiler.arch import arch_named
from compiler.explain.case import Explained, explain_trace
from compiler.explain.turns_picture import Ring, RoleSpan, spans
from tests.compiler.products import TF32, Groups, Warps, by_warp_groups, by_warps, product
from tests.compiler.tensor_products import Ask, by_one_thread

SVG = "{http://www.w3.org/2000/svg}"


def explained(how: Groups | Warps) -> Explained:
    fusion = product(256, 128, 512, left="mn")
    trace = by_warp_groups(fusion, how) if isinstance(how, Groups) else by_warps(fusion, how)
    return explain_trace("product", trace, arch_named("sm_90a"))


def words(page: Explained, name: str) -> list[str]:
    (svg,) = (p.svg for p in page.pictures() if p.name.endswith(name))
    return [node.text or "" for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_an_instruction_and_its_operands_are_named() -> None:
    page = explained(Groups(columns=64, in_flight=1)).text()
    assert "wgmma m64n64k16 bf16 -> f32, a group of 4 warps at a time, 32 numbers of the result in a thread" in page
    assert "rows of w0, in shared memory: k apart, its own dimension side by side, swizzled lines of 128 bytes" in page
    assert "columns of w1, in shared memory: k side by side" in page
    assert "under way when the next stage is waited for: 1 group" in page


def test_operands_of_tf32_are_rounded_on_their_way() -> None:
    trace = by_warp_groups(product(256, 128, 128, TF32, "f32"), Groups(columns=64, k=32))
    page = explain_trace("product", trace, arch_named("sm_90a")).text()
    assert "wgmma m64n64k8 tf32 -> f32, a group of 4 warps at a time" in page
    assert "rows of w0, in shared memory, rounded to tf32 by the copy engine: k side by side" in page


def test_fragments_of_warps_are_named() -> None:
    page = explained(Warps())
    assert "mma_sync m16n8k16 bf16 -> f32, a warp at a time, 4 numbers" in page.text()
    assert "columns of right, in registers: fragments" in page.text()
    assert [p.name for p in page.pictures() if "fragment" in p.name] == [
        "v2_matmul_fragment.svg",
        "left_fragment.svg",
        "right_fragment.svg",
    ]


def test_a_product_in_tensor_memory_is_named() -> None:
    trace = by_one_thread(product(512, 64, 256), Ask(blocks=1, accumulators=2))
    page = explain_trace("product", trace, arch_named("sm_100a"))
    assert "tcgen05 m128n64k16 bf16 -> f32, asked for by one thread; a row of the result in a lane" in page.text()
    assert "places of results: 2, of 64 columns each" in page.text()
    (svg,) = (p.svg for p in page.pictures() if p.name.endswith("turns.svg"))
    shown = [node.text or "" for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert {"loads", "products", "reads"} <= {*shown}
    assert "One thread asks for products; the others read them from 2 places in turn." in shown


def test_results_in_two_places_are_read_while_the_next_one_is_made() -> None:
    """The third tile waits until the first has been read, and not the second."""
    found = spans(Ring(turns=2, stages=4, late=0, groups=1, is_shared=True, tiles=3, places=2))
    reads = [(s.start, s.end) for s in found if s.row == "reads"]
    begins = [s.start for s in found if s.row == "products" and s.words == "0"]
    assert begins == [1, 3, 5]
    assert reads == [(3, 5), (5, 7), (7, 9)]


def owner(row: int, column: int) -> str:
    """Of a result (PTX ISA, "Matrix Fragments for mma.m16n8k16": C)."""
    return f"{row % 8 * 4 + column % 8 // 2}.{column // 8 * 4 + row // 8 * 2 + column % 2}"


@pytest.mark.parametrize(("how", "columns"), [(Groups(columns=64), 16), (Warps(), 8)], ids=["groups", "warps"])
def test_a_cell_names_the_lane_and_the_register(how: Groups | Warps, columns: int) -> None:
    cells = [w for w in words(explained(how), "matmul_fragment.svg") if w.replace(".", "", 1).isdigit() and "." in w]
    assert cells == [owner(r, c) for r in range(16) for c in range(columns)]


@pytest.mark.parametrize(
    ("how", "rows", "says"),
    [
        pytest.param(Groups(columns=64, blocks=2), ["loads", "group 0", "group 1"], "", id="cooperative"),
        pytest.param(
            Groups(rows=64, columns=64, turns=True, blocks=2),
            ["loads", "group 0", "group 1"],
            "a tile of its own",
            id="ping-pong",
        ),
        pytest.param(Groups(rows=64, columns=64, groups=1), ["loads", "group 0"], "", id="single"),
    ],
)
def test_roles_over_time_have_a_row_each(how: Groups, rows: list[str], says: str) -> None:
    found = words(explained(how), "turns.svg")
    assert [w for w in found if w == "loads" or w.startswith("group")] == rows
    assert any("a tile of its own" in w for w in found) is bool(says)
    assert any(
        w.startswith("3 more turns") for w in found
    )  # of 8 in 3 stages: 5 are drawn, which end in the stage of 8
    assert not any("_turns" in p.name for p in explained(Warps()).pictures())


def of(found: list[RoleSpan], row: str) -> list[tuple[int, int, int | None]]:
    return [(s.start, s.end, s.stage) for s in found if s.row == row]


def test_a_stage_is_loaded_again_once_it_has_been_read() -> None:
    found = spans(Ring(turns=4, stages=2, late=0, groups=1, is_shared=True, tiles=1))
    assert of(found, "group 0") == [(1, 2, 0), (2, 3, 1), (3, 4, 0), (4, 5, 1), (5, 7, None)]
    assert of(found, "loads") == [(0, 1, 0), (1, 2, 1), (2, 3, 0), (3, 4, 1)]


def test_products_under_way_keep_their_stage_a_turn_longer() -> None:
    found = spans(Ring(turns=4, stages=2, late=1, groups=1, is_shared=True, tiles=1))
    assert of(found, "loads") == [(0, 1, 0), (1, 2, 1), (3, 4, 0), (5, 6, 1)]


def test_one_group_multiplies_while_the_other_stores() -> None:
    found = spans(Ring(turns=3, stages=4, late=0, groups=2, is_shared=False, tiles=2))
    (stores,) = [(s.start, s.end) for s in found if s.row == "group 0" and s.stage is None]
    assert (stores[0], stores[0] + 1) in [(s.start, s.end) for s in found if s.row == "group 1"]
