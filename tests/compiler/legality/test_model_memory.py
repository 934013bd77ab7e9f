"""The model's rules on memories: the nearest legal and the nearest illegal schedule of each."""

import pytest

from compiler.arch import arch_named, arch_names
from compiler.errors import Stage
from compiler.verdict import judge_document
from tests.compiler.model import (
    Document,
    breaches,
    buffer,
    copies,
    inline,
    kept,
    op,
    order,
    rules,
    schedule,
    scheduled,
    split,
    tensor,
    types,
)

JOINS = "copies_join_the_memories_of_their_instruction"
ARCH = "architecture_has_the_instructions_used"
REGISTERS = "registers_have_constant_extents"
LOST = "memory_order_shows_what_is_not_allocated"
FITS = "shared_memory_fits_a_block"
AMPERE, HOPPER = (arch_named(name).smem_per_block_optin_bytes for name in ("sm_80", "sm_90a"))
MOST = max(arch_named(name).smem_per_block_optin_bytes for name in arch_names())


@pytest.mark.parametrize(
    ("chain", "is_refused"),
    [
        ("g s g", False),
        ("g l g", False),
        ("g g", False),
        ("g s s l g", False),
        ("g s=tma g", False),
        ("g s g=tma", False),
        ("g s=bulk1d g", False),
        ("g s=cp_async g", False),
        ("g s g=cp_async", True),
        ("g l=cp_async g", True),
        ("g l s=cp_async g", True),
        ("g g=tma", True),
        ("g l=tma g", True),
        ("g l=bulk1d g", True),
        ("g l s=tma g", True),
        ("g l t=st_tmem l=ld_tmem g", False),
        ("g l t l=ld_tmem g", True),
        ("g l t=st_tmem l g", True),
        ("g t=st_tmem l=ld_tmem g", True),
        ("g l t=st_tmem s=ld_tmem g", True),
        ("g l l=st_tmem g", True),
    ],
)
def test_instructions_join_memories(chain: str, is_refused: bool) -> None:
    assert (JOINS in rules(copies((32,), chain))) == is_refused


def test_arithmetic_reads_shared_memory_but_no_tensor_memory() -> None:
    document = copies((32,), "g s g")
    document["ops"][1] = op("exp", "tv2", "tv1")
    assert rules(document) == ()
    document["ops"][0] |= {"via": "tma", "op": "exp"}
    assert JOINS in rules(document)
    document = copies((32,), "g l t=st_tmem l g")
    document["ops"][2] = op("exp", "tv3", "tv2")
    assert JOINS in rules(document)


@pytest.mark.parametrize(
    ("chain", "arch", "is_refused"),
    [
        ("g s g", "sm_80", False),
        ("g s=bulk1d g", "sm_80", True),
        ("g s=bulk1d g", "sm_90a", False),
        ("g l t=st_tmem l=ld_tmem g", "sm_90a", True),
        ("g l t=st_tmem l=ld_tmem g", "sm_100a", False),
        ("g l t=st_tmem l=ld_tmem g", "sm_120a", True),
    ],
)
def test_instructions_come_with_an_architecture(chain: str, arch: str, is_refused: bool) -> None:
    assert (ARCH in rules(copies((32,), chain), arch)) == is_refused


def test_registers_are_sized_when_compiled() -> None:
    whole = copies((8, 16), "g l g", symbolic=True)
    assert kept(whole)[REGISTERS] == ("size[0][0] == 8", "size[0][1] == 16")
    assert rules(whole) == ()
    rows = scheduled(whole, types("tv1", "BIDx"), types("tv2", "BIDx"))
    assert kept(rows)[REGISTERS] == ("size[0][1] == 16",)
    inlined = scheduled(rows, inline("tv1", 2))
    assert REGISTERS not in kept(inlined)


def reordered(*steps: Document) -> Document:
    """A shared tensor stored by a tensor map, whose memory order is what the schedule sets."""
    return scheduled(copies((8, 16), "g s g=tma"), *steps, types("tv2", "-", "Bulk"), inline("tv1", 1))


@pytest.mark.parametrize(
    ("document", "is_refused"),
    [
        (reordered(order("tv1", [1, 0])), False),
        (reordered(order("tv1"), split("tv1", 0, 4), split("tv2", 0, 4)), True),
        (reordered(split("tv1", 0, 4), split("tv2", 0, 4), order("tv1")), False),
        (reordered(split("tv1", 0, 1), split("tv2", 0, 1), order("tv1")), False),
    ],
)
def test_axes_not_allocated_show_in_the_memory_order(document: Document, is_refused: bool) -> None:
    assert (LOST in rules(document)) == is_refused


@pytest.mark.parametrize(
    ("elements", "steps", "arch", "is_refused"),
    [
        # Four elements less than what a block may ask for.
        (HOPPER // 4 - 4, [], "sm_90a", False),
        (HOPPER // 4 - 3, [], "sm_90a", True),
        (AMPERE // 4 - 4, [], "sm_80", False),
        (AMPERE // 4 - 3, [], "sm_80", True),
        # A split that does not divide rounds up.
        (HOPPER // 4 - 5, [split("tv1", 0, 4)], "sm_90a", False),
        (HOPPER // 4 - 5, [split("tv1", 0, 8)], "sm_90a", True),
    ],
)
def test_shared_memory_has_an_end(elements: int, steps: list[Document], arch: str, is_refused: bool) -> None:
    for symbolic in (False, True):
        found = breaches(scheduled(copies((elements,), "g s g", symbolic), steps), arch)
        assert [(v.rule, v.stage) for v in found] == [(FITS, Stage.RUNTIME)] * is_refused


def test_stages_and_barriers_count() -> None:
    loop = [split("tv1", 0, 4096), split("tv2", 0, 4096), inline("tv1", 1)]
    most = HOPPER // (4 * 4096)  # and less than a stage is left for barriers
    fits = scheduled(copies((4096 * 20,), "g s g"), *loop, buffer("tv1", most))
    assert rules(fits, "sm_90a") == ()
    assert rules(scheduled(copies((4096 * 20,), "g s g"), *loop, buffer("tv1", most + 1)), "sm_90a") == (FITS,)


def test_unknown_sizes_are_checked_at_every_launch() -> None:
    document = copies((40,), "g s g", symbolic=True)
    assert kept(document, "sm_90a")[FITS] == (f"4 * size[0][0] <= {HOPPER - 16}",)
    both = scheduled(copies((40,), "g s s g", symbolic=True))
    assert kept(both, "sm_90a")[FITS] == (f"(4 * size[0][0] + 127) // 128 * 128 + 4 * size[0][0] <= {HOPPER - 16}",)
    assert schedule(both).shared_bytes.total == 256 + 160
    assert FITS not in kept(copies((40,), "g s g"))


def test_narrow_elements_share_bytes() -> None:
    document = copies(
        (33,), "g s g", tv0=tensor((33,), "global", "float4_e2m1"), tv1=tensor((33,), "shared", "float4_e2m1")
    )
    assert schedule(document).shared_bytes.total == 17


@pytest.mark.parametrize(
    ("elements", "asked", "arch"),
    [
        (64, None, "sm_80"),
        (AMPERE // 4 - 4, None, "sm_80"),
        (AMPERE // 4 + 1, None, "sm_90a"),
        (64, AMPERE, "sm_80"),
        (64, AMPERE + 1, "sm_90a"),
        # No architecture has so much.
        (MOST // 4 + 1, None, "sm_80"),
        (64, MOST + 1, "sm_80"),
    ],
)
def test_the_least_architecture_has_the_shared_memory(elements: int, asked: int | None, arch: str) -> None:
    document = copies((elements,), "g s g") | ({"needs_smem_bytes": asked} if asked else {})
    assert judge_document(document).arch == arch
