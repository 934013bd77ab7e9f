"""What to ask a Blackwell card first: `python -m benchmarks.blackwell.first_day [--list] [--only NAME] [--json FILE]`.

Each question is a small kernel whose output tells thinkable answers apart. The emulator runs the PTX that NVRTC makes
of it, the card the machine code; the table has both answers in words, and whether they agree. Without a card that has
tensor memory the emulator's answers are shown, and that no card was asked.

The exit code is 1 if a card's answer is another than the emulator's, or the emulator reports a fault.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from benchmarks.blackwell.catalogue import catalogue
from benchmarks.blackwell.on_card import attached, card_words
from benchmarks.blackwell.question import HardwareAnswer, HardwareQuestion, Words
from benchmarks.emulate.compiling import compile_source
from compiler.emulate.launch import Options
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from fusetune.errors import KernelError, NoDevice

NO_CARD = "no card attached: not run"
EMULATED_ARCH = "sm_100a"
"""What the emulator is given where no card says which target it has."""

FAULTY = "reported faults"

Ask = Callable[[HardwareQuestion], Words | str]


def emulated(question: HardwareQuestion, arch: str = EMULATED_ARCH, options: Options | None = None) -> Words | str:
    """The output in the emulator, or the faults that it reported."""
    launch = question.launch(arch)
    module = parse(compile_source(question.source, arch).ptx)
    outcome = emulate(module, launch, options or Options())
    if outcome.faults:
        return f"{FAULTY}: {', '.join(sorted({str(fault.kind) for fault in outcome.faults}))}"
    return launch.tensors["y"].data.view(np.uint32)


def ask(
    question: HardwareQuestion, arch: str, card: Ask | None, why_not: str = NO_CARD, on: str = ""
) -> HardwareAnswer:
    """Both answers. `card` runs the question on the card that is called `on`; None where there is none."""
    here = emulated(question, arch)
    there = None if card is None else card(question)
    differing = 0
    if not isinstance(here, str) and there is not None and not isinstance(there, str):
        differing = int(np.count_nonzero(here != there))
    return HardwareAnswer(
        question.name,
        question.asks,
        in_words(question, here),
        "" if there is None else in_words(question, there),
        why_not if there is None else "",
        differing,
        on,
    )


def in_words(question: HardwareQuestion, found: Words | str) -> str:
    """The answer that an output is; what was said in place of one stays as it is."""
    return found if isinstance(found, str) else question.answer(found)


def table(answers: Sequence[HardwareAnswer]) -> str:
    """One block of lines a question: its name and whether both agree, then each answer."""
    lines = []
    for one in answers:
        lines.append(f"{one.name}  [{one.agreement}]")
        lines.append(f"    asks      {one.asks}")
        lines.append(f"    emulator  {one.emulator}")
        lines.append(f"    card      {one.card or one.why_not}")
    asked = [one for one in answers if one.card]
    agreeing = sum(one.agreement == "yes" for one in asked)
    lines.append(f"{len(answers)} questions, {len(asked)} asked of a card, {agreeing} agree")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.blackwell.first_day", description=__doc__)
    parser.add_argument("--list", action="store_true", help="names and questions, without running any")
    parser.add_argument("--only", metavar="NAME", help="questions whose name contains this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the answers as JSON")
    given = parser.parse_args(argv)
    chosen = [one for one in catalogue() if (given.only or "") in one.name]
    if not chosen:
        parser.error(f"--only: no question's name contains {given.only!r}. Those there are: --list")
    if given.list:
        print("\n".join(f"{one.name}: {one.asks}" for one in chosen))
        return 0
    answers = _answers(chosen)
    print(table(answers))
    if given.json:
        rows = [{**asdict(one), "agreement": one.agreement} for one in answers]
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return int(any(one.agreement == "no" or one.emulator.startswith(FAULTY) for one in answers))


def _answers(chosen: Sequence[HardwareQuestion]) -> list[HardwareAnswer]:
    try:
        name, arch = attached()
    except NoDevice as error:
        why = f"{NO_CARD} ({error.reason})"
        return [ask(one, EMULATED_ARCH, None, why) for one in chosen]
    except KernelError as error:
        return [ask(one, EMULATED_ARCH, None, f"the card cannot be used: {error}") for one in chosen]
    return [ask(one, arch, lambda question: card_words(question, arch), on=name) for one in chosen]


if __name__ == "__main__":
    sys.exit(main())
