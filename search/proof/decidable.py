"""Whether kernels of a fusion can be told right from wrong at all, found before anything is searched."""

from __future__ import annotations

from functools import lru_cache

from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from compiler.ir.ops import CONTRACTIONS, FOLDS, SCANS
from search.proof.small.resize import Dims, shared_dim
from search.proof.verify.arrays import NumpyArrays
from search.proof.verify.decided import UNDECIDED_FIX, best_shares, why_undecided
from search.proof.verify.scalars import expect_set

MOST_ELEMS = 1 << 18
"""Elements of all values together: some tens of milliseconds with NumPy."""

FEW_ROWS = 16
"""To which dimensions that are not folded are shortened before any that is."""

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
    return why_undecided(best_shares(small, _ARRAYS, lambda name: expect_set(small, name, _ARRAYS)))


def _shrunk(fusion: Fusion) -> Fusion | None:
    """The fusion at sizes that together have few elements; None where its operators keep them large.

    What is folded keeps its size as long as it can: the one element of a row that is its maximum is a small share of a
    long row.
    """
    dims = Dims(fusion)
    folded = {dims.of((op.tensor_inputs[0], d)) for op in fusion.ops if op.kind in FOLDS | SCANS for d in op.dims}
    folded |= {dims.of(shared_dim(fusion, op)) for op in fusion.ops if op.kind in CONTRACTIONS}
    sizes, small = dims.free, fusion
    while sum(value.elems for value in small.values) > MOST_ELEMS:
        long = {dim: n for dim, n in sizes.items() if dim not in folded and n > FEW_ROWS} or sizes
        most = max(long.values(), default=1)
        if most <= 1:
            return None
        sizes |= {dim: n // 2 for dim, n in long.items() if n == most}
        small = dims.resized(sizes)
    return small
