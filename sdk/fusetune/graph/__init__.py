"""Torch functions and ATen graphs as fusions. Importing it imports torch; `fusetune` does so when it is asked for."""

from fusetune.errors import CannotConvert
from fusetune.graph.capture import Captured, capture, from_torch
from fusetune.graph.clean import clean
from fusetune.graph.convert import Converted, to_fusion
from fusetune.graph.decompositions import decompositions
from fusetune.graph.operators import why_not
from fusetune.graph.outputs import OutputForm, StridedView

__all__ = [
    "CannotConvert",
    "Captured",
    "Converted",
    "OutputForm",
    "StridedView",
    "capture",
    "clean",
    "decompositions",
    "from_torch",
    "to_fusion",
    "why_not",
]
