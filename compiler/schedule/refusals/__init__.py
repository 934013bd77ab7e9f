"""Why a schedule step cannot be taken: one module a subject, one function a rule."""

from compiler.schedule.refusals import names  # first: the other rules rely on tensors that there are

# isort: split
from compiler.schedule.refusals import allocation, circular_buffer, inlining, online, tensors, transforms
from compiler.schedule.refusals.registry import STEP_RULES, Refusal, Site, refusals

__all__ = [
    "STEP_RULES",
    "Refusal",
    "Site",
    "allocation",
    "circular_buffer",
    "inlining",
    "names",
    "online",
    "refusals",
    "tensors",
    "transforms",
]
