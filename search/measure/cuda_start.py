"""The first moments of a measuring child: torch is imported from the start, beside all that needs none of it.

Imports nothing: torch takes seconds, the rest less, and both the driver and the disk are waited for in between.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any


def serve(index: int) -> Callable[[Any], Any]:
    """The child's target: opens device `index`. Raises NoDevice."""
    threading.Thread(target=_import_torch, name="import torch", daemon=True).start()
    handler: Callable[[Any], Any] = import_module("search.measure.cuda_child").serve(index)
    return handler


def _import_torch() -> None:
    """In a thread, while nobody has asked for more than facts yet; what it raises is met again by who needs torch."""
    with contextlib.suppress(Exception):
        import torch  # noqa: F401 (so that it is there when it is asked for)
