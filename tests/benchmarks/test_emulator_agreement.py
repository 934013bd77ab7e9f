"""What holds the emulator against a card, without one: operands, comparison, conclusions, and that the kernels run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.emulate import accumulation
from benchmarks.emulate.agree import AgreementRow, markdown
from benchmarks.emulate.comparing import compare
from benchmarks.emulate.compiling import entry, prepare_forms, prepared_forms
from benchmarks.emulate.conclusions import conclusion
from benchmarks.emulate.form import FormTolerance
from benchmarks.emulate.forms import all_forms, choose, chosen
from benchmarks.emulate.open_points import converted, experiments, placed, predicted
from benchmarks.emulate.values import near_underflow, operands, specials
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate


def test_a_sample_of_every_family_is_clean_in_the_emulator_and_agrees_with_itself(tmp_path: Path) -> None:
    families: dict[str, int] = {}
    forms = []
    for form in all_forms():
        families[form.family] = families.get(form.family, 0) + 1
        if families[form.family] % 25 == 1:
            forms.append(form)
    prepare_forms(forms, tmp_path)
    for compiled, group in prepared_forms(forms, tmp_path):
        module = parse(compiled.ptx)
        for k, form in enumerate(group):
            launch = form.launch(entry(k))
            outcome = emulate(module, launch)
            assert not outcome.faults, (form.name, outcome.faults[0])
            fill = form.launch(entry(k)).tensors
            assert all((launch.tensors[n].data != fill[n].data).any() for n in form.compared), form.name


def test_forms_of_some_families_are_chosen_and_noted(tmp_path: Path) -> None:
    forms = choose(tmp_path, ["product"])
    assert [f.name for f in chosen(tmp_path)] == [f.name for f in forms]
    assert {f.family for f in forms} == {"product"}
    assert len(chosen(tmp_path / "without a note")) > len(forms)
    with pytest.raises(ValueError, match="no form is of the family prodct"):
        choose(tmp_path / "misspelt", ["prodct"])


@pytest.mark.parametrize("kind", ["bf16", "e4m3"])
def test_sums_tell_how_many_bits_are_kept_and_how_they_are_rounded(kind: str) -> None:
    made = accumulation.experiments(kind, 16)
    exact = [e.a @ e.b + e.c for e in made]
    with np.errstate(over="ignore"):
        nearest = np.array([x.astype(np.float32) for x in exact])
    kept, beside, modes, *_ = accumulation.told(kind, nearest)
    assert kept == beside == f"2^-{29 if kind == 'bf16' else 28} (all)"
    assert modes == "nearest even"
    cut = nearest.copy()
    cut[0][np.abs(cut[0]) < 2.0**-13 * 4.0 ** accumulation.LEADING[kind]] = 0
    cut[2] = np.where(np.abs(nearest[2]) > np.abs(exact[2]), np.nextafter(nearest[2], np.float32(0)), nearest[2])
    kept, _, modes, *_ = accumulation.told(kind, cut)
    assert (kept, modes) == ("2^-13", "towards zero")


def test_what_was_prepared_from_other_forms_is_refused(tmp_path: Path) -> None:
    first, second = all_forms()[:2]
    prepare_forms([first], tmp_path)
    assert len(prepared_forms([first], tmp_path)) == 1
    with pytest.raises(ValueError, match="other forms"):
        prepared_forms([second], tmp_path)


def test_operands_lie_on_both_sides_of_the_smallest_normal_number() -> None:
    a, b = (x.astype(np.uint32).view(np.float32).astype(np.float64) for x in near_underflow(("f32", "f32")))
    short = 1 - np.abs(a * b) / 2.0**-126
    assert (short > 0).sum() > 50
    assert (short < 0).sum() > 50
    for low, high in ((0.0, 2.0**-40), (2.0**-26, 2.0**-25), (2.0**-25, 2.0**-24), (2.0**-24, 2.0**-23)):
        assert ((short > low) & (short <= high)).any(), (low, high)
    assert not len(near_underflow(("u32", "u32"))[0])


def test_operands_of_conversions_include_midpoints_of_the_target() -> None:
    values = specials("f64>f16").view(np.float64)
    with np.errstate(all="ignore"):
        near = values.astype(np.float16).astype(np.float64)
        step = np.spacing(np.abs(near).astype(np.float16)).astype(np.float64)
        assert (np.abs(values - near) == step / 2).sum() > 20
    halves = operands(("f32>int",), 1)[0].astype(np.uint32).view(np.float32)
    assert {0.5, -2.5, 2.0**31, -(2.0**63)} <= set(halves.tolist())


def f32(*bits: int) -> Any:
    return np.array(bits, np.uint32).view(np.uint8)


@pytest.mark.parametrize(
    ("tolerance", "card", "emulated", "wrong"),
    [
        (FormTolerance("f32"), 0x7FFFFFFF, 0x7FC00000, 0),
        (FormTolerance("f32", with_nan_bits=True), 0x7FFFFFFF, 0x7FC00000, 1),
        (FormTolerance("f32", with_nan_bits=True), 0x7FFFFFFF, 0x7FFFFFFF, 0),
        (FormTolerance("f32"), 0x00000000, 0x80000000, 1),
        (FormTolerance("f32", relative=2.0**-22), 0x3F800000, 0x3F800003, 0),
        (FormTolerance("f32", relative=2.0**-22), 0x3F800000, 0x3F800005, 1),
        (FormTolerance("f32", relative=2.0**-22), 0x3F800000, 0x7FFFFFFF, 1),
        (FormTolerance("f32", relative=2.0**-22), 0x00000001, 0x00000000, 0),
    ],
)
def test_comparison(tolerance: FormTolerance, card: int, emulated: int, wrong: int) -> None:
    found = compare(f32(card), f32(emulated), tolerance)
    assert (found.cases, found.mismatches, bool(found.first)) == (1, wrong, bool(wrong))


def test_the_summary_counts_by_family() -> None:
    rows = [
        AgreementRow("a", "float", cases=10, bits=2, worst=0.5),
        AgreementRow("b", "float", cases=5, mismatches=1, bits=1, first="value 3: card 1.0, emulator 2.0"),
        AgreementRow("c", "fence", cases=7),
    ]
    text = markdown(rows, "a card")
    assert text.startswith("3 kernels compared in 22 values: disagreeing: 1, on a card.")
    assert "| float | 2 | 15 | 1 | 3 | 0.50 |" in text
    assert "| fence | 1 | 7 | 0 | 0 |  |" in text
    assert "| `b` | 5 | 1 | value 3: card 1.0, emulator 2.0 |" in text
    assert "all agree" in markdown(rows[2:])


def measured(point: int, pitch_of: str = "span") -> list[dict[str, Any]]:
    """A card that does as predicted; with rows close together if asked."""
    found = []
    for e in experiments():
        if e.point == point:
            pitch = e.map.box[0] * 4 if pitch_of == "row" or e.map.swizzle == "NONE" else int(e.map.swizzle[:-1])
            told = {
                "name": e.name,
                "encoded": True,
                "ran": True,
                "expected_bytes": e.expected,
                "tile_bytes": e.tile_bytes,
            }
            found.append(told | {"completed": e.expected in (e.tile_bytes, 0)} | placed(e, predicted(e, pitch)))
    return found


def test_conclusions_follow_the_measurements() -> None:
    assert "The whole box counts" in conclusion(1, measured(1))
    other = [f | {"completed": not f["completed"]} if f["name"].startswith("before") else f for f in measured(1)]
    assert "did not complete: before, whole tile expected" in conclusion(1, other)
    assert "a span of the swizzle apart, in all 11 boxes" in conclusion(2, measured(2))
    assert "close together" in conclusion(2, measured(2, "row"))
    assert conclusion(3, measured(3)) == "All encoded, and what arrived is right."
    assert "other than predicted: 32B, base at 16 mod 256" in conclusion(
        3, [f | {"with_rows_of_the_span": f["name"] != "32B, base at 16 mod 256"} for f in measured(3)]
    )
    refused = {"name": "128B_ATOM_64B", "encoded": False, "status": 1}
    assert conclusion(4, [refused]) == "Refused: 128B_ATOM_64B (CUresult 1)."
    hung = {"name": "that", "ran": False, "error": "no answer"}
    assert conclusion(3, [*measured(3), hung]).endswith("Failed: that.")


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (lambda x: x, "normal numbers: kept; subnormal numbers: kept; infinities: kept; NaN: kept"),
        (lambda x: x & 0xFFFFE000, "normal numbers: cut off to 10 bits of mantissa"),
        (lambda x: x + 0x1000 & 0xFFFFE000, "normal numbers: rounded to nearest, ties away"),
        (lambda x: x + 0xFFF + (x >> 13 & 1) & 0xFFFFE000, "normal numbers: rounded to nearest even"),
        (lambda x: x ^ 1, "normal numbers: no known rule"),
    ],
)
def test_conversions_are_told_by_the_rules_that_fit_every_value(rule: Any, told: str) -> None:
    experiment = next(e for e in experiments() if e.point == 6)
    columns, rows = experiment.map.box
    held = np.array(experiment.words, np.uint64).reshape(-1, experiment.map.dims[0])[:rows, :columns]
    shown = np.full(8192, 0xEE, np.uint8)
    shown[: 4 * held.size] = rule(held).astype(np.uint32).ravel().view(np.uint8)
    pairs = converted(experiment, shown)
    assert len(pairs["converted"]) > 500
    assert told in conclusion(6, [{"name": "it", "encoded": True, "ran": True, **pairs}])
