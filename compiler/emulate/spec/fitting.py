"""A launch held against the kernel that it is for: the kernel's name, its parameters, its compile-time sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from math import prod

from compiler.arch import Arch, arch_named
from compiler.emulate.launch import Argument, EmulatedTensorMap, Launch, TableArgument, TensorArgument, ValueArgument
from compiler.emulate.ptx.module import Function, Module, StateSpace, Variable
from compiler.emulate.spec.fields import InvalidSpec, invalid
from compiler.errors import Problem, UnknownArch

_MAP_BYTES = 128
"""Of a CUtensorMap (CUDA driver API)."""

_POINTER_BYTES = 8


def fit(launch: Launch, module: Module, where: str = "$") -> Launch:
    """The launch with the names and sizes that the kernel settles: `entry` as the PTX has it, `arch`, `cluster`.

    `where` is the place of the launch in its document. Raises InvalidSpec where the launch is not for this kernel, for
    the same reasons for which the driver refuses it (CUDA driver API, cuLaunchKernelEx).
    """
    kernel = kernel_called(module, launch.entry, f"{where}.entry")
    arch = _arch(launch.arch, module.target, f"{where}.arch")
    problems = [
        *_argument_problems(kernel, launch, where),
        *_block_problems(kernel, launch, where),
        *_shared_problems(kernel, launch, arch, where),
    ]
    cluster, more = _cluster(kernel, launch, where)
    problems += more
    if problems:
        raise InvalidSpec(tuple(problems))
    return replace(launch, entry=kernel.name, arch=arch, cluster=cluster)


def kernel_called(module: Module, name: str, where: str = "$.entry") -> Function:
    """The kernel of that name: as the PTX has it, or as the source has it where only one kernel is called so.

    `a::k` names a kernel in a namespace. Without a name, the only kernel. Raises InvalidSpec.
    """
    kernels = [f for f in module.functions.values() if f.is_entry and f.is_defined]
    fits = [f for f in kernels if f.name == name] or [f for f in kernels if not name or _is_called(f.name, name)]
    if len(fits) == 1:
        return fits[0]
    found = f"{name!r}" if name else "no name"
    names = ", ".join(f.name for f in kernels) or "none"
    if len(fits) > 1:
        raise invalid(where, found, f"one of the {len(fits)} kernels that fit: {names}", "Use one of these names.")
    raise invalid(where, found, f"a kernel of the PTX: {names}", "Use one of these names.")


_LENGTH = re.compile(r"\d+")


def source_name(symbol: str) -> str:
    """`a::k` of `_ZN1a1kEPf`: the qualified name in a mangled symbol, without template and function parameters.

    A symbol that is not mangled is its own name (Itanium C++ ABI, "Mangling").
    """
    if not symbol.startswith("_Z"):
        return symbol
    is_nested = symbol.startswith("_ZN")
    rest = symbol[2:].removeprefix("N").removeprefix("L")
    parts: list[str] = []
    while match := _LENGTH.match(rest):
        end = match.end() + int(match[0])
        parts.append(rest[match.end() : end])
        if not is_nested:
            break  # what follows are the parameters, whose types may be names too
        rest = rest[end:].removeprefix("L")
    return "::".join(p for p in parts if not p.startswith("_GLOBAL__N_")) or symbol


def _is_called(symbol: str, name: str) -> bool:
    own = source_name(symbol)
    return own == name or own.rpartition("::")[2] == name


def _arch(given: str, target: str, where: str) -> str:
    """The target to run as: the PTX's own, or a later one that takes it.

    PTX of a target with the suffix a runs on that target alone, with f on its family (PTX ISA, ".target").
    """
    if not given or given == target:
        return target
    number, wanted = (int(re.sub(r"\D", "", t)) for t in (target, given))
    same_family = target.endswith("f") and number // 10 == wanted // 10
    if wanted < number or (wanted != number and target[-1] in "af" and not same_family):
        raise invalid(where, given, f"{target}, the target of the PTX", "Leave 'arch' out, or compile for that target.")
    return given if wanted != number else target


def limits_of(target: str) -> Arch | None:
    """The limits of a target; sm_90 has those of sm_90a. None for one that is not known."""
    number = re.sub(r"\D", "", target)
    for suffix in ("", "a"):
        try:
            return arch_named(f"sm_{number}{suffix}")
        except UnknownArch:
            continue
    return None


def _argument_problems(kernel: Function, launch: Launch, where: str) -> list[Problem]:
    place, params = f"{where}.args", kernel.params
    if len(params) != len(launch.args):
        expected = f"{len(params)}, the parameters of {kernel.name}{_listed(params)}"
        return [Problem(place, f"{len(launch.args)} arguments", expected, "Give one for each, in order.")]
    pairs = enumerate(zip(params, launch.args, strict=True))
    return [
        Problem(f"{place}[{i}]", _what(argument), f"{_expected(param)} (parameter {i} of {kernel.name})", _FIX)
        for i, (param, argument) in pairs
        if _nbytes(argument) != param.nbytes
    ]


_FIX = (
    "Pass a tensor for a pointer, a tensor_map for a CUtensorMap, a scalar of the parameter's type, bytes for a struct."
)


def _listed(params: tuple[Variable, ...]) -> str:
    return f" ({', '.join(f'{p.nbytes} bytes' for p in params)})" if params else ""


def _nbytes(argument: Argument) -> int:
    match argument:
        case TensorArgument():
            return _POINTER_BYTES
        case EmulatedTensorMap():
            return _MAP_BYTES
        case ValueArgument(data) | TableArgument(data):
            return len(data)


def _what(argument: Argument) -> str:
    match argument:
        case TensorArgument(tensor):
            return f"the address of {tensor}, {_POINTER_BYTES} bytes"
        case EmulatedTensorMap(tensor):
            return f"a tensor map of {tensor}, {_MAP_BYTES} bytes"
        case ValueArgument(data) | TableArgument(data):
            return f"a value of {len(data)} byte{'s' if len(data) > 1 else ''}"


def _expected(param: Variable) -> str:
    return f"{param.nbytes} byte{'s' if param.nbytes > 1 else ''}"


def _block_problems(kernel: Function, launch: Launch, where: str) -> list[Problem]:
    found, place = launch.block, f"{where}.block"
    if (required := _three(kernel.directives, "reqntid")) and required != found:
        fix = "Launch what the kernel is compiled for (.reqntid, __block_size__)."
        return [Problem(place, str(list(found)), str(list(required)), fix)]
    most = prod(kernel.directives.get("maxntid", ()) or (1024,))
    if prod(found) > most:
        fix = "Launch at most what the kernel is compiled for (.maxntid, __launch_bounds__)."
        return [Problem(place, f"{prod(found)} threads", f"at most {most}", fix)]
    return []


def _shared_problems(kernel: Function, launch: Launch, arch: str, where: str) -> list[Problem]:
    limits = limits_of(arch)
    if limits is None:
        return []
    static = sum(v.nbytes for v in kernel.variables if v.space is StateSpace.SHARED)
    most = limits.smem_per_block_optin_bytes
    if static + launch.dynamic_smem <= most:
        return []
    found = f"{launch.dynamic_smem} bytes beside {static} static ones"
    return [Problem(f"{where}.dynamic_smem", found, f"at most {most} in all on {arch}", "Use less shared memory.")]


def _cluster(kernel: Function, launch: Launch, where: str) -> tuple[tuple[int, int, int], list[Problem]]:
    """The cluster: a kernel with compile-time cluster sizes (`__cluster_dims__`) settles it."""
    required = _three(kernel.directives, "reqnctapercluster")
    given, place = launch.cluster, f"{where}.cluster"
    if required is None or required == given:
        return given, []
    if given != (1, 1, 1):
        fix = "Launch what the kernel is compiled for (__cluster_dims__), or leave 'cluster' out."
        return given, [Problem(place, str(list(given)), str(list(required)), fix)]
    if any(g % c for g, c in zip(launch.grid, required, strict=True)):
        expected = f"a multiple of the kernel's cluster {list(required)}"
        return required, [Problem(f"{where}.grid", str(list(launch.grid)), expected, "Correct the grid.")]
    return required, []


def _three(directives: Mapping[str, tuple[int, ...]], name: str) -> tuple[int, int, int] | None:
    if name not in directives:
        return None
    x, y, z = (*directives[name], 1, 1)[:3]
    return x, y, z
