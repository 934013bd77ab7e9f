"""A CUDA build of torch on a machine without a device: tracing there must be safe from any thread."""

from __future__ import annotations

import threading
from functools import cache

import torch


@cache
def keep_device_guard() -> None:
    """Has torch's stand-in for CUDA's device guard installed by a thread that does not end. Called before each trace.

    Whichever thread traces first installs it, as a value of its own (`ensureCUDADeviceGuardSet`); up to torch 2.11 at
    least it is left behind when that thread ends, and the next one that traces reads freed memory.
    """
    install = getattr(torch._C, "_ensureCUDADeviceGuardSet", None)
    if install is None or torch.version.cuda is None or torch.cuda.is_available():
        return
    if threading.current_thread() is threading.main_thread():
        install()
        return
    installed = threading.Event()

    def stay() -> None:
        install()
        installed.set()
        threading.Event().wait()

    threading.Thread(target=stay, name="fusetune-device-guard", daemon=True).start()
    installed.wait()
