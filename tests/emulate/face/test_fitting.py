"""A launch held against its kernel: names, parameters, and the sizes that a kernel is compiled for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compiler.emulate.launch import Launch
from compiler.emulate.ptx.module import Module
from compiler.emulate.ptx.parser import parse
from compiler.emulate.spec import InvalidSpec, fit, kernel_called, read_spec
from compiler.emulate.spec.fitting import source_name

HEAD = ".version 9.0\n.target {target}\n.address_size 64\n"
KERNEL = """
.visible .entry {name}(
    .param .u64 {name}_param_0,
    .param .u32 {name}_param_1,
    .param .align 64 .b8 {name}_param_2[128]
){directives}
{{
    .shared .align 4 .b8 tile[1024];
    ret;
}}
"""
ARGS: list[dict[str, Any]] = [
    {"tensor": "x"},
    {"scalar": 1, "dtype": "u32"},
    {"tensor_map": {"tensor": "x", "dims": [4], "box": [4]}},
]
PLAIN = "k"
NESTED = "_ZN1a1kEPfi"
TEMPLATE = "_Z4flipILi32EEvPf"
STATIC = "_ZL4oncePf"
ANONYMOUS = "_ZN36_GLOBAL__N__00000000_4_k_cu_237312244deepEPf"


def module(*names: str, target: str = "sm_90a", directives: str = "") -> Module:
    return parse(
        HEAD.format(target=target) + "".join(KERNEL.format(name=name, directives=directives) for name in names)
    )


def launch(**changes: Any) -> Launch:
    document = {"grid": [4, 1, 1], "block": [128, 1, 1], "args": ARGS, "tensors": {"x": {"shape": [4], "dtype": "f32"}}}
    return read_spec(document | changes, Path()).launches[0]


def refusal(of: Module, **changes: Any) -> str:
    with pytest.raises(InvalidSpec) as error:
        fit(launch(**changes), of)
    return str(error.value)


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        pytest.param(PLAIN, "k", id="c"),
        pytest.param("_Z1kPf", "k", id="c++"),
        pytest.param("_Z1k3MapN1a4PairES_", "k", id="structs"),
        pytest.param("_ZL4once3MapS_", "once", id="static and structs"),
        pytest.param(NESTED, "a::k", id="namespace"),
        pytest.param("_ZN1a2bc1kEPfi", "a::bc::k", id="namespaces"),
        pytest.param(TEMPLATE, "flip", id="template"),
        pytest.param(STATIC, "once", id="static"),
        pytest.param(ANONYMOUS, "deep", id="anonymous"),
        pytest.param("_Znwm", "_Znwm", id="operator"),
    ],
)
def test_a_symbol_has_its_name_in_the_source(symbol: str, name: str) -> None:
    assert source_name(symbol) == name


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        pytest.param("k", "k", id="symbol-before-name"),
        pytest.param("a::k", NESTED, id="namespace"),
        pytest.param(NESTED, NESTED, id="symbol"),
        pytest.param("flip", TEMPLATE, id="template"),
        pytest.param("deep", ANONYMOUS, id="anonymous"),
    ],
)
def test_a_kernel_is_found_by_symbol_or_name(asked: str, found: str) -> None:
    assert kernel_called(module(PLAIN, NESTED, TEMPLATE, ANONYMOUS), asked).name == found


def test_the_only_kernel_needs_no_name() -> None:
    assert fit(launch(), module(TEMPLATE)).entry == TEMPLATE


@pytest.mark.parametrize(
    ("names", "asked", "says"),
    [
        pytest.param(
            (PLAIN, NESTED), "q", "$.entry: found 'q', expected a kernel of the PTX: k, _ZN1a1kEPfi", id="none"
        ),
        pytest.param((PLAIN, NESTED), "", "found no name, expected one of the 2 kernels that fit", id="which"),
        pytest.param(
            (NESTED, "_ZN1b1kEPfi"), "k", "expected one of the 2 kernels that fit: _ZN1a1kEPfi, _ZN1b1kEPfi", id="two"
        ),
        pytest.param((), "k", "expected a kernel of the PTX: none", id="empty"),
    ],
)
def test_a_kernel_that_is_not_there(names: tuple[str, ...], asked: str, says: str) -> None:
    assert says in refusal(module(*names), entry=asked)


@pytest.mark.parametrize(
    ("given", "target", "found"),
    [
        pytest.param("", "sm_90a", "sm_90a", id="of-the-ptx"),
        pytest.param("sm_90a", "sm_90a", "sm_90a", id="same"),
        pytest.param("sm_90a", "sm_90", "sm_90", id="without-suffix"),
        pytest.param("sm_100a", "sm_90", "sm_100a", id="later"),
        pytest.param("sm_103a", "sm_100f", "sm_103a", id="family"),
    ],
)
def test_the_target(given: str, target: str, found: str) -> None:
    changes = {"arch": given} if given else {}
    assert fit(launch(**changes), module("k", target=target)).arch == found


@pytest.mark.parametrize(
    ("given", "target"), [("sm_80", "sm_90"), ("sm_100a", "sm_90a"), ("sm_90", "sm_100a"), ("sm_120a", "sm_100f")]
)
def test_a_target_that_cannot_run_it(given: str, target: str) -> None:
    says = f"$.arch: found {given}, expected {target}, the target of the PTX"
    assert says in refusal(module("k", target=target), arch=given)


@pytest.mark.parametrize(
    ("position", "argument", "says"),
    [
        pytest.param(
            0, {"scalar": 1, "dtype": "u32"}, "$.args[0]: found a value of 4 bytes, expected 8 bytes", id="pointer"
        ),
        pytest.param(1, {"tensor": "x"}, "$.args[1]: found the address of x, 8 bytes, expected 4 bytes", id="scalar"),
        pytest.param(1, {"scalar": 1, "dtype": "i64"}, "$.args[1]: found a value of 8 bytes", id="wide"),
        pytest.param(1, {"scalar": 1, "dtype": "u8"}, "$.args[1]: found a value of 1 byte,", id="narrow"),
        pytest.param(2, {"tensor": "x"}, "$.args[2]: found the address of x, 8 bytes, expected 128 bytes", id="map"),
        pytest.param(0, ARGS[2], "$.args[0]: found a tensor map of x, 128 bytes, expected 8 bytes", id="no-map"),
    ],
)
def test_an_argument_has_the_size_of_its_parameter(position: int, argument: dict[str, Any], says: str) -> None:
    args = [argument if i == position else given for i, given in enumerate(ARGS)]
    said = refusal(module("k"), args=args)
    assert says in said
    assert f"(parameter {position} of k)" in said


def test_a_struct_is_as_long_as_its_parameter() -> None:
    assert fit(launch(args=[*ARGS[:2], {"bytes": "00" * 128}]), module("k")).entry == "k"
    assert "found a value of 127 bytes" in refusal(module("k"), args=[*ARGS[:2], {"bytes": "00" * 127}])


def test_there_are_as_many_arguments_as_parameters() -> None:
    said = refusal(module("k"), args=ARGS[:2])
    assert "$.args: found 2 arguments, expected 3, the parameters of k (8 bytes, 4 bytes, 128 bytes)" in said


@pytest.mark.parametrize(
    ("directives", "changes", "says"),
    [
        pytest.param(".maxntid 128, 1, 1", {}, "", id="most"),
        pytest.param(".maxntid 64, 1, 1", {}, "$.block: found 128 threads, expected at most 64", id="too-many"),
        pytest.param(".reqntid 128, 1, 1", {}, "", id="required"),
        pytest.param(".reqntid 64, 2, 1", {}, "$.block: found [128, 1, 1], expected [64, 2, 1]", id="other-shape"),
        pytest.param("", {"dynamic_smem": 227 * 1024 - 1024}, "", id="all-shared-memory"),
        pytest.param(
            "",
            {"dynamic_smem": 227 * 1024 - 1023},
            "$.dynamic_smem: found 231425 bytes beside 1024 static ones, expected at most 232448 in all on sm_90a",
            id="too-much-shared-memory",
        ),
        pytest.param(".reqnctapercluster 2, 1, 1", {"cluster": [2, 1, 1]}, "", id="cluster"),
        pytest.param(
            ".reqnctapercluster 2, 1, 1",
            {"cluster": [4, 1, 1]},
            "$.cluster: found [4, 1, 1], expected [2, 1, 1]",
            id="other-cluster",
        ),
        pytest.param(
            ".reqnctapercluster 2, 1, 1",
            {"grid": [3, 1, 1]},
            "$.grid: found [3, 1, 1], expected a multiple of the kernel's cluster [2, 1, 1]",
            id="grid-of-the-cluster",
        ),
    ],
)
def test_what_a_kernel_is_compiled_for(directives: str, changes: dict[str, Any], says: str) -> None:
    kernel = module("k", directives=f"\n{directives}")
    if says:
        assert says in refusal(kernel, **changes)
    else:
        fit(launch(**changes), kernel)


def test_the_cluster_is_the_kernels_own() -> None:
    assert fit(launch(), module("k", directives="\n.reqnctapercluster 2, 1, 1")).cluster == (2, 1, 1)
    assert fit(launch(cluster=[4, 1, 1]), module("k")).cluster == (4, 1, 1)


def test_every_problem_is_told() -> None:
    said = refusal(module("k", directives="\n.maxntid 64, 1, 1"), args=ARGS[:1], dynamic_smem=2**30)
    assert [line.split(":")[0] for line in said.splitlines()] == ["$.args", "$.block", "$.dynamic_smem"]
