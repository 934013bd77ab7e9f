"""The benchmark plugin: loaded by path from anywhere, it finds the kernel of a case and never a wrong one."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from benchmarks.kernels import plugin
from benchmarks.kernels.plugin import StoredKernels
from benchmarks.suite.export import SUITE, fusion_of
from fusetune.wire.artifact import (
    Conditions,
    Evidence,
    KernelArtifact,
    LaunchSpec,
    Resources,
    Timing,
)
from fusetune.wire.canonical import binding_hash, fingerprint
from fusetune.wire.parse import parse_binding, parse_fusion
from fusetune.wire.suite import strip_case

CASES = {case["id"]: case for case in json.loads(SUITE.read_text())["cases"]}
DENSE = CASES["add_bf16_1m"]
STRIDED = CASES["bcast_add4d_f32_discontig"]


def artifact(fusion: dict[str, Any], bound_to: dict[str, Any], /, us: float = 10.0, **changes: Any) -> KernelArtifact:
    parsed, bound = parse_fusion(fusion), parse_binding(bound_to)
    fields: dict[str, Any] = {
        "fingerprint": fingerprint(parsed),
        "binding": binding_hash(parsed, bound),
        "arch": "sm_90a",
        "inputs": (),
        "outputs": (),
        "launches": (LaunchSpec(entry="kernel", grid=(1, 1, 1), block=(32, 1, 1), args=()),),
        "cubin": b"AA==",
        "cubin_sha256": sha256(b"\0").hexdigest(),
        "source": "",
        "ptx": "",
        "trace": {},
        "resources": Resources(
            registers=1, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0, static_smem_bytes=0
        ),
        "code_hash": f"{us}",
        "conditions": Conditions(generator="test", nvrtc="13.0"),
        "evidence": Evidence(correct="verified_on_gpu", time="measured"),
        "timing": Timing(policy="p", card="c", median_us=us, p10_us=us, p90_us=us, samples_us=(us,)),
    }
    return KernelArtifact(**(fields | changes))


def kernels_with(folder: Path, *artifacts: KernelArtifact) -> StoredKernels:
    for i, one in enumerate(artifacts):
        (folder / f"tuning{i}").mkdir()
        (folder / f"tuning{i}" / "kernel.json").write_text(one.model_dump_json())
    return StoredKernels.from_folder(folder, arch="sm_90a")


@pytest.mark.parametrize(
    ("fusion", "binding", "case"),
    [
        pytest.param(*strip_case(DENSE), DENSE, id="as-the-suite-strips-it"),
        pytest.param(fusion_of(DENSE), {}, DENSE, id="no-binding-at-all"),
        pytest.param(fusion_of(STRIDED), {}, STRIDED, id="strides-in-the-fusion"),
        pytest.param(*strip_case(STRIDED), STRIDED, id="strides-in-the-binding"),
        pytest.param(fusion_of(DENSE), {"inputs": [{"align": 2}, {"align": 2}]}, DENSE, id="bound-to-less-alignment"),
    ],
)
def test_the_kernel_of_a_case_is_found(
    tmp_path: Path, fusion: dict[str, Any], binding: dict[str, Any], case: dict[str, Any]
) -> None:
    kernel = artifact(fusion, binding)
    assert kernels_with(tmp_path, kernel).find(case) == kernel


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"evidence": Evidence(correct="unverified", time="measured")}, id="unverified"),
        pytest.param({"arch": "sm_100a"}, id="another-architecture"),
        pytest.param({"fingerprint": "0" * 64}, id="another-fusion"),
        pytest.param({"binding": "0" * 64}, id="another-binding"),
    ],
)
def test_a_kernel_that_does_not_fit_is_not_used(tmp_path: Path, changes: dict[str, Any]) -> None:
    kernels = kernels_with(tmp_path, artifact(*strip_case(DENSE), **changes))
    assert kernels.find(DENSE) is None
    assert kernels.build(DENSE) is None


def test_another_layout_is_another_kernel(tmp_path: Path) -> None:
    fusion, binding = strip_case(STRIDED)
    dense = {**binding, "inputs": [{}, {}]}
    assert kernels_with(tmp_path, artifact(fusion, dense)).find(STRIDED) is None


def test_of_several_the_fastest_is_used(tmp_path: Path) -> None:
    by_us = {us: artifact(*strip_case(DENSE), us=us) for us in (12.0, 9.0, 11.0)}
    in_fusion = artifact(fusion_of(DENSE), {"inputs": [{"align": 128}, {"align": 128}]}, us=8.0)
    assert kernels_with(tmp_path, *by_us.values(), in_fusion).find(DENSE) == in_fusion


def test_files_that_are_no_kernels_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "trials.json").write_text('[{"state": "measured"}]')
    (tmp_path / "broken.json").write_text("{")
    assert StoredKernels.from_folder(tmp_path, arch="sm_90a").by_key == {}


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="absent: found no such folder"):
        StoredKernels.from_folder(tmp_path / "absent")


def test_it_loads_by_path_from_another_folder_and_builds_none_without_kernels(tmp_path: Path) -> None:
    code = (
        "import importlib.util, json, sys\n"
        "spec = importlib.util.spec_from_file_location('bench_plugin', sys.argv[1])\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "assert 'torch' not in sys.modules\n"
        "print(module.build(json.load(open(sys.argv[2]))['cases'][0]))\n"
    )
    argv = [sys.executable, "-c", code, str(Path(plugin.__file__)), str(SUITE)]
    env = {"FUSETUNE_KERNELS": str(tmp_path)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("None\n", 0), done.stderr
