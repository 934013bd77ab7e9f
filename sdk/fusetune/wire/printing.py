"""The short printed form of a fusion: one line a value.

fusion(x: bf16 (M, 4096)) -> out
  t0 = cast(x, dtype=f32)
  out = gelu(t0)
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from fusetune.wire.fusion import Fusion, Op
from fusetune.wire.op_check import shape_text


def fusion_text(fusion: Fusion) -> str:
    """`fusion` for people: errors, logs, the prompt."""
    inputs = ", ".join(f"{x.name}: {x.dtype} {shape_text(x.shape)}{_layout(x.strides)}" for x in fusion.inputs)
    inputs = ", ".join([inputs, *(f"{x.name}: {x.dtype} by value" for x in fusion.numbers)]).removeprefix(", ")
    outputs = ", ".join(output.name for output in fusion.outputs)
    return "\n".join([f"fusion({inputs}) -> {outputs}", *(f"  {_op_text(op)}" for op in fusion.ops)])


def html_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of texts for a notebook; nothing in it is taken for markup."""
    top = "".join(f"<th>{escape(text)}</th>" for text in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in rows)
    return f"<table>{f'<thead><tr>{top}</tr></thead>' if top else ''}<tbody>{body}</tbody></table>"


def fusion_html(fusion: Fusion) -> str:
    """`fusion` as a notebook shows it: its values in a table, then its operators, one a line."""
    outputs = {output.name for output in fusion.outputs}
    rows = [(x.name, x.dtype, f"{shape_text(x.shape)}{_layout(x.strides)}") for x in fusion.inputs]
    rows += [(x.name, x.dtype, "by value") for x in fusion.numbers]
    lines = [f"{_op_text(op)}{'  -> output' if op.out in outputs else ''}" for op in fusion.ops]
    return f"{html_table(('input', 'dtype', 'shape'), rows)}<pre>{escape(chr(10).join(lines))}</pre>"


def _op_text(op: Op) -> str:
    attributes = {name: value for name, value in op if name not in ("op", "ins", "out") and value is not None}
    settings = (f"{name}={shape_text(v) if isinstance(v, tuple) else v}" for name, v in attributes.items())
    return f"{op.out} = {op.op}({', '.join([*map(str, op.ins), *settings])})"


def _layout(strides: tuple[int | str, ...] | None) -> str:
    return "" if strides is None else f" strides {shape_text(strides)}"
