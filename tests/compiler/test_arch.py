import json
from pathlib import Path
from typing import Any

import pytest

from compiler.arch import (
    DEFAULT_CARD,
    WIDE_WORD_BYTES,
    DramRates,
    arch_named,
    arch_names,
    card_named,
    cards,
    load_cards,
    sms_for_clusters,
)
from compiler.errors import UnknownArch, UnknownCard

CARDS_FILE = Path(load_cards.__code__.co_filename).with_name("cards.json")


@pytest.mark.parametrize("name", arch_names())
def test_limits_agree_with_each_other(name: str) -> None:
    arch = arch_named(name)
    assert arch.name == name
    assert arch.name.removeprefix("sm_").rstrip("a") == "".join(map(str, arch.capability))
    assert arch.smem_carveouts_bytes == tuple(sorted(arch.smem_carveouts_bytes))
    assert (arch.max_vector_bytes == WIDE_WORD_BYTES) == (arch.capability >= (10, 0))
    assert (arch.max_cluster > 1) == arch.has_tma


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("H200", "H200"),
        ("h200", "H200"),
        ("NVIDIA H200", "H200"),
        ("H100", "H100 SXM"),
        ("h100-sxm", "H100 SXM"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("  rtx_pro  6000 ", "RTX PRO 6000"),
        (DEFAULT_CARD, "H200"),
    ],
)
def test_cards_are_found_by_name_and_alias(name: str, card: str) -> None:
    assert card_named(name).name == card


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(UnknownCard, match=r"card 'H300'.*A100, H100 SXM, H200, B200, B300, RTX PRO 6000"):
        card_named("H300")
    with pytest.raises(UnknownArch, match=r"architecture 'sm_90'.*sm_80, sm_90a, sm_100a, sm_103a, sm_120a"):
        arch_named("sm_90")


@pytest.mark.parametrize("name", [card.name for card in cards()])
def test_measured_rates_stay_under_the_theoretical_one(name: str) -> None:
    dram = card_named(name).dram
    for rate in (dram.best_copy, dram.best_read, dram.best_write):
        assert 0.8 * dram.theoretical < rate < dram.theoretical


def test_rates_that_were_not_measured_are_estimated() -> None:
    assert DramRates(theoretical=1e12, copy=None, read=None, write=None).best_read == pytest.approx(0.88e12)
    assert DramRates(theoretical=1e12, copy=0.9e12, read=None, write=None).best_write == pytest.approx(0.9e12)
    assert card_named("H200").dram.best_read == 4.59e12


def test_an_empty_launch_that_was_not_measured_is_the_least_that_was() -> None:
    measured = [card.empty_launch_us for card in cards() if card.empty_launch_us is not None]
    assert card_named("H200").least_launch_us == card_named("H200").empty_launch_us
    assert card_named("A100").empty_launch_us is None
    assert card_named("A100").least_launch_us == min(measured)


def _change(entries: list[dict[str, Any]], path: str, value: object) -> None:
    *parents, last = path.split(".", 2)
    target: Any = entries[0]
    for parent in parents:
        target = target[parent]
    if value is ...:
        del target[last]
    else:
        target[last] = value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        pytest.param("power_w", ..., r"\[0\]: missing \['power_w'\]", id="missing"),
        pytest.param("colour", "green", r"unknown \['colour'\]", id="unknown"),
        pytest.param("sm_count", "108", r"\(A100\)\.sm_count: found '108'", id="text-for-a-number"),
        pytest.param("sm_count", True, "sm_count: found True", id="bool-for-a-number"),
        pytest.param("l2_bytes", 0, "l2_bytes: found 0", id="not-positive"),
        pytest.param("aliases", "A100", "aliases: found 'A100'", id="alias-is-no-list"),
        pytest.param("aliases", [" h200"], "also one of", id="name-taken"),
        pytest.param("sources.power_w", ..., r"missing \['power_w'\]", id="figure-without-source"),
        pytest.param("dram_bytes_per_s.copy", 1e12, r"missing \['dram.copy'\]", id="measured-without-source"),
        pytest.param("empty_launch_us", 0.7, r"missing \['empty_launch_us'\]", id="launch-without-source"),
        pytest.param("empty_launch_us", 0, "empty_launch_us: found 0, expected a number above 0", id="no-launch"),
        pytest.param("dram_bytes_per_s.theoretical", None, "theoretical: found null", id="no-theoretical-rate"),
    ],
)
def test_a_card_file_is_read_strictly(tmp_path: Path, path: str, value: object, message: str) -> None:
    entries = json.loads(CARDS_FILE.read_text())
    _change(entries, path, value)
    changed = tmp_path / "cards.json"
    changed.write_text(json.dumps(entries))
    with pytest.raises(ValueError, match=message):
        load_cards(changed)


@pytest.mark.parametrize(
    ("sm_count", "cluster", "sms"),
    [(132, 1, 132), (132, 2, 132), (132, 4, 120), (132, 8, 120), (132, 16, 112), (148, 16, 112), (10, 16, 16)],
)
def test_clusters_find_room_on_fewer_multiprocessors_the_larger_they_are(sm_count: int, cluster: int, sms: int) -> None:
    """In whole clusters, of which every card is taken to hold one."""
    assert sms_for_clusters(sm_count, cluster) == sms
