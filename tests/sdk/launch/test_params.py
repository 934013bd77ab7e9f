from __future__ import annotations

import ctypes
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusetune.errors import InvalidKernel
from fusetune.launch.params import PackedParams, pack_params
from fusetune.wire.artifact import Arg, ScalarArg, ScratchArg, TensorArg, TensorMapArg

MAP = TensorMapArg(
    position=1, dtype="f32", dims=(64, 8), strides_bytes=(256,), box=(32, 8), element_strides=(1, 1), swizzle=128
)


def stamp(arg: TensorMapArg, pointer: int, target: int) -> None:
    """An encoder that writes 128 bytes which tell what it was asked for."""
    data = struct.pack("<QQ", arg.position, pointer).ljust(128, b"\xab")
    ctypes.memmove(target, data, 128)


def addresses(packed: PackedParams, count: int) -> tuple[int, ...]:
    """The array as the driver reads it: `count` pointers at `packed.address`."""
    return tuple((ctypes.c_uint64 * count).from_address(packed.address))


def test_each_argument_lies_where_the_array_says() -> None:
    args: tuple[Arg, ...] = (
        TensorArg(position=2),
        MAP,
        ScalarArg(dtype="i32", value=-5),
        ScratchArg(index=0),
        ScalarArg(dtype="f32", value=0.5),
        ScalarArg(dtype="i64", value=1 << 40),
        MAP,
    )
    packed = pack_params(args, (0x1000, 0x2000, 0x3000), (0x9000,), stamp)
    at = addresses(packed, len(args))
    assert at == packed.value_addresses
    assert ctypes.c_uint64.from_address(at[0]).value == 0x3000
    assert ctypes.string_at(at[1], 128) == struct.pack("<QQ", 1, 0x2000).ljust(128, b"\xab")
    assert ctypes.c_int32.from_address(at[2]).value == -5
    assert ctypes.c_uint64.from_address(at[3]).value == 0x9000
    assert ctypes.c_float.from_address(at[4]).value == 0.5
    assert ctypes.c_int64.from_address(at[5]).value == 1 << 40
    assert ctypes.string_at(at[6], 128) == ctypes.string_at(at[1], 128)


def test_a_tensor_map_may_be_of_scratch() -> None:
    """Its position goes on counting after the tensors."""
    packed = pack_params((MAP.model_copy(update={"position": 3}),), (16, 32), (64, 0x9000), stamp)
    assert ctypes.string_at(packed.value_addresses[0], 16) == struct.pack("<QQ", 3, 0x9000)


@settings(derandomize=True, max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([TensorArg(position=0), MAP, ScalarArg(dtype="i32", value=7)]), max_size=12))
def test_values_are_aligned_and_do_not_overlap(args: list[Arg]) -> None:
    packed = pack_params(tuple(args), (16, 32), (), stamp)
    end = 0
    for arg, address in zip(args, packed.value_addresses, strict=True):
        size, align = (128, 64) if isinstance(arg, TensorMapArg) else (8, 8)
        assert address % align == 0
        assert address >= end
        end = address + size


@pytest.mark.parametrize(
    ("arg", "reason"),
    [
        pytest.param(TensorArg(position=2), "tensor 2, the call has 2", id="tensor"),
        pytest.param(TensorArg(position=-1), "tensor -1", id="negative"),
        pytest.param(
            MAP.model_copy(update={"position": 3}), "tensor or scratch buffer 3, the call has 3", id="tensor-map"
        ),
        pytest.param(ScratchArg(index=1), "scratch buffer 1, the call has 1", id="scratch"),
        pytest.param(ScalarArg(dtype="i32", value=1 << 31), "not a i32", id="i32-overflow"),
        pytest.param(ScalarArg(dtype="i64", value=1 << 63), "not a i64", id="i64-overflow"),
        pytest.param(ScalarArg(dtype="i32", value=0.5), "not a i32", id="i32-fraction"),
        pytest.param(ScalarArg(dtype="f32", value=1e39), "not a f32", id="f32-overflow"),
    ],
)
def test_what_does_not_fit_is_an_invalid_kernel(arg: Arg, reason: str) -> None:
    with pytest.raises(InvalidKernel, match=reason):
        pack_params((arg,), (16, 32), (64,), stamp)


@pytest.mark.parametrize("value", [(1 << 31) - 1, -(1 << 31)])
def test_the_ends_of_i32_fit(value: int) -> None:
    packed = pack_params((ScalarArg(dtype="i32", value=value),), (), (), stamp)
    assert ctypes.c_int32.from_address(packed.value_addresses[0]).value == value
