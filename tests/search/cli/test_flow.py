"""The commands from end to end on a small fusion: real schedules and NVRTC, a fake GPU or none."""

from __future__ import annotations

import gzip
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from compiler.arch import card_named
from compiler.child import Child
from compiler.cli import app as compiler_app
from fusetune.wire.artifact import KernelArtifact
from search.cli.app import app
from search.cli.load import load_one
from search.measure.device import Effort, MeasureResult
from search.measure.fake import FACTS, FakeDevice, facts_of
from search.proof.emulated.apart import Prover
from search.proof.emulated.check import EmulatedProof
from search.tuning.attached import Attached, Detached, card_of, others_like
from search.tuning.budget import Budget
from search.tuning.build import Build, Builder
from search.tuning.candidates.candidate import Candidate
from search.tuning.failing import Failure
from search.tuning.prepared import prepared_before

pytestmark = pytest.mark.usefixtures("forked")

FUSION = {
    "format": "fusetune.fusion/1",
    "inputs": [{"name": "x", "shape": ["M", 256], "dtype": "f32"}],
    "ops": [{"op": "square", "in": ["x"], "out": "y"}],
    "outputs": [{"name": "y"}],
}

Invoke = Callable[..., Any]

SLACK_S = 4.0
"""Beside the two seconds that a phase may take past its budget: tests share the machine with others."""


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, borrowed: None) -> Invoke:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "search.tuning.tune.RANKED_POINTS", 20
    )  # three seconds of each search would go into it otherwise
    Path("square.json").write_text(json.dumps(FUSION))
    return lambda *args: CliRunner().invoke(app, list(args), catch_exceptions=False)


def find_nothing(wanted: str | None) -> Detached:
    return Detached(card_named(wanted or "H200"), "no GPU is attached")


def find_fake(wanted: str | None) -> Attached:
    card, notes = card_of(FACTS)
    return Attached(FakeDevice(), FACTS, card, notes)


def use(monkeypatch: pytest.MonkeyPatch, find: Callable[[str | None], Attached | Detached]) -> None:
    for command in ("tune", "measure"):
        monkeypatch.setattr(f"search.cli.{command}.find_device", find)


def results(out: str) -> dict[str, Any]:
    return dict(json.loads(Path(out, "results.json").read_text())["results"]["square"])


def test_space_counts_and_shows_samples(invoke: Invoke) -> None:
    report = json.loads(invoke("space", "square.json", "--bind", "M=64", "--json", "--samples", "2").stdout)
    assert 0 < report["legal"] < report["points"]
    assert sum(one["points"] for one in report["schedulers"].values()) == report["points"]
    assert len(report["samples"]) == 2
    assert all(sample["steps"] for sample in report["samples"])
    text = invoke("space", "square.json", "--bind", "M=64").stdout
    assert f"legal {report['legal']:,}" in text


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ("H200", "(legal; measured slower on H200: refused)"),
        ("H100 SXM", "(legal; measured slower on H200: refused)"),
        ("B200", "(legal; measured slower on H200: on this card not refused, but tried late)"),
    ],
)
def test_what_was_measured_is_told_apart_from_law(invoke: Invoke, card: str, said: str) -> None:
    lines = invoke("space", "square.json", "--bind", "M=64", "--card", card, "--samples", "0").stdout.splitlines()
    told = {line.split()[1].rstrip(":"): line for line in lines if line.startswith("  ")}
    assert said in told["few_vectors"]
    assert all("measured" not in told[rule] for rule in ("redundant_vector", "registers_in_flight"))


def test_points_that_keep_something_in_tensor_memory_are_counted(invoke: Invoke) -> None:
    asked = ("space", "square.json", "--bind", "M=64", "--samples", "0", "--card")
    spaces = json.loads(invoke(*asked, "B200", "--json").stdout)["schedulers"]
    counted = {name: one["by_tmem"]["tmem"] for name, one in spaces.items()}
    assert all(sum(counted[name].values()) == one["legal"] for name, one in spaces.items())
    assert all(counted["flat"][what] > 0 for what in ("none", "streams"))
    told = ", ".join(f"{what} {count:,}" for what, count in counted["flat"].items())
    assert f"  in tensor memory (tmem), legal: {told}" in invoke(*asked, "B200").stdout
    assert "in tensor memory" not in invoke(*asked, "H200").stdout


def test_a_fusion_may_come_from_standard_input(invoke: Invoke) -> None:
    text = Path("square.json").read_text()
    piped = CliRunner().invoke(app, ["space", "-", "--bind", "M=64", "--json"], input=text)
    assert json.loads(piped.stdout)["name"] == "stdin"
    report = json.loads(invoke("space", "square.json", "--bind", "M=64", "--json").stdout)
    assert json.loads(piped.stdout) == {**report, "name": "stdin"}


def test_without_a_gpu_tune_compiles_ranks_proves_and_says_what_it_did_not_do(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, find_nothing)
    done = invoke("tune", "square.json", "--bind", "M=64", "--trials", "2", "--out", "out")
    assert done.exit_code == 0
    assert "Nothing was timed: no GPU is attached." in done.stdout
    assert done.stdout.count(": verified in the emulator, predicted ") == 2
    assert "Predicted for H200, not measured" in done.stdout
    assert re.search(r"^ *\d+\.\d  right  +flat\(", done.stdout, re.MULTILINE)
    assert re.search(
        r"^Best of 2 proven in the emulator: out/kernels/square.json, predicted ", done.stdout, re.MULTILINE
    )
    kept = KernelArtifact.model_validate_json(Path("out/kernels/square.json").read_text())
    assert (kept.evidence.correct, kept.evidence.time) == ("verified_emulated", "predicted")
    row = results("out")
    assert (row["kernel"], row["evidence"]) == ("kernels/square.json", kept.evidence.model_dump())
    assert (row["median_us"], row["predicted_us"], row["trials"]) == (None, kept.predicted_us, {"verified": 2})
    manifest = json.loads(Path("out/square/manifest.json").read_text())
    assert len(manifest["candidates"]) == 2
    assert all(one["predicted_us"] > 0 for one in manifest["candidates"])
    for one in manifest["candidates"]:
        artifact = KernelArtifact.model_validate_json(gzip.decompress((Path("out/square") / one["file"]).read_bytes()))
        assert (artifact.evidence.correct, artifact.evidence.time) == ("verified_emulated", "predicted")

    refused = invoke("measure", "out")
    assert (refused.exit_code, "no GPU is attached" in refused.stderr) == (1, True)

    file = re.search(r"^(out/\S+): verified in the emulator", done.stdout, re.MULTILINE)
    assert file is not None
    shown = CliRunner().invoke(compiler_app, ["show", file[1], "--stage", "fusion"])
    assert (shown.exit_code, "square" in shown.stdout) == (0, True)
    ran = CliRunner().invoke(compiler_app, ["emulate", "--artifact", file[1]])
    assert (ran.exit_code, "no faults" in ran.stdout.lower()) == (0, True), ran.stdout


def test_what_was_proven_without_the_card_is_measured_first_once_it_is_there(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The B200 is a fake one, as it would say of itself."""
    tune = ("tune", "square.json", "--bind", "M=64", "--card", "B200", "--out", "out", "--trials")
    use(monkeypatch, find_nothing)
    assert "The order above is a prediction for the B200." in invoke(*tune, "2").stdout
    assert results("out")["evidence"] == {"correct": "verified_emulated", "time": "predicted"}
    manifest = json.loads(Path("out/square/manifest.json").read_text())
    prepared = {Candidate.from_json(one) for one in manifest["candidates"]}

    facts = facts_of(card_named("B200"))
    use(monkeypatch, lambda wanted: Attached(FakeDevice(facts=facts), facts, *card_of(facts)))
    assert invoke(*tune, "4").exit_code == 0
    assert results("out")["evidence"] == {"correct": "verified_on_gpu", "time": "measured"}
    lines = [json.loads(line) for line in Path("out/journal.jsonl").read_text().splitlines()[1:]]
    asked = {line["number"]: Candidate.from_json(line) for line in lines}
    assert {asked[0], asked[1]} == prepared
    assert len(asked) == 4


def test_candidates_of_another_binding_are_not_those_to_begin_with(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    invoke("prepare", "square.json", "--bind", "M=64", "--per-fusion", "2", "--out", "out")
    same, other = (load_one(Path("square.json"), None, {"M": rows}).bound() for rows in (64, 128))
    assert len(prepared_before(Path("out/square"), same)) == 2
    assert prepared_before(Path("out/square"), other) == []
    assert prepared_before(Path("out/none"), same) == []


def test_without_a_gpu_a_measured_kernel_stays(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, find_fake)
    tune = ("tune", "square.json", "--bind", "M=64", "--trials", "1", "--out", "out")
    invoke(*tune)
    before = Path("out/kernels/square.json").read_text()
    use(monkeypatch, lambda wanted: Detached(card_of(FACTS)[0], "no GPU is attached"))
    done = invoke(*tune)
    assert "out/kernels/square.json was measured before and stays." in done.stdout
    assert Path("out/kernels/square.json").read_text() == before
    assert results("out")["evidence"]["time"] == "measured"


def test_a_budget_that_ends_before_a_kernel_shows_no_table(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, find_nothing)
    done = invoke("tune", "square.json", "--bind", "M=64", "--budget-s", "0", "--out", "out")
    assert done.exit_code == 0
    assert "The budget of 0 s ended before a kernel was compiled." in done.stdout
    assert "Nothing was compiled, verified or timed: no GPU is attached." in done.stdout
    assert "Predicted for" not in done.stdout
    assert not Path("out/kernels").exists()


def test_a_proof_that_takes_too_long_is_given_up(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of rows and columns: three proofs take several times what is left of the budget."""
    use(monkeypatch, find_nothing)
    text = Path(__file__).parents[2].joinpath("data/layernorm_bwd.json").read_text()
    Path("square.json").write_text(text)
    began = time.monotonic()
    done = invoke("tune", "square.json", "--budget-s", "2", "--out", "out")
    assert time.monotonic() - began < 2 + 2 + SLACK_S
    assert done.exit_code == 0
    assert "The budget of 2 s ended" in done.stdout or "left of the budget" in done.stdout


def test_ctrl_c_without_a_gpu_ends_at_once_and_keeps_what_was_compiled(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the compile: nothing is proven after it. In a proof: those before it are told."""
    use(monkeypatch, find_nothing)
    arguments = ("tune", "square.json", "--bind", "M=64", "--trials", "3", "--out")
    finish = Builder.finish

    def interrupted_by_the_third(self: Builder, build: Build) -> KernelArtifact | Failure:
        if build.number == 2:
            raise KeyboardInterrupt
        return finish(self, build)

    with monkeypatch.context() as compiling:
        compiling.setattr(Builder, "finish", interrupted_by_the_third)
        done = invoke(*arguments, "compiling")
    assert done.exit_code == 0
    assert "Interrupted: what was compiled is kept" in done.stdout
    assert "No kernel was proven in the emulator, 0 were tried." in done.stdout
    assert len(list(Path("compiling/square/candidates").iterdir())) == 2

    proven = list[int]()

    prove = Prover.prove

    def interrupted_by_the_second(*arguments: Any) -> EmulatedProof:
        proven.append(1)
        if len(proven) == 2:
            raise KeyboardInterrupt
        return prove(*arguments)

    monkeypatch.setattr(Prover, "prove", interrupted_by_the_second)
    done = invoke(*arguments, "proving")
    assert done.exit_code == 0
    assert "Interrupted: what was compiled is kept" in done.stdout
    assert "Best of 1 proven in the emulator" in done.stdout
    assert len(list(Path("proving/square/candidates").iterdir())) == 3


def test_what_was_prepared_is_measured_once_and_resumed(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = invoke("prepare", "square.json", "--bind", "M=64", "--card", "H200", "--per-fusion", "3", "--out", "out")
    assert (prepared.exit_code, "Nothing was verified or timed" in prepared.stdout) == (0, True)

    use(monkeypatch, find_fake)
    for _ in range(2):
        measured = invoke("measure", "out", "--budget-s", "60")
        assert measured.exit_code == 0
        assert results("out")["trials"] == {"measured": 3}
    assert "ranked for H200; it is measured, and its results count, on fake" in measured.stdout
    artifact = KernelArtifact.model_validate_json(Path("out/kernels/square.json").read_text())
    assert artifact.evidence.correct == "verified_on_gpu"
    assert results("out")["median_us"] == pytest.approx(10.0, rel=0.02)


def test_the_start_of_the_device_is_not_taken_from_the_first_fusion(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SlowToStart(FakeDevice):
        """The only thing that takes time, by the clock of the budgets: 1.5 s of it, once."""

        passed_s = 0.0

        def measure(self, artifact: KernelArtifact, effort: Effort = Effort.SCREEN) -> MeasureResult:
            self.passed_s = 1.5
            return super().measure(artifact, effort)

    Path("cube.json").write_text(json.dumps(FUSION))
    for name in ("cube.json", "square.json"):
        invoke("prepare", name, "--bind", "M=64", "--per-fusion", "2", "--out", "out")
    device = SlowToStart()
    card, notes = card_of(FACTS)
    use(monkeypatch, lambda _: Attached(device, FACTS, card, notes))
    monkeypatch.setattr("search.cli.measure.Budget", partial(Budget, clock=lambda: device.passed_s))
    assert invoke("measure", "out", "--budget-s", "2.6").exit_code == 0
    found = json.loads(Path("out/results.json").read_text())["results"]
    assert {name: result["trials"] for name, result in found.items()} == {
        "cube": {"measured": 2},
        "square": {"measured": 2},
    }


def test_code_for_another_architecture_is_not_measured(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake card runs code for Hopper: a B200's is named and left alone, an H100's is measured."""
    Path("cube.json").write_text(json.dumps(FUSION))
    prepare = ("prepare", "--bind", "M=64", "--per-fusion", "1", "--out", "out", "--card")
    invoke(*prepare, "B200", "square.json")
    use(monkeypatch, find_fake)
    alone = invoke("measure", "out")
    assert alone.exit_code == 1
    assert "square was compiled for B200, whose code the fake cannot run: not measured." in alone.stdout
    assert "nothing here can run on the fake" in alone.stderr
    invoke(*prepare, "H100", "cube.json")
    both = invoke("measure", "out")
    assert both.exit_code == 0
    assert "square was compiled for B200" in both.stdout
    assert set(json.loads(Path("out/results.json").read_text())["results"]) == {"cube"}


def test_a_damaged_candidate_costs_only_itself(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    invoke("prepare", "square.json", "--bind", "M=64", "--per-fusion", "2", "--out", "out")
    use(monkeypatch, find_fake)
    damaged = Path("out/square/candidates/000.json.gz")
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert invoke("measure", "out").exit_code == 0
    assert results("out")["trials"] == {"unsupported": 1, "measured": 1}


def test_a_kernel_of_another_fusion_is_not_measured(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    invoke("prepare", "square.json", "--bind", "M=64", "--per-fusion", "2", "--out", "out")
    invoke("prepare", "square.json", "--bind", "M=128", "--per-fusion", "1", "--out", "other")
    use(monkeypatch, find_fake)
    Path("other/square/candidates/000.json.gz").replace("out/square/candidates/001.json.gz")
    assert invoke("measure", "out").exit_code == 0
    assert results("out")["trials"] == {"unsupported": 1, "measured": 1}


def test_an_interrupted_preparation_keeps_what_was_compiled(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    finish, finished = Builder.finish, []

    def interrupted_by_the_third(self: Builder, build: Build) -> KernelArtifact | Failure:
        finished.append(build)
        if len(finished) == 3:
            raise KeyboardInterrupt
        return finish(self, build)

    monkeypatch.setattr(Builder, "finish", interrupted_by_the_third)
    done = invoke("prepare", "square.json", "--bind", "M=64", "--per-fusion", "5", "--out", "out")
    assert (done.exit_code, "Interrupted: what was compiled is kept" in done.stdout) == (0, True)
    assert len(json.loads(Path("out/square/manifest.json").read_text())["candidates"]) == 2


def test_a_suite_takes_the_sizes_that_its_cases_have(invoke: Invoke) -> None:
    cases = [{**FUSION, "id": "free"}, {**json.loads(json.dumps(FUSION).replace('"M"', "32")), "id": "fixed"}]
    Path("suite.json").write_text(json.dumps({"cases": cases}))
    done = invoke("prepare", "suite.json", "--bind", "M=64", "--per-fusion", "1", "--out", "out")
    assert (done.exit_code, "2 of 2 fusions are in out" in done.stdout) == (0, True)


def test_a_journal_of_other_spaces_is_refused(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, find_fake)
    tune = ("tune", "square.json", "--bind", "M=64", "--trials", "1", "--out", "out")
    assert invoke(*tune).exit_code == 0
    journal = Path("out/journal.jsonl")
    header, _, rest = journal.read_text().partition("\n")
    before = json.dumps({**json.loads(header), "spaces": "older"}) + "\n" + rest
    journal.write_text(before)
    refused = invoke(*tune)
    assert (refused.exit_code, "spaces: found older" in refused.stderr) == (2, True)
    assert journal.read_text() == before


def test_a_budget_of_nothing_settles_the_best_of_the_journal(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, find_fake)
    tune = ("tune", "square.json", "--bind", "M=64", "--out", "out")
    invoke(*tune, "--trials", "2")
    Path("out/kernels/square.json").unlink()
    trials = results("out")["trials"]
    assert invoke(*tune, "--budget-s", "0").exit_code == 0
    assert results("out")["trials"] == trials
    assert Path("out/kernels/square.json").exists()


def test_results_of_other_fusions_stay(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, find_fake)
    Path("out").mkdir()
    Path("out/results.json").write_text(json.dumps({"format": "fusetune.results/1", "results": {"other": {"a": 1}}}))
    assert invoke("tune", "square.json", "--bind", "M=64", "--trials", "1", "--out", "out").exit_code == 0
    kept = json.loads(Path("out/results.json").read_text())["results"]
    assert set(kept) == {"other", "square"}
    assert kept["other"] == {"a": 1}


def test_tune_on_a_gpu_leaves_a_verified_kernel_and_resumes(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, find_fake)
    done = invoke("tune", "square.json", "--bind", "M=64", "--trials", "3", "--out", "out")
    assert done.exit_code == 0
    assert "right on all input sets" in done.stdout
    assert results("out")["evidence"] == {"correct": "verified_on_gpu", "time": "measured"}
    lines = len(Path("out/journal.jsonl").read_text().splitlines())
    assert lines >= 4

    other = invoke("tune", "square.json", "--bind", "M=128", "--out", "out")
    assert (other.exit_code, "another tuning" in other.stderr) == (2, True)


def find_several(wanted: str | None, index: int = 0) -> Attached | Detached:
    """Three GPUs, of which the second is of another kind."""
    if index > 2:
        return find_nothing(None)
    facts = FACTS if index != 1 else replace(FACTS, power_w=350)
    return Attached(FakeDevice(facts=facts), facts, card_of(facts)[0], ())


@pytest.mark.parametrize(
    ("gpus", "others"), [("1", 0), ("2", 1), ("all", 1)], ids=["one", "two-of-a-kind", "all-of-its-kind"]
)
def test_gpus_of_its_kind_join_in(monkeypatch: pytest.MonkeyPatch, gpus: str, others: int) -> None:
    monkeypatch.setattr("search.tuning.attached.find_device", find_several)
    first = find_several(None)
    assert isinstance(first, Attached)
    found, notes = others_like(first, None if gpus == "all" else int(gpus) - 1)
    assert len(found) == others
    assert len(notes) == (gpus != "1")
    assert all("350 W" in note for note in notes)
    for device in (first.device, *found):
        device.close()


def test_a_search_on_two_gpus_has_proposals_made_elsewhere(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    begin = Child.begin

    def told(child: Child) -> None:
        begun.append(child.name)
        begin(child)

    monkeypatch.setattr(Child, "begin", told)
    monkeypatch.setattr("search.tuning.attached.find_device", find_several)
    use(monkeypatch, find_several)
    done = invoke("tune", "square.json", "--bind", "M=64", "--trials", "8", "--gpus", "2", "--out", "out")
    assert done.exit_code == 0
    assert results("out")["evidence"] == {"correct": "verified_on_gpu", "time": "measured"}
    assert begun == ["tpe"]


@pytest.mark.parametrize("gpus", ["0", "-1", "65", "some", "1.5", ""])
def test_a_number_of_gpus_that_is_none_is_refused(invoke: Invoke, gpus: str) -> None:
    refused = invoke("tune", "square.json", "--bind", "M=64", f"--gpus={gpus}")
    assert refused.exit_code == 2
    said = " ".join(refused.output.split())
    assert f"--gpus: found {gpus}, expected 1 to 64, or all." in said
