"""Kernels as operators of torch, which export, compile and autograd see as one node each. Importing it imports torch
and registers `fusetune::run`; a program that loads an exported one must import it first."""

from fusetune.torch_ops.named import register
from fusetune.torch_ops.run import hold, run

__all__ = ["hold", "register", "run"]
