"""What is compiled ahead of the GPU: as many distinct kernels as are wanted, none that spill and lose by it."""

from __future__ import annotations

from concurrent.futures import Future
from math import inf
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from compiler.nvrtc import Compiled
from compiler.wire import bind
from fusetune import FusionBuilder
from fusetune.wire.artifact import VERIFIER, Evidence, KernelArtifact, Resources, Verification
from fusetune.wire.fusion import DTypeName
from fusetune.wire.parse import parse_binding, parse_fusion
from search.cli.app import app
from search.cost.model import Prediction
from search.tuning.build import Builder
from search.tuning.candidates.candidate import Candidate
from search.tuning.prepare import CompiledCandidates, compile_promising
from search.tuning.prepared import Prepared, PreparedBuilds, write_artifact
from search.tuning.trial import TrialState
from tests.search.tuning.test_tuner import Compiled as Code
from tests.search.tuning.test_tuner import Compiler, Drafter, Generated, Scripted, artifact

NEG = {
    "format": "fusetune.fusion/1",
    "inputs": [{"name": "x", "shape": ["M"], "dtype": "f32"}],
    "ops": [{"op": "neg", "in": ["x"], "out": "y"}],
    "outputs": [{"name": "y"}],
}


def with_spills(generated: Any, compiled: Any) -> KernelArtifact:
    """Of the script `spills N` N bytes are spilled."""
    name, _, figure = compiled.source.rpartition(" ")
    plain = artifact(generated, compiled)
    spilled = int(name.removeprefix("spills")) if name.startswith("spills") else 0
    resources = plain.resources.model_copy(update={"spill_store_bytes": spilled, "spill_load_bytes": spilled})
    return plain.model_copy(update={"resources": resources, "code_hash": f"{name} {figure}"})


def refined(generated: Any, resources: Resources) -> Prediction:
    """A microsecond for each byte, beside what the source says."""
    spills = float(resources.spill_store_bytes)
    return Prediction(float(generated.source.rpartition(" ")[2]) + spills, {"spills": spills})


def prepared(folder: Path, scripts: list[str], kernels: int) -> CompiledCandidates:
    scheduler = Scripted(scripts)
    builder = Builder(Drafter(scheduler), Compiler(), "sm_90a", refined, artifact=with_spills)
    candidates = [Candidate.of(scheduler.name, {"n": n}) for n in range(len(scripts))]
    return compile_promising(builder, candidates, folder, kernels, queue_depth=2, left_s=lambda: inf)


@pytest.mark.parametrize(
    ("scripts", "left_out"),
    [
        pytest.param(["a 50", "spills4 50", "b 60"], [], id="spills-and-is-as-fast"),
        pytest.param(["a 50", "spills6 50", "b 60"], [1], id="spills-and-loses"),
        pytest.param(["spills6 50", "a 50", "b 60"], [], id="nothing-better-is-known"),
        pytest.param(["a 50", "b 90", "c 60"], [], id="slow-without-spills"),
    ],
)
def test_kernels_that_spill_are_left_out_where_others_are_faster(
    tmp_path: Path, scripts: list[str], left_out: list[int]
) -> None:
    found = prepared(tmp_path, scripts, 3)
    assert [trial.number for trial in found.failed] == left_out
    assert {trial.state for trial in found.failed} <= {TrialState.PRUNED}
    assert [c.candidate.knobs["n"] for c in found.candidates] == [n for n in range(3) if n not in left_out]


def test_another_takes_the_place_of_one_left_out(tmp_path: Path) -> None:
    found = prepared(tmp_path, ["a 50", "spills40 50", "b 60", "c 70"], 3)
    assert [c.candidate.knobs["n"] for c in found.candidates] == [0, 2, 3]
    assert found.failed[0].reason == "40 bytes a thread are spilled: predicted 90.0 us, another 50.0 us"


def test_compiled_kernels_have_the_refined_prediction(tmp_path: Path) -> None:
    found = prepared(tmp_path, ["a 50", "spills3 50"], 2)
    assert [c.predicted_us for c in found.candidates] == [50.0, 53.0]


@pytest.mark.parametrize(
    ("verifier", "is_kept"),
    [
        pytest.param(VERIFIER - 1, False, id="older"),
        pytest.param(VERIFIER, True, id="todays"),
        pytest.param(VERIFIER + 1, True, id="newer"),
    ],
)
def test_a_prepared_candidate_of_an_older_verifier_comes_without_its_proof(
    tmp_path: Path, verifier: int, is_kept: bool
) -> None:
    fusion = bind(parse_fusion(NEG), parse_binding({"sizes": {"M": 4}}))
    found = prepared(tmp_path, ["a 50"], 1)
    proof = Verification(
        device="emulator", input_sets=("random",), max_error=0, tolerance=0, deterministic=True, verifier=verifier
    )
    made = artifact(Generated("a 50"), Code("a 50")).model_copy(
        update={
            "fingerprint": fusion.fingerprint,
            "binding": fusion.binding_hash,
            "evidence": Evidence(correct="verified_emulated", time="predicted"),
            "verification": proof,
        }
    )
    write_artifact(tmp_path, 0, made)
    builds = PreparedBuilds(tmp_path, Prepared("neg", "H200", fusion, 1, 1, candidates=tuple(found.candidates)))
    again = builds.finish(builds.start(0, found.candidates[0].candidate))
    assert isinstance(again, KernelArtifact)
    assert again == (made if is_kept else made.unproven())


def test_what_is_compiled_when_the_time_is_up_is_given_up(tmp_path: Path) -> None:
    """The compiler answers the first and hangs on the second; of the time, one second is left at each question."""

    class Hanging(Compiler):
        def submit(self, source: str, arch: str) -> Future[Compiled]:
            return Future() if source.startswith("hang") else super().submit(source, arch)

    scheduler = Scripted(["a 50", "hang 60", "b 70"])
    builder = Builder(Drafter(scheduler), Hanging(), "sm_90a", refined, artifact=with_spills)
    candidates = [Candidate.of(scheduler.name, {"n": n}) for n in range(3)]
    seconds = iter([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    found = compile_promising(builder, candidates, tmp_path, 3, queue_depth=2, left_s=lambda: 0.1 * next(seconds, 0.0))
    assert ([c.candidate.knobs["n"] for c in found.candidates], found.given_up) == ([0], 2)


@pytest.mark.parametrize(("dtype", "largest"), [("f8e4m3", 448.0), ("f8e5m2", 57344.0), ("i8", 127.0), ("u8", 255.0)])
def test_quantisation_of_rows_is_prepared(dtype: DTypeName, largest: float, tmp_path: Path) -> None:
    f = FusionBuilder()
    x = f.input("x", ("M", 1024), "bf16").cast("f32")
    scale = f.maximum(f.abs(x).amax((1,)), 1e-12) / largest
    f.output(f.div(x, scale.broadcast_to(x.shape, (0,))).cast(dtype))
    fusion = tmp_path / "quantised.json"
    fusion.write_text(f.build().to_json())
    found = CliRunner().invoke(
        app, ["prepare", str(fusion), "--bind", "M=64", "--per-fusion", "4", "--out", str(tmp_path / "prepared")]
    )
    assert found.exit_code == 0, found.output
    assert "4 kernels compiled" in found.output
