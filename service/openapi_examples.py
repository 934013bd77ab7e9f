"""A body for each path that takes one: for the OpenAPI document, the page about the API, and docs/api.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ADD: dict[str, Any] = {
    "format": "fusetune.fusion/1",
    "inputs": [{"name": name, "shape": ["M", 4096], "dtype": "bf16"} for name in ("x", "y")],
    "ops": [{"op": "add", "in": ["x", "y"], "out": "z"}],
    "outputs": [{"name": "z"}],
}
COPY: dict[str, Any] = {
    "name": "copy",
    "tensors": {name: {"shape": [32, 64], "dtype": "float32", "memory": "global"} for name in ("tv0", "tv1")},
    "ops": [{"op": "set", "in": ["tv0"], "out": "tv1"}],
    "inputs": ["tv0"],
    "outputs": ["tv1"],
    "schedule": [{"do": "parallelize", "tv": "tv1", "axis": 0, "type": "BIDx"}],
}
_KEY = {"fingerprint": "0" * 64, "binding": "0" * 64, "card": "H200"}

EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "/v1/tunings": {"fusion": ADD, "binding": {"sizes": {"M": 8192}}, "budget_s": 30},
    "/v1/kernels/lookup": {"keys": [_KEY], "accept": {"time": ["measured"]}},
    "/v1/schedules/check": COPY,
    "/v1/spaces": {"fusion": ADD, "binding": {"sizes": {"M": 8192}}, "card": "H100", "samples": 1},
}
"""A body for each path that takes one; a test posts them."""
