"""Cases of products of tensor cores."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from tests.emulate.kernels.case import Array, Case, given, output


def _a(x: Array, number: int = 0) -> Array:
    return x[1024 * number : 1024 * number + 1024].reshape(64, 16).astype(np.float64)


def _blocked(x: Array, number: int = 0) -> Array:
    """A as 8 rows of 16 bytes after 8 rows of 16 bytes."""
    part = x[1024 * number : 1024 * number + 1024].reshape(8, 2, 8, 8)
    return part.transpose(0, 2, 1, 3).reshape(64, 16).astype(np.float64)


def _b(w: Array) -> Array:
    return w.reshape(8, 16).T.astype(np.float64)


def _one(t: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": (_a(t["x"]) @ _b(t["w"])).astype(np.float32).reshape(-1)}


def _twice(t: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.tile(_one(t)["y"], 2)}


def _both(t: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": ((_a(t["x"]) + _a(t["x"], 1)) @ _b(t["w"])).astype(np.float32).reshape(-1)}


def _thread_plus_one(t: Mapping[str, Array]) -> Mapping[str, Array]:
    y = _one(t)["y"].reshape(64, 8).copy()
    thread = np.arange(128)
    y[16 * (thread // 32) + thread % 32 // 4, thread % 4 * 2] = thread + 1
    return {"y": y.reshape(-1)}


_X, _W = given("x", 1024, "f16"), given("w", 128, "f16")
_product = partial(Case, block=128, args=(_X, _W, output("y", 512, "f32")), expected=_one)
_registers = partial(_product, "wgmma")
_operand = partial(_product, "wgmma_operands")
_ROUND = (given("x", 2048, "f16"), _W, output("y", 512, "f32"))
_PAIR = (_X, _W, output("y", 1024, "f32"))
_roles = partial(
    Case, "register_counts", block=512, args=(given("x", 512), output("y", 512)), expected=lambda t: {"y": t["x"]}
)

WGMMA = (
    _registers("no_fence_before_the_first"),
    _registers("no_fence_after_the_accumulator_is_changed", expected=lambda t: {"y": 3 * _one(t)["y"]}),
    _registers("no_fence_after_a_register_of_a_is_loaded"),
    _registers("fence_of_one_warp"),
    _registers("accumulator_read_before_the_wait"),
    _registers("wait_for_the_group_before", args=_PAIR, expected=_twice),
    _registers("product_after_the_commit"),
    _registers("wait_of_some_warps"),
    _registers("accumulator_written_before_the_wait", expected=_thread_plus_one),
    _registers("register_of_a_overwritten_in_flight", args=_ROUND, expected=_both),
    _registers("accumulator_as_a_in_flight"),
    _operand("stage_overwritten_in_flight", args=_ROUND, expected=_both),
    _operand(
        "stage_refilled_by_a_copy_in_flight",
        args=_ROUND,
        expected=lambda t: {"y": ((_blocked(t["x"]) + _blocked(t["x"], 1)) @ _b(t["w"])).reshape(-1)},
    ),
    _operand("copy_awaited_by_one_warp", expected=lambda t: {"y": (_blocked(t["x"]) @ _b(t["w"])).reshape(-1)}),
    _operand("operand_without_proxy_fence"),
    _operand("operand_without_barrier"),
    _operand("operand_never_written"),
    _operand("three_warps_of_four"),
    _operand("some_threads_of_a_warp"),
    _operand("a_warp_that_has_left"),
    _operand("descriptor_of_the_warp"),
    _operand("predicate_of_the_warp"),
    _operand("address_not_shifted", dynamic_smem=18432),
    _operand("stage_off_the_pattern"),
    _operand("operand_past_shared_memory"),
    _registers("another_shape_without_fence", expected=lambda t: {"y": 2 * _one(t)["y"]}),
    _registers("accumulator_without_a_start_value"),
    _registers("product_in_flight_at_the_end"),
    _roles("fewer_than_nothing"),
    _roles("raised_to_less"),
    _roles("raised_beyond_what_there_is"),
    _roles("changed_by_one_warp"),
    _roles("changed_twice_without_barrier"),
)

CASES = (*WGMMA,)
