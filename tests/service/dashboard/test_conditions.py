"""Conditions of a measurement in words."""

from __future__ import annotations

from typing import Any

import pytest

from service.dashboard.conditions import condition_lines

AS_NOTED_ON_AN_H200 = {
    "calls_per_sample": 8, "buffer_sets": 2, "retaken": False, "driver": "580.159.04", "torch": "2.11.0+cu130",
    "sm_clock_mhz": 1980, "memory_clock_mhz": 3201, "power_w": 576.757, "temperature_c": 53, "throttle_reasons": 0,
    "other_processes": 1,
}  # fmt: skip


def test_a_measurement_as_it_is_noted_down() -> None:
    assert condition_lines(AS_NOTED_ON_AN_H200) == [
        ("Calls in a sample", "8"),
        ("Rotating buffer sets", "2"),
        ("Samples taken twice", "no"),
        ("SM clock", "1,980 MHz"),
        ("Memory clock", "3,201 MHz"),
        ("Power", "577 W"),
        ("Temperature", "53 °C"),
        ("Clocks held down by", "nothing"),
        ("Other processes on the GPU", "1"),
        ("Driver", "580.159.04"),
        ("torch", "2.11.0+cu130"),
    ]


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        pytest.param("retaken", True, ("Samples taken twice", "yes, the first were too far apart"), id="retaken"),
        pytest.param("throttle_reasons", 4, ("Clocks held down by", "power limit"), id="one-reason"),
        pytest.param(
            "throttle_reasons",
            0x24,
            ("Clocks held down by", "power limit, temperature, by the driver"),
            id="two-reasons",
        ),
        pytest.param("throttle_reasons", 0x8004, ("Clocks held down by", "power limit, 0x8000"), id="unknown-bit"),
        pytest.param("throttle_reasons", "n/a", ("Clocks held down by", "n/a"), id="not-a-mask"),
        pytest.param("power_w", None, ("Power", "null"), id="not-a-number"),
        pytest.param("nvml", "no driver", ("Clocks and power", "not read: no driver"), id="no-nvml"),
        pytest.param("fan_speed", {"a": [1]}, ("fan speed", '{"a": [1]}'), id="unknown"),
    ],
)
def test_a_condition(name: str, value: Any, line: tuple[str, str]) -> None:
    assert condition_lines({name: value}) == [line]


def test_none() -> None:
    assert condition_lines({}) == []
