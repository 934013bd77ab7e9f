"""Values of inputs by offset, where a kernel is proven at its real sizes: of whatever a launch does with an input."""

from __future__ import annotations

import numpy as np
import pytest

from fusetune.fusion import FusionBuilder
from fusetune.wire.fusion import DTypeName
from search.proof.emulated.touched import Pool
from tests.bound import dense


@pytest.mark.parametrize("dtype", ["f32", "i32", "i64", "bool"])
@pytest.mark.parametrize("name", ["any", "prod", "sum"])
def test_an_input_that_is_folded_along_a_later_dimension(name: str, dtype: DTypeName) -> None:
    f = FusionBuilder()
    x = f.input("x", (4, 100_000), dtype)
    f.output(x.sum((1,), dtype="i64") if name == "sum" else getattr(x, name)((1,)))
    pool = Pool(dense(f))
    found = pool.values("i0", np.arange(1000))
    assert len(np.unique(found)) > 1
    if name == "prod" and dtype == "f32":
        assert np.abs(np.log2(np.abs(found))).max() < 0.1, "as near one as rows of that length want"
