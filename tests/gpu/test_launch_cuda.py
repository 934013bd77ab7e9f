"""The SDK's launcher on a real GPU: torch tensors, graphs, tensor maps, large shared memory, clusters, scratch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fusetune.errors import InvalidKernel, LaunchFailed, NoDevice, WrongArguments
from fusetune.wire.artifact import (
    Arg,
    KernelArtifact,
    LaunchSpec,
    ScalarArg,
    Scratch,
    ScratchArg,
    TensorArg,
    TensorMapArg,
    TensorSpec,
)
from tests.search.measure.kernels import ELEMS, artifact_of, compiled_once, cuda_artifact

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu


def arch() -> str:
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


def kernel_of(source: str, launch: dict[str, Any], spec: TensorSpec, scratch: tuple[Scratch, ...] = ()) -> Any:
    """A kernel of one input and one output of `spec`, entry `fused`."""
    from fusetune.kernel import Kernel

    compiled = compiled_once(source, arch())
    base = artifact_of(source, compiled.cubin, code_hash=compiled.code_hash)
    launches = (LaunchSpec(entry="fused", **launch),)
    update = {"inputs": (spec,), "outputs": (spec,), "launches": launches, "scratch": scratch}
    return Kernel(base.model_copy(update=update))


def add_kernel() -> Any:
    from fusetune.kernel import Kernel

    return Kernel(cuda_artifact("good", arch()))


def test_a_call_on_tensors_and_into_given_memory() -> None:
    kernel = add_kernel()
    a, b = torch.randn(ELEMS, device="cuda"), torch.randn(ELEMS, device="cuda")
    assert torch.equal(kernel(a, b), a + b)
    out = torch.empty_like(a)
    assert kernel(a, b, out=out) is out
    assert torch.equal(out, a + b)


def test_calls_follow_the_current_stream_and_can_be_captured() -> None:
    kernel = add_kernel()
    a, b = torch.randn(ELEMS, device="cuda"), torch.randn(ELEMS, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # the first call of all: packing and loading may happen while capturing
        captured = kernel(a, b)
    a.copy_(torch.randn(ELEMS, device="cuda"))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(captured, a + b)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda a: ((a.requires_grad_(), a), None), id="grad"),
        pytest.param(lambda a: ((a, a), a), id="output-overlaps-an-input"),
        pytest.param(lambda a: ((a, a.cpu()), None), id="host"),
        pytest.param(lambda a: ((a.half(), a), None), id="dtype"),
        pytest.param(lambda a: ((a,), None), id="too-few"),
    ],
)
def test_wrong_arguments_are_refused_before_the_launch(spoil: Callable[[Any], Any]) -> None:
    kernel = add_kernel()
    inputs, out = spoil(torch.randn(ELEMS, device="cuda"))
    with pytest.raises(WrongArguments):
        kernel(*inputs, out=out)


def test_code_for_another_architecture_is_no_device() -> None:
    from fusetune.kernel import Kernel

    other = "sm_80" if not arch().startswith("sm_8") else "sm_90a"
    a = torch.randn(ELEMS, device="cuda")
    with pytest.raises(NoDevice, match=other):
        Kernel(cuda_artifact("good", other))(a, a)


def test_damaged_code_is_an_invalid_kernel() -> None:
    from fusetune.kernel import Kernel

    a = torch.randn(ELEMS, device="cuda")
    with pytest.raises((InvalidKernel, LaunchFailed)):
        Kernel(artifact_of("", b"\x7fELF not a cubin", code_hash="damaged"))(a, a)


TMA_COPY = """\
struct alignas(64) TensorMap { char bytes[128]; };
extern "C" __global__ void fused(const __grid_constant__ TensorMap in, float* out) {
  __shared__ alignas(128) float tile[8 * 32];
  __shared__ alignas(8) unsigned long long barrier;
  unsigned bar = (unsigned)__cvta_generic_to_shared(&barrier);
  unsigned smem = (unsigned)__cvta_generic_to_shared(tile);
  int x = blockIdx.x * 32, y = blockIdx.y * 8;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar));
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" :: "r"(bar) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" :: "r"(smem), "l"(&in), "r"(x), "r"(y), "r"(bar) : "memory");
  }
  __syncthreads();
  unsigned done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(bar) : "memory");
  int row = threadIdx.x / 32, column = threadIdx.x % 32;
  out[(y + row) * 128 + x + column] = tile[row * 32 + column];
}
"""


def test_tensor_maps_are_encoded_for_each_address() -> None:
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("no TMA before compute capability 9.0")
    spec = TensorSpec(shape=(64, 128), strides=(128, 1), dtype="f32", align=16)
    tensor_map = TensorMapArg(
        position=0,
        dtype="f32",
        dims=(128, 64),
        strides_bytes=(512,),
        box=(32, 8),
        element_strides=(1, 1),
        l2_promotion=256,
    )
    args: tuple[Arg, ...] = (tensor_map, TensorArg(position=1))
    kernel = kernel_of(TMA_COPY, {"grid": (4, 8, 1), "block": (256, 1, 1), "args": args}, spec)
    for _ in range(3):
        x = torch.randn(64, 128, device="cuda")
        assert torch.equal(kernel(x), x)


def test_a_map_that_the_driver_refuses_is_shown() -> None:
    spec = TensorSpec(shape=(64, 128), strides=(128, 1), dtype="f32", align=16)
    bad = TensorMapArg(
        position=0, dtype="f32", dims=(128, 64), strides_bytes=(514,), box=(32, 8), element_strides=(1, 1)
    )
    args: tuple[Arg, ...] = (bad, TensorArg(position=1))
    kernel = kernel_of(TMA_COPY, {"grid": (4, 8, 1), "block": (256, 1, 1), "args": args}, spec)
    with pytest.raises(InvalidKernel, match="514"):
        kernel(torch.randn(64, 128, device="cuda"))


REVERSE = """\
extern "C" __global__ void fused(const float* in, float* out, int n, float scale) {
  extern __shared__ float cells[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) cells[i] = in[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = scale * cells[n - 1 - i];
}
"""


@pytest.mark.parametrize(("elems", "fits"), [(12288, True), (25600, True), (100000, False)])
def test_dynamic_shared_memory_past_48_kib(elems: int, fits: bool) -> None:
    spec = TensorSpec(shape=(elems,), strides=(1,), dtype="f32", align=16)
    args: tuple[Arg, ...] = (
        TensorArg(position=0),
        TensorArg(position=1),
        ScalarArg(dtype="i32", value=elems),
        ScalarArg(dtype="f32", value=2.0),
    )
    launch = {"grid": (1, 1, 1), "block": (1024, 1, 1), "args": args, "dynamic_smem_bytes": 4 * elems}
    kernel = kernel_of(REVERSE, launch, spec)
    x = torch.randn(elems, device="cuda")
    if fits:
        assert torch.equal(kernel(x), 2 * x.flip(0))
    else:
        with pytest.raises(NoDevice, match="shared memory"):
            kernel(x)


CLUSTER = """\
extern "C" __global__ void fused(const float* in, float* out) {
  unsigned rank, size;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i] + rank + 100 * size;
}
"""


@pytest.mark.parametrize("size", [2, 8, 16])
def test_clusters(size: int) -> None:
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("no clusters before compute capability 9.0")
    spec = TensorSpec(shape=(4096,), strides=(1,), dtype="f32", align=16)
    args: tuple[Arg, ...] = (TensorArg(position=0), TensorArg(position=1))
    launch = {"grid": (32, 1, 1), "block": (128, 1, 1), "cluster": (size, 1, 1), "args": args}
    x = torch.zeros(4096, device="cuda")
    rank = torch.arange(4096, device="cuda") // 128 % size
    assert torch.equal(kernel_of(CLUSTER, launch, spec)(x), rank + 100.0 * size)


COUNT = """\
extern "C" __global__ void fused(const float* in, float* out, int* counter) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) atomicAdd(counter, 1);
  out[i] = in[i] + (counter[1] == 0 ? 0.0f : 1.0f);
}
"""


def test_scratch_is_zeroed_before_every_call() -> None:
    spec = TensorSpec(shape=(4096,), strides=(1,), dtype="f32", align=16)
    args: tuple[Arg, ...] = (TensorArg(position=0), TensorArg(position=1), ScratchArg(index=0))
    launch = {"grid": (32, 1, 1), "block": (128, 1, 1), "args": args}
    kernel = kernel_of(COUNT, launch, spec, (Scratch(bytes=8, align=256, init="zero"),))
    x = torch.randn(4096, device="cuda")
    for _ in range(3):
        garbage = torch.full((4096,), 255, dtype=torch.uint8, device="cuda")
        del garbage  # the allocator hands this block out again
        assert torch.equal(kernel(x), x)


TWO = """\
extern "C" __global__ void first(const float* in, float* between) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  between[i] = 2.0f * in[i];
}
extern "C" __global__ void second(const float* between, float* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  out[i] = between[n - 1 - i] + 1.0f;
}
"""


def test_several_launches_hand_values_on_in_scratch_and_can_be_captured() -> None:
    """Each element of the output comes from another block of the first launch."""
    from fusetune.kernel import Kernel

    n = 1 << 20
    spec = TensorSpec(shape=(n,), strides=(1,), dtype="f32", align=16)
    shape: dict[str, Any] = {"grid": (n // 256, 1, 1), "block": (256, 1, 1)}
    launches = (
        LaunchSpec(entry="first", args=(TensorArg(position=0), ScratchArg(index=0)), **shape),
        LaunchSpec(entry="second", args=(ScratchArg(index=0), TensorArg(position=1)), **shape),
    )
    compiled = compiled_once(TWO, arch())
    base = artifact_of(TWO, compiled.cubin, code_hash=compiled.code_hash)
    update = {"inputs": (spec,), "outputs": (spec,), "launches": launches}
    kernel = Kernel(base.model_copy(update={**update, "scratch": (Scratch(bytes=4 * n, align=256),)}))
    x = torch.randn(n, device="cuda")
    assert torch.equal(kernel(x), 2 * x.flip(0) + 1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = kernel(x)
    for _ in range(3):
        x.copy_(torch.randn(n, device="cuda"))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(captured, 2 * x.flip(0) + 1)


def test_a_launch_that_the_driver_refuses_names_its_shape() -> None:
    artifact: KernelArtifact = cuda_artifact("good", arch())
    from fusetune.kernel import Kernel

    launch = artifact.launches[0].model_copy(update={"block": (2048, 1, 1)})
    kernel = Kernel(artifact.model_copy(update={"launches": (launch,), "code_hash": "too wide"}))
    a = torch.randn(ELEMS, device="cuda")
    with pytest.raises(LaunchFailed, match=r"block \(2048, 1, 1\)"):
        kernel(a, a)
    assert torch.equal(add_kernel()(a, a), 2 * a)
