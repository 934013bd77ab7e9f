"""The model's rules on ldmatrix and stmatrix: the nearest legal and the nearest illegal schedule of each."""

import pytest

from compiler.legality import matrix
from tests.compiler.legality.model_rules import rules_of
from tests.compiler.model import Document, copies, inline, merge, reorder, rules, scheduled, split, types

OWN = rules_of(matrix)
BITS, HELD, WARPS, HOPPER = (
    "matrices_have_elements_of_8_16_or_32_bits",
    "a_lane_holds_two_elements_of_each_matrix",
    "matrices_are_moved_by_whole_warps",
    "stmatrix_needs_hopper",
)


def loaded(dtype: str = "float16", held: int = 8, lines: int = 8, block: int = 32) -> Document:
    """Rows of a shared tile by matrices: [thread, held], `lines` times 4 threads; the tile comes by `block` threads."""
    document = copies((64, 64), "g s l=ldmatrix g")
    for t in document["tensors"].values():
        t["dtype"] = dtype
    steps = [split("tv1", 0, block), *types("tv1", "-", "TIDx")]
    for tv in ("tv2", "tv3"):
        steps += [split(tv, 1, held), split(tv, 1, 4), split(tv, 0, lines), reorder(tv, 0, 2, 1, 3, 4), merge(tv, 2)]
        steps += types(tv, "-", "-", "TIDx", "Vectorize" if tv == "tv2" else "-")
    return scheduled(document, steps, inline("tv2", 3))


def found(document: Document, arch: str | None = None) -> set[str]:
    return set(rules(document, arch)) & OWN


@pytest.mark.parametrize(
    ("dtype", "held", "is_refused"),
    [
        ("int8", 16, False),
        ("bool", 8, False),
        ("float16", 8, False),
        ("bfloat16", 4, False),
        ("float32", 4, False),
        ("float64", 2, True),
    ],
)
def test_elements_have_16_bits_or_are_pairs_of_bytes_or_words(dtype: str, held: int, is_refused: bool) -> None:
    assert found(loaded(dtype, held)) == ({BITS} if is_refused else set())


@pytest.mark.parametrize(("held", "is_refused"), [(1, True), (2, False), (4, False), (6, True), (8, False), (16, True)])
def test_a_lane_holds_pairs_of_one_two_or_four_matrices(held: int, is_refused: bool) -> None:
    assert found(loaded(held=held)) == ({HELD} if is_refused else set())


@pytest.mark.parametrize(
    ("lines", "block", "broken"),
    [(8, 32, set()), (16, 64, set()), (4, 16, {WARPS}), (8, 64, {WARPS}), (12, 48, {WARPS})],
)
def test_whole_warps_take_part(lines: int, block: int, broken: set[str]) -> None:
    assert found(loaded(lines=lines, block=block)) == broken


@pytest.mark.parametrize(("arch", "broken"), [("sm_80", {HOPPER}), ("sm_90a", set()), ("sm_100a", set())])
def test_stmatrix_is_of_hopper_and_later(arch: str, broken: set[str]) -> None:
    document = copies((64, 64), "g l s=stmatrix l g")
    for t in document["tensors"].values():
        t["dtype"] = "float16"
    steps = [s for tv in ("tv1", "tv2", "tv3", "tv4") for s in [split(tv, 1, 8), split(tv, 0, 4), merge(tv, 1)]]
    steps += [s for tv in ("tv1", "tv2", "tv3", "tv4") for s in types(tv, "-", "TIDx")]
    stored = scheduled(document, steps, types("tv2", "-", "TIDx", "Vectorize"))
    assert found(stored, arch) == broken


def test_ldmatrix_is_of_every_architecture() -> None:
    assert found(loaded(), "sm_80") == set()


@pytest.mark.parametrize(
    ("chain", "is_refused"),
    [("g s l=ldmatrix g", False), ("g l=ldmatrix g", True), ("g l s=stmatrix g", False), ("g s l=stmatrix g", True)],
)
def test_matrices_go_between_shared_memory_and_registers(chain: str, is_refused: bool) -> None:
    rule = "copies_join_the_memories_of_their_instruction"
    assert (rule in rules(copies((32,), chain), "sm_90a")) == is_refused
