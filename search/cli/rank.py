"""`rank fit` and `rank show`: what is learnt of a card from what was measured on it, to order candidates by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from compiler.arch import Card
from compiler.generator import GENERATOR
from search.cli.faults import UsageFault, reports_faults
from search.cost.ranker import CardRanker
from search.tuning.fitting import TooLittle, fit, usable
from search.tuning.timed import TimedError, TimedFusion, read_timed

_SUFFIXES = (".t4.json", ".t4.json.gz")
_JOURNALS = "journal.jsonl"

_SHOWN = 12
"""Features that `show` names, those that change times most."""

rank = typer.Typer(help="Learn from measured kernels of a card in which order to try others.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(help="A ranker, as `rank fit` has written it.", metavar="RANKER.json")]


@rank.command("fit")
@reports_faults
def fit_ranker(
    paths: Annotated[list[Path], typer.Argument(help="Journals, tables in T4, folders of either.", metavar="FILES...")],
    out: Annotated[Path, typer.Option("--out", help="The file to write.", metavar="RANKER.json")],
    card: Annotated[
        str | None, typer.Option(help="Of which card, where the files are of several.", metavar="NAME")
    ] = None,
) -> None:
    """Fit a ranker to measured kernels of one card. Exits with 2 where nothing can be learnt of them."""
    if out.is_dir():
        raise UsageFault(f"--out {out} is a folder. Name the file to write, such as {out / 'ranker.json'}.")
    found = list(_read(paths))
    measured = [one for one in found if one.is_measured]
    if len(measured) < len(found):
        typer.echo(f"{len(found) - len(measured)} files hold invented times, and are left out.", err=True)
    cards = sorted({one.card for one in measured})
    if card is None and len(cards) > 1:
        raise UsageFault(f"The files are of several cards: {', '.join(cards)}. Name one with --card.")
    if not measured:
        raise UsageFault("The files hold no kernel that was measured on a GPU. Name results of `tune` or `measure`.")
    name = card or cards[0]
    if name not in cards:
        raise UsageFault(f"--card {name}: the files are of {', '.join(cards)}.")
    old = {one.generator for one in measured if one.card == name and one.generator != GENERATOR}
    if old:
        typer.echo(f"Left out: kernels of {', '.join(sorted(old))}. This is {GENERATOR}.", err=True)
    try:
        ranker = fit(measured, name)
    except TooLittle as error:
        raise UsageFault(str(error)) from None
    ranker.write(out)
    console = Console(highlight=False, soft_wrap=True)
    _describe(console, ranker)
    few = {one.fusion for one in measured if one.card == name} - {one.fusion for one in usable(measured, name)}
    if few:
        console.print(f"Left out for having too few trials: {len(few)} fusions.")


@rank.command("show")
@reports_faults
def show_ranker(path: File) -> None:
    """Say what a ranker was fitted to, how well it orders what it was not fitted to, and what it is made of."""
    console = Console(highlight=False, soft_wrap=True)
    if not path.is_file():
        raise UsageFault(f"{path} is no file. Make one with `python -m search rank fit`.")
    ranker = CardRanker.read(path)
    _describe(console, ranker)
    console.print("What changes times most, in % for a step of one (a doubling, a word, all of the time):")
    most = sorted(ranker.learnt.items(), key=lambda one: (-abs(one[1].weight), one[0]))
    for name, one in most[:_SHOWN]:
        console.print(f"  {name:32} {100 * one.weight:+7.1f}", markup=False)


def learnt_of(card: Card, path: Path | None) -> CardRanker | None:
    """The ranker in a file that somebody named; one that is not used for this card is named with the reason. Raises
    RankerError, and UsageFault where there is no file."""
    if path is None:
        return None
    if not path.is_file():
        raise UsageFault(f"--ranker: {path} is no file. Make one with `python -m search rank fit`.")
    ranker = CardRanker.read(path)
    if (why := ranker.why_not(card.name)) is not None:
        typer.echo(f"--ranker: {path} is not used for the {card.name}: {why}.", err=True)
    return ranker


def _describe(console: Console, ranker: CardRanker) -> None:
    console.print(
        f"{ranker.card}, {ranker.generator}: fitted to {ranker.trials} kernels of {ranker.fusions} fusions.",
        markup=False,
    )
    console.print(
        f"Rank correlation for fusions that it was not fitted to: {ranker.held_out.ranker:.3f}, of the model alone "
        f"{ranker.held_out.model:.3f}.",
        markup=False,
    )
    if (why := ranker.why_not(ranker.card)) is not None:
        console.print(f"It is not used: {why}.", markup=False)


def _read(paths: Sequence[Path]) -> Iterator[TimedFusion]:
    """What the files hold; of folders what can be read. Raises UsageFault."""
    for path in paths:
        if not path.exists():
            raise UsageFault(f"{path} does not exist. Name journals, tables in T4 or folders of them.")
        if not path.is_dir():
            yield read_timed(path)
            continue
        named = [one for one in sorted(path.rglob("*")) if one.name == _JOURNALS or one.name.endswith(_SUFFIXES)]
        files = [one for one in named if one.is_file()]
        if not files:
            raise UsageFault(f"{path} has no {_JOURNALS} and no *{_SUFFIXES[0]} in it or below.")
        for file in files:
            try:
                yield read_timed(file)
            except TimedError as error:
                typer.echo(f"{error} It is left out.", err=True)
