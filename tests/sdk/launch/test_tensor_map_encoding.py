from __future__ import annotations

import ctypes
from typing import Any

import pytest

from fusetune.errors import InvalidKernel, LaunchFailed
from fusetune.launch.tensor_map import encode_tensor_map
from fusetune.wire.artifact import TensorMapArg


class Driver:
    """Stands in for cuTensorMapEncodeTiled: reads the arrays it is given, answers `status`."""

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.seen: dict[str, Any] = {}

    def __call__(
        self,
        target: int,
        dtype: int,
        rank: int,
        address: int,
        dims: int,
        strides: int,
        box: int,
        element_strides: int,
        interleave: int,
        swizzle: int,
        l2: int,
        fill: int,
    ) -> int:
        self.seen = {
            "target": target,
            "dtype": dtype,
            "address": address,
            "dims": tuple((ctypes.c_uint64 * rank).from_address(dims)),
            "strides": tuple((ctypes.c_uint64 * (rank - 1)).from_address(strides)),
            "box": tuple((ctypes.c_uint32 * rank).from_address(box)),
            "element_strides": tuple((ctypes.c_uint32 * rank).from_address(element_strides)),
            "modes": (interleave, swizzle, l2, fill),
        }
        return self.status


def arg(**changes: Any) -> TensorMapArg:
    fields: dict[str, Any] = {
        "position": 0,
        "dtype": "bf16",
        "dims": (4096, 8192),
        "strides_bytes": (8192,),
        "box": (64, 128),
        "element_strides": (1, 1),
    }
    return TensorMapArg(**{**fields, **changes})


def test_the_driver_gets_the_map() -> None:
    driver = Driver()
    encode_tensor_map(driver, arg(swizzle=128, l2_promotion=256), 0x7000, 0x40)
    assert driver.seen == {
        "target": 0x40,
        "dtype": 9,
        "address": 0x7000,
        "dims": (4096, 8192),
        "strides": (8192,),
        "box": (64, 128),
        "element_strides": (1, 1),
        "modes": (0, 3, 3, 0),
    }


@pytest.mark.parametrize(("span", "mode"), [(0, 0), (32, 1), (64, 2), (128, 3)])
def test_swizzle_modes(span: int, mode: int) -> None:
    driver = Driver()
    encode_tensor_map(driver, arg(swizzle=span), 0, 0)
    assert driver.seen["modes"][1] == mode


@pytest.mark.parametrize(("granularity", "mode"), [(0, 0), (64, 1), (128, 2), (256, 3)])
def test_l2_promotions(granularity: int, mode: int) -> None:
    driver = Driver()
    encode_tensor_map(driver, arg(l2_promotion=granularity), 0, 0)
    assert driver.seen["modes"][2] == mode


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        *(("f16", 6), ("f32", 7), ("f64", 8), ("bf16", 9), ("i32", 3), ("i8", 0), ("u8", 0), ("i16", 1)),
        *(("f8e4m3", 0), ("f8e5m2", 0), ("i64", 5), ("bool", 0)),
    ],
)
def test_data_types(dtype: str, number: int) -> None:
    driver = Driver()
    encode_tensor_map(driver, arg(dtype=dtype), 0, 0)
    assert driver.seen["dtype"] == number


def test_rank_one_has_no_strides_but_an_array() -> None:
    driver = Driver()
    encode_tensor_map(driver, arg(dims=(4096,), strides_bytes=(), box=(256,), element_strides=(1,)), 0, 0)
    assert driver.seen["dims"] == (4096,)
    assert driver.seen["strides"] == ()


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"dtype": "f8"}, id="dtype"),
        pytest.param({"strides_bytes": (2, 8192)}, id="a-stride-too-many"),
        pytest.param({"box": (64,)}, id="a-box-dim-too-few"),
        pytest.param({"element_strides": (1, 1, 1)}, id="an-element-stride-too-many"),
    ],
)
def test_a_map_that_makes_no_sense_never_reaches_the_driver(changes: dict[str, Any]) -> None:
    driver = Driver()
    with pytest.raises(InvalidKernel):
        encode_tensor_map(driver, arg(**changes), 0, 0)
    assert driver.seen == {}


def test_a_refused_map_is_shown_whole() -> None:
    with pytest.raises(InvalidKernel, match=r"CUDA_ERROR_INVALID_VALUE.*16 bytes") as caught:
        encode_tensor_map(Driver(status=1), arg(), 0x7008, 0)
    for part in ("dims=(4096, 8192)", "box=(64, 128)", "0x7008", "bf16"):
        assert part in str(caught.value)


def test_another_answer_of_the_driver_is_a_failed_call() -> None:
    with pytest.raises(LaunchFailed) as caught:
        encode_tensor_map(Driver(status=201), arg(), 0, 0)
    assert caught.value.code == 201
