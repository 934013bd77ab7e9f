from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from compiler.arch import card_named
from search.cost.features import KernelFeatures
from search.cost.model import predict
from service.dashboard import filters
from service.dashboard.filters import NOTHING

TIMES = "\N{MULTIPLICATION SIGN}"
NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "value", "written"),
    [
        ("us", None, NOTHING), ("us", 0.5, "0.500 µs"), ("us", 8.2412, "8.241 µs"), ("us", 36.159, "36.16 µs"),
        ("us", 163.52, "163.5 µs"), ("us", 1234.4, "1,234 µs"), ("us", 1234567.0, "1,234,567 µs"),
        ("seconds", None, NOTHING), ("seconds", 0.0, "0 s"), ("seconds", 0.4231, "0.423 s"), ("seconds", 42.4, "42 s"),
        ("seconds", 59.7, "1 min"), ("seconds", 125.0, "2 min 5 s"), ("seconds", 3600.0, "1 h"),
        ("seconds", 3780.0, "1 h 3 min"),
        ("count", None, NOTHING), ("count", 0, "0"), ("count", 1234567, "1,234,567"),
        ("data_size", None, NOTHING), ("data_size", 0, "0 B"), ("data_size", 512, "512 B"),
        ("data_size", 1023, "1,023 B"),
        ("data_size", 1024, "1 KiB"), ("data_size", 1536, "1.5 KiB"), ("data_size", 62914560, "60 MiB"),
        ("data_size", 150109880320, "140 GiB"), ("data_size", 1 << 50, "1,048,576 GiB"),
        ("share", None, NOTHING), ("share", 0.0, "0 %"), ("share", 0.0512, "5.1 %"), ("share", 0.874, "87 %"),
        ("share", 1.04, "104 %"),
        ("factor", None, NOTHING), ("factor", 3.214, f"3.21{TIMES}"), ("factor", 99.99, f"99.99{TIMES}"),
        ("factor", 1234.0, f"1,234{TIMES}"),
        ("input_set", "random", "random"), ("input_set", "inf_nan", "infinities and NaN"),
        ("input_sets", ["random", "lone0", "lone1", "lone12", "deciding0"], "random, lone (3 sets), deciding"),
        ("input_sets", [], NOTHING),
        ("points", None, NOTHING), ("points", 1234567, "1,234,567"), ("points", 2**63 - 1, "over 9.2e18"),
        ("approximation", "ft_gelu_coarse", "gelu (coarse)"), ("approximation", "ft_tanh_approx", "tanh (approx)"),
        ("approximation", "other", "other"),
        ("behind", 1.0, "best"), ("behind", 1.0123, "+1.2 %"), ("behind", 1.999, "+99.9 %"),
        ("behind", 2.4, f"2.40{TIMES}"),
        ("short", "0123456789abcdef", "0123456789"), ("words", "wrong_result", "wrong result"),
        ("setting", True, "yes"), ("setting", False, "no"), ("setting", 4, "4"), ("setting", "tma", "tma"),
        ("point", {"rows": 4, "load": "tma", "pad": True}, "load=tma pad=yes rows=4"), ("point", {}, ""),
        ("absolute", NOW.astimezone(timezone(timedelta(hours=5))), "2026-11-21 12:00:00 UTC"),
    ],
)  # fmt: skip
def test_how_values_are_written(name: str, value: Any, written: str) -> None:
    assert filters.FILTERS[name](value) == written


@pytest.mark.parametrize(
    ("number", "nouns", "written"),
    [(0, ("kernel",), "0 kernels"), (1, ("kernel",), "1 kernel"), (1200, ("kernel",), "1,200 kernels"),
     (2, ("entry", "entries"), "2 entries")],
)  # fmt: skip
def test_many(number: int, nouns: tuple[str, ...], written: str) -> None:
    assert filters.many(number, *nouns) == written


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(-30, "just now"), (0, "just now"), (4.9, "just now"), (5, "5 s ago"), (59.9, "59 s ago"), (60, "1 min ago"),
     (3599, "59 min ago"), (3600, "1 h ago"), (86399, "23 h ago"), (86400, "1 d ago"), (364.9 * 86400, "364 d ago"),
     (365 * 86400, "2025-11-21")],
)  # fmt: skip
def test_ago(seconds: float, written: str) -> None:
    assert filters.ago(NOW - timedelta(seconds=seconds), NOW) == written


def test_a_moment_keeps_its_exact_time_in_the_title() -> None:
    found = filters.when(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert 'datetime="2026-01-02T03:04:05+00:00"' in found
    assert 'title="2026-01-02 03:04:05 UTC"' in found
    assert filters.when(None) == filters.ago(None) == NOTHING


def test_every_term_of_the_model_has_words_of_its_own() -> None:
    terms = predict(
        card_named("H200"), KernelFeatures(1e8, 1e8, bytes_in_flight_per_sm=32768, blocks=100, blocks_per_sm=1)
    ).terms
    assert terms.keys() == filters._TERMS.keys()
    assert len({filters.term(name) for name in terms}) == len(terms)


def test_terms_come_largest_first_without_what_takes_no_time() -> None:
    assert filters.largest({"a": 1.0, "b": 0.009, "c": 2.5, "d": 0.01}) == [("c", 2.5), ("a", 1.0), ("d", 0.01)]
