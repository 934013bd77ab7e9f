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


def _tensor(t: Mapping[str, Array]) -> Array:
    d = t["x"].reshape(128, 16).astype(np.float64) @ t["w"].reshape(16, 16).astype(np.float64).T
    return d.astype(np.float32).view(np.uint32).reshape(-1)


def _tensor_both(t: Mapping[str, Array], *, blocked: bool = False) -> Mapping[str, Array]:
    total = np.zeros((128, 16))
    for number in range(2):
        part = t["w"][256 * number : 256 * number + 256]
        b = part.reshape(2, 2, 8, 8).transpose(0, 2, 1, 3) if blocked else part
        total += t["x"].reshape(128, 16).astype(np.float64) @ b.reshape(16, 16).astype(np.float64).T
    return {"y": total.astype(np.float32).view(np.uint32).reshape(-1)}


_TENSOR_X, _TENSOR_Y = given("x", 2048, "f16"), output("y", 2048, "u32")
_tensor_case = partial(
    Case,
    block=128,
    args=(_TENSOR_X, given("w", 256, "f16"), _TENSOR_Y),
    expected=lambda t: {"y": _tensor(t)},
)
_tensor_product, _tensor_order = (partial(_tensor_case, f) for f in ("tensor_products", "tensor_product_order"))
_TWO = (_TENSOR_X, given("w", 512, "f16"), _TENSOR_Y)

TENSOR = (
    _tensor_product("issued_by_a_warp"),
    _tensor_product("issued_by_two_warps"),
    _tensor_product("columns_of_an_odd_number"),
    _tensor_product("types_of_another_kind"),
    _tensor_product("descriptor_of_a_warpgroup"),
    _tensor_product("accumulator_past_the_allocation"),
    _tensor_product("accumulator_at_another_lane"),
    _tensor_product("accumulator_without_a_start_value"),
    _tensor_product("groups_of_blocks_mixed"),
    _tensor_order("loaded_before_the_commit_arrived"),
    _tensor_order("loaded_without_a_fence"),
    _tensor_order("never_committed"),
    _tensor_order("stage_overwritten_in_flight", args=_TWO, expected=_tensor_both),
    _tensor_order("stage_refilled_before_the_commit_arrived", args=_TWO, expected=partial(_tensor_both, blocked=True)),
    _tensor_order("operand_without_proxy_fence"),
    _tensor_order("operand_without_barrier"),
    _tensor_order("accumulator_overwritten_while_it_is_loaded"),
    _tensor_order("accumulator_overwritten_without_a_fence"),
    _tensor_order("another_shape_on_one_accumulator"),
    _tensor_order("accumulator_as_a_without_a_wait"),
    _tensor_order("a_stored_and_not_waited_for"),
    _tensor_order("a_stored_and_not_fenced"),
    _tensor_product("a_at_other_lanes_than_the_accumulator"),
)

CASES = (*WGMMA, *TENSOR)
