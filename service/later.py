"""What the service answers with and is not loaded with: read while it is up already.

The compiler and NumPy take as long to load as all else. A cached answer, a list and a health check need nothing of
them, so modules that do import them inside the functions that use them, and a thread loads them once the service is up:
the first fusion that has to be understood finds them there, or waits for what is left.
"""

from __future__ import annotations

import gc
import threading
from importlib import import_module

MODULES = (
    "service.operations.understanding",
    "service.operations.spaces",
    "service.operations.schedules",
    "service.dashboard.pages.kernel",
)


def begin() -> None:
    """Loads them in a thread of its own, which nobody waits for at the end."""
    threading.Thread(target=load, name="loads the compiler", daemon=True).start()


def load() -> None:
    """All of them, now."""
    for name in MODULES:
        import_module(name)
    # What is there now stays to the end: a collection that looks through all of it would keep requests waiting.
    gc.collect()
    gc.freeze()
