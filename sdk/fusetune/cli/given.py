"""What commands are given: fusions as files or torch functions, sizes, tensors in words."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fusetune.bindings import DTYPE_OF
from fusetune.errors import InvalidRequest
from fusetune.fusion import Fusion
from fusetune.wire.fusion import show
from fusetune.wire.problems import Problem


def refused(where: str, found: object, expected: str, fix: str) -> InvalidRequest:
    """The error for an argument that cannot be."""
    return InvalidRequest((Problem(where, show(found), expected, fix),))


def read_fusion_of(text: str, inputs: Sequence[str]) -> tuple[Fusion, Any]:
    """The fusion that `text` names, and the binding that `inputs` settle: a file, `-`, or MODULE:FUNCTION of torch.

    Raises InvalidRequest, InvalidFusion, CannotConvert, OSError.
    """
    if text != "-" and ":" in text and not Path(text).exists():
        return _lowered(text, inputs)
    if inputs and text != "-" and not Path(text).exists():
        fix = "Write it like package.module:function, or name a file and leave --input out."
        raise refused("FUSION", text, "a function of a module, as there is an --input", fix)
    if inputs:
        raise refused("--input", inputs[0], "none: the file says what its inputs are", "Leave it out.")
    document = sys.stdin.buffer.read() if text == "-" else Path(text).read_bytes()
    return Fusion.from_json(document), None


_MOST_DIGITS = 19
"""Of a size: it has 63 bits."""


def sizes_of(words: Sequence[str]) -> dict[str, int]:
    """`M=8192,N=4` as sizes. Raises InvalidRequest."""
    found: dict[str, int] = {}
    for word in ",".join(words).split(",") if words else ():
        name, _, size = word.partition("=")
        if not name or not size.isdecimal() or len(size) > _MOST_DIGITS:
            raise refused("--bind", word, "a symbol and its size", "Write it like --bind M=8192.")
        found[name] = int(size)
    return found


def _lowered(text: str, inputs: Sequence[str]) -> tuple[Fusion, Any]:
    module, _, name = text.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError, TypeError) as error:  # a TypeError: `.module` is of no package
        fix = "Write it like package.module:function, from a folder where Python finds it."
        raise refused("FUSION", text, f"a function of a module ({error})", fix) from None
    finally:
        sys.path.pop(0)
    from fusetune.bindings import binding_of
    from fusetune.graph import capture

    tensors = [_tensor(word) for word in inputs]
    converted = capture(getattr(found, "__wrapped__", found), tensors).converted(each_output=True)
    return converted.fusion, binding_of(converted.fusion, tensors)


def _tensor(word: str) -> Any:
    """`bf16[8192,4096]` as a tensor. Raises InvalidRequest."""
    import torch

    dtype, _, sizes = word.partition("[")
    names = {ours: theirs for theirs, ours in DTYPE_OF.items()}
    numbers = sizes.removesuffix("]").split(",") if sizes.removesuffix("]") else []
    if dtype not in names or not sizes.endswith("]") or not all(n.strip().isdecimal() for n in numbers):
        raise refused("--input", word, "an element type and sizes", "Write it like --input bf16[8192,4096].")
    try:
        return torch.zeros([int(n) for n in numbers], dtype=getattr(torch, names[dtype]))
    except (RuntimeError, TypeError, ValueError):  # no room, or bytes, a size or its digits beyond what is held
        raise refused(
            "--input", word, "a tensor that finds room in this machine's memory", "Name smaller sizes."
        ) from None


def accept_of(emulated: bool) -> dict[str, list[str]] | None:
    """Evidence to accept: what was proven in the emulator too, if asked for."""
    if not emulated:
        return None
    return {"correct": ["verified_on_gpu", "verified_emulated"], "time": ["measured", "predicted", "none"]}


def as_json(value: Any) -> str:
    """Two blanks a level."""
    return json.dumps(value, indent=2)
