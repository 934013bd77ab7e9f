from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fusetune.bindings import binding_of, read_binding
from fusetune.errors import InvalidBinding, InvalidFusion
from fusetune.fusion import Fusion, FusionBuilder
from fusetune.torch import DTYPES
from fusetune.wire import binding_hash
from fusetune.wire.binding import Binding, InputBinding

BF16 = torch.bfloat16


def adding(*shapes: tuple[int | str, ...], dtype: Any = "bf16", strides: tuple[int | str, ...] | None = None) -> Fusion:
    """The sum of inputs x0, x1, …"""
    f = FusionBuilder()
    tensors = [f.input(f"x{i}", shape, dtype, strides=strides) for i, shape in enumerate(shapes)]
    total = tensors[0]
    for tensor in tensors[1:]:
        total = total + tensor
    f.output(f.copy(total), name="out")
    return f.build()


def test_sizes_and_layouts_are_read_off_tensors() -> None:
    x, y = torch.zeros(6, 8, dtype=BF16), torch.zeros(8, 6, dtype=BF16).t()
    assert binding_of(adding(("M", "N"), ("M", "N")), [x, y]) == Binding(
        sizes={"M": 6, "N": 8}, inputs=(InputBinding(), InputBinding(strides=(1, 6)))
    )


BASE = torch.zeros(64, 64, dtype=BF16)


@pytest.mark.parametrize(
    ("tensor", "strides"),
    [
        pytest.param(BASE[:4, :8].contiguous(), None, id="dense"),
        pytest.param(BASE[:4, :8], (64, 1), id="rows-of-a-larger-one"),
        pytest.param(BASE[:8, :4].t(), (1, 64), id="transposed"),
        pytest.param(BASE[:1, :8].expand(4, 8), (0, 1), id="expanded"),
        pytest.param(BASE.as_strided((1, 8), (5, 1)), None, id="a-size-of-1-has-any-stride"),
        pytest.param(torch.zeros(0, 8, dtype=BF16), None, id="empty"),
        pytest.param(torch.zeros(4, 8, dtype=BF16, device="meta"), None, id="meta"),
    ],
)
def test_strides_are_told_only_where_they_say_something(tensor: torch.Tensor, strides: tuple[int, ...] | None) -> None:
    assert binding_of(adding(("M", "N")), [tensor]).inputs[0].strides == strides


@pytest.mark.parametrize(
    ("offset", "align"), [(0, 16), (64, 16), (8, 16), (4, 8), (2, 4), (1, 2), (3, 2), (12, 8), (16, 16)]
)
def test_alignment_is_the_largest_divisor_up_to_16(offset: int, align: int) -> None:
    tensor = torch.zeros(256, dtype=BF16)[offset : offset + 64]
    assert tensor.data_ptr() % 16 == 2 * offset % 16
    assert binding_of(adding(("M",)), [tensor]).inputs[0].align == align


def test_an_aligned_dense_tensor_shares_the_key_of_its_sizes() -> None:
    fusion = adding(("M", 8))
    read = binding_of(fusion, [torch.zeros(5, 8, dtype=BF16)])
    assert binding_hash(fusion, read) == binding_hash(fusion, Binding(sizes={"M": 5}))


class Address:
    """A tensor by its facts alone: no torch in it."""

    shape, dtype = (4, 8), "torch.bfloat16"

    def __init__(self, address: int) -> None:
        self.address = address

    def stride(self) -> tuple[int, ...]:
        return (8, 1)

    def data_ptr(self) -> int:
        return self.address


@given(st.integers(0, 2**40).map(lambda n: 2 * n))
def test_the_alignment_divides_the_address_and_no_larger_one_does(address: int) -> None:
    align = binding_of(adding(("M", 8)), [Address(address)]).inputs[0].align
    assert address % align == 0
    assert align == 16 or address % (2 * align)


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_every_dtype_is_known(name: str) -> None:
    fusion = adding(("M",), dtype=name)
    for other, dtype in DTYPES.items():
        tensor = torch.zeros(3, dtype=dtype)
        if other == name:
            assert binding_of(fusion, [tensor]).sizes == {"M": 3}
        else:
            with pytest.raises(InvalidBinding, match=f"found dtype {dtype}, expected {name}"):
                binding_of(fusion, [tensor])


def zeros(*shape: int, dtype: Any = BF16) -> torch.Tensor:
    return torch.zeros(*shape, dtype=dtype)


@pytest.mark.parametrize(
    ("inputs", "where", "text"),
    [
        pytest.param([zeros(4, 8)], "inputs", "found 1 tensors, expected 2 tensors: x0, x1", id="too-few"),
        pytest.param(zeros(2, 4, 8), "inputs", "found a tensor", id="no-list"),
        pytest.param([zeros(4, 8), zeros(8)], "input 'x1'", "rank 1: (8,), expected rank 2: (M, 8)", id="rank"),
        pytest.param([zeros(4, 8), zeros(4, 9)], "input 'x1', dimension 1", "size 9, expected 8", id="size"),
        pytest.param(
            [zeros(4, 8), zeros(5, 8)], "input 'x1', dimension 0",
            "size 5, expected M = 4, as input 'x0', dimension 0 has", id="one-symbol-two-sizes",
        ),
        pytest.param(
            [zeros(4, 8), zeros(4, 8, dtype=torch.float32)], "input 'x1'", "dtype torch.float32", id="dtype"
        ),
        pytest.param(
            [zeros(4, 8), zeros(4, 8, dtype=torch.uint16)], "input 'x1'", "dtype torch.uint16", id="unknown-dtype"
        ),
        pytest.param([zeros(4, 8), np.zeros((4, 8))], "input 'x1'", "a ndarray", id="numpy"),
        pytest.param([zeros(4, 8), None], "input 'x1'", "a NoneType", id="none"),
        pytest.param(
            [zeros(4, 8), FusionBuilder().input("x", (4, 8), "bf16")], "input 'x1'",
            "a Tensor of a FusionBuilder, which has no data, expected a torch tensor. Pass the torch tensors",
            id="the-builders-tensor",
        ),
        pytest.param(
            [zeros(4, 8), zeros(64).as_strided((4, 8), (1, 1))], "input 'x1'.strides", "share an address", id="overlap"
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_names_the_input(inputs: Any, where: str, text: str) -> None:
    with pytest.raises(InvalidBinding) as caught:
        binding_of(adding(("M", 8), ("M", 8)), inputs)
    (problem,) = caught.value.problems
    assert problem.where == where
    assert text in str(problem)
    assert problem.fix


def test_every_fault_is_told() -> None:
    with pytest.raises(InvalidBinding) as caught:
        binding_of(adding(("M", 8), ("M", 8)), [zeros(4), zeros(4, 9, dtype=torch.float32)])
    assert len(caught.value.problems) == 3


def test_strides_that_the_fusion_states_are_held_against_the_tensor() -> None:
    fusion = adding(("M", 8), strides=("S", 1))
    assert binding_of(fusion, [BASE[:4, :8]]).sizes == {"M": 4, "S": 64}
    assert binding_of(fusion, [BASE.as_strided((1, 8), (5, 1))]).sizes == {"M": 1, "S": 5}
    with pytest.raises(InvalidBinding, match=r"input 'x0'\.strides"):
        binding_of(fusion, [BASE[:16, :4].t()[:, ::2].t()[:, :].as_strided((4, 8), (64, 2))])


def test_a_fusion_that_means_nothing_is_told_as_such() -> None:
    broken = adding(("M",)).model_copy(update={"outputs": ()})
    with pytest.raises(InvalidFusion):
        binding_of(broken, [zeros(4)])


@pytest.mark.parametrize(
    ("binding", "sizes"),
    [
        ({"M": 4}, {"M": 4}),
        ({"M": np.int64(4)}, {"M": 4}),
        ({"sizes": {"M": 4}}, {"M": 4}),
        ({"sizes": {"M": 4}, "inputs": [{"align": 8}]}, {"M": 4}),
        ('{"sizes": {"M": 4}}', {"M": 4}),
        (Binding(sizes={"M": 4}), {"M": 4}),
    ],
)
def test_bindings_in_every_form(binding: Any, sizes: dict[str, int]) -> None:
    assert read_binding(adding(("M", 8)), binding)[0].sizes == sizes


@pytest.mark.parametrize("symbol", ["sizes", "inputs"])
def test_a_symbol_may_be_called_like_a_field(symbol: str) -> None:
    assert read_binding(adding((symbol, 8)), {symbol: 4})[0].sizes == {symbol: 4}


@pytest.mark.parametrize(
    ("binding", "where"),
    [
        ({}, "binding.sizes.M"),
        ({"M": -1}, "binding.sizes.M"),
        ({"M": True}, "binding.sizes.M"),
        ({"M": "4"}, "binding.sizes.M"),
        ({"M": 4, "N": 4}, "binding.sizes.N"),
        ({"sizes": {"M": 4}, "inputs": [{}, {}]}, "binding.inputs"),
        ({"sizes": {"M": 4}, "inputs": [{"align": 1}]}, "input 'x0'.align"),
        ("{", "binding"),
    ],
)
def test_a_binding_that_does_not_fit_names_its_place(binding: Any, where: str) -> None:
    with pytest.raises(InvalidBinding) as caught:
        read_binding(adding(("M", 8)), binding)
    assert caught.value.problems[0].where == where
