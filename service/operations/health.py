"""Whether the service can work."""

from __future__ import annotations

from sqlalchemy.exc import SQLAlchemyError

from compiler.generator import GENERATOR
from fusetune.wire.service import Health
from fusetune.wire.version import VERSION
from service.db import cards
from service.db.engine import DatabaseFault
from service.db.migrate import is_current
from service.db.unready import is_damaged, is_disk_full
from service.operations.context import Context
from service.operations.presence import alive_since


def alive() -> Health:
    """The process answers."""
    return Health(status="ok", version=VERSION, generator=GENERATOR)


def ready(context: Context) -> Health:
    """The database answers, has this version's tables and takes a write. Workers are told, but requests are taken
    without them."""
    try:
        if not is_current(context.db):
            return _unavailable("its tables are of another version")
        with context.db.read() as session:
            workers = cards.alive(session, alive_since(context.settings))
            fake = sum(cards.is_invented(session, worker.card_id) for worker in workers)
    except (SQLAlchemyError, DatabaseFault) as error:
        return _unavailable("is damaged" if is_damaged(error) else "does not answer")
    try:
        context.db.prove_writable()
    except SQLAlchemyError as error:
        return _unavailable("its disk is full" if is_disk_full(error) else "takes no write")
    with_gpu = sum(worker.attached for worker in workers) - fake
    told = f"{len(workers)} alive, {with_gpu} with a GPU" + (f", {fake} inventing times" if fake else "")
    checks = {"database": "ok", "workers": told}
    return Health(status="ok", checks=checks, version=VERSION, generator=GENERATOR)


def _unavailable(why: str) -> Health:
    return Health(status="unavailable", checks={"database": why}, version=VERSION, generator=GENERATOR)
