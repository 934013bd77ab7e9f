"""The kernel artifact: everything needed to launch a tuned kernel and to know how far to trust it."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Annotated, Any, Literal, Self

from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, model_validator

Correct = Literal["verified_on_gpu", "verified_emulated", "unverified"]
Time = Literal["measured", "predicted", "none"]

TIMING_POLICY = "graph_rotating_v1"
"""How kernels are timed (`search.measure.cuda_timing`); part of the cache key, so a change of method is a new name."""

VERIFIER = 4
"""Which verifier proves kernels today. It rises only when an older one could pass a wrong kernel, and ends its proofs.

1 called a comparison between a value and the value's own maximum undecided, and left the rounding of 16-bit values
open: a kernel in which no element equals its own maximum passed, and one that never rounds. 2 had no input set in which
one element alone decides what comparisons are folded to: a kernel of `any` or `all` that leaves one out passed. 3 let
one element decide a maximum or minimum of few results in eight places, and of integers in four: a kernel that drops a
lane's share, or a warp's, often passed; and no infinity stood alone, which shows what a softmax's maximum leaves out.
"""


def is_proven_today(verifier: int) -> bool:
    """Whether what the verifier of this number has proven counts: one newer than ours sees what ours sees."""
    return verifier >= VERIFIER


class Wire(BaseModel):
    """Base of every wire type: frozen, strict, no unknown fields."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", populate_by_name=True)


class Evidence(Wire):
    """How a result is known. Predicted is never shown as measured."""

    correct: Correct = "unverified"
    time: Time = "none"


class TensorSpec(Wire):
    """What the kernel was built for: sizes, strides in elements, dtype, bytes that divide the address.

    `alias`, of an output: the position of the input whose memory it is written into.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    align: int
    alias: int | None = Field(default=None, exclude_if=lambda position: position is None)


class ScalarSpec(Wire):
    """A number that a call passes by value; an i64 from `low` to `high`, both included: what the types that it stands
    beside can hold."""

    dtype: Literal["f64", "i64"]
    low: int | None = None
    high: int | None = None


class TensorArg(Wire):
    """The address of a tensor. `position` counts inputs in order, then outputs."""

    kind: Literal["tensor"] = "tensor"
    position: int


class TensorMapArg(Wire):
    """A 128-byte tensor map, rebuilt for each address. `position` counts inputs, outputs, then scratch buffers.

    Everything innermost first (CUDA driver API, cuTensorMapEncodeTiled).

    `strides_bytes` has rank-1 entries (dimension 0 is dense). `dtype`: of the tensor, or "tf32" for f32 that is rounded
    to it on its way. `swizzle`: bytes of the span, 0 for none.
    `l2_promotion`: bytes, 0 for none.
    """

    kind: Literal["tensor_map"] = "tensor_map"
    position: int
    dtype: str
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: Literal[0, 32, 64, 128] = 0
    l2_promotion: Literal[0, 64, 128, 256] = 0


class ScratchArg(Wire):
    """The address of scratch buffer `index` of the artifact."""

    kind: Literal["scratch"] = "scratch"
    index: int


class ScalarArg(Wire):
    """A number passed by value, the same at every call; `dtype` is i32, i64, f32 or f64."""

    kind: Literal["scalar"] = "scalar"
    dtype: Literal["i32", "i64", "f32", "f64"]
    value: int | float


class ScalarInputArg(Wire):
    """A number that the call tells, scalar `position` of the artifact, converted to `dtype`."""

    kind: Literal["scalar_input"] = "scalar_input"
    position: int
    dtype: Literal["f64", "f32", "i64"]


class ListArg(Wire):
    """The table of the lists of a launch, by value (`fusetune.wire.lists`): a slot for each of `positions`, room for
    `rows` tensors of each list; blocks work on chunks of `tile` elements, of which `step` are an aligned word.

    `single`: the positions of inputs that are lists of single elements, one beside each tensor.
    """

    kind: Literal["list"] = "list"
    positions: tuple[int, ...]
    rows: int
    tile: int
    step: int
    single: tuple[int, ...] = Field(default=(), exclude_if=lambda positions: not positions)

    @property
    def sized(self) -> int:
        """The position of a list of tensors, which have the elements that are counted."""
        return next(position for position in self.positions if position not in self.single)


Arg = Annotated[
    TensorArg | ListArg | TensorMapArg | ScratchArg | ScalarArg | ScalarInputArg, Field(discriminator="kind")
]


class LaunchSpec(Wire):
    """One kernel launch. `dynamic_smem_bytes` needs the opt-in attribute above 48 KiB."""

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_smem_bytes: int = 0
    args: tuple[Arg, ...]


class Scratch(Wire):
    """Temporary device memory of a kernel, for one call; with `zero` it is cleared before the first launch."""

    bytes: int
    align: int
    init: Literal["none", "zero"] = "none"


class Guard(Wire):
    """A condition on the call, evaluated before launch.

    Grammar: integers, names, + - * // % min max, comparisons, and, or.
    Names: `ptr[p]` address, `size[p][d]`, `stride[p][d]` of tensor position p.
    """

    expr: str
    message: str


class Resources(Wire):
    """What the compiled kernel uses, by the compiler's log; shared memory is static, without the system's 1 KiB.

    Of several launches, the most that any of them uses.
    """

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    static_smem_bytes: int
    barriers: int = 0


class Conditions(Wire):
    """Kept beside an entry, not part of its key: a change marks it stale."""

    generator: str
    nvrtc: str
    driver: str | None = None


class Emulated(Wire):
    """What ran of a kernel that was proven in the emulator, and what did not.

    `shapes` and `strides`, inputs then outputs: the small binding, on which all blocks of a kernel of the same class
    ran in each of `orders` (when asynchronous copies complete). `grid`, `code_hash` and `ptx_sha256` are that kernel's.
    All of these are empty, but for `orders`, where a kernel of the class is as large at any sizes. The served code,
    `served_ptx_sha256`, ran on `served_blocks` of its `served_blocks_of` blocks, counted through all launches, over
    memory made as it was touched.
    """

    shapes: tuple[tuple[int, ...], ...]
    strides: tuple[tuple[int, ...], ...]
    grid: tuple[int, int, int]
    code_hash: str
    ptx_sha256: str
    orders: tuple[str, ...]
    served_ptx_sha256: str
    served_blocks: tuple[int, ...]
    served_blocks_of: int
    served_values_compared: bool
    not_run: str


class Verification(Wire):
    """What was run to prove the kernel right, and on what: a GPU by name, or `emulator` with what ran there.

    `decided`: of each output, the share whose right value an input set decides, in the best of them; the rest hangs on
    the order of a sum or on the last bits of a function. `verifier` is its number (`VERIFIER`); records of the first
    had neither.
    """

    device: str
    input_sets: tuple[str, ...]
    max_error: float
    tolerance: float
    deterministic: bool
    emulated: Emulated | None = None
    decided: tuple[float, ...] = ()
    verifier: int = 1

    @property
    def is_current(self) -> bool:
        """Whether the proof counts today; if not, the kernel may be wrong."""
        return is_proven_today(self.verifier)


class Timing(Wire):
    """A measurement with its conditions; all samples are kept. Times in microseconds."""

    policy: str
    card: str
    median_us: float
    p10_us: float
    p90_us: float
    samples_us: tuple[float, ...]
    conditions: dict[str, Any] = {}


class KernelArtifact(Wire):
    """`fusetune.kernel/1`: launches in order, code, contract, and the evidence for it.

    Launches follow one another on one stream; each reads inputs, and outputs and scratch that earlier ones wrote.

    `cubin_sha256` is held against the cubin whenever an artifact is made or read: a damaged one is never launched.
    `predicted_us`: what a model of the card expects of a kernel that was not timed; never a measurement.
    """

    format: Literal["fusetune.kernel/1"] = "fusetune.kernel/1"
    fingerprint: str
    binding: str
    arch: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    scalars: tuple[ScalarSpec, ...] = ()
    launches: tuple[LaunchSpec, ...]
    scratch: tuple[Scratch, ...] = ()
    guards: tuple[Guard, ...] = ()
    cubin: Base64Bytes
    cubin_sha256: str
    source: str
    ptx: str
    trace: dict[str, Any]
    resources: Resources
    code_hash: str
    approximations: tuple[str, ...] = ()
    deterministic: bool = True
    conditions: Conditions
    evidence: Evidence = Evidence()
    verification: Verification | None = None
    timing: Timing | None = None
    predicted_us: float | None = None

    @property
    def lists(self) -> ListArg | None:
        """The table of a kernel over lists; None for any other."""
        args = (arg for launch in self.launches for arg in launch.args)
        return next((arg for arg in args if isinstance(arg, ListArg)), None)

    @property
    def launch_hash(self) -> str:
        """The hash of how the code is launched: grid, memory, arguments, tensor maps, scratch."""
        launch = self.model_dump(mode="json", include={"launches", "scratch"})
        return sha256(json.dumps(launch, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @property
    def is_outdated(self) -> bool:
        """Whether an older verifier proved it: it may be wrong."""
        return self.verification is not None and not self.verification.is_current

    def unproven(self) -> KernelArtifact:
        """The same kernel without its proof, to be verified anew."""
        evidence = Evidence(correct="unverified", time=self.evidence.time)
        return self.model_copy(update={"evidence": evidence, "verification": None})

    @model_validator(mode="after")
    def _aliases_are_inputs(self) -> Self:
        for n, spec in enumerate(self.outputs):
            if spec.alias is not None and not 0 <= spec.alias < len(self.inputs):
                raise ValueError(f"outputs[{n}].alias: found {spec.alias}, expected the position of an input.")
        return self

    @model_validator(mode="after")
    def _cubin_is_whole(self) -> Self:
        found = sha256(self.cubin).hexdigest()
        if found != self.cubin_sha256:
            raise ValueError(f"cubin: its sha256 is {found}, expected {self.cubin_sha256}. Take the artifact anew.")
        return self
