"""Verifying and timing kernels in a child process that owns the GPU. `device` is the contract, `cuda` keeps it."""
