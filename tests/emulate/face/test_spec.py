"""A SPEC read: every way to write it, and what is said of each thing that cannot be meant."""

from __future__ import annotations

import contextlib
import copy
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from compiler.emulate.launch import EmulatedTensorMap, TensorArgument, ValueArgument
from compiler.emulate.spec import InvalidSpec, read_launches, read_spec

Document = dict[str, Any]

SPEC: Document = {
    "entry": "k",
    "arch": "sm_90a",
    "grid": [4, 1, 1],
    "block": [128, 1, 1],
    "cluster": [1, 1, 1],
    "dynamic_smem": 16384,
    "args": [
        {
            "tensor_map": {
                "tensor": "x",
                "dims": [256, 64],
                "strides_bytes": [1024],
                "box": [32, 8],
                "element_strides": [1, 1],
                "swizzle": "128B",
                "oob_fill": "zero",
            }
        },
        {"tensor": "y"},
        {"scalar": 64, "dtype": "i32"},
    ],
    "tensors": {
        "x": {"shape": [64, 256], "dtype": "f32", "init": "random", "seed": 1},
        "y": {"shape": [64, 256], "dtype": "f32", "init": "poison"},
    },
}
MAP = EmulatedTensorMap("x", "f32", (256, 64), (1024,), (32, 8), (1, 1), "128B", "NONE", "zero")


def changed(path: str, value: Any) -> Document:
    """SPEC with the value at `path`, such as `args.0.tensor_map.box`, set; None removes it."""
    document = copy.deepcopy(SPEC)
    *way, last = [int(p) if p.isdigit() else p for p in path.split(".")]
    at: Any = document
    for step in way:
        at = at[step]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return document


def refusal(document: object, folder: Path = Path()) -> str:
    with pytest.raises(InvalidSpec) as error:
        read_spec(document, folder)
    return str(error.value)


def test_the_whole_is_read() -> None:
    spec = read_spec(SPEC, Path())
    (launch,) = spec.launches
    assert (launch.entry, launch.arch, launch.grid, launch.block) == ("k", "sm_90a", (4, 1, 1), (128, 1, 1))
    assert (launch.cluster, launch.dynamic_smem) == ((1, 1, 1), 16384)
    assert launch.args == (MAP, TensorArgument("y"), ValueArgument(struct.pack("<i", 64)))
    assert list(launch.tensors) == list(spec.layouts) == ["x", "y"]
    x, y = launch.tensors["x"], launch.tensors["y"]
    assert (x.dtype, x.shape, x.initialized, x.valid, x.align) == ("f32", (64, 256), None, None, 256)
    expected = np.random.default_rng(1).standard_normal((64, 256)).astype(np.float32)
    assert x.data.tobytes() == expected.tobytes()
    assert (set(y.data.tolist()), y.data.size) == ({0xA5}, 65536)
    assert y.initialized is not None
    assert not y.initialized.any()


def test_what_may_be_left_out() -> None:
    (launch,) = read_spec({"grid": [1, 1, 1], "block": [1, 1, 1], "args": []}, Path()).launches
    assert (launch.entry, launch.arch, launch.cluster, launch.dynamic_smem, launch.tensors) == (
        "",
        "",
        (1, 1, 1),
        0,
        {},
    )


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        pytest.param({"tensor": "y", "offset_bytes": 12}, TensorArgument("y", 12), id="offset"),
        pytest.param({"scalar": -1, "dtype": "i8"}, ValueArgument(b"\xff"), id="i8"),
        pytest.param({"scalar": 65535, "dtype": "u16"}, ValueArgument(b"\xff\xff"), id="u16"),
        pytest.param({"scalar": 2**64 - 1, "dtype": "u64"}, ValueArgument(b"\xff" * 8), id="u64"),
        pytest.param({"scalar": 1, "dtype": "f16"}, ValueArgument(b"\x00\x3c"), id="f16"),
        pytest.param({"scalar": 1.00390625, "dtype": "bf16"}, ValueArgument(b"\x80\x3f"), id="bf16-tie-down"),
        pytest.param({"scalar": 1.01171875, "dtype": "bf16"}, ValueArgument(b"\x82\x3f"), id="bf16-tie-up"),
        pytest.param({"scalar": "-inf", "dtype": "f32"}, ValueArgument(struct.pack("<f", -np.inf)), id="infinity"),
        pytest.param({"scalar": 0.1, "dtype": "f64"}, ValueArgument(struct.pack("<d", 0.1)), id="f64"),
        pytest.param({"scalar": 1e300, "dtype": "f32"}, ValueArgument(struct.pack("<f", np.inf)), id="rounds-to-inf"),
        pytest.param({"scalar": True, "dtype": "bool"}, ValueArgument(b"\x01"), id="bool"),
        pytest.param({"scalar": 0, "dtype": "bool"}, ValueArgument(b"\x00"), id="bool-0"),
        pytest.param({"bytes": "00 ff"}, ValueArgument(b"\x00\xff"), id="bytes"),
        pytest.param({"scratch": {"bytes": 64}}, TensorArgument("scratch0"), id="scratch"),
        pytest.param({"kind": "tensor", "position": 1}, TensorArgument("y"), id="tagged-tensor"),
        pytest.param({"kind": "scalar", "value": 2, "dtype": "i64"}, ValueArgument(struct.pack("<q", 2)), id="tagged"),
        pytest.param(
            {"kind": "tensor_map", "position": 0, "dtype": "f32", "dims": [256, 64], "strides_bytes": [1024],
             "box": [32, 8], "element_strides": [1, 1], "swizzle": 128, "l2_promotion": 0},
            MAP,
            id="tagged-map",
        ),
    ],
)  # fmt: skip
def test_every_form_of_an_argument(argument: Document, expected: object) -> None:
    (launch,) = read_spec(changed("args.1", argument), Path()).launches
    assert launch.args[1] == expected


@pytest.mark.parametrize(
    ("field", "given", "name", "expected"),
    [
        pytest.param("swizzle", "none", "swizzle", "NONE", id="none"),
        pytest.param("swizzle", 0, "swizzle", "NONE", id="zero"),
        pytest.param("swizzle", 64, "swizzle", "64B", id="number"),
        pytest.param("swizzle", "128b_atom_32b", "swizzle", "128B_ATOM_32B", id="atom"),
        pytest.param("interleave", "32B", "interleave", "32B", id="interleave"),
        pytest.param("oob_fill", "nan", "oob_fill", "nan", id="fill"),
        pytest.param("l2_promotion", "128B", "l2_promotion", 128, id="promotion"),
        pytest.param("l2_promotion", 256, "l2_promotion", 256, id="promotion-number"),
        pytest.param("dtype", "u32", "dtype", "u32", id="dtype"),
        pytest.param("box", [300, 0], "box", (300, 0), id="forbidden-box-is-kept"),
        pytest.param("strides_bytes", [7], "strides_bytes", (7,), id="forbidden-stride-is-kept"),
        pytest.param("element_strides", [1, 9], "element_strides", (1, 9), id="forbidden-element-stride-is-kept"),
        pytest.param("offset_bytes", 4, "offset_bytes", 4, id="offset"),
    ],
)
def test_every_field_of_a_tensor_map(field: str, given: object, name: str, expected: object) -> None:
    (launch,) = read_spec(changed(f"args.0.tensor_map.{field}", given), Path()).launches
    assert getattr(launch.args[0], name) == expected


def test_a_tensor_is_declared_in_its_argument_and_named_in_another() -> None:
    inline = {"tensor": "z", "shape": [3], "dtype": "i16", "init": "arange", "offset_bytes": 2}
    document = changed("args.1", inline)
    document["args"].append({"tensor": "z"})
    spec = read_spec(document, Path())
    assert spec.launches[0].args[1::2] == (TensorArgument("z", 2), TensorArgument("z"))
    assert spec.tensors["z"].data.view(np.int16).tolist() == [0, 1, 2]
    assert list(spec.layouts) == ["x", "y", "z"]


def test_scratch_is_memory_that_is_not_reported() -> None:
    document = changed("args.1", {"scratch": 1})
    document["scratch"] = [{"bytes": 5}, {"bytes": 16, "align": 16, "init": "zero"}]
    spec = read_spec(document, Path())
    assert spec.launches[0].args[1] == TensorArgument("scratch1")
    assert list(spec.layouts) == ["x", "y"]
    first, second = spec.tensors["scratch0"], spec.tensors["scratch1"]
    assert (first.data.tolist(), second.data.tolist()) == ([0xA5] * 5, [0] * 16)
    assert (first.align, second.align, second.initialized) == (256, 16, None)


def test_a_tensor_map_of_a_kernel_may_be_of_scratch() -> None:
    """By position, its numbers go on after those of the tensors; so does the limit that is named."""
    described = {"kind": "tensor_map", "position": 2, "dtype": "f32", "dims": [4], "box": [4], "strides_bytes": []}
    launch = {"entry": "k", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [described]}
    spec = read_launches([launch], SPEC["tensors"], [{"bytes": 16}])
    (argument,) = spec.launches[0].args
    assert isinstance(argument, EmulatedTensorMap)
    assert argument.tensor == "scratch0"
    with pytest.raises(InvalidSpec, match="position: found 3, expected an integer from 0 to 2"):
        read_launches([{**launch, "args": [{**described, "position": 3}]}], SPEC["tensors"], [{"bytes": 16}])


def test_launches_share_their_tensors() -> None:
    launch = {"entry": "k", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"kind": "tensor", "position": 0}]}
    spec = read_launches([launch, launch], SPEC["tensors"], [])
    first, second = spec.launches
    assert first.tensors is second.tensors
    with pytest.raises(
        InvalidSpec, match=r"^\$\.launches\[1\]\.grid: found \[0, 1, 1\]|launches\[1\]\.grid\[0\]: found 0"
    ):
        read_launches([launch, {**launch, "grid": [0, 1, 1]}], SPEC["tensors"], [])


HUGE = 2**70

REFUSALS: dict[str, tuple[str, Any, str]] = {
    "missing": (
        "grid",
        None,
        "$: found the fields entry, arch, block, cluster, dynamic_smem, args, tensors, expected grid as well",
    ),
    "unknown": ("gird", [1, 1, 1], '$: found the unknown field "gird", expected grid, block, args'),
    "two-sizes": ("grid", [4, 1], "$.grid: found [4, 1], expected 3 integers"),
    "no-list": ("grid", 4, "$.grid: found 4, expected a list"),
    "no-blocks": ("grid", [4, 1, 0], "$.grid[2]: found 0, expected an integer from 1 to 65535"),
    "truth-is-no-size": ("grid", [True, 1, 1], "$.grid[0]: found true, expected an integer"),
    "float-is-no-size": ("grid", [4.0, 1, 1], "$.grid[0]: found 4.0, expected an integer"),
    "grid-too-large": ("grid", [2**31, 1, 1], "$.grid[0]: found 2147483648"),
    "block-x": ("block", [1025, 1, 1], "$.block[0]: found 1025, expected an integer from 1 to 1024"),
    "block-z": ("block", [1, 1, 65], "$.block[2]: found 65, expected an integer from 1 to 64"),
    "threads": ("block", [32, 33, 1], "$.block: found [32, 33, 1], expected at most 1024 threads, not 1056"),
    "divides": ("cluster", [3, 1, 1], "$.cluster: found [3, 1, 1], expected sizes that divide the grid [4, 1, 1]"),
    "cluster": ("cluster", [32, 1, 1], "$.cluster[0]: found 32, expected an integer from 1 to 16"),
    "smem": ("dynamic_smem", -1, "$.dynamic_smem: found -1, expected an integer from 0"),
    "smem-twice": ("dynamic_smem_bytes", 4, "$.dynamic_smem_bytes: found 4, expected dynamic_smem or"),
    "entry": ("entry", 7, "$.entry: found 7, expected the name of a kernel, as text"),
    "arch": ("arch", "hopper", '$.arch: found "hopper", expected a compile target such as sm_90a'),
    "args": ("args", {}, "$.args: found {}, expected a list of arguments"),
    "tensors": ("tensors", [], "$.tensors: found [], expected an object"),
    "scratch": ("scratch", {}, "$.scratch: found {}, expected a list"),
    "scratch-empty": ("scratch", [{"bytes": 0}], "$.scratch[0].bytes: found 0"),
    "arg": ("args.1", 5, "$.args[1]: found 5, expected an object with one of tensor, tensor_map, scalar"),
    "arg-empty": ("args.1", {}, "$.args[1]: found {}, expected an object with one of"),
    "arg-of-two-kinds": ("args.1", {"tensor": "y", "scalar": 1}, "expected an object with one of"),
    "no-such": ("args.1", {"tensor": "q"}, '$.args[1].tensor: found "q", expected the name of a tensor (x, y)'),
    "name": ("args.1", {"tensor": 3}, "$.args[1].tensor: found 3, expected the name of a tensor, as text"),
    "arg-field": ("args.1", {"tensor": "y", "offset": 4}, '$.args[1]: found the unknown field "offset"'),
    "offset": ("args.1", {"tensor": "y", "offset_bytes": -4}, "$.args[1].offset_bytes: found -4"),
    "twice": (
        "args.1",
        {"tensor": "y", "shape": [1], "dtype": "f32"},
        '$.args[1].tensor: found "y", expected a name of its own',
    ),
    "inline-dtype": (
        "args.1",
        {"tensor": "z", "shape": [1]},
        "$.args[1]: found the fields tensor, shape, expected dtype as well",
    ),
    "no-dtype": ("args.2", {"scalar": 64}, "$.args[2]: found the fields scalar, expected dtype as well"),
    "dtype": ("args.2", {"scalar": 64, "dtype": "int"}, '$.args[2].dtype: found "int", expected one of f64, f32'),
    "fp8-scalar": ("args.2", {"scalar": 64, "dtype": "f8e4m3"}, '$.args[2].dtype: found "f8e4m3"'),
    "overflow": (
        "args.2",
        {"scalar": 2**31, "dtype": "i32"},
        "$.args[2].scalar: found 2147483648, expected an integer from -2147483648 to 2147483647",
    ),
    "negative": ("args.2", {"scalar": -1, "dtype": "u8"}, "$.args[2].scalar: found -1"),
    "fraction": ("args.2", {"scalar": 1.5, "dtype": "i32"}, "$.args[2].scalar: found 1.5, expected an integer"),
    "text": ("args.2", {"scalar": "1", "dtype": "f32"}, '$.args[2].scalar: found "1", expected a number of type f32'),
    "list": ("args.2", {"scalar": [1], "dtype": "f32"}, "$.args[2].scalar: found [1], expected a number"),
    "huge-number": ("args.2", {"scalar": 10**400, "dtype": "f64"}, "expected a number of type f64"),
    "bool": ("args.2", {"scalar": 2, "dtype": "bool"}, "$.args[2].scalar: found 2, expected true or false"),
    "bool-list": ("args.2", {"scalar": [], "dtype": "bool"}, "$.args[2].scalar: found [], expected true or false"),
    "hex": ("args.2", {"bytes": "0g"}, '$.args[2].bytes: found "0g", expected hexadecimal digits'),
    "no-bytes": ("args.2", {"bytes": ""}, '$.args[2].bytes: found "", expected 1 to 32764 bytes'),
    "no-scratch": ("args.2", {"scratch": 0}, "$.args[2].scratch: found 0, expected a scratch buffer of that index"),
    "kind": ("args.2", {"kind": "texture"}, '$.args[2].kind: found "texture", expected one of tensor, tensor_map'),
    "position": (
        "args.2",
        {"kind": "tensor", "position": 2},
        "$.args[2].position: found 2, expected an integer from 0 to 1",
    ),
    "map": ("args.0.tensor_map", [], "$.args[0].tensor_map: found [], expected an object with tensor, dims, box"),
    "map-tensor": ("args.0.tensor_map.tensor", "q", '$.args[0].tensor_map.tensor: found "q"'),
    "rank": ("args.0.tensor_map.box", [32], "$.args[0].tensor_map.box: found [32], expected 2 integers"),
    "no-box": ("args.0.tensor_map.box", None, "expected box as well"),
    "negative-box": ("args.0.tensor_map.box", [-1, 8], "$.args[0].tensor_map.box[0]: found -1"),
    "strides": (
        "args.0.tensor_map.strides_bytes",
        [4, 1024],
        "$.args[0].tensor_map.strides_bytes: found [4, 1024], expected 1 integers",
    ),
    "no-strides": ("args.0.tensor_map.strides_bytes", None, "expected strides_bytes as well, for 2 dimensions"),
    "element-strides": ("args.0.tensor_map.element_strides", [1], "$.args[0].tensor_map.element_strides: found [1]"),
    "rank-0": ("args.0.tensor_map.dims", [], "$.args[0].tensor_map.dims: found [], expected 1 to 5 sizes"),
    "rank-6": ("args.0.tensor_map.dims", [1] * 6, "expected 1 to 5 sizes"),
    "dims-overflow": ("args.0.tensor_map.dims", [HUGE, 64], f"$.args[0].tensor_map.dims[0]: found {HUGE}"),
    "swizzle": (
        "args.0.tensor_map.swizzle",
        "256B",
        '$.args[0].tensor_map.swizzle: found "256B", expected one of NONE, 32B',
    ),
    "swizzle-truth": ("args.0.tensor_map.swizzle", True, "$.args[0].tensor_map.swizzle: found true"),
    "fill": (
        "args.0.tensor_map.oob_fill",
        "one",
        '$.args[0].tensor_map.oob_fill: found "one", expected one of zero, nan',
    ),
    "map-dtype": ("args.0.tensor_map.dtype", "f8", '$.args[0].tensor_map.dtype: found "f8"'),
    "map-field": ("args.0.tensor_map.swizle", 0, 'found the unknown field "swizle"'),
    "tensor": ("tensors.x", 3, "$.tensors.x: found 3, expected an object with shape, dtype"),
    "no-shape": ("tensors.x.shape", None, "$.tensors.x: found the fields dtype, init, seed, expected shape as well"),
    "shape": ("tensors.x.shape", [-1], "$.tensors.x.shape[0]: found -1, expected an integer from 0"),
    "bytes": ("tensors.x.shape", [2**16, 2**16], "at most 4294967296 bytes in all"),
    "shape-overflow": ("tensors.x.shape", [HUGE], f"$.tensors.x.shape[0]: found {HUGE}"),
    "dimensions": ("tensors.x.shape", [1] * 33, "expected at most 32 dimensions"),
    "tensor-dtype": ("tensors.x.dtype", "float", '$.tensors.x.dtype: found "float", expected one of f64'),
    "init": ("tensors.x.init", "normal", '$.tensors.x.init: found "normal", expected one of random, arange'),
    "init-number": ("tensors.x.init", 0, "$.tensors.x.init: found 0, expected one of random"),
    "init-object": ("tensors.x.init", {}, "$.tensors.x.init: found {}, expected one of values, file"),
    "init-field": ("tensors.x.init", {"value": 1}, '$.tensors.x.init: found the unknown field "value"'),
    "values": ("tensors.x.init", {"values": [1]}, "$.tensors.x.init.values: found [1], expected a list of 64 items"),
    "no-file": ("tensors.x.init", {"file": "no.npy"}, '$.tensors.x.init.file: found "no.npy", expected a .npy file'),
    "file-name": ("tensors.x.init", {"file": 4}, "$.tensors.x.init.file: found 4"),
    "seed": ("tensors.x.seed", -1, "$.tensors.x.seed: found -1, expected an integer from 0"),
    "tensor-strides": ("tensors.x.strides", [256], "$.tensors.x.strides: found [256], expected 2 integers"),
    "negative-stride": ("tensors.x.strides", [-256, 1], "$.tensors.x.strides[0]: found -256"),
    "strides-overflow": ("tensors.x.strides", [2**31, 1], "bytes in all"),
    "align": ("tensors.x.align", 3, "$.tensors.x.align: found 3, expected a power of two"),
    "align-of-element": ("tensors.x.align", 2, "$.tensors.x.align: found 2, expected a multiple of 4"),
    "align-most": ("tensors.x.align", 512, "$.tensors.x.align: found 512, expected an integer from 1 to 256"),
    "tensor-field": ("tensors.x.fill", 0, '$.tensors.x: found the unknown field "fill"'),
}


@pytest.mark.parametrize(("path", "value", "says"), REFUSALS.values(), ids=REFUSALS)
def test_what_cannot_be_meant_is_refused_by_its_place(path: str, value: object, says: str, tmp_path: Path) -> None:
    said = refusal(changed(path, value), tmp_path)
    assert says in said
    assert said.count("\n") == 0
    assert said.endswith(".")


@pytest.mark.parametrize("document", [[], 3, None, "x", True], ids=repr)
def test_a_document_that_is_no_object(document: object) -> None:
    assert "expected an object with grid, block, args" in refusal(document)


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "x" * 101, "é"])
def test_a_name_that_is_no_file_name_is_refused(name: str) -> None:
    assert "expected 1 to 100 letters, digits" in refusal(changed("tensors", {name: {"shape": [1], "dtype": "f32"}}))


def test_every_problem_is_told() -> None:
    document = changed("args.1", {"tensor": "q"})
    document["args"][2]["scalar"] = "many"
    assert [line.split(":")[0] for line in refusal(document).splitlines()] == ["$.args[1].tensor", "$.args[2].scalar"]


Writer = Callable[[Path], object]


@pytest.mark.parametrize(
    ("write", "says"),
    [
        pytest.param(lambda p: np.save(p, np.zeros((64, 256), np.float64)), "not float64 (64, 256)", id="type"),
        pytest.param(lambda p: np.save(p, np.zeros((64,), np.float32)), "not float32 (64,)", id="shape"),
        pytest.param(lambda p: p.write_text("no array"), "it is no .npy file", id="text"),
        pytest.param(lambda p: p.write_bytes(b""), "it is no .npy file", id="empty"),
        pytest.param(
            lambda p: np.save(p, np.array([{}], object), allow_pickle=True), "it is no .npy file", id="pickle"
        ),
        pytest.param(lambda p: p.mkdir(), "Is a directory", id="folder"),
    ],
)
def test_a_file_of_values_must_fit(write: Writer, says: str, tmp_path: Path) -> None:
    write(tmp_path / "x.npy")
    assert says in refusal(changed("tensors.x.init", {"file": "x.npy"}), tmp_path)


def test_a_file_of_values_is_read(tmp_path: Path) -> None:
    values = np.arange(64 * 256, dtype=np.float32).reshape(64, 256)
    np.save(tmp_path / "x.npy", values)
    spec = read_spec(changed("tensors.x.init", {"file": "x.npy"}), tmp_path)
    assert spec.tensors["x"].data.tobytes() == values.tobytes()


numbers = some.integers(-3, 300) | some.sampled_from(
    [2**40, 2**63, 2**64, -(2**63), 0.5, 1e300, float("inf"), float("nan")]
)
texts = some.sampled_from(["x", "y", "none", "128B", "f32", "bf16", "sm_90a", "", "nan", "poison"])
leaves = some.none() | some.booleans() | numbers | texts
values = some.recursive(
    leaves, lambda inner: some.lists(inner, max_size=3) | some.dictionaries(texts, inner, max_size=3), max_leaves=6
)


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to every value of a document below its top."""
    children: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, child in children for found in ((*way, key), *places(child, (*way, key)))]


@given(way=some.sampled_from(places(SPEC)), value=values)
def test_whatever_stands_in_a_place_is_read_or_refused(way: tuple[Any, ...], value: Any) -> None:
    document = copy.deepcopy(SPEC)
    at: Any = document
    for step in way[:-1]:
        at = at[step]
    at[way[-1]] = value
    with contextlib.suppress(InvalidSpec):
        read_spec(document, Path("/nowhere"))
