"""`make docs`: writes docs/operators.md, the table of operators, from their rows (compiler/ir/ops/kinds.py)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path

from compiler.dtypes import DType
from compiler.ir.ops import COMPILED, POINTWISE, ErrorBound, MathForm, OpClass, OpKind
from compiler.wire.composed import COMPOSED

PAGE = Path(__file__).with_name("operators.md")

HEAD = """\
# Operators

What each takes, what torch calls it, and how far a right kernel may be from the exact result before that is rounded
([verification.md](verification.md)); this page is made from the operators' rows (`make docs`). A form is how a function
is computed in f32: `exact` by IEEE operations and the library's functions, `approx` by approximate instructions that
keep nearly all bits of f32, `coarse` for results stored in 16 bits. An operator without a form gives the exact result,
rounded. *of argument*: for each unit of the operand. [Adding one](extending/operator.md) takes a row.
"""

COMPOSED_HEAD = """\
## written out

Made of the operators above when a fusion is bound (`compiler/wire/composed.py`).
"""

_PARTS = {"relative": "of the result", "argument": "of argument", "absolute": "", "of_operand": "of the operand"}


def operators_page() -> str:
    """The page as it should stand in docs/operators.md: operators by class, in the order of their rows."""
    order = list(OpClass)
    kinds = sorted((kind for kind in OpKind if kind in COMPILED), key=lambda kind: order.index(kind.row.cls))
    parts = [HEAD]
    for cls, group in groupby(kinds, key=lambda kind: kind.row.cls):
        rows = "\n".join(map(_line, group))
        parts.append(f"## {cls}\n\n| operator | takes | torch | forms |\n|---|---|---|---|\n{rows}\n")
    composed = "\n".join(f"| `{name}` | {_made_of(write)} |" for name, write in COMPOSED.items())
    parts.append(f"{COMPOSED_HEAD}\n| operator | made of |\n|---|---|\n{composed}\n")
    return "\n".join(parts)


def _made_of(write: Callable[..., str]) -> str:
    """What the function that writes an operator out says of it."""
    return " ".join((write.__doc__ or "").split())


def _line(kind: OpKind) -> str:
    row = kind.row
    named = "" if row.torch == "" or kind not in POINTWISE else f"`{row.torch or kind}`"
    forms = (("exact", row.exact), ("approx", row.approx), ("coarse", row.coarse), ("f64", row.f64))
    told = "; ".join(_form(name, form) for name, form in forms if form is not None)
    return f"| `{kind}` | {' '.join(dtype for dtype in DType if dtype in row.takes)} | {named} | {told} |"


def _form(name: str, form: MathForm) -> str:
    return f"{name}: {_bound(form.error)} ({form.source})"


def _bound(error: ErrorBound) -> str:
    found = ((getattr(error, name), of) for name, of in _PARTS.items())
    return " + ".join(f"{size:.2g} {of}".rstrip() for size, of in found if size)


if __name__ == "__main__":
    PAGE.write_text(operators_page(), encoding="utf-8")
