"""A question that a card can answer: a kernel, and what it would leave in memory by each answer that is thinkable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from compiler.emulate.launch import EmulatedTensor, Launch, TensorArgument

Words = npt.NDArray[np.uint32]

ENTRY = "k"
"""The kernel's name. Its parameters are `const u32* x, u32* y`."""


@dataclass(frozen=True)
class HardwareQuestion:
    """One kernel over the words `x`, which leaves `words` words in `y`.

    `answers`: what `y` then holds, by the answer in words; those of one question differ. The first is what the emulator
    takes for true. `source` is CUDA; `threads` a block.
    """

    name: str
    asks: str
    source: str
    x: Words
    answers: Mapping[str, Words]
    threads: int = 128

    @property
    def words(self) -> int:
        """Of the output."""
        return next(iter(self.answers.values())).size

    @property
    def believed(self) -> str:
        """The answer by which the emulator was written."""
        return next(iter(self.answers))

    def answer(self, found: Words) -> str:
        """The answer that `found` is; none of them: how many words differ from the believed one, and the first."""
        for answer, expected in self.answers.items():
            if np.array_equal(found, expected.ravel()):
                return answer
        wanted = self.answers[self.believed].ravel()
        wrong = np.flatnonzero(found != wanted)
        first = int(wrong[0])
        return (
            f"none of the answers: {wrong.size} of {wanted.size} words differ from '{self.believed}', the first is "
            f"word {first}: {int(found[first]):#x}, not {int(wanted[first]):#x}"
        )

    def launch(self, arch: str) -> Launch:
        """The launch, with tensors of its own."""
        x, y = self.x.ravel().copy(), np.zeros(self.words, np.uint32)
        tensors = {
            "x": EmulatedTensor("x", "u32", x.shape, x.view(np.uint8)),
            "y": EmulatedTensor("y", "u32", y.shape, y.view(np.uint8), np.zeros(y.nbytes, np.bool_)),
        }
        arguments = (TensorArgument("x"), TensorArgument("y"))
        return Launch(ENTRY, arch, (1, 1, 1), (self.threads, 1, 1), arguments, tensors)


@dataclass(frozen=True)
class HardwareAnswer:
    """What came of one question. `card` is empty where no card was asked, and `why_not` says why."""

    name: str
    asks: str
    emulator: str
    card: str = ""
    why_not: str = ""
    differing_words: int = 0
    on: str = field(default="", compare=False)

    @property
    def agreement(self) -> str:
        """`yes` if the card's words are the emulator's, else `no`; a dash where no card was asked."""
        if not self.card:
            return "-"
        return "yes" if self.card == self.emulator and not self.differing_words else "no"
