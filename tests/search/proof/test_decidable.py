"""What no input set decides is refused by name before anything is searched; what nearly all decide is not."""

from __future__ import annotations

import pytest

from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from fusetune import FusionBuilder
from fusetune.fusion import Tensor
from search.proof.decidable import refuse_undecidable
from search.proof.verify.arrays import NumpyArrays
from search.proof.verify.decided import LEAST_DECIDED, best_shares, why_undecided
from search.proof.verify.expected import Expected, expect
from search.proof.verify.inputs import make_inputs
from tests.bound import dense

SHAPE = (64, 1000)
HOST = NumpyArrays()


def quantized(f: FusionBuilder, shape: tuple[int, int]) -> Tensor:
    """Rows and a residual, over their root mean square, by their maxima in int8, cut off."""
    x, r, w = f.input("rows", shape, "bf16"), f.input("r", shape, "bf16"), f.input("w", shape[1:], "f32")
    h = (x.cast("f32") + r.cast("f32")).cast("bf16").cast("f32")
    y = h * f.rsqrt(f.square(h).mean((1,)) + 1e-5).broadcast_to(shape, (0,)) * w.broadcast_to(shape, (1,))
    return (y / (f.abs(y).amax((1,)) / 127.0).broadcast_to(shape, (0,))).cast("i8")


def fusion_of(what: str) -> Fusion:
    """One that decides by `what`."""
    f = FusionBuilder()
    x = f.input("x", SHAPE, "f32")
    match what:
        case "the last bits of an exponential":
            f.output((f.exp(x) * 1e8).cast("i32"), name="y")
        case "whole numbers of an exponential":
            f.output(f.exp(f.minimum(x, 3.0)).cast("i32"), name="y")
        case "a sum that is exactly itself":
            total = x.sum((1,))
            f.output(f.eq(total, total), name="y")
        case "equality with a sum":
            mean = x.mean((1,)).broadcast_to(SHAPE, (0,))
            f.output(f.eq(f.sub(x, mean) * 1e-3 + 1.0, 1.0), name="y")
        case "the greatest of a long row, cut off in int8":
            f.output(quantized(f, (2048, 4096)), name="q")
        case "the greatest of a short row, cut off in int8":
            f.output(quantized(f, (2048, 64)), name="q")
        case "third moments in f64":
            x = f.input("long", (3001, 19), "f64")
            y = f.sub(x, x.mean((0,)).broadcast_to((3001, 19), (1,)))
            f.output((f.square(y) * y).mean((0,)), name="m")
        case "an exact gelu in f64":
            f.output(f.gelu(f.input("wide", SHAPE, "f64"), approximate="none"), name="y")
        case "what is left of a mean in f64 less a trillion":
            f.output((f.input("wide", SHAPE, "f64") + 1e12).mean((1,)) - 1e12, name="m")
        case "its own maximum":
            v = f.exp(x)
            hit = f.eq(v, v.amax((1,)).broadcast_to(SHAPE, (0,)))
            f.output(hit, name="hit")
            f.output(f.where(hit, f.iota(SHAPE, 1, "i32"), SHAPE[1]).amin((1,)), name="which")
    return dense(f)


@pytest.mark.parametrize(
    "what",
    [
        "whole numbers of an exponential",
        "a sum that is exactly itself",
        "its own maximum",
        "equality with a sum",
        "the greatest of a long row, cut off in int8",
        "third moments in f64",
        "an exact gelu in f64",
    ],
)
def test_what_is_decided_is_searched(what: str) -> None:
    refuse_undecidable(fusion_of(what))


def test_the_greatest_of_short_rows_hangs_on_last_bits() -> None:
    with pytest.raises(Unsupported, match=r"output 0 98\.\d%"):
        refuse_undecidable(fusion_of("the greatest of a short row, cut off in int8"))


def test_what_is_not_decided_is_refused_with_the_share() -> None:
    with pytest.raises(
        Unsupported, match=r"decided in the best input set: output 0 \d+\.\d%; needed: at least 99%"
    ) as told:
        refuse_undecidable(fusion_of("the last bits of an exponential"))
    assert "margin" in told.value.fix


def test_what_f64_leaves_of_less_than_f32_has_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"output 0 \d+\.\d%"):
        refuse_undecidable(fusion_of("what is left of a mean in f64 less a trillion"))


def test_no_more_sets_are_asked_for_than_it_takes() -> None:
    fusion = fusion_of("its own maximum")
    asked: list[str] = []

    def expected(name: str) -> tuple[Expected, ...]:
        asked.append(name)
        return expect(fusion, make_inputs(fusion, name, HOST), HOST)

    best = best_shares(fusion, HOST, expected)
    assert asked == ["random"]
    assert min(best) >= LEAST_DECIDED
    assert why_undecided(best) == ""
    assert "decided in the best input set: output 1 50.0%; needed" in why_undecided((1.0, 0.5))
