"""Regions inside Inductor: a graph is compiled by Inductor as it is, and again, with kernels, once these are known.

`sessions` says when; `compiling` has Inductor do it, off the caller's thread (`background`); `passes` are what Inductor
calls after its own passes; `replacing` puts kernels into a graph; `regions` is what outlives a process.
"""
