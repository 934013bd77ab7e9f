"""Where kernels come from while a program runs: the store, a service, a thread that waits for it. Needs no torch."""

from fusetune.running.source import KernelSource, Search, ServiceSource, default_source, use_source, wait

__all__ = ["KernelSource", "Search", "ServiceSource", "default_source", "use_source", "wait"]
