"""The lanes that execute an instruction together."""

from __future__ import annotations

from compiler.emulate.batch import LaneGroup
from compiler.emulate.machine import Machine


class Active(LaneGroup[Machine]):
    """Lanes at one instruction. Values read through a `Binder` have one element for each of them, in this order."""

    __slots__ = ()
