"""A small fusion, out = a + b, and kernels for it: tagged ones for the fake device, CUDA C++ for a real one."""

from __future__ import annotations

import base64
import functools
from hashlib import sha256

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Op, Value, dense_strides
from compiler.ir.ops import OpKind
from compiler.nvrtc import Compiled, compile_now
from fusetune.wire.artifact import Conditions, Guard, KernelArtifact, LaunchSpec, Resources, TensorArg, TensorSpec

ELEMS = 1 << 20
BLOCK = 256


def value(name: str, shape: tuple[int, ...], dtype: DType = DType.F32, strides: tuple[int, ...] | None = None) -> Value:
    return Value(name, shape, dtype, dense_strides(shape) if strides is None else strides)


def fusion_of(inputs: tuple[Value, ...], results: tuple[Value, ...], ops: tuple[Op, ...], *outputs: str) -> Fusion:
    names = tuple(v.name for v in inputs)
    return Fusion((*inputs, *results), names, ops, outputs, fingerprint="f", binding_hash="b")


def add_fusion(elems: int = ELEMS, dtype: DType = DType.F32) -> Fusion:
    inputs = (value("i0", (elems,), dtype), value("i1", (elems,), dtype))
    op = Op(OpKind.ADD, ("i0", "i1"), "v0")
    return fusion_of(inputs, (value("v0", (elems,), dtype),), (op,), "v0")


def artifact_of(
    source: str, cubin: bytes = b"", guards: tuple[Guard, ...] = (), code_hash: str = "", arch: str = "sm_90a"
) -> KernelArtifact:
    """An artifact for `add_fusion`, launched with one thread an element as `fused(a, b, out)`."""
    spec = TensorSpec(shape=(ELEMS,), strides=(1,), dtype="f32", align=4)
    launch = LaunchSpec(
        entry="fused",
        grid=(ELEMS // BLOCK, 1, 1),
        block=(BLOCK, 1, 1),
        args=tuple(TensorArg(position=p) for p in range(3)),
    )
    return KernelArtifact(
        fingerprint="f",
        binding="b",
        arch=arch,
        inputs=(spec, spec),
        outputs=(spec,),
        launches=(launch,),
        guards=guards,
        cubin=base64.b64encode(cubin),  # the model decodes what it is given
        cubin_sha256=sha256(cubin).hexdigest(),
        source=source,
        ptx="",
        trace={},
        resources=Resources(registers=8, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0, static_smem_bytes=0),
        code_hash=code_hash or source,
        conditions=Conditions(generator="test", nvrtc="13.0"),
    )


BODIES = {
    "good": "out[i] = a[i] + b[i];",
    "wrong": "out[i] = a[i] - b[i];",
    "crash": "*reinterpret_cast<volatile float*>(16) = a[i];",
    "hang": "while (clock64() != 1) { }",
    "poison": "__trap();",
    "outside": "out[i] = a[i] + b[i]; if (i == 0) out[-1] = 1.0f;",
    "unwritten": "if (i != 77) out[i] = a[i] + b[i];",
    "unstable": "out[i] = (a[i] + b[i]) * (1.0f + 1e-6f * (clock64() & 7));",
    "overwrites": "out[i] = a[i] + b[i]; if (i == 5) const_cast<float*>(a)[i] = 1.0f;",
    "slow": "float s = 0; for (int k = 0; k < 4000; ++k) s = s * 0.5f + a[i]; out[i] = s == 1e30f ? s : a[i] + b[i];",
}


@functools.cache
def compiled_once(source: str, arch: str) -> Compiled:
    """A kernel is compiled once a process, however many tests use it."""
    return compile_now(source, arch)


def cuda_artifact(role: str, arch: str = "sm_90a") -> KernelArtifact:
    """Compiles the kernel of that role here and now."""
    source = f"""\
extern "C" __global__ void fused(const float* a, const float* b, float* out) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  {BODIES[role]}
}}
"""
    compiled = compiled_once(source, arch)
    return artifact_of(source, compiled.cubin, code_hash=compiled.code_hash, arch=arch)


FAKE_TAGS = {"good": "us=12.5", "slow": "us=99"}


def fake_artifact(role: str) -> KernelArtifact:
    return artifact_of(f"// fake: {FAKE_TAGS.get(role, role)}\n")


REFUSING = Guard(expr="ptr[0] < 0", message="no address will do")


def refused(artifact: KernelArtifact) -> KernelArtifact:
    """The same with a guard that no call can meet."""
    return artifact.model_copy(update={"guards": (REFUSING,)})
