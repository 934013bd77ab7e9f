"""What torch.compile finds under the name of `fusetune`. Torch imports this where a program names the backend, which is
before the first step: what that would wait for is begun here, as torch.compile does for its own backend."""

from __future__ import annotations

import logging

from fusetune.torch_compile import backend
from fusetune.torch_compile.options import CompileOptions

__all__ = ["backend", "get_ready"]


def get_ready() -> None:
    """Has Inductor loaded, and the processes started that compile its kernels, where it will be the host."""
    if CompileOptions().host != "inductor":
        return
    try:
        from torch._inductor import async_compile, compile_fx  # noqa: F401 (the second is to be loaded)

        async_compile.maybe_warm_pool()
    except Exception as error:  # noqa: BLE001 (the first step does it, and tells what is wrong)
        logging.getLogger("fusetune.torch_compile").info("Inductor is not ready yet: %s", error)


get_ready()
