"""Which line of the user's code an operator came from."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.fx import Node
from torch.fx import traceback as fx_traceback
from torch.overrides import TorchFunctionMode

_NOT_THE_USERS = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))
"""Folders whose frames say nothing to a user: torch's and our own."""


def line_of(node: Node) -> str:
    """`file:line: code` of the innermost frame that is the user's, as the trace kept it; empty if it kept none."""
    found = node.meta.get("stack_trace")
    if not found:
        return ""
    frames = [x.strip() for x in str(found).strip().split("\n") if x.strip()]
    places = [i for i, text in enumerate(frames) if text.startswith('File "')]
    users = [i for i in places if not text_is_ours(frames[i])] or places
    if not users:
        return frames[-1]
    place, *rest = frames[users[-1] : users[-1] + 2]
    file, line = place.removeprefix('File "').split('", line ', 1)
    code = rest[0] if rest and not rest[0].startswith('File "') else ""
    return f"{file}:{line.split(',')[0]}: {code}".rstrip(": ")


def text_is_ours(frame: str) -> bool:
    """Whether a frame in the text of a stack is torch's or our own."""
    return any(f'"{folder}' in frame for folder in _NOT_THE_USERS)


def line_of_error(error: BaseException) -> str:
    """The line of the user's code in which an exception of a trace arose; empty if there is none."""
    frames = [x for x in traceback.extract_tb(error.__traceback__) if not x.filename.startswith(_NOT_THE_USERS)]
    users = [x for x in frames if not x.filename.startswith("<")]
    return f"{users[-1].filename}:{users[-1].lineno}: {users[-1].line}" if users else ""


@contextmanager
def recorded_lines() -> Iterator[None]:
    """While it is open, a trace keeps for every node the line of the user's code that called torch."""
    with fx_traceback.preserve_node_meta(), _Lines():
        yield


class _Lines(TorchFunctionMode):
    """Tells the tracer where the call stands that torch is about to carry out."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        frame = _users_frame(sys._getframe(1))
        if frame is not None:
            (summary,) = traceback.StackSummary.extract(iter([(frame, frame.f_lineno)]))
            fx_traceback.set_stack_trace(traceback.StackSummary.from_list([summary]).format())
        return func(*args, **(kwargs or {}))


def _users_frame(frame: FrameType | None) -> FrameType | None:
    while frame is not None and frame.f_code.co_filename.startswith((*_NOT_THE_USERS, "<string>")):
        frame = frame.f_back
    return frame
