"""How many tensors one kernel is made of: the nearest that is, and the nearest that is refused, and why."""

from __future__ import annotations

import pytest

from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from compiler.schedule.start import start
from compiler.schedule.start_limits import MOST_TENSORS
from tests.compiler.schedule.start_forms import cat, fusion_of, take


def doubled(times: int) -> Fusion:
    return fusion_of(
        [(4,)], [cat(f"t{n}", 0, *[f"t{n - 1}" if n else "x0"] * 2) for n in range(times)], f"t{times - 1}"
    )


def doubled_and_cut(times: int) -> Fusion:
    """An element is left out each time, so that the pieces are not counted before they are made."""
    ops, last, size = [], "x0", 4
    for n in range(times):
        ops += [cat(f"t{n}", 0, last, last), take(f"t{n}", f"s{n}", 0, 0, 2 * size - 1)]
        last, size = f"s{n}", 2 * size - 1
    return fusion_of([(4,)], ops, last)


@pytest.mark.parametrize("fusion", [pytest.param(doubled(7), id="pieces"), pytest.param(doubled_and_cut(7), id="cut")])
def test_128_pieces_are_a_kernel(fusion: Fusion) -> None:
    assert MOST_TENSORS * 3 // 4 < len(start(fusion).ops) <= MOST_TENSORS


@pytest.mark.parametrize(
    ("fusion", "found"),
    [
        pytest.param(doubled(8), "output v7 in a kernel of at most 512 tensors", id="pieces"),
        pytest.param(doubled(10), "output v9 of 1024 pieces", id="more-pieces-than-tensors"),
        pytest.param(doubled(28), f"output v27 of {1 << 28} pieces", id="far-more"),
        pytest.param(doubled_and_cut(8), "output v15 in a kernel of at most 512 tensors", id="cut"),
        pytest.param(doubled_and_cut(28), "output v55 in a kernel of at most 512 tensors", id="cut-far-more"),
    ],
)
def test_more_tensors_than_a_kernel_holds_are_refused_by_name(fusion: Fusion, found: str) -> None:
    with pytest.raises(Unsupported) as refused:
        start(fusion)
    assert found in refused.value.what
    assert "512" in refused.value.what
    assert "other launches" in refused.value.fix
