"""What of a module's PTX an assembler may still make one instruction of: sums and products that name no rounding."""

from __future__ import annotations

import re

_ROUNDING = frozenset({"rn", "rz", "rm", "rp", "rna"})
_ARITHMETIC = re.compile(r"(?<![\w.])(?:add|sub|mul)((?:\.\w+)*)\.(?:f16|f16x2|bf16|bf16x2|f32|f32x2|f64)\b")


def contractible(ptx: str) -> list[str]:
    """The instructions that it has of them, each once (PTX ISA, "add", "sub", "mul": without a rounding modifier they
    may be fused; with one they are not)."""
    found = {m[0] for m in _ARITHMETIC.finditer(ptx) if _ROUNDING.isdisjoint(m[1].split("."))}
    return sorted(found)
