"""The device functions of math.cuh and functions.cuh against f64, within the errors that the rows of operators state.

Without a GPU, they are compiled by the host's C++ compiler over stand-ins for the approximate instructions, each
wrong by as much as the PTX ISA allows, in either direction. With one (`make test-gpu`), the functions themselves run.
"""

import ctypes
import itertools
import shutil
import subprocess
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from compiler.dtypes import DType
from compiler.emit.functions import call, function
from compiler.emit.pieces import pieces
from compiler.ir.ops import BINARY, UNARY, ErrorBound, MathGrade, OpKind, Zero
from compiler.nvrtc import CompilePool
from compiler.reference import operators
from search.proof.verify.functions import widen

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

SMALLEST_NORMAL = 2.0**-126

MARGIN = 1.6
"""What a row allows is at least as many times what the worst instructions make of its form."""

ROUNDED = ErrorBound(relative=2.0**-24, absolute=2.0**-150)
"""Of a form whose result is the exact one, rounded to f32."""

KINDS = sorted(kind for kind in UNARY | BINARY if DType.F32 in kind.row.takes)


def error_of(op: OpKind, grade: MathGrade) -> ErrorBound:
    """What a form may err before its result is rounded; a share that `MARGIN` leaves of it."""
    form = {MathGrade.EXACT: op.row.exact, MathGrade.APPROX: op.row.approx, MathGrade.COARSE: op.row.coarse}[grade]
    return ROUNDED if form is None else scaled(form.error, 1 / MARGIN)


def scaled(error: ErrorBound, by: float) -> ErrorBound:
    return ErrorBound(*(getattr(error, name) * by for name in ErrorBound.__slots__))


def forms(op: OpKind) -> list[MathGrade]:
    """The grades that an operator has forms of."""
    return [grade for grade in MathGrade if op.row.nearest(grade) is grade]


FORMS = [(op, grade) for op in KINDS for grade in forms(op)]
CASES = [pytest.param(op, grade, id=function(op, grade)) for op, grade in FORMS]

EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-40, -1e-40, 3e38, -3e38, 1.0, -1.0], np.float32)


def inputs(op: OpKind) -> list[F32]:
    """Every exponent with random mantissas and both signs, the usual range densely, the edges; pairs for binary ops."""
    rng = np.random.default_rng(7)
    exponents = np.repeat(np.arange(255, dtype=np.uint32), 40)
    bits = exponents << 23 | rng.integers(0, 2**23, exponents.size, dtype=np.uint32)
    wide = np.concatenate([bits, bits | np.uint32(1 << 31)]).view(np.float32)
    usual = rng.uniform(-20, 20, 20000).astype(np.float32)
    values = np.concatenate([wide, usual, np.linspace(-100, 100, 4001, dtype=np.float32), EDGES])
    if op in UNARY:
        return [values]
    pairs = np.array(list(itertools.product(EDGES, EDGES)), np.float32)
    return [np.concatenate([values, pairs[:, 0]]), np.concatenate([rng.permutation(values), pairs[:, 1]])]


def exact_of(op: OpKind, args: list[Any]) -> Any:
    with np.errstate(all="ignore"):
        return operators.exact(op, args, np)


def assert_within(op: OpKind, error: ErrorBound, args: list[F32], found: F32) -> None:
    """`found` has the reference's NaNs and infinities, and elsewhere at most the error of the form."""
    exact = exact_of(op, [arg.astype(np.float64) for arg in args])
    with np.errstate(all="ignore"):
        as_f32 = exact.astype(np.float32)
        bound = _bound(error, args, exact)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(as_f32))
    # A result that rounds to the largest float may be infinite in either, not in between.
    certain = np.isinf(as_f32) & ~(np.abs(exact) < 3.5e38)
    np.testing.assert_array_equal(found[certain], as_f32[certain])
    near = np.isfinite(as_f32) & (np.abs(as_f32) < 3.39e38)
    wrong = np.abs(found[near].astype(np.float64) - exact[near])
    worst = int(np.argmax(wrong - bound[near]))
    shown = [float(arg[near][worst]) for arg in args]
    assert wrong[worst] <= bound[near][worst], f"{op}{shown}: {found[near][worst]}, expected {exact[near][worst]}"


def _bound(error: ErrorBound, args: list[F32], exact: F64) -> F64:
    """Beside what the form may err, a result under the smallest normal number may become 0; the product in silu's and
    gelu's coarse forms has as much of the operand."""
    operand = np.nan_to_num(np.abs(args[0].astype(np.float64)))
    found: F64 = widen(error, exact, operand, np) + SMALLEST_NORMAL * np.clip(operand, 1, 128)
    return found


@pytest.mark.parametrize("op", KINDS)
def test_the_reference_is_torch(op: OpKind) -> None:
    torch = pytest.importorskip("torch")
    call = partial(attrgetter(op.row.torch or op.value)(torch), **dict(op.row.torch_options))
    args = [torch.tensor(arg[-300:], dtype=torch.float64) for arg in inputs(op)]
    np.testing.assert_allclose(exact_of(op, [arg.numpy() for arg in args]), call(*args).numpy(), rtol=1e-6, atol=1e-15)


HOST_PRELUDE = """
#include <cmath>
#include <limits>
#define FT_INLINE static inline
#define FT_APART static inline
static double wrong;  // -1, 0 or 1: the direction in which every instruction errs as far as it may
// Documented errors are those of the f32 result, so its rounding is part of them.
static float off(double y, double error) { return static_cast<float>(y * (1 + wrong * (error - std::exp2(-24.0)))); }
static float flushed(float y) { return std::fabs(y) < std::numeric_limits<float>::min() ? std::copysign(0.0f, y) : y; }
static float ft_ex2(float x) { return flushed(off(std::exp2(double(flushed(x))), std::exp2(-22.0))); }
static float ft_lg2(float x) {
  double y = std::log2(double(x));
  return x > 0.5f && x < 2 ? float(y + wrong * std::exp2(-22.0)) : off(y, std::exp2(-22.0));
}
static float ft_rcp(float x) { return off(1 / double(x), std::exp2(-23.0)); }
static float __fdividef(float a, float b) { return off(double(a) / double(b), std::exp2(-22.0)); }
static float ft_rcp_of_1_or_more(float x) { return flushed(ft_rcp(x)); }
static float ft_sqrt_instruction(float x) { return off(std::sqrt(double(x)), std::exp2(-23.0)); }
static float ft_rsqrt_instruction(float x) { return off(1 / std::sqrt(double(x)), std::exp2(-22.9)); }
static float ft_tanh_instruction(float x) {
  float y = off(std::tanh(double(x)), std::exp2(-11.0));
  return y > 1 ? 1 : y < -1 ? -1 : y;
}
static float ft_max_nan(float a, float b) { return a != a || b != b ? NAN : a > b ? a : b; }
static float ft_min_nan(float a, float b) { return a != a || b != b ? NAN : a < b ? a : b; }
extern "C" void err_towards(double direction) { wrong = direction; }
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The device functions as a host library: `each_F(a, b, out, n)` for every function F."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler here")
    text = [HOST_PRELUDE, pieces(["functions", "quotients"]).removeprefix(pieces(["approx"]))]
    for op, grade in FORMS:
        text.append(
            f'extern "C" void each_{function(op, grade)}(const float* a, const float* b, float* out, int n) '
            f"{{ for (int i = 0; i < n; ++i) out[i] = {called(op, grade)}; }}"
        )
    folder: Path = tmp_path_factory.mktemp("host_math")
    (folder / "math.cpp").write_text("\n".join(text))
    subprocess.run(
        [compiler, "-std=c++17", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "math.cpp", "-o", "math.so"],
        cwd=folder,
        check=True,
    )
    return ctypes.CDLL(str(folder / "math.so"))


def called(op: OpKind, grade: MathGrade) -> str:
    return call(op, grade, DType.F32, ["a[i]", "b[i]"][: op.row.arity])


def run_on_host(host: ctypes.CDLL, name: str, args: list[F32], direction: int) -> F32:
    host.err_towards(ctypes.c_double(direction))
    out = np.empty_like(args[0])
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (args[0], args[-1], out)]
    getattr(host, f"each_{name}")(*pointers, ctypes.c_int(out.size))
    return out


@pytest.mark.parametrize(("op", "grade"), CASES)
def test_forms_stay_within_their_error_for_the_worst_instructions(
    host: ctypes.CDLL, op: OpKind, grade: MathGrade
) -> None:
    args = inputs(op)
    for direction in (-1, 0, 1):
        assert_within(op, error_of(op, grade), args, run_on_host(host, function(op, grade), args, direction))


@pytest.mark.parametrize(
    ("op", "grade"),
    [
        pytest.param(op, grade, id=function(op, grade))
        for op, grade in FORMS
        if grade is not MathGrade.COARSE and op.row.zero is not Zero.OPEN
    ],
)
def test_zeros_have_the_signs_of_the_reference(host: ctypes.CDLL, op: OpKind, grade: MathGrade) -> None:
    args = inputs(op)
    exact = exact_of(op, [arg.astype(np.float64) for arg in args])
    found = run_on_host(host, function(op, grade), args, 0)
    zeros = (exact == 0) & (found == 0)
    np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(exact[zeros]))


@pytest.mark.parametrize(("op", "grade"), [case for case in CASES if case.values[1] is not MathGrade.EXACT])
def test_stated_errors_are_not_vacuous(host: ctypes.CDLL, op: OpKind, grade: MathGrade) -> None:
    args = inputs(op)
    eighth = scaled(error_of(op, grade), 1 / 8)
    refused = 0
    for direction in (-1, 1):
        try:
            assert_within(op, eighth, args, run_on_host(host, function(op, grade), args, direction))
        except AssertionError:
            refused += 1
    assert refused > 0


@pytest.mark.parametrize(
    ("name", "special_instructions"),
    [
        ("ft_gelu_approx", ["ex2.approx.ftz.f32", "rcp.approx.ftz.f32"]),
        ("ft_gelu_coarse", ["tanh.approx.f32"]),
        ("ft_silu_approx", ["ex2.approx.ftz.f32", "rcp.approx.ftz.f32"]),
        ("ft_silu_coarse", ["tanh.approx.f32"]),
        ("ft_sigmoid_approx", ["ex2.approx.ftz.f32", "rcp.approx.ftz.f32"]),
        ("ft_sigmoid_coarse", ["tanh.approx.f32"]),
        ("ft_tanh_coarse", ["tanh.approx.f32"]),
        ("ft_exp_approx", ["ex2.approx.ftz.f32"]),
        ("ft_log_approx", ["lg2.approx.f32"]),
        ("ft_exp2_approx", ["ex2.approx.ftz.f32"]),
        ("ft_log2_approx", ["lg2.approx.f32"]),
        ("ft_round", ["cvt.rni.f32.f32"]),
        ("ft_floor", ["cvt.rmi.f32.f32"]),
        ("ft_ceil", ["cvt.rpi.f32.f32"]),
        ("ft_trunc", ["cvt.rzi.f32.f32"]),
        ("ft_rsqrt_approx", ["rsqrt.approx.f32"]),
        ("ft_sqrt_approx", ["sqrt.approx.f32"]),
        ("ft_reciprocal_approx", ["rcp.approx.f32"]),
        ("ft_reciprocal", ["rcp.rn.f32"]),
        ("ft_sqrt", ["sqrt.rn.f32"]),
        ("ft_relu", ["max.NaN.f32"]),
    ],
)
def test_forms_use_the_instructions_they_are_named_for(
    pool: CompilePool, name: str, special_instructions: list[str]
) -> None:
    source = pieces(["functions", "quotients"]) + f'extern "C" __global__ void fusion(float* x) {{ *x = {name}(*x); }}'
    ptx = pool.submit(source, "sm_80").result().ptx
    plain = ("ld.", "st.", "mul.", "fma.", "add.", "neg.", "cvta.", "mov.")
    opcodes = [
        line.split()[0]
        for line in ptx.splitlines()
        if line.startswith("\t") and line.strip() and "." in line.split()[0]
    ]
    found = [opcode for opcode in opcodes if not opcode.startswith((*plain, "."))]
    assert found == special_instructions


@pytest.mark.gpu
@pytest.mark.parametrize(("op", "grade"), CASES)
def test_forms_stay_within_their_error_on_the_gpu(pool: CompilePool, op: OpKind, grade: MathGrade) -> None:
    torch = pytest.importorskip("torch")
    from cuda.bindings import driver

    args = inputs(op)
    source = pieces(["functions", "quotients"]) + (
        'extern "C" __global__ void fusion(const float* a, const float* b, float* out, int n) {\n'
        f"  int i = blockIdx.x * 256 + threadIdx.x;\n  if (i < n) out[i] = {called(op, grade)};\n}}\n"
    )
    major, minor = torch.cuda.get_device_capability()
    compiled = pool.submit(source, f"sm_{major}{minor}" + ("a" if major >= 9 else "")).result()
    device_args = [torch.from_numpy(arg).cuda() for arg in (args[0], args[-1])]
    out = torch.empty_like(device_args[0])
    status, module = driver.cuModuleLoadData(compiled.cubin)
    assert status == driver.CUresult.CUDA_SUCCESS
    status, kernel = driver.cuModuleGetFunction(module, b"fusion")
    assert status == driver.CUresult.CUDA_SUCCESS
    values = (*(t.data_ptr() for t in device_args), out.data_ptr(), out.numel())
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    blocks = -(-out.numel() // 256)
    stream = torch.cuda.current_stream().cuda_stream
    (status,) = driver.cuLaunchKernel(kernel, blocks, 1, 1, 256, 1, 1, 0, stream, (values, types), 0)
    assert status == driver.CUresult.CUDA_SUCCESS
    torch.cuda.synchronize()
    assert_within(op, error_of(op, grade), args, out.cpu().numpy())
