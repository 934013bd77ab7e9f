"""Where kernels come from while a program runs: the store, a service, a thread that waits for it. Needs no torch."""

from fusetune.running.ahead import prepare
from fusetune.running.lock import LockedSource, read_lock
from fusetune.running.packed import PackSource
from fusetune.running.process import default_source, use_lock, use_pack, use_source, write_lock
from fusetune.running.source import KernelSource, Search, ServiceSource, wait

__all__ = [
    "KernelSource", "LockedSource", "PackSource", "Search", "ServiceSource",
    "default_source", "prepare", "read_lock", "use_lock", "use_pack", "use_source", "wait", "write_lock",
]  # fmt: skip
