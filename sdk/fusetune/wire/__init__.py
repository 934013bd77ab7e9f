"""Types that travel between the SDK, the service and the compiler. Needs pydantic and nothing else."""

from fusetune.wire.binding import Binding, InputBinding
from fusetune.wire.canonical import binding_hash, canonicalize, fingerprint
from fusetune.wire.fusion import Fusion
from fusetune.wire.infer import Inference, infer
from fusetune.wire.parse import parse_binding, parse_fusion
from fusetune.wire.problems import InvalidDocument, Problem

__all__ = [
    "Binding",
    "Fusion",
    "Inference",
    "InputBinding",
    "InvalidDocument",
    "Problem",
    "binding_hash",
    "canonicalize",
    "fingerprint",
    "infer",
    "parse_binding",
    "parse_fusion",
]
