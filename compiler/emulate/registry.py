"""The instructions that are known: from the words of a name to the function that binds it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.ptx.module import PtxInstruction

Run = Callable[[Active], None]
"""Executes an instruction for the active lanes."""


class Collective(ABC):
    """An instruction that makes lanes wait. Lanes that arrive stand at it until `ready` lets them go on.

    The machine calls `arrive` once for each group that comes, `ready` whenever something may have changed, then
    `finish` once for the lanes that go on together. Bookkeeping that several instructions share (the named barriers,
    say) belongs in an engine, `machine.engine(Class)`.
    """

    insn: PtxInstruction

    def arrive(self, active: Active) -> None:  # noqa: B027 - most have nothing to note
        """Lanes come to stand here."""

    @abstractmethod
    def ready(self, active: Active) -> npt.NDArray[np.bool_]:
        """Which of the lanes that stand here (all of them, those of earlier groups too) may go on. Must not block."""

    def finish(self, active: Active) -> None:  # noqa: B027 - some only wait
        """Executes for lanes that go on."""

    @abstractmethod
    def waiting_for(self, active: Active) -> str:
        """What the lanes that stand here wait for, for the report of a deadlock: a phrase."""

    def stuck(self, active: Active) -> bool:
        """Reports a fault of its own when nothing can go on (a divergent collective, say); True if it did."""
        return False


Step = Run | Collective
Builder = Callable[[PtxInstruction, Binder], Step]

_BUILDERS: dict[tuple[str, ...], Builder] = {}


def instruction(*names: str) -> Callable[[Builder], Builder]:
    """Registers a builder for the instructions whose name starts with one of `names` ("ld", "cp.async.bulk").

    The longest registered start of a name wins. A builder raises `UnknownForm` for a form that it does not know.
    """

    def register(builder: Builder) -> Builder:
        for name in names:
            key = tuple(name.split("."))
            if key in _BUILDERS:
                raise ValueError(f"{name} is registered twice")
            _BUILDERS[key] = builder
        return builder

    return register


def build(insn: PtxInstruction, binder: Binder) -> Step:
    """Binds an instruction. Raises UnknownForm if none of its name's starts is registered, or its form is not known.

    Builders take apart the operands and types that the forms have, for ptxas has checked them; in PTX that no ptxas has
    seen there may be others, on which they fail with ValueError, IndexError or KeyError.
    """
    name = ".".join(insn.name)
    for length in range(len(insn.name), 0, -1):
        builder = _BUILDERS.get(insn.name[:length])
        if builder is not None:
            try:
                return builder(insn, binder)
            except (ValueError, IndexError, KeyError) as error:
                raise UnknownForm(f"{name} with these {len(insn.operands)} operands") from error
    raise UnknownForm(f"the instruction {name}")
