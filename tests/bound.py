"""Fusions of a builder as the compiler has them."""

from __future__ import annotations

from compiler.ir.fusion import Fusion
from compiler.wire import bind
from fusetune import FusionBuilder
from fusetune.wire import parse_binding


def dense(f: FusionBuilder) -> Fusion:
    """Of sizes that the fusion says itself, its inputs dense."""
    return bind(f.build(), parse_binding({}))
