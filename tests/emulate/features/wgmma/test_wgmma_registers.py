"""Registers of warpgroup products: who holds results, what copies carry on, what two products share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from compiler.emulate.launch import Completion, Options
from tests.emulate.features.mma.values import ENCODE, small
from tests.emulate.features.wgmma.images import Image
from tests.emulate.features.wgmma.kernel import (
    BAR,
    COMMIT,
    FENCE,
    PROXY_FENCE,
    Ran,
    filled,
    names,
    row,
    run,
    vector,
    wait,
)
from tests.emulate.features.wgmma.test_wgmma_forms import rows_of_thread

Array = npt.NDArray[Any]

RNG = np.random.default_rng(4)
A, B = small("f16", (64, 16), RNG), small("f16", (8, 16), RNG)
LEFT = Image(ENCODE["f16"](A), mode="32B")
RIGHT = Image(ENCODE["f16"](B), mode="32B", offset=2048)
IMAGE = np.concatenate([LEFT.data, RIGHT.data])
START = filled(IMAGE.size) + PROXY_FENCE + BAR + LEFT.part(0).code(4) + RIGHT.part(0).code(5)
NAME = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
ORDERS = [Options(), Options(Completion.LAZY), Options(Completion.RANDOM, seed=2)]


def mma(registers: str, adds: int = 0) -> str:
    """The product of A and B."""
    return f"  {NAME} {registers}, %rd4, %rd5, {adds}, 1, 1, 0, 0;\n"


D, E = vector("d", 4), "{%d4, %d5, %d6, %d7}"
OUT = row(names("d", 4), "st", 0, "%rd2")


def product_of(body: str, **given: Any) -> tuple[Ran, Array]:
    """Runs it on one warpgroup, and D as it then stores it."""
    ran = run(START + body, IMAGE, 128 * 4, **given)
    found = np.zeros((64, 8), np.float32)
    for thread, mine in enumerate(ran.y.reshape(128, 4).view(np.float32)):
        for value, place in zip(mine, rows_of_thread(thread, 8), strict=True):
            found[place] = value
    return ran, found


RIGHTS = {
    "a copy made in flight and read after the wait": (
        FENCE + mma(E) + COMMIT + "".join(f"  mov.b32 %d{i}, %d{4 + i};\n" for i in range(4)) + wait() + OUT,
        1,
    ),
    "a copy of a copy, of which the first is overwritten after the wait": (
        FENCE
        + mma(E)
        + COMMIT
        + "".join(f"  mov.b32 %d{8 + i}, %d{4 + i};\n  mov.b32 %d{i}, %d{8 + i};\n" for i in range(4))
        + wait()
        + "".join(f"  mov.b32 %d{8 + i}, 0;\n" for i in range(4))
        + OUT,
        1,
    ),
    "the registers of an accumulator in another order": (
        FENCE
        + mma("{%d2, %d3, %d0, %d1}")
        + COMMIT
        + wait()
        + "".join(f"  mov.b32 %d{4 + i}, %d{i ^ 2};\n" for i in range(4))
        + FENCE
        + mma(E, 1)
        + COMMIT
        + wait()
        + "".join(f"  mov.b32 %d{i}, %d{4 + i};\n" for i in range(4))
        + OUT,
        2,
    ),
    "the same registers as another accumulator, without its old value": (
        FENCE + mma(D) + mma(D, 1) + COMMIT + wait() + mma("{%d1, %d0, %d3, %d2}") + COMMIT + wait() + FENCE + mma(D)
        + COMMIT + wait() + OUT,
        1,
    ),
    "two groups, of which the older was waited for": (
        FENCE + mma(D) + COMMIT + mma(E) + COMMIT + wait(1) + OUT + wait(),
        1,
    ),
    "an empty group in between": (
        FENCE + mma(D) + COMMIT + COMMIT + wait(1) + OUT + wait(),
        1,
    ),
    "an accumulator from registers, touched by one warp": (
        FENCE
        + mma(D)
        + COMMIT
        + wait()
        + "  setp.lt.u32 %p2, %r1, 32;\n  @%p2 mul.f32 %d0, %d0, 0f3F800000;\n"
        + FENCE
        + mma(D, 1)
        + COMMIT
        + wait()
        + OUT,
        2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("options", ORDERS, ids=["eager", "lazy", "random"])
@pytest.mark.parametrize("name", RIGHTS)
def test_what_is_right(name: str, options: Options) -> None:
    body, times = RIGHTS[name]
    ran, found = product_of(body, options=options)
    assert ran.faults == [], ran.outcome.faults
    np.testing.assert_array_equal(found, times * (A @ B.T))


WRONGS = {
    "a copy made in flight and read before the wait": (
        FENCE + mma(E) + COMMIT + "  mov.b32 %d0, %d4;\n  add.f32 %d0, %d0, %d0;\n" + wait(),
        ("race", "add.f32"),
    ),
    "registers of two accumulators": (
        FENCE + mma(D) + COMMIT + mma("{%d2, %d3, %d4, %d5}", 1) + COMMIT + wait(),
        ("uninitialized_read", "wgmma.mma_async"),
    ),
    "touched after the fence": (
        "  mov.b32 %d0, 0;\n  mov.b32 %d1, 0;\n  mov.b32 %d2, 0;\n  mov.b32 %d3, 0;\n"
        + FENCE
        + "  add.f32 %d1, %d1, %d1;\n"
        + mma(D, 1)
        + COMMIT
        + wait(),
        ("race", "wgmma.mma_async"),
    ),
    "touched after the fence, then copied": (
        "  mov.b32 %d0, 0;\n" + FENCE + "  add.f32 %d9, %d0, %d0;\n  mov.b32 %d1, %d9;\n" + mma(D) + COMMIT + wait(),
        ("race", "wgmma.mma_async"),
    ),
    "read after the wait, with no fence before the next": (
        FENCE + mma(D) + COMMIT + wait() + OUT + mma(D) + COMMIT + wait(),
        ("race", "wgmma.mma_async"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("options", ORDERS, ids=["eager", "lazy", "random"])
@pytest.mark.parametrize("name", WRONGS)
def test_what_is_wrong(name: str, options: Options) -> None:
    body, fault = WRONGS[name]
    ran, _ = product_of(body, options=options)
    assert ran.faults == [fault], ran.outcome.faults


def test_constants_may_stand_behind_the_fence() -> None:
    zeros = "".join(f"  mov.b32 %d{i}, 0;\n" for i in range(4))
    ran, found = product_of(FENCE + zeros + mma(D, 1) + COMMIT + wait() + OUT)
    assert ran.faults == []
    np.testing.assert_array_equal(found, A @ B.T)


def test_an_accumulator_is_a_factor_of_the_next_product() -> None:
    b, v = small("f16", (16, 16), RNG), small("f16", (8, 16), RNG)
    first = Image(ENCODE["f16"](b), mode="32B", offset=2048)
    second = Image(ENCODE["f16"](v), mode="32B", offset=2560)
    image = np.concatenate([LEFT.data, first.data, second.data])
    body = (
        filled(image.size) + PROXY_FENCE + BAR + LEFT.part(0).code(4) + first.part(0).code(5) + second.part(0).code(6)
    )
    body += FENCE + f"  {NAME.replace('n8', 'n16')} {vector('d', 8)}, %rd4, %rd5, 0, 1, 1, 0, 0;\n" + COMMIT + wait()
    body += "".join(f"  cvt.rn.f16x2.f32 %a{i}, %d{2 * i + 1}, %d{2 * i};\n" for i in range(4))
    body += FENCE + f"  {NAME} {{%d8, %d9, %d10, %d11}}, {vector('a', 4)}, %rd6, 0, 1, 1, 0;\n" + COMMIT + wait()
    ran = run(body + row(names("d", 12)[8:], "st", 0, "%rd2"), image, 128 * 4)
    assert ran.faults == []
    scores = (A @ b.T).astype(np.float16).astype(np.float64)
    for thread, mine in enumerate(ran.y.reshape(128, 4).view(np.float32)):
        assert [scores[r] @ v[c] for r, c in rows_of_thread(thread, 8)] == mine.tolist()


@pytest.mark.parametrize(
    ("threads", "faults"), [(384, []), (96, ["divergent_collective"]), (100, ["divergent_collective"])]
)
def test_blocks_of_other_sizes(threads: int, faults: list[str]) -> None:
    ran = run(START + FENCE + mma(D) + COMMIT + wait() + OUT, IMAGE, 4 * threads, threads=threads)
    assert [kind for kind, _ in ran.faults][: len(faults) or None] == faults


@pytest.mark.parametrize(
    ("code", "target"),
    [
        (mma(D), "sm_100a"),
        (mma(D), "sm_90"),
        (mma(D).replace("m64n8", "m64n12"), "sm_90a"),
        (mma(D).replace("k16", "k8"), "sm_90a"),
        (mma(D).replace("f16.f16", "f16.bf16"), "sm_90a"),
        (mma(D).replace("f32.f16.f16", "f16.bf16.bf16"), "sm_90a"),
        (mma(D).replace("f32.f16.f16", "s32.s8.s8"), "sm_90a"),
        (mma(D).replace("1, 1, 0, 0", "1, 2, 0, 0"), "sm_90a"),
        (mma(D).replace("1, 1, 0, 0", "1, 1, 0"), "sm_90a"),
        (mma(D).replace("mma_async", "mma_async.sp"), "sm_90a"),
        (mma(D).replace("k16.f32.f16.f16", "k256.s32.b1.b1").replace(", 1, 1, 0, 0", ""), "sm_90a"),
    ],
)
def test_forms_that_are_not_known_are_refused(code: str, target: str) -> None:
    ran = run(START + code, IMAGE, 1, target=target)
    assert [kind for kind, _ in ran.faults] == ["unsupported_instruction"]


def test_products_are_counted() -> None:
    ran = run(START + FENCE + mma(D) + mma(D, 1) + COMMIT + wait() + OUT, IMAGE, 1024, threads=256)
    assert ran.outcome.counters["products"] == {
        "wgmma": {
            "m64n8k16.f32.f16.f16": {
                "instructions": 4,
                "operations": 4 * 2 * 64 * 8 * 16,
                "shared_bytes": 4 * (2048 + 256),
            }
        }
    }
