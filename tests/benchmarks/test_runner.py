"""The kernel benchmark without a GPU: its arithmetic, its verdicts, and a whole run on the small cases."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.kernels import run, table
from benchmarks.kernels.cases import SUITE, bytes_moved, idiom, load, make_inputs, matmul_flops, peers
from benchmarks.kernels.judging import Judge
from benchmarks.kernels.limits import CardLimits
from benchmarks.kernels.reference import Agreement, compare, reference
from benchmarks.kernels.timing import Timed, WallClockTimer, set_count, summarize

VARIED = SUITE.with_name("suite_varied.json")
LANGUAGE = SUITE.with_name("suite_language.json")
PRODUCTS = SUITE.with_name("suite_products.json")
CASES = load(["*"], tiny=False)
TINY = load(["*"], tiny=True)
MIB = 1 << 20
LIMITS = CardLimits(
    device="a card",
    torch="2",
    l2_bytes=50 * MIB,
    copy_curve=((MIB, 2.0), (16 * MIB, 8.0), (1024 * MIB, 268.435456)),  # 4 TB/s at the end
    read_tb_s=5.0,
    add_tb_s=4.5,
    write_tb_s=4.2,
    matmul_tflop_s=700.0,
)


@pytest.mark.parametrize(
    "case",
    [*CASES, *(case for path in (VARIED, LANGUAGE, PRODUCTS) for case in load(["*"], tiny=False, path=path))],
    ids=lambda case: str(case["id"]),
)
def test_traffic_is_what_the_suite_states(case: dict[str, int]) -> None:
    assert bytes_moved(case) == (case["bytes_read"], case["bytes_written"])
    assert matmul_flops(case) == case["mm_flops"]


@pytest.mark.parametrize(
    "case",
    [*TINY, *(case for path in (VARIED, PRODUCTS) for case in load(["*"], tiny=True, path=path))],
    ids=lambda case: str(case["id"]),
)
def test_the_torch_lines_agree_with_the_op_list(case: dict[str, object]) -> None:
    inputs = make_inputs(case, "cpu", seed=3)
    assert compare(case, idiom(case)(*inputs), reference(case, inputs)).why == ""


def test_inputs_have_the_strides_of_the_case_and_repeat_with_the_seed() -> None:
    (case,) = load(["bcast_add4d_f32_discontig"], tiny=True)
    once, again, other = (make_inputs(case, "cpu", seed) for seed in (1, 1, 2))
    assert [list(x.stride()) for x in once] == [spec["strides"] for spec in case["inputs"]]
    assert torch.equal(once[1], again[1])
    assert not torch.equal(once[1], other[1])


ADD = next(case for case in TINY if case["id"] == "add_bf16_1m")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        pytest.param(lambda out: out * 1.009, "", id="error-within-bf16"),
        pytest.param(lambda out: out * 1.03, "relative L2 error", id="error-too-large"),
        pytest.param(lambda out: out.float(), "torch.float32", id="dtype"),
        pytest.param(lambda out: out.flatten()[:-1], "expected dense", id="shape"),
        pytest.param(lambda out: torch.full_like(out, math.nan), "inf", id="nan"),
        pytest.param(lambda out: torch.stack([out, out], -1)[..., 0], "strides", id="not-dense"),
    ],
)
def test_a_wrong_output_is_told_from_a_right_one(spoil: object, why: str) -> None:
    inputs = make_inputs(ADD, "cpu", seed=5)
    (right,) = idiom(ADD)(*inputs)
    assert callable(spoil)
    found = compare(ADD, [spoil(right)], reference(ADD, inputs))
    assert why in found.why
    assert found.ok == (why == "")


SAID = {case["id"]: case for case in load(["*"], tiny=True, path=LANGUAGE)}


@pytest.mark.parametrize("name", SAID)
def test_the_torch_lines_and_peers_of_the_language_agree_with_the_op_list(name: str) -> None:
    case = SAID[name]
    judge = Judge(case, make_inputs(case, "cpu", seed=3))
    for call in (idiom(case), *peers(case).values()):
        for _ in range(2):  # in place or not, each call starts from the same inputs
            assert judge.agreement(call, draws_ours=False).why == ""


def scaled(factor: float, *outputs: int) -> Callable[..., Any]:
    """Spoils outputs by a factor."""

    def spoil(*results: Any) -> tuple[Any, ...]:
        return tuple(
            ([y * factor for y in x] if isinstance(x, list) else x * factor) if n in outputs else x
            for n, x in enumerate(results)
        )

    return spoil


@pytest.mark.parametrize(
    ("name", "spoil", "why"),
    [
        pytest.param("adamw_f32_1b", scaled(1.00001, 0), "", id="a-list-within-f32"),
        pytest.param("adamw_f32_1b", scaled(1.001, 2), "tensor 0: v1: relative L2", id="the-last-list"),
        pytest.param("cross_entropy_grad_bf16_8192x131072", scaled(1.03, 1), "dx: relative L2", id="the-gradient"),
        pytest.param(
            "quantize_i8_bf16_8192x4096", lambda q, s: (q + (q == q.max()), s), "q: integers differ", id="too-many-off"
        ),
        pytest.param(
            "quantize_f8e4m3_bf16_8192x4096",
            lambda q, s: ((q.float() * 1.125).clamp(-448, 448).to(q.dtype), s),
            "q: relative L2",
            id="a-step-of-fp8",
        ),
        pytest.param(
            "dropout_residual_layernorm_bf16_16384x4096", scaled(1.03, 0), "y: relative L2", id="what-follows-a-mask"
        ),
    ],
)
def test_a_wrong_result_of_the_language_is_told(name: str, spoil: Callable[..., Any], why: str) -> None:
    case = SAID[name]
    judge = Judge(case, make_inputs(case, "cpu", seed=3))
    found = judge.agreement(lambda *inputs: spoil(*idiom(case)(*inputs)), draws_ours=False)
    assert why in found.why
    assert found.ok == (why == "")


@pytest.mark.parametrize(
    ("rate", "scale", "why"),
    [
        pytest.param(0.1, 1 / 0.9, "", id="right"),
        pytest.param(0.5, 1 / 0.9, "of the elements are kept, expected 0.9000", id="rate"),
        pytest.param(0.1, 1.5, "relative L2", id="scale"),
    ],
)
def test_rate_and_scale_of_a_dropout_are_judged_by_what_it_kept(rate: float, scale: float, why: str) -> None:
    case = SAID["dropout_residual_layernorm_bf16_16384x4096"]

    def drawn(x: Any, r: Any, w: Any, b: Any, seed: Any, offset: Any) -> tuple[Any, ...]:
        kept = torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) >= rate
        h = (r.float() + torch.where(kept, x.float() * scale, 0.0)).bfloat16()
        return torch.nn.functional.layer_norm(h, x.shape[1:], w, b, 1e-5), h

    judge = Judge(case, make_inputs(case, "cpu", seed=3))
    found = judge.agreement(drawn, draws_ours=False)
    assert why in found.why
    assert found.ok == (why == "")
    assert not judge.agreement(drawn, draws_ours=True).ok, "these are not the numbers of `rand`"


def test_a_missing_output_is_wrong() -> None:
    inputs = make_inputs(ADD, "cpu", seed=5)
    assert compare(ADD, [], reference(ADD, inputs)).why == "0 outputs, expected 1"


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        pytest.param(50 * MIB, 8, id="8-times-the-cache"),
        pytest.param(50 * MIB + 1, 8, id="rounded-up"),
        pytest.param(1, 128, id="at-most-128"),
        pytest.param(1_500_000_000, 2, id="at-least-2"),
        pytest.param(1_500_000_001, 1, id="one-where-a-call-flushes-the-cache"),
    ],
)
def test_set_count(moved: int, expected: int) -> None:
    assert set_count(moved, 50 * MIB) == expected


@pytest.mark.parametrize(
    ("share", "tb_s"),
    [
        pytest.param(0.0, 5.0, id="reads"),
        pytest.param(1 / 6, 1 / (0.5 / 5.0 + 0.5 / 4.5), id="time-per-byte-is-linear"),
        pytest.param(1 / 3, 4.5, id="two-reads-one-write"),
        pytest.param(0.5, 4.0, id="copy"),
        pytest.param(1.0, 4.2, id="writes"),
    ],
)
def test_stream_rate_follows_the_share_of_writes(share: float, tb_s: float) -> None:
    assert LIMITS.stream_tb_s(share) == pytest.approx(tb_s)


@pytest.mark.parametrize(
    ("moved", "us"),
    [
        pytest.param(1, 2.0, id="below-the-curve"),
        pytest.param(4 * MIB, 4.0, id="half-way-on-logarithms"),
        pytest.param(16 * MIB, 8.0, id="on-a-point"),
        pytest.param(2048 * MIB, 536.870912, id="beyond-the-curve"),
    ],
)
def test_copy_time_of_as_many_bytes(moved: int, us: float) -> None:
    assert LIMITS.copy_us(moved) == pytest.approx(us)


def test_the_limit_is_the_slower_of_memory_and_matmul() -> None:
    assert LIMITS.limit_us(2_000_000, 2_000_000) == pytest.approx(1.0)
    assert LIMITS.limit_us(2_000_000, 2_000_000, matmul_flops=1_400_000_000) == pytest.approx(2.0)


def test_the_lowest_round_median_is_the_figure() -> None:
    timer = WallClockTimer(lambda: (), [])
    timed = summarize([[9.0, 10.0, 11.0], [5.0, 8.0, 20.0], [12.0, 12.0, 12.0]], timer)
    assert (timed.us, timed.p10_us, timed.p90_us) == (8.0, 5.0, 20.0)
    assert timed.spread == pytest.approx(0.5)
    assert timed.round_us == (10.0, 8.0, 12.0)


def timed(us: float, spread: float = 0.0) -> Timed:
    return Timed(us, us, us, (us,), spread, 1, 1, "graph")


def test_the_table_marks_what_must_not_be_taken_for_a_figure() -> None:
    right, wrong = Agreement(0.0, 0.0), Agreement(1.0, 1.0, "out: relative L2 error 1.00e+00")
    results = {
        "eager": table.CaseResult(timed(30.0, spread=0.2), right),
        "max": table.CaseResult(timed(5.0), wrong),
        "plugin": table.CaseResult(timed(12.0), right),
        "default": table.CaseResult(error="RuntimeError: no"),
    }
    row = table.TableRow("a_case", 4_000_000, limit_us=8.0, copy_us=10.0, results=results)
    text = table.to_text([row], ["eager", "default", "max", "plugin"])
    cells = [cell.strip() for cell in text.splitlines()[2].split("|")[1:-1]]
    assert cells == ["a_case", "4.0", "8.0", "10.0", "30.0~", "error", "5.0!", "12.0", "1.20"]
    assert "! a_case max: out: relative L2 error" in text
    assert "! a_case default: RuntimeError: no" in text
    assert row.over_floor("max") is None


def test_a_run_on_the_cpu_writes_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "results.json"
    options = ["--device", "cpu", "--tiny", "--rounds", "1", "--modes", "eager,plugin", "--kernels", str(tmp_path)]
    assert run.main([*options, "--cases", "add_*,transpose_f32_*", "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    written = json.loads(out.read_text())
    assert [row["case"] for row in written["rows"]] == [c["id"] for c in load(["add_*", "transpose_f32_*"], tiny=True)]
    for row in written["rows"]:
        assert row["results"]["eager"]["correct"]
        assert row["results"]["eager"]["method"] == "wall clock"
        assert "plugin" not in row["results"], "no kernel in the folder: no figure"
        assert row["case"] in printed


def test_a_run_on_the_cpu_takes_lists_gradients_and_peers(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--device", "cpu", "--tiny", "--rounds", "1", "--modes", "eager", "--suite", str(LANGUAGE)]
    assert run.main([*options, "--cases", "adamw_f32_*,cross_entropy_grad_*x131072,dropout_*"]) == 0
    assert "| eager | fused |" in " ".join(capsys.readouterr().out.split())


def test_the_floor_of_a_case_may_be_what_another_takes() -> None:
    row = table.TableRow("a_case", 4_000_000, limit_us=8.0, copy_us=10.0, results={"eager": _right(30.0)}, like_us=12.0)
    assert (row.floor_us, row.over_floor("eager"), row.least_us()) == (12.0, 2.5, 30.0)


def _right(us: float) -> table.CaseResult:
    return table.CaseResult(timed(us), Agreement(0.0, 0.0))


def test_a_failing_implementation_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: torch.Tensor) -> list[torch.Tensor]:
        raise RuntimeError("planted")

    row = run.run_case(ADD, {"broken": lambda case: broken, "eager": idiom}, None, device="cpu", rounds=1)
    assert row.results["broken"].error == "RuntimeError: planted"
    assert row.results["eager"].counts


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        pytest.param(["--device", "cpu", "--modes", "eager,fast"], "found 'fast'", id="mode"),
        pytest.param(["--device", "cpu", "--rounds", "0"], "expected 1 or more", id="rounds"),
    ],
)
def test_wrong_options_exit_with_2(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run.main(argv)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        pytest.param(["--cases", "no_such_*"], "no timed case fits 'no_such_*'", id="case"),
        pytest.param(["--suite", "absent.json"], "absent.json", id="suite"),
        pytest.param(["--modes", "plugin", "--kernels", "absent"], "absent", id="kernels"),
    ],
)
def test_wrong_inputs_return_2(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--device", "cpu", "--tiny", *argv]) == 2
    assert message in capsys.readouterr().err


def test_the_suite_is_in_the_tree() -> None:
    assert SUITE.is_file()
