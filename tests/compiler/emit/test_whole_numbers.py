"""A quotient that is rounded and kept between bounds is what dividing, rounding and keeping between bounds gives: every
bit, of numbers beside every half, of zeros, infinities, NaN and subnormals, by divisors of all sizes."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.emit.pieces import pieces
from compiler.nvrtc import CompilePool
from tests.compiler.emit.machines import MACHINES, Array, Machine, machine_of

THREADS, EACH = 128, 16
SPECIAL = np.array(
    [
        0.0, 1.0, 2.0**-149, 2.0**-127, 2.0**-126, 2.0**-100, 2.0**-91, 2.0**-90, 2.0**90, 2.0**91, 2.0**126, 3.4e38,
        2.0 - 2.0**-23, 1.0 - 2.0**-24, 1e-12 / 127, 127.5, 128.5, 0.5, 2.5, np.inf, np.nan,
    ],
    np.float32,
)  # fmt: skip
BOUNDS = [(-128, 127), (0, 15), (-(2**21), 2**21)]


@pytest.fixture(scope="module", params=MACHINES)
def machine(request: pytest.FixtureRequest, pool: CompilePool) -> Machine:
    return machine_of(pool, request.param)


def signed(x: Array) -> Array:
    return np.concatenate([x, -x])


def pairs(seed: int) -> tuple[Array, Array]:
    """Dividends and divisors: special ones, any bits, and quotients a few ulp beside a half, of which the divisor has
    all bits set or few."""
    rng = np.random.default_rng(seed)
    special = np.array(np.meshgrid(signed(SPECIAL), signed(SPECIAL)), np.float32).reshape(2, -1)
    bits = rng.integers(0, 2**32, (2, 2048), np.uint32).view(np.float32)
    b = np.concatenate([rng.uniform(0.5, 1.0, 4096), 1 - 2.0**-24 * rng.integers(1, 4, 1024)])
    b = np.concatenate([b, rng.integers(1, 255, 1024) / 256.0]).astype(np.float32)
    b *= np.exp2(rng.integers(-30, 20, len(b))).astype(np.float32)
    halves = (rng.integers(-140, 140, len(b)) + 0.5).astype(np.float32)
    a = (halves * b).view(np.int32) + rng.integers(-2, 3, len(b), np.int32)
    beside = np.stack([a.view(np.float32), b])
    found = np.concatenate([special, bits, beside], axis=1)
    size = -(-found.shape[1] // (THREADS * EACH)) * THREADS * EACH
    dividends, divisors = np.resize(found[0], size), np.resize(found[1], size)
    return dividends, divisors


@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_a_quotient_between_bounds_is_rounded_once(machine: Machine, low: int, high: int) -> None:
    a, b = pairs(high)
    bounds = f"{float(low)}f, {float(high)}f"
    kernel = f"""{pieces(["math", "whole"])}
extern "C" __global__ void k(const float* a, const float* b, i32* quotient, i32* known, i32* plain, i32* rounded) {{
  const u32 first = (blockIdx.x * {THREADS}u + threadIdx.x) * {EACH}u;
  for (u32 i = first; i < first + {EACH}u; ++i) {{
    quotient[i] = ft_whole_quotient(a[i], ft_divisor(b[i], {bounds}));
    known[i] = i32(ft_minimum(ft_maximum(rintf(ft_div(a[i], b[i])), {float(low)}f), {float(high)}f));
    plain[i] = ft_whole(a[i], {bounds});
    rounded[i] = i32(ft_minimum(ft_maximum(rintf(a[i]), {float(low)}f), {float(high)}f));
  }}
}}
"""
    results = {name: np.zeros(len(a), np.int32) for name in ("quotient", "known", "plain", "rounded")}
    machine(kernel, {"a": a, "b": b, **results}, THREADS, len(a) // (THREADS * EACH))
    for mine, theirs in (("quotient", "known"), ("plain", "rounded")):
        wrong = np.flatnonzero(results[mine] != results[theirs])
        assert not len(wrong), [(a[i], b[i], results[mine][i], results[theirs][i]) for i in wrong[:5]]
    with np.errstate(all="ignore"):
        exact = np.clip(np.rint(a / b), low, high)
    assert np.array_equal(results["known"][~np.isnan(exact)], exact[~np.isnan(exact)].astype(np.int32))
