"""`python -m compiler emulate`: what it prints, saves and exits with, for files, for artifacts, and for bad input."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from compiler.arch import arch_named
from compiler.cli import app
from compiler.cuda_sources import CudaSource, ptx_now
from compiler.nvrtc import compile_now
from compiler.pipeline import artifact, generate
from compiler.schedule.trace import ScheduleTrace
from fusetune.wire.artifact import KernelArtifact
from tests.compiler.schedules import by_threads, from_wire
from tests.emulate.face.kernels import ADD, READ_LINE, TENSORS, add_spec

Emulate = Callable[..., tuple[int, str, str]]

X = np.random.default_rng(3).standard_normal(250).astype(np.float32)
FAULT_FIELDS = (
    ["kind", "message", "instruction", "ptx_line", "source_line", "block", "thread", "address", "tensor", "count"]
)  # fmt: skip


@pytest.fixture(scope="module")
def ptx() -> str:
    return ptx_now(CudaSource(ADD, "/there/add.cu", "sm_90a")).ptx


@pytest.fixture
def emulate(tmp_path: Path, ptx: str) -> Emulate:
    """Runs the command on KERNEL.ptx and a SPEC (both may be given) with options: exit code, stdout, stderr."""

    def run(spec: Any, *options: str, kernel: str = ptx, name: str = "add.ptx") -> tuple[int, str, str]:
        (tmp_path / name).write_text(kernel)
        text = spec if isinstance(spec, str) else json.dumps(spec)
        (tmp_path / "spec.json").write_text(text)
        return invoked(str(tmp_path / name), "--spec", str(tmp_path / "spec.json"), *options)

    return run


def invoked(*words: str, stdin: str | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["emulate", *words], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def sha256(array: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


def test_a_clean_run_as_json(emulate: Emulate) -> None:
    code, stdout, stderr = emulate(add_spec(), "--json")
    found = json.loads(stdout)
    assert (code, stderr) == (0, "")
    assert list(found) == ["entry", "arch", "order", "seed", "faults", "faults_not_listed", "counters", "tensors"]
    assert (found["entry"], found["arch"], found["order"], found["seed"]) == ("add", "sm_90a", "eager", 0)
    assert found["faults"] == []
    assert found["counters"]
    assert found["tensors"] == {
        "x": {"written": 0, "sha256": sha256(X)},
        "y": {"written": 250, "sha256": sha256(X + np.float32(1))},
    }


def test_what_is_not_written_stays_poison(emulate: Emulate) -> None:
    code, stdout, _ = emulate(add_spec(100), "--json")
    left = np.full(250, 0xA5A5A5A5, np.uint32).view(np.float32)
    left[:100] = X[:100] + np.float32(1)
    assert (code, json.loads(stdout)["tensors"]["y"]) == (0, {"written": 100, "sha256": sha256(left)})


@pytest.mark.parametrize("order", [(), ("--order", "lazy"), ("--order", "random", "--seed", "5")], ids=str)
def test_a_fault_as_json(emulate: Emulate, order: tuple[str, ...]) -> None:
    code, stdout, stderr = emulate(add_spec(251), "--json", *order)
    found = json.loads(stdout)
    first = found["faults"][0]
    assert (code, stderr, found["order"]) == (1, "", order[1] if order else "eager")
    assert list(first) == FAULT_FIELDS
    assert (first["kind"], first["source_line"], first["tensor"]) == ("out_of_bounds", READ_LINE, "x")
    assert (first["block"], first["thread"]) == ([3, 0, 0], [58, 0, 0])
    assert first["instruction"].startswith("ld.global")
    assert first["ptx_line"] > 0
    assert isinstance(first["address"], int)


def test_the_report_has_the_fault_first(emulate: Emulate) -> None:
    code, stdout, _ = emulate(add_spec(251))
    lines = stdout.splitlines()
    assert code == 1
    assert lines[0] == "add on sm_90a: grid 4 x 1 x 1, block 64 x 1 x 1; order eager"
    assert lines[2] == "out_of_bounds"
    assert f"    source       add.cu:{READ_LINE}" in lines
    assert "    by           block (3, 0, 0), thread (58, 0, 0)" in lines
    assert next(i for i, line in enumerate(lines) if line.startswith("2 faults: 2 out_of_bounds")) < lines.index(
        "tensors"
    )
    assert lines.index("tensors") < lines.index("counters")


def test_the_report_of_a_clean_run(emulate: Emulate) -> None:
    code, stdout, _ = emulate(add_spec(), "--order", "random", "--seed", "9")
    lines = stdout.splitlines()
    assert (code, lines[0].partition("; ")[2], "no faults" in lines) == (0, "order random, seed 9", True)
    assert [line for line in lines if line.startswith("  x")] == [
        f"  x  f32 250  not written         sha256 {sha256(X)[:16]}…"
    ]


def test_ptx_without_line_information_says_so(emulate: Emulate, ptx: str) -> None:
    bare = "\n".join(line for line in ptx.splitlines() if not line.strip().startswith((".loc", ".file")))
    code, stdout, _ = emulate(add_spec(251), kernel=bare)
    assert (code, "no line information" in stdout, "source  " in stdout) == (1, True, False)
    assert json.loads(emulate(add_spec(251), "--json", kernel=bare)[1])["faults"][0]["source_line"] is None


def test_cuda_is_compiled_and_its_line_shown(emulate: Emulate) -> None:
    code, stdout, stderr = emulate(add_spec(251), kernel=ADD, name="add.cu")
    assert (code, stderr) == (1, "")
    assert f"    source       add.cu:{READ_LINE}  y[i] = x[i] + 1.0f;" in stdout.splitlines()


def test_a_template_and_a_header_beside_the_source(emulate: Emulate, tmp_path: Path) -> None:
    (tmp_path / "more.cuh").write_text("#define MORE 2.0f\n")
    source = """
    #include <cstdint>
    #include "more.cuh"
    namespace a { template <int N> __global__ void add(const float* x, float* y, std::int32_t n) {
      int i = blockIdx.x * N + threadIdx.x;
      if (i < n) y[i] = x[i] + MORE;
    } }
    __global__ void other(float* x) { x[0] = 0; }
    """
    code, stdout, stderr = emulate(add_spec() | {"entry": "a::add<64>"}, "--json", kernel=source, name="t.cu")
    assert (code, stderr) == (0, "")
    assert json.loads(stdout)["tensors"]["y"]["sha256"] == sha256(X + np.float32(2))


def test_save_writes_every_tensor_before_and_after(emulate: Emulate, tmp_path: Path) -> None:
    extra = {
        "h": {"shape": [2], "dtype": "bf16", "init": "ones"},
        "e": {"shape": [2], "dtype": "f8e4m3", "init": "ones"},
    }
    folder = tmp_path / "new" / "folder"
    code, stdout, _ = emulate(add_spec() | {"tensors": TENSORS | extra}, "--json", "--save", str(folder))
    assert code == 0
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        f"{name}.{moment}.npy" for name in "xyhe" for moment in ("before", "after")
    )
    saved = {path.name: np.load(path) for path in folder.iterdir()}
    assert np.array_equal(saved["x.before.npy"], X)
    assert np.array_equal(saved["x.after.npy"], X)
    assert (saved["y.before.npy"].view(np.uint8) == 0xA5).all()
    assert np.array_equal(saved["y.after.npy"], X + np.float32(1))
    assert (saved["h.after.npy"].dtype, saved["h.after.npy"].tolist()) == (np.uint16, [0x3F80, 0x3F80])
    assert (saved["e.after.npy"].dtype, saved["e.after.npy"].tolist()) == (np.uint8, [0x38, 0x38])
    for name, tensor in json.loads(stdout)["tensors"].items():
        assert sha256(saved[f"{name}.after.npy"]) == tensor["sha256"]


def test_a_strided_tensor_is_reported_dense(emulate: Emulate, tmp_path: Path) -> None:
    """x has an element in every second place; the kernel reads the first 3, a hole among them."""
    spec = add_spec(3)
    spec["tensors"] = TENSORS | {"x": {"shape": [4], "dtype": "f32", "init": "arange", "strides": [2]}}
    code, stdout, _ = emulate(spec, "--json", "--save", str(tmp_path / "out"))
    assert (code, {f["kind"] for f in json.loads(stdout)["faults"]}) == (1, {"uninitialized_read"})
    assert np.load(tmp_path / "out" / "x.before.npy").tolist() == [0, 1, 2, 3]


def test_the_spec_may_come_from_standard_input(tmp_path: Path, ptx: str) -> None:
    (tmp_path / "add.ptx").write_text(ptx)
    code, stdout, _ = invoked(str(tmp_path / "add.ptx"), "--spec", "-", "--json", stdin=json.dumps(add_spec()))
    assert (code, json.loads(stdout)["faults"]) == (0, [])


@pytest.mark.parametrize(
    ("spec", "options", "says"),
    [
        pytest.param("{", (), "spec.json: not JSON", id="no-json"),
        pytest.param("[" * 100_000, (), "nested too deeply", id="deep"),
        pytest.param('{"grid": [1, 1, 1], "grid": [2, 1, 1]}', (), "the field 'grid' stands twice", id="twice"),
        pytest.param([], (), "$: found [], expected an object", id="no-object"),
        pytest.param(
            add_spec() | {"entry": "sub"}, (), "$.entry: found 'sub', expected a kernel of the PTX: add", id="entry"
        ),
        pytest.param(add_spec() | {"args": []}, (), "$.args: found 0 arguments, expected 3", id="arguments"),
        pytest.param(add_spec() | {"arch": "sm_100a"}, (), "$.arch: found sm_100a, expected sm_90a", id="arch"),
        pytest.param(add_spec() | {"dynamic_smem": 10**6}, (), "$.dynamic_smem: found 1000000 bytes", id="smem"),
        pytest.param(add_spec(), ("--artifact", "k.json"), "--artifact: found KERNEL or --spec beside it", id="both"),
        pytest.param(add_spec(), ("--save", "/proc/here"), "/proc/here: no folder can be made there", id="folder"),
    ],
)
def test_bad_input_is_a_message_and_exit_code_2(
    emulate: Emulate, spec: Any, options: tuple[str, ...], says: str
) -> None:
    code, stdout, stderr = emulate(spec, "--json", *options)
    assert (code, stdout) == (2, "")
    assert says in stderr
    assert all(line.startswith("error: ") for line in stderr.splitlines())


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        pytest.param("k.ptx", "int main() {}", "error: in ", id="no-ptx"),
        pytest.param("k.ptx", "", "error: in ", id="empty-ptx"),
        pytest.param("k.cu", "__global__ void add( {", "k.cu(1): error", id="no-cuda"),
        pytest.param("k.cu", "", "expected a kernel of the PTX: none", id="empty-cuda"),
        pytest.param("k.cubin", "x", "found the ending '.cubin', expected .cu or .ptx", id="ending"),
    ],
)
def test_a_kernel_that_cannot_be_read(emulate: Emulate, name: str, text: str, says: str) -> None:
    code, stdout, stderr = emulate(add_spec(), kernel=text, name=name)
    assert (code, stdout) == (2, "")
    assert says in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param((), "KERNEL is missing", id="nothing"),
        pytest.param((), "or --artifact FILE, or --schedule FILE", id="nothing-says-every-way"),
        pytest.param(("k.ptx",), "--spec is missing", id="no-spec"),
        pytest.param(("no.ptx", "--spec", "no.json"), "no.ptx: cannot be read", id="no-kernel"),
        pytest.param(("--artifact", "no.json"), "no.json: cannot be read", id="no-artifact"),
        pytest.param(("k.ptx", "--spec", "s.json", "--order", "late"), "--order", id="order"),
        pytest.param(("k.ptx", "--spec", "s.json", "--seed", "-1"), "--seed", id="seed"),
    ],
)
def test_words_that_cannot_be_used(words: tuple[str, ...], says: str) -> None:
    code, stdout, stderr = invoked(*words)
    assert (code, stdout) == (2, "")
    assert says in stderr


FUSION = from_wire(
    [{"name": "x", "shape": [70], "dtype": "bf16"}], [{"op": "copy", "in": ["x"], "out": "y"}], "y"
)  # fmt: skip


def artifact_of(fusion: Any, steps: Any) -> KernelArtifact:
    generated = generate(ScheduleTrace(fusion, tuple(steps)), arch_named("sm_90a"))
    return artifact(generated, compile_now(generated.source, "sm_90a"))


@pytest.fixture(scope="module")
def copy() -> KernelArtifact:
    """A kernel by threads that copies x to y."""
    return artifact_of(FUSION, by_threads())


def test_an_artifact_runs_on_random_inputs(copy: KernelArtifact, tmp_path: Path) -> None:
    (tmp_path / "k.json").write_text(copy.model_dump_json())
    code, stdout, stderr = invoked("--artifact", str(tmp_path / "k.json"), "--json", "--save", str(tmp_path))
    found = json.loads(stdout)
    assert (code, stderr, found["faults"], found["arch"]) == (0, "", [], "sm_90a")
    x, y = (np.load(tmp_path / f"{name}.after.npy") for name in ("i0", "v0"))
    assert (x.dtype, len(set(x.tolist())) > 50, np.array_equal(x, y)) == (np.uint16, True, True)
    assert {name: t["written"] for name, t in found["tensors"].items()} == {"i0": 0, "v0": 70}
    assert "no line information" in invoked("--artifact", str(tmp_path / "k.json"))[1]


def test_an_artifact_without_a_trace_names_its_tensors_by_position(copy: KernelArtifact, tmp_path: Path) -> None:
    (tmp_path / "k.json").write_text(copy.model_copy(update={"trace": {}}).model_dump_json())
    code, stdout, _ = invoked("--artifact", str(tmp_path / "k.json"), "--json")
    assert (code, list(json.loads(stdout)["tensors"])) == (0, ["input0", "output0"])


def test_launches_run_in_order_over_scratch(tmp_path: Path, copy: KernelArtifact) -> None:
    """x to scratch, scratch to y: the second launch may read what the first has written."""
    kernel = 'extern "C" __global__ void k(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x]; }'
    ptx = ptx_now(CudaSource(kernel, "k.cu", "sm_90a")).ptx
    tensor = {"shape": [32], "strides": [1], "dtype": "i32", "align": 4}
    x, y, scratch = (
        {"kind": "tensor", "position": 0},
        {"kind": "tensor", "position": 1},
        {"kind": "scratch", "index": 0},
    )
    launch = {"entry": "k", "grid": [1, 1, 1], "block": [32, 1, 1]}
    document = json.loads(copy.model_dump_json()) | {
        "trace": {},
        "ptx": ptx,
        "inputs": [tensor],
        "outputs": [tensor],
        "scratch": [{"bytes": 128, "align": 16}],
        "launches": [{**launch, "args": [x, scratch]}, {**launch, "args": [scratch, y]}],
    }
    path = tmp_path / "k.json"
    path.write_text(json.dumps(document))
    code, stdout, stderr = invoked("--artifact", str(path), "--json")
    tensors = json.loads(stdout)["tensors"]
    assert (code, stderr, list(tensors)) == (0, "", ["input0", "output0"])
    assert tensors["input0"]["sha256"] == tensors["output0"]["sha256"]
    path.write_text(json.dumps(document | {"launches": document["launches"][::-1]}))
    code, stdout, _ = invoked("--artifact", str(path))
    assert (code, "1 of 2 launches ran" in stdout, "uninitialized_read" in stdout) == (1, True, True)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"format": "fusetune.trace/1"}, "format", id="format"),
        pytest.param({"cubin_sha256": "0"}, "cubin", id="damaged"),
        pytest.param({"ptx": "nothing"}, "PTX line 1", id="ptx"),
        pytest.param({"launches": []}, "launches", id="no-launch"),
    ],
)
def test_an_artifact_of_no_use(copy: KernelArtifact, tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    path = tmp_path / "k.json"
    path.write_text(json.dumps(json.loads(copy.model_dump_json()) | changes))
    code, stdout, stderr = invoked("--artifact", str(path))
    assert (code, stdout) == (2, "")
    assert says in stderr
    assert stderr.startswith(f"error: in {path}\n")
