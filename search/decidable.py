"""Whether kernels of a fusion can be told right from wrong at all, found before anything is searched."""

from __future__ import annotations

from functools import lru_cache

from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from search.emulation.resize import Dims
from search.verify.arrays import NumpyArrays
from search.verify.decided import UNDECIDED_FIX, best_shares, why_undecided
from search.verify.expected import expect
from search.verify.inputs import make_inputs

MOST_ELEMS = 1 << 18
"""Elements of all values together: some tens of milliseconds with NumPy."""

_ARRAYS = NumpyArrays()


def refuse_undecidable(fusion: Fusion) -> None:
    """Raises Unsupported, naming the outputs, where no input set decides them at sizes that are quickly worked out.

    Longer sums decide less, so a fusion that passes may still be refused where it is measured.
    """
    if why := _why(fusion):
        raise Unsupported(why, UNDECIDED_FIX)


@lru_cache(maxsize=256)
def _why(fusion: Fusion) -> str:
    small = _shrunk(fusion)
    if small is None:
        return ""
    return why_undecided(
        best_shares(small, _ARRAYS, lambda name: expect(small, make_inputs(small, name, _ARRAYS), _ARRAYS))
    )


def _shrunk(fusion: Fusion) -> Fusion | None:
    """The fusion at sizes that together have few elements; None where its operators keep them large."""
    dims = Dims(fusion)
    most = max(dims.free.values(), default=1)
    while sum(value.elems for value in fusion.values) > MOST_ELEMS:
        if most <= 1:
            return None
        most //= 2
        fusion = dims.resized({dim: min(size, most) for dim, size in dims.free.items()})
    return fusion
