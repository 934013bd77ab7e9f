"""A value that is the same along the elements of a word is stored as that word, every element of it."""

from __future__ import annotations

import numpy as np

from compiler.legality import check
from compiler.lower.lower import lower
from compiler.schedule import steps as st
from tests.compiler.lower.interpreter import run
from tests.compiler.schedules import LOCAL, P, from_wire, parallel, schedule


def test_one_register_is_stored_as_a_word() -> None:
    x = {"name": "x", "shape": [8], "dtype": "f32"}
    spread = {"op": "broadcast_to", "in": ["x"], "out": "b", "shape": [8, 64], "dims": [0]}
    fusion = from_wire([x], [spread, {"op": "neg", "in": ["b"], "out": "y"}], "y")
    (name,) = fusion.outputs
    steps: list[st.Step] = [st.CacheOutput(name, "r", LOCAL)]
    made = [op.output for op in schedule(fusion, steps).sf.ops]
    for tv in made:
        last = P.VECTORIZE if tv == name else P.UNROLL
        steps += [st.Split(tv, 1, 4), *parallel(tv, P.BIDX, P.TIDX, last)]
    steps += [st.InlineAt(tv, 1) for tv in made if tv != name]
    s = schedule(fusion, steps)
    assert check(s) == ()
    values = np.arange(1, 9, dtype=np.float32)
    (found,) = run(lower(s.sf), fusion, [values.view(np.uint32)])
    assert np.array_equal(found.view(np.float32), np.repeat(-values[:, None], 64, axis=1))
