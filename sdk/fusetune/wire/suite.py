"""Cases of a benchmark suite as fusions: what a case says beside its graph is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusetune.wire.fusion import FORMAT

_INPUT_FACTS = ("name", "shape", "dtype", "list")
_OUTPUT_FACTS = ("name", "shape", "dtype", "strides", "alias")


def strip_case(case: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fusion and the binding documents of a suite case, neither checked.

    A case has fixed sizes, states strides and contiguity for every input and how to fill it. The layout goes to the
    binding; the fusion stays free of it, so that one graph at two layouts is one fusion.
    """
    fusion = {
        "format": FORMAT,
        "inputs": [{name: tensor[name] for name in _INPUT_FACTS if name in tensor} for tensor in case["inputs"]],
        "ops": [dict(op) for op in case["ops"]],
        **({"scalars": case["scalars"]} if "scalars" in case else {}),
        "outputs": [{name: out[name] for name in _OUTPUT_FACTS if name in out} for out in case["outputs"]],
    }
    inputs = [{"strides": tensor["strides"]} if "strides" in tensor else {} for tensor in case["inputs"]]
    return fusion, {"sizes": {}, "inputs": inputs}
