"""Why a mutant that is wrong is not found: by cause, in words, the kinds and fusions of such mutants."""

from __future__ import annotations

from tests.mutants.choosing import Judged

SLIGHT = "It differs by roundings alone, where 20 right kernels happen to agree."

CAUSES: dict[str, tuple[tuple[str, str], ...]] = {
    "Beside an overflow any answer is taken to be right.": (("infinity_clamped", "rms_norm_backward"),),
}

SURVIVORS = {place: cause for cause, places in CAUSES.items() for place in places}
"""By kind and fusion."""


def reason(one: Judged) -> str:
    """Why it is not found; empty if nobody has said."""
    return SLIGHT if one.verdict.is_slight else SURVIVORS.get((one.mutant.kind, one.mutant.fusion), "")
