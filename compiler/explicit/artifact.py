"""An explicit schedule as what measuring and launching take: a fusion with its meaning, and a kernel artifact."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256

from compiler.errors import Unsupported
from compiler.explicit.generate import GeneratedExplicit
from compiler.generator import GENERATOR
from compiler.ir.fusion import Fusion, Number, Op, Operand, Value, dense_strides
from compiler.ir.ops import CONTRACTIONS, MOVES, OpKind
from compiler.nvrtc import Compiled
from compiler.schedule.trace import ScheduleTrace
from compiler.wire import KernelArtifact
from compiler.wire.artifacts import Launched, kernel_artifact

MAX_ALIGN = 128
"""What a binding asks for at most (docs/contracts.md, "Binding")."""

FORMAT = "fusetune.explicit/1"
"""Of the `trace` of such an artifact: the document stands in it, since no trace of steps alone says so much."""


def explicit_artifact(generated: GeneratedExplicit, compiled: Compiled) -> KernelArtifact:
    """The artifact of a compiled case, without evidence: nothing has run yet. Its `trace` holds the document."""
    fusion = meaning(generated)
    positions = tuple(range(len(fusion.inputs) + len(fusion.outputs)))
    made = kernel_artifact(
        ScheduleTrace(fusion, ()),
        (Launched(generated.kernel, positions),),
        (),
        compiled,
        generated.source,
        generated.alignments,
        (),
        GENERATOR,
    )
    return made.model_copy(update={"trace": {"format": FORMAT, "case": dict(generated.document)}})


def meaning(generated: GeneratedExplicit) -> Fusion:
    """The fusion that the case computes, as verifiers and eager execution take one: no copies between memories, and
    operands of one shape."""
    given = generated.fusion
    known: dict[str, str] = {name: name for name in given.inputs}
    shapes = {name: given.value(name).shape for name in given.inputs}
    ops: list[Op] = []
    values = [_known_align(given.value(name)) for name in given.inputs]

    def add(kind: OpKind, inputs: tuple[Operand, ...], value: Value, dims: tuple[int, ...] = ()) -> None:
        ops.append(Op(kind, inputs, value.name, dims))
        values.append(value)
        shapes[value.name] = value.shape

    for op in given.ops:
        if op.kind in CONTRACTIONS:
            raise Unsupported(f"timing {op.kind} ({op.output}) of an explicit schedule", "Run it in the emulator.")
        value = _known_align(given.value(op.output))
        if op.kind is OpKind.COPY and op.output not in given.outputs:
            known[op.output] = known[op.tensor_inputs[0]]
            continue
        inputs: list[Operand] = []
        for i, x in enumerate(op.inputs):
            source = x if isinstance(x, Number) else known[x]
            if isinstance(source, str) and op.kind not in MOVES | {OpKind.SUM} and shapes[source] != value.shape:
                name, dims = f"{op.output}_b{i}", tuple(range(len(value.shape)))
                add(OpKind.BROADCAST_TO, (source,), replace(value, name=name, strides=dense_strides(value.shape)), dims)
                source = name
            inputs.append(source)
        kind, dims = op.kind, op.dims
        if kind is OpKind.COPY:
            kind, dims = OpKind.PERMUTE, tuple(range(len(value.shape)))
        elif kind is OpKind.SUM:
            dims = tuple(sorted(d % len(shapes[str(inputs[0])]) for d in dims))
        add(kind, tuple(inputs), value, dims)
        known[op.output] = op.output
    fingerprint = sha256(json.dumps(dict(generated.document), sort_keys=True).encode()).hexdigest()
    return Fusion(tuple(values), given.inputs, tuple(ops), given.outputs, fingerprint, fingerprint)


def _known_align(value: Value) -> Value:
    """The value with an alignment that a binding has a word for."""
    return replace(value, align=min(value.align, MAX_ALIGN))
