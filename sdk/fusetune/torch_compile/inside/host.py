"""`Host`: what sessions inside Inductor share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from fusetune.jitting.clocks import Clock
from fusetune.running import KernelSource
from fusetune.torch_compile.choosing import KernelChoices
from fusetune.torch_compile.inside.background import Background
from fusetune.torch_compile.inside.compiling import Compile
from fusetune.torch_compile.inside.notes import Notes
from fusetune.torch_compile.inside.otherwise import RegionTrial
from fusetune.torch_compile.inside.passes import Lower


@dataclass
class Host:
    """`source`: where kernels come from; `clock`: what times on a device; `lower`: the fusion of a region; `notes`:
    what is kept of graphs; `inner`: what makes code, Inductor unless a test brings its own. `trials`: by the key of a
    choice; None while Inductor's code for it is made. `failures`: of kernels that ran, so far."""

    source: Callable[[], KernelSource]
    clock: Callable[[torch.device], Clock]
    lower: Lower
    notes: Notes
    inner: Compile | None = None
    choices: KernelChoices = field(default_factory=lambda: KernelChoices("inductor"))
    background: Background = field(default_factory=Background)
    trials: dict[tuple[str, str], RegionTrial | None] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    failures: int = 0
