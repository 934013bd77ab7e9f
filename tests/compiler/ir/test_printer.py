"""The printed form of fusions and scheduled fusions: what it looks like, and that it keeps schedules apart."""

from __future__ import annotations

import pytest

from compiler.ir.printer import fusion_text, scheduled_text
from compiler.ir.tensor import CachePolicy
from compiler.schedule import steps as st
from compiler.schedule.apply import apply
from compiler.schedule.start import start
from tests.compiler.schedules import LOCAL, P, Steps, by_threads, from_wire, load_by_tma, through_shared, unary

LOADED = """\
scheduled fusion f, outputs v0
at most 64 registers a thread

i0: f32 global
  logical     ii0.0{100}, ii0.1{24}
  allocation  ii0.0{100} stride 32, ii0.1{24} stride 1
  align       16 bytes

s: f32 shared = copy(i0) via tma
  logical     is.0{100}, is.1{24}
  split       is.1{24} -> is.2{3}, is.3{8}
  split       is.0{100} -> is.4{7}, is.5{16}
  merge       is.4{7}, is.2{3} -> is.6{21}
  loop        is.6{21} BIDx | is.5{16} Bulk, is.3{8} Bulk
  split       is.3{8} -> is.7{2}, is.8{4}
  split       is.5{16} -> is.9{8}, is.10{2}
  swizzle     is.10{2}, is.7{2} -> is.10{2}, is.11{2}
  allocation  is.6{21}, is.9{8} stride 20, is.10{2}, is.11{2}, is.8{4}
  compute-at  1
  circular    3 stages, 2 ahead

r: f32 local = copy(s)
  logical     ir.0{100}, ir.1{24}
  split       ir.1{24} -> ir.2{3}, ir.3{8}
  split       ir.0{100} -> ir.4{7}, ir.5{16}
  merge       ir.4{7}, ir.2{3} -> ir.6{21}
  loop        ir.6{21} BIDx, ir.5{16} Serial, ir.3{8} Serial |
  compute-at  3

v0: f32 global = copy(r) cache streaming
  logical     iv0.0{100}, iv0.1{24}
  split       iv0.1{24} -> iv0.2{3}, iv0.3{8}
  split       iv0.0{100} -> iv0.4{7}, iv0.5{16}
  merge       iv0.4{7}, iv0.2{3} -> iv0.6{21}
  loop        iv0.6{21} BIDx, iv0.5{16} Serial, iv0.3{8} Serial
  allocation  iv0.0{100} stride 24, iv0.1{24} stride 1
  align       16 bytes"""

SWIZZLED = (
    st.Split("s", 2, 4),
    st.Split("s", 1, 2),
    st.Swizzle("s", 2, 3),
)


def test_a_scheduled_fusion_is_a_paragraph_a_tensor() -> None:
    sf = start(unary((100, 24), strides=(32, 1)))
    for step in (
        *load_by_tma(16, 8),
        st.SetAllocationDomain("s", (0, 1, 2), SWIZZLED, (None, 20, None, None, None)),
        st.CircularBuffer("s", 3),
        st.SetCache("v0", CachePolicy.STREAMING),
        st.CapRegisters(64),
    ):
        sf = apply(sf, step)
    assert scheduled_text(sf) == LOADED


def test_a_fusion_is_a_line_a_value() -> None:
    fusion = from_wire(
        [{"name": "x", "shape": [8, 4], "dtype": "bf16"}, {"name": "b", "shape": [4], "dtype": "f32", "align": 4}],
        [
            {"op": "permute", "in": ["x"], "out": "t", "dims": [1, 0]},
            {"op": "cast", "in": ["t"], "out": "c", "dtype": "f32"},
            {"op": "mul", "in": ["c", 2.5], "out": "m"},
            {"op": "broadcast_to", "in": ["b"], "out": "e", "shape": [4, 8], "dims": [0]},
            {"op": "add", "in": ["m", "e"], "out": "y"},
        ],
        "y",
    )
    fingerprint, binding, *values = fusion_text(fusion).splitlines()
    assert (fingerprint, binding) == (f"fusion {fusion.fingerprint}", f"binding {fusion.binding_hash}")
    assert values == [
        "i0: bf16 (8, 4) strides (4, 1) align 16",
        "i1: f32 (4) strides (1) align 4",
        "v0: bf16 (4, 8) strides (8, 1) align 16 = permute(i0, dims=(1, 0))",
        "v1: f32 (4, 8) strides (8, 1) align 16 = cast(v0, dtype=f32)",
        "v2: f32 (4, 8) strides (8, 1) align 16 = mul(v1, 2.5)",
        "v3: f32 (4, 8) strides (8, 1) align 16 = broadcast_to(i1, dims=(0))",
        "v4: f32 (4, 8) strides (8, 1) align 16 = add(v2, v3)",
        "outputs v4",
    ]


FINISHING: Steps = [
    st.SetCache("v0", CachePolicy.EVICT_FIRST),
    st.CapRegisters(32),
]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([*by_threads(2), *FINISHING], id="by-threads"),
        pytest.param([*load_by_tma(16, 8), st.CircularBuffer("s", 2), st.CircularBuffer("s", 2, 0)], id="by-tma"),
        pytest.param([*load_by_tma(16, 8), st.SetAllocationDomain("s", (0, 2, 1))], id="allocation"),
        pytest.param([*load_by_tma(16, 8), st.SetAllocationDomain("s", (0, 1, 2), (), (None, 9, None))], id="strides"),
        pytest.param([st.Merge("v0", 0), *through_shared(64, 8, 4)[:3], st.Split("v0", 0, 8, inner=False)], id="outer"),
        pytest.param([st.CacheInput("i0", "a", LOCAL), st.Reorder("a", ((0, 1),)), st.Swizzle("a", 0, 1)], id="square"),
        pytest.param([st.Parallelize("v0", 0, P.UNROLL), st.Parallelize("v0", 1, P.UNROLL)], id="unrolled"),
    ],
)
def test_every_step_of_a_schedule_shows(steps: Steps) -> None:
    sf = start(unary((16, 16)))
    seen = [scheduled_text(sf)]
    for step in steps:
        sf = apply(sf, step)
        seen.append(scheduled_text(sf))
    assert len(set(seen)) == len(steps) + 1
