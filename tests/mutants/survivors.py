"""Why a mutant that is wrong is not found: by kind and fusion, a cause; by cause, what would have to be decided."""

from __future__ import annotations

from tests.mutants.choosing import Judged

SLIGHT = "It differs by roundings alone, where 20 right kernels happen to agree."

CAUSES: dict[str, str] = {}
"""In words."""

SURVIVORS: dict[tuple[str, str], str] = {}
"""(kind, fusion) -> cause."""


REFUSED = {
    "fake_quantised_bf16": "the reference does not round casts",
    "fake_quantised_f16": "the reference does not round casts",
}
"""Fusions whose right kernels are refused."""


def reason(one: Judged) -> str:
    """Why it is not found; empty if nobody has said."""
    if one.verdict.is_slight:
        return SLIGHT
    return CAUSES.get(SURVIVORS.get((one.mutant.kind, one.mutant.fusion), ""), "")
