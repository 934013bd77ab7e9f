"""`python -m compiler show`: every stage of a trace and of an artifact, and what is said of files that are neither."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from compiler import faults
from compiler.arch import arch_named
from compiler.cli import ShownStage, app
from compiler.emit.cuda import ENTRY, kernel_text
from compiler.explain.copy_plans import explained_copies
from compiler.explain.loop_tree import loop_tree_text
from compiler.ir.printer import fusion_text, scheduled_text
from compiler.lower.printer import kernel_ir_text
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from compiler.schedule import steps as st
from compiler.schedule.start import parts_text
from compiler.schedule.step_forms import step_to_json
from compiler.schedule.trace import ScheduleTrace
from compiler.wire import trace_to_json
from tests.compiler.schedule.start_forms import cat, fusion_of
from tests.compiler.schedules import by_threads, from_wire, load_by_tma
from tests.compiler.test_program_trace import THREE

X = {"name": "x", "shape": [70], "dtype": "f32"}
FUSION = from_wire([X], [{"op": "copy", "in": ["x"], "out": "y"}], "y")
TRACE = ScheduleTrace(FUSION, tuple(by_threads()))
DOCUMENT = trace_to_json(TRACE)

Show = Callable[..., tuple[int, str, str]]


@pytest.fixture
def show(tmp_path: Path) -> Show:
    """Shows a document (JSON, text or bytes) with options; returns exit code, stdout and stderr."""

    def run(document: Any, *options: str) -> tuple[int, str, str]:
        path = tmp_path / "file.json"
        if isinstance(document, bytes):
            path.write_bytes(document)
        else:
            path.write_text(document if isinstance(document, str) else json.dumps(document))
        result = CliRunner().invoke(app, ["show", str(path), *options])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        pytest.param("fusion", fusion_text(FUSION), id="fusion"),
        pytest.param("trace", f"{TRACE}\n\n{loop_tree_text(TRACE.replay())}", id="trace"),
        pytest.param("ir", scheduled_text(TRACE.replay()), id="ir"),
        pytest.param(
            "copies", "\n\n".join(map(str, explained_copies(TRACE.replay(), arch_named("sm_90a")))), id="copies"
        ),
        pytest.param("kernel", kernel_ir_text(generate(TRACE, arch_named("sm_90a")).kernel), id="kernel"),
        pytest.param("cuda", kernel_text(generate(TRACE, arch_named("sm_90a")).kernel), id="cuda"),
    ],
)
def test_a_trace_is_shown_at_every_stage(show: Show, stage: str, text: str) -> None:
    code, stdout, stderr = show(DOCUMENT, "--stage", stage)
    assert (code, stdout.rstrip("\n"), stderr) == (0, text.rstrip("\n"), "")


@pytest.mark.parametrize("stage", ["fusion", "trace", "ir", "copies", "kernel", "cuda"])
def test_several_launches_are_shown_one_after_the_other(show: Show, stage: str) -> None:
    code, stdout, stderr = show(trace_to_json(THREE), "--stage", stage)
    assert (code, stderr) == (0, "")
    made = generate(THREE, arch_named("sm_90a"))
    wanted = {
        "fusion": [fusion_text(THREE.fusion)],
        "trace": [f"launch {n}: " for n in range(4)],
        "ir": ["launch 0: i0 -> s0\n", *(scheduled_text(one.scheduled) for one in made.launches)],
        "copies": ["launch 0: i0 -> s0\n", "global -> registers", "launch 3: i1, s1 -> v3\n"],
        "kernel": ["launch 3: i1, s1 -> v3\n", *(kernel_ir_text(one.kernel).rstrip("\n") for one in made.launches)],
        "cuda": [f"fusetune_kernel_{n}(" for n in range(4)],
    }
    places = [stdout.find(text) for text in wanted[stage]]
    assert -1 not in places
    assert stage == "kernel" or places == sorted(places)


def test_a_trace_says_in_which_parts_outputs_are_stored(show: Show) -> None:
    fusion = fusion_of([[2, 128]] * 2, [cat("y", 1, "x0", "x1")], "y")
    code, stdout, _ = show(trace_to_json(ScheduleTrace(fusion, ())), "--stage", "trace")
    assert (code, stdout.splitlines()[0]) == (0, parts_text(fusion))


def test_ir_is_the_default_and_every_stage_has_a_name(show: Show) -> None:
    assert show(DOCUMENT) == show(DOCUMENT, "--stage", "ir")
    assert [s.value for s in ShownStage] == ["fusion", "trace", "ir", "copies", "kernel", "cuda", "ptx"]


def test_standard_input_is_read_for_a_dash() -> None:
    result = CliRunner().invoke(app, ["show", "-", "--stage", "trace"], input=json.dumps(DOCUMENT))
    assert (result.exit_code, result.stdout) == (0, f"{TRACE}\n\n{loop_tree_text(TRACE.replay())}\n")


def test_a_file_of_gzip_is_read_like_its_text(show: Show) -> None:
    zipped = gzip.compress(json.dumps(DOCUMENT).encode())
    assert show(zipped, "--stage", "fusion") == show(DOCUMENT, "--stage", "fusion")
    piped = CliRunner().invoke(app, ["show", "-", "--stage", "fusion"], input=zipped)
    assert (piped.exit_code, piped.stdout) == show(DOCUMENT, "--stage", "fusion")[:2]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(gzip.compress(b"{}" * 99)[:20], "damaged", id="torn"),
        pytest.param(b"\x1f\x8b and something else", "damaged", id="no-gzip"),
        pytest.param(gzip.compress(b"\xff"), "not UTF-8", id="no-text"),
        pytest.param(gzip.compress(b" " * 40), "more than 0 MiB", id="too-long"),
    ],
)
def test_a_damaged_file_of_gzip_is_named(
    show: Show, monkeypatch: pytest.MonkeyPatch, content: bytes, says: str
) -> None:
    monkeypatch.setattr(faults, "MOST_UNZIPPED_BYTES", 32 if says.startswith("more") else 1 << 20)
    code, _, stderr = show(content)
    assert (code, says in stderr, "file.json: cannot be read" in stderr) == (2, True, True), stderr


def test_full_cuda_is_what_the_compiler_gets(show: Show) -> None:
    _, stdout, _ = show(DOCUMENT, "--stage", "cuda", "--full")
    assert stdout.rstrip("\n") == generate(TRACE, arch_named("sm_90a")).source.rstrip("\n")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_ptx_is_compiled_for_the_target(show: Show, arch: str) -> None:
    code, stdout, _ = show(DOCUMENT, "--stage", "ptx", "--arch", arch)
    assert code == 0
    assert f".target {arch}" in stdout
    assert f".entry {ENTRY}(" in stdout


@pytest.fixture(scope="module")
def kernel(pool: CompilePool) -> dict[str, Any]:
    """An artifact for sm_80 whose source and PTX another generator seems to have written."""
    generated = generate(TRACE, arch_named("sm_80"))
    made = artifact(generated, pool.submit(generated.source, "sm_80").result())
    marked = made.model_copy(update={"source": made.source + "// theirs\n", "ptx": made.ptx + "// theirs\n"})
    return dict(json.loads(marked.model_dump_json()))


@pytest.mark.parametrize("stage", ["fusion", "trace", "ir", "kernel"])
def test_an_artifact_is_shown_through_its_trace(show: Show, kernel: dict[str, Any], stage: str) -> None:
    assert show(kernel, "--stage", stage) == show(DOCUMENT, "--stage", stage, "--arch", "sm_80")


@pytest.mark.parametrize("stage", ["cuda", "ptx"])
def test_an_artifact_keeps_its_own_code(show: Show, kernel: dict[str, Any], stage: str) -> None:
    assert show(kernel, "--stage", stage)[1].endswith("// theirs\n")
    assert show(kernel, "--stage", stage, "--arch", "sm_80")[1].endswith("// theirs\n")
    other = show(kernel, "--stage", stage, "--arch", "sm_90a")
    assert other == show(DOCUMENT, "--stage", stage)


def with_steps(*steps: dict[str, Any]) -> dict[str, Any]:
    return {**DOCUMENT, "steps": list(steps)}


SPLIT = {"do": "split", "tv": "v0", "axis": 0, "factor": 8}


@pytest.mark.parametrize(
    ("document", "says"),
    [
        pytest.param("", ("file.json", "not JSON"), id="empty-file"),
        pytest.param("{", ("file.json", "not JSON"), id="torn-json"),
        pytest.param(b"\xff\xfe\x00", ("file.json", "not UTF-8"), id="binary"),
        pytest.param("[" * 100000, ("file.json", "nested too deeply"), id="deep-json"),
        pytest.param([], ("found list", "expected an object"), id="no-object"),
        pytest.param({}, ("format", "None", "fusetune.trace/1"), id="empty-object"),
        pytest.param({"format": 3}, ("format", "3", "fusetune.trace/1"), id="format-is-no-text"),
        pytest.param({"format": "fusetune.fusion/1"}, ("format", "python -m search trace"), id="a-fusion"),
        pytest.param({"format": "fusetune.trace/1"}, ("fusion", "an object", "steps", "a list"), id="empty-trace"),
        pytest.param({**DOCUMENT, "more": 1}, ("'more'", "unknown field"), id="unknown-field"),
        pytest.param({**DOCUMENT, "fusion": {}}, ("fingerprint", "nothing", "a text"), id="empty-fusion"),
        pytest.param(with_steps(SPLIT, {**SPLIT, "axis": "0"}), ("steps[1].axis", "'0'", "an integer"), id="mistyped"),
        pytest.param(with_steps({**SPLIT, "do": "spilt"}), ("steps[0].do", "'spilt'", "split"), id="unknown-step"),
        pytest.param(with_steps({**SPLIT, "tv": "T7"}), ("T7", "no tensor", "i0, v0"), id="unknown-tensor"),
        pytest.param(with_steps({**SPLIT, "axis": 4}), ("no axis 4", "0 to 0"), id="unknown-axis"),
        pytest.param(with_steps({**SPLIT, "factor": 0}), ("factor is 0", "at least 1"), id="factor-0"),
        pytest.param(
            {"format": "fusetune.kernel/1"}, ("cubin", "found nothing", "python -m search tune"), id="empty-artifact"
        ),
    ],
)
def test_a_fault_of_the_file_is_named(show: Show, document: Any, says: tuple[str, ...]) -> None:
    code, stdout, stderr = show(document)
    assert (code, stdout) == (2, "")
    assert "Traceback" not in stderr
    for part in says:
        assert part in stderr


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        pytest.param({"cubin": 3}, ("cubin",), id="cubin"),
        pytest.param({"arch": "sm_7"}, ("'sm_7'", "sm_90a"), id="arch"),
        pytest.param({"trace": {}}, ("format", "fusetune.trace/1"), id="trace"),
        pytest.param({"launches": 3}, ("launches",), id="launches"),
        pytest.param({"extra": 3}, ("extra",), id="unknown-field"),
    ],
)
def test_a_damaged_artifact_is_named(
    show: Show, kernel: dict[str, Any], changed: dict[str, Any], says: tuple[str, ...]
) -> None:
    code, stdout, stderr = show({**kernel, **changed})
    assert (code, stdout) == (2, "")
    for part in ("file.json", *says):
        assert part in stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        pytest.param(["missing.json"], ("missing.json", "No such file"), id="no-file"),
        pytest.param(["."], ("Is a directory",), id="directory"),
        pytest.param(["trace.json", "--arch", "sm_1"], ("'sm_1'", "sm_90a"), id="unknown-arch"),
        pytest.param(["trace.json", "--stage", "sass"], ("--stage", "sass", "ptx"), id="unknown-stage"),
        pytest.param([], ("FILE",), id="no-argument"),
    ],
)
def test_a_fault_of_the_command_line_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], says: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trace.json").write_text(json.dumps(DOCUMENT))
    result = CliRunner().invoke(app, ["show", *args])
    assert (result.exit_code, result.stdout) == (2, "")
    for part in says:
        assert part in result.stderr


def test_an_illegal_schedule_is_shown_with_what_refuses_it(show: Show) -> None:
    thin = ScheduleTrace(FUSION, (*load_by_tma(1),))
    code, stdout, stderr = show(trace_to_json(thin))
    assert (code, stdout) == (2, scheduled_text(thin.replay()) + "\n")
    assert "tensor_map_inner_box_is_a_multiple_of_16_bytes" in stderr
    for stage in ("copies", "kernel", "cuda", "ptx"):
        code, stdout, again = show(trace_to_json(thin), "--stage", stage)
        assert (code, stdout, again) == (2, "", stderr)


def test_a_target_refuses_what_it_cannot_do(show: Show) -> None:
    bulk = trace_to_json(ScheduleTrace(FUSION, tuple(load_by_tma(8))))
    assert show(bulk, "--stage", "kernel")[0] == 0
    code, _, stderr = show(bulk, "--stage", "kernel", "--arch", "sm_80")
    assert (code, "architecture_has_the_instructions_used" in stderr) == (2, True)


def test_a_step_that_cannot_be_applied_is_named(show: Show) -> None:
    code, _, stderr = show(with_steps(step_to_json(st.InlineAt("v0", 9))))
    assert code == 2
    assert "inline_at(tv=v0, position=9): position 9 of v0 is past" in stderr
