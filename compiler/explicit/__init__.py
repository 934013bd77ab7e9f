"""Explicit schedules as kernels: lowered as given, run in the emulator, compared with what their operators mean."""

from compiler.explicit.generate import GeneratedExplicit, generate_explicit

__all__ = ["GeneratedExplicit", "generate_explicit"]
