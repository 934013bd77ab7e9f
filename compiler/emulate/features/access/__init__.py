"""Accesses of threads to memory: loads, stores, atomics, fences, addresses."""
