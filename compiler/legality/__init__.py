"""Rules: one module a subject, one function a rule, every refusal a Violation."""

from compiler.legality import bulk, launch, reads, structure, tma, vectorize
from compiler.legality.rules import Schedule, check

__all__ = ["Schedule", "bulk", "check", "launch", "reads", "structure", "tma", "vectorize"]
