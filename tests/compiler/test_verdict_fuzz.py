"""Documents that nobody vouches for: whatever is in one, the answer is a verdict, never an exception."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.schedule.explicit import OPS
from compiler.schedule.explicit_tensors import DTYPES
from compiler.verdict import Verdict, judge_document

ROWS = json.loads((Path(__file__).parents[1] / "data" / "document_cases.json").read_text(encoding="utf-8"))
NAMES = ["tv0", "tv1", "tv2", "tv3", "tv9", ""]
DOS = [
    "split",
    "merge",
    "reorder",
    "swizzle",
    "resize",
    "parallelize",
    "set_allocation_domain",
    "tmem_dimsep",
    "inline_at",
    "inline_most",
    "compute_at",
    "compute_with",
    "circular_buffer",
    "check_domain_equivalence",
    "unroll",
]
TYPES = ["BIDx", "BIDy", "TIDx", "TIDy", "TIDz", "Vectorize", "Unroll", "Unswitch", "Bulk", "Serial", "Mma"]
NUMBERS = st.one_of(
    st.integers(-8, 8),
    st.sampled_from([16, 31, 32, 64, 128, 256, 1 << 31, 1 << 62, 1 << 63, 10**4000, -(10**4000)]),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    NUMBERS,
    st.floats(),
    st.sampled_from([*NAMES, *TYPES, "loop", "xor", "global", "shared", "local", "tensor", "tma", "warp_specialized"]),
    st.text(max_size=3),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(["scalar", "axes", "shape", "0", "-1"]), inner)
    ),
    max_leaves=6,
)
AXES = st.integers(-4, 7)


def step() -> st.SearchStrategy[dict[str, Any]]:
    """A step that often means something."""
    return st.fixed_dictionaries(
        {"do": st.sampled_from(DOS), "tv": st.sampled_from(NAMES[:5])},
        optional={
            "axis": AXES,
            "factor": st.one_of(st.integers(0, 300), NUMBERS, st.just({"scalar": "n"})),
            "inner": st.booleans(),
            "with": AXES,
            "map": st.dictionaries(AXES.map(str), AXES, max_size=3),
            "axes": st.one_of(st.just("loop"), st.lists(AXES, max_size=4)),
            "ids": st.lists(st.one_of(AXES, st.lists(AXES, min_size=2, max_size=2)), max_size=4),
            "type": st.sampled_from(TYPES),
            "position": AXES,
            "consumer": st.sampled_from(NAMES),
            "contiguity": st.one_of(st.booleans(), st.lists(st.sampled_from([True, False, None]), max_size=4)),
            "strides": st.lists(st.one_of(st.none(), NUMBERS), max_size=4),
            "stages": st.integers(0, 5),
            "prefetch": st.integers(-3, 3),
            "kind": st.sampled_from(["xor", "pipelined", "warp_specialized"]),
            "on": st.sampled_from(TYPES),
            "registers": st.lists(NUMBERS, min_size=2, max_size=2),
            "slice_position": AXES,
            "left": AXES,
            "right": AXES,
        },
    )


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to everything in a document."""
    found = [at]
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in members:
        found += places(inner, (*at, key))
    return found


def put(document: Any, at: tuple[Any, ...], value: Any) -> Any:
    """The document with another value in one place."""
    if not at:
        return value
    holder = document
    for key in at[:-1]:
        holder = holder[key]
    holder[at[-1]] = value
    return document


def check(document: Any) -> Verdict:
    verdict = judge_document(document)
    assert (verdict.error is None) == (verdict.legal is not None)
    assert (verdict.legal is False) == bool(verdict.violations) == (verdict.stage is not None)
    json.dumps(verdict.to_json())
    return verdict


COMMON = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
SMALL = sorted(ROWS, key=lambda row: len(row["schedule"]))[:40]


@COMMON
@given(st.sampled_from(SMALL), st.data())
def test_a_document_with_something_else_somewhere(row: dict[str, Any], data: st.DataObject) -> None:
    document = copy.deepcopy({k: v for k, v in row.items() if k not in ("expect", "notes", "source", "params")})
    for _ in range(data.draw(st.integers(1, 3))):
        document = put(document, data.draw(st.sampled_from(places(document))), data.draw(VALUES))
        if not isinstance(document, dict | list):
            break
    check(document)


@COMMON
@given(st.sampled_from(SMALL), st.lists(step(), max_size=8), st.data())
def test_a_document_with_other_steps(row: dict[str, Any], steps: list[dict[str, Any]], data: st.DataObject) -> None:
    kept = row["schedule"][: data.draw(st.integers(0, len(row["schedule"])))]
    symbolic = data.draw(st.booleans())
    tensors = {n: t | {"symbolic": symbolic} for n, t in row["tensors"].items()}
    check(row | {"tensors": tensors, "schedule": [*kept, *steps], "scalars": {"n": data.draw(st.integers(-1, 9))}})


@st.composite
def fusions(draw: st.DrawFn) -> dict[str, Any]:
    """Tensors and operators that need not fit each other."""
    shapes = st.lists(st.sampled_from([1, 2, 4, 5, 16, 32, 128]), min_size=0, max_size=3)
    tensors: dict[str, dict[str, Any]] = {}
    for i in range(4):
        tensors[f"tv{i}"] = {
            "shape": draw(shapes) if i == 0 or draw(st.booleans()) else tensors["tv0"]["shape"],
            "dtype": draw(st.sampled_from(sorted(DTYPES))),
            "memory": "global" if i in (0, 3) else draw(st.sampled_from(["shared", "local", "tensor", "global"])),
            "symbolic": draw(st.booleans()),
        }
    ops = []
    for i in range(3):
        axes = draw(st.lists(st.integers(-2, 2), max_size=2))
        ops.append(
            {
                "op": draw(st.sampled_from(["set", "set", "add", "mul", *sorted(OPS)])),
                "in": draw(st.lists(st.sampled_from([f"tv{i}", "tv0"]), min_size=1, max_size=2)),
                "out": f"tv{i + 1}",
                "axes": axes,
                "dims": draw(st.permutations(range(len(tensors[f"tv{i}"]["shape"])))),
                "broadcast_flags": draw(st.lists(st.booleans(), max_size=3)),
                "via": draw(st.sampled_from(["plain", "plain", "tma", "bulk1d", "st_tmem", "ld_tmem"])),
            }
        )
    return {"tensors": tensors, "ops": ops, "inputs": ["tv0"], "outputs": ["tv3"]}


@COMMON
@given(fusions(), st.lists(step(), max_size=10))
def test_any_fusion_under_any_steps(fusion: dict[str, Any], steps: list[dict[str, Any]]) -> None:
    check(fusion | {"schedule": steps})


@settings(COMMON, max_examples=100)
@given(VALUES)
def test_any_json_value(value: Any) -> None:
    assert check(value).legal is None
