"""`cards`: the GPU of this machine, the cards that are known, and what the database has for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from compiler.arch import READ_FACTS, Card
from compiler.arch import cards as known_cards
from compiler.errors import Unsupported
from fusetune.wire.service import CardStatus
from search.tuning.attached import Detached, find_device
from service import views
from service.cli.database import reports_faults
from service.cli.given import settings_of
from service.cli.options import DatabaseUrl, DataDir
from service.db import migrate
from service.db.cards import card_id
from service.db.engine import Database, NoDatabase
from service.operations.presence import alive_since
from service.settings import Settings

_GIB = 2**30
_MIB = 2**20


@reports_faults
def cards(
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show this machine's GPU, the cards that are known, and which of them the database has kernels and workers for."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    statuses = _statuses(settings)  # first: the GPU is asked by a process of its own, which takes a second
    attached = _attached()
    known = [_facts(card) for card in known_cards()]
    if as_json:
        served = None if statuses is None else [status.model_dump(mode="json") for status in statuses]
        typer.echo(json.dumps({**attached, "known": known, "served": served}, indent=1))
    else:
        _print(attached, known, statuses)


def _attached() -> dict[str, Any]:
    """The GPU of this machine with what differs from the table, or why there is none."""
    try:
        found = find_device(None)
    except Unsupported as error:
        return {"attached": None, "why": str(error), "notes": []}
    if isinstance(found, Detached):
        return {"attached": None, "why": found.why, "notes": []}
    found.device.close()
    return {"attached": {**_facts(found.card), "driver": found.facts.driver}, "why": "", "notes": list(found.notes)}


def _facts(card: Card) -> dict[str, Any]:
    return {
        "id": card_id(card),
        "name": card.name,
        "aliases": list(card.aliases),
        "arch": card.arch.name,
        **{name: getattr(card, name) for name in READ_FACTS},
    }


def _statuses(settings: Settings) -> list[CardStatus] | None:
    """The cards that the database has, None where there is no database yet. Raises DatabaseFault for one of no use."""
    try:
        database = Database(settings.db_url, must_exist=True)
    except NoDatabase:
        return None
    with database, database.faults():
        standing = migrate.standing(database)
        if standing == "empty":
            return None
        if standing != "current":
            raise migrate.fault_of(database, standing)
        with database.read() as session:
            return views.card_statuses(session, alive_since(settings))


def _print(attached: Mapping[str, Any], known: list[dict[str, Any]], statuses: list[CardStatus] | None) -> None:
    console = Console(highlight=False, soft_wrap=True)
    gpu = attached["attached"]
    if gpu is None:
        console.print(f"This machine has no GPU to tune on: {attached['why'].rstrip('.')}.", markup=False)
    else:
        console.print(f"This machine has {gpu['name']} ({gpu['arch']}), driver {gpu['driver']}", markup=False)
    for note in attached["notes"]:
        console.print(note, markup=False)
    console.print("\nKnown cards:")
    table = Table("name", "arch", "SMs", "memory", "L2", "power", box=None, pad_edge=False)
    for card in known:
        table.add_row(
            card["name"],
            card["arch"],
            str(card["sm_count"]),
            f"{card['memory_bytes'] / _GIB:.0f} GiB",
            f"{card['l2_bytes'] / _MIB:.0f} MiB",
            f"{card['power_w']} W",
        )
    console.print(table)
    console.print()
    if statuses is None:
        console.print("There is no database yet: `python -m service serve` makes one.", markup=False)
    elif not statuses:
        console.print("The database has no kernels and no workers yet.")
    else:
        _print_served(console, statuses)


def _print_served(console: Console, statuses: list[CardStatus]) -> None:
    table = Table("served card", "id", "read off", "kernels", "workers", box=None, pad_edge=False)
    for status in statuses:
        alive = [worker for worker in status.workers if worker.alive]
        workers = ", ".join(f"{one.id}{'' if one.attached else ' (no GPU)'}" for one in alive)
        card = status.card
        source = f"the card, driver {card.driver}" if card.source == "attached" else "the table"
        table.add_row(card.name, card.id, source, str(status.kernels), workers or "none")
    console.print(table)
