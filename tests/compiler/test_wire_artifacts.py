"""What a kernel's artifact says of its launch, and that nothing of it is lost on the wire."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.emit.cuda import ENTRY, entries
from compiler.generator import GENERATOR
from compiler.nvrtc import Compiled, KernelResources
from compiler.pipeline import Generated, artifact, generate
from compiler.schedule.trace import ScheduleTrace, launches_of
from compiler.wire import KernelArtifact, artifact_from_json, trace_from_json
from fusetune.errors import GuardFailed
from fusetune.launch.guards import CallFacts, check_guards
from fusetune.wire.artifact import TensorArg, TensorMapArg
from tests.compiler.emit.golden_fusions import add, bias_gelu, transpose
from tests.compiler.emit.golden_schedules import GOLDEN
from tests.compiler.lower.test_copy_engine import CASES, loads
from tests.compiler.schedules import from_wire
from tests.search.schedulers.points import generated

CUBIN = bytes(range(256))


def compiled(launches: int = 1) -> Compiled:
    """What NVRTC would give, as far as an artifact looks at it."""
    resources = KernelResources(40, 8, 16, 24, 0, 1)
    names = entries(launches)
    return Compiled(names[0], "sm_90a", CUBIN, "// ptx", "log", resources, "c0de", "13.0", 0.25, entries=names)


def artifact_of(made: Generated) -> KernelArtifact:
    return artifact(made, compiled(len(made.launches)))


def facts(a: KernelArtifact, *pointers: int) -> CallFacts:
    specs = (*a.inputs, *a.outputs)
    return CallFacts(pointers, tuple(s.shape for s in specs), tuple(s.strides for s in specs))


def test_arguments_stand_in_the_order_of_the_kernel_s_parameters() -> None:
    """Pointers first, then maps; a position counts inputs, then outputs."""
    made = generated("flat", bias_gelu(), view="2d", load="tma", vector=8)
    a = artifact_of(made)
    (launch,) = a.launches
    kinds = [(type(arg).__name__, arg.position) for arg in launch.args if isinstance(arg, (TensorArg, TensorMapArg))]
    assert kinds == [("TensorArg", 1), ("TensorArg", 2), ("TensorMapArg", 0)]
    signature = made.source[made.source.index(f"{ENTRY}(") :].split("{")[0]
    places = [signature.index(name) for name in ("* __restrict__ i1", "* __restrict__ v5", "map_i0_s")]
    assert places == sorted(places)


def test_the_launch_is_the_kernel_s() -> None:
    made = generated("flat", add(1 << 20), load="tma", store="tma", vector=4, threads_x=64, blocks_per_sm=2, stages=3)
    (launch,) = artifact_of(made).launches
    assert (launch.entry, launch.grid, launch.block, launch.cluster) == (ENTRY, (264, 1, 1), (64, 1, 1), (1, 1, 1))
    tile = 256 * 4
    assert launch.dynamic_smem_bytes == made.kernel.smem_bytes == (2 * 3 + 1) * tile + 2 * 3 * 8


def test_a_tensor_map_is_described_innermost_first() -> None:
    fusion = transpose(504, 1000, "bf16")
    tile: dict[str, Any] = {
        "tile_in": 64,
        "tile_out": 128,
        "vector_out": 4,
        "lanes_out": 32,
        "threads": 256,
        "vector_in": 2,
    }
    made = generated("tile2d", fusion, load="tma", store="tma", layout="128B", store_layout="64B", **tile)
    load, store = artifact_of(made).launches[0].args
    assert load == TensorMapArg(
        position=0,
        dtype="bf16",
        dims=(1000, 504),
        strides_bytes=(2000,),
        box=(64, 128),
        element_strides=(1, 1),
        swizzle=128,
    )
    assert store == TensorMapArg(
        position=1,
        dtype="bf16",
        dims=(504, 1000),
        strides_bytes=(1008,),
        box=(32, 64),
        element_strides=(1, 1),
        swizzle=64,
    )


def test_a_tensor_map_says_which_elements_of_a_box_it_moves() -> None:
    """Every third row of boxes of twelve."""
    (case,) = (c for c in CASES if c.name == "strided")
    made = generate(ScheduleTrace(case.fusion, tuple(loads(case.cut, case.types))), arch_named("sm_90a"))
    (box,) = (arg for arg in artifact_of(made).launches[0].args if isinstance(arg, TensorMapArg))
    assert (box.dims, box.strides_bytes) == ((8, 60), (32,))
    assert (box.box, box.element_strides) == ((8, 12), (1, 3))


ALIGNMENTS: tuple[tuple[str, Callable[[], Generated], tuple[int, ...]], ...] = (
    ("vectors of 16 bytes", lambda: generated("flat", add(1 << 20), vector=4), (16, 16, 16)),
    ("vectors of 8 bytes", lambda: generated("flat", add(1 << 20), vector=2), (8, 8, 8)),
    ("single elements need no guard but their own size", lambda: generated("flat", add(1 << 20), vector=1), (4, 4, 4)),
    ("tensor maps", lambda: generated("flat", add(1 << 20), load="tma", vector=2, threads_x=32), (16, 16, 8)),
    ("bulk copies", lambda: generated("flat", add(1 << 20), load="bulk", store="bulk", vector=1), (16, 16, 16)),
)


@pytest.mark.parametrize(("make", "align"), [row[1:] for row in ALIGNMENTS], ids=[row[0] for row in ALIGNMENTS])
def test_addresses_are_guarded_for_the_widest_access(make: Callable[[], Generated], align: tuple[int, ...]) -> None:
    a = artifact_of(make())
    assert tuple(s.align for s in (*a.inputs, *a.outputs)) == align
    assert [g.expr for g in a.guards] == [f"ptr[{p}] % {n} == 0" for p, n in enumerate(align)]
    base = 1 << 20
    check_guards(a.guards, facts(a, *(base + n for n in align)))
    for p, n in enumerate(align):
        shifted = [base] * 3
        shifted[p] += n // 2
        with pytest.raises(GuardFailed, match=f"tensor {p} must start on a multiple of {n} bytes"):
            check_guards(a.guards, facts(a, *shifted))


def test_specs_are_the_binding_s_layouts() -> None:
    shape = [6, 40]
    x = {"name": "x", "shape": shape, "dtype": "f16", "strides": [48, 1], "align": 4}
    fusion = from_wire([x], [{"op": "relu", "in": ["x"], "out": "out"}], "out")
    a = artifact_of(generated("flat", fusion, view="2d", vector=2))
    (spec,) = a.inputs
    assert (spec.shape, spec.strides, spec.dtype, spec.align) == ((6, 40), (48, 1), "f16", 4)
    assert [(s.shape, s.strides) for s in a.outputs] == [((6, 40), (40, 1))]
    assert (a.fingerprint, a.binding) == (fusion.fingerprint, fusion.binding_hash)


def test_an_artifact_starts_without_evidence() -> None:
    a = artifact_of(generated("flat", bias_gelu(), vector=8, math="coarse", view="2d"))
    assert (a.evidence.correct, a.evidence.time, a.verification, a.timing) == ("unverified", "none", None, None)
    assert a.approximations == ("ft_gelu_coarse",)
    assert a.conditions.generator == GENERATOR
    assert artifact_of(generated("flat", bias_gelu(), vector=8, view="2d")).approximations == ()


@pytest.mark.parametrize("name", GOLDEN)
def test_an_artifact_comes_back_from_json_as_it_went(name: str) -> None:
    made = GOLDEN[name].generate()
    a = artifact_of(made)
    text = a.model_dump_json()
    back = artifact_from_json(text)
    assert back == a
    assert back.cubin == CUBIN
    assert base64.b64decode(json.loads(text)["cubin"]) == CUBIN
    assert trace_from_json(back.trace) == made.trace
    again = trace_from_json(json.loads(json.dumps(back.trace)))
    assert [one.trace.replay() for one in launches_of(again)] == [one.scheduled for one in made.launches]
    assert [one.entry for one in back.launches] == list(entries(len(made.launches)))
