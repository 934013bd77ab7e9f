"""`serve`: the REST API and the dashboard, and a worker beside them if asked for."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack
from typing import Annotated, Literal

import structlog
import typer

from compiler.arch import card_or_default
from compiler.errors import UnknownCard
from compiler.faults import UsageFault, reporting
from fusetune.errors import InvalidRequest
from fusetune.signing import process_trust
from service import crew, log
from service.auth import KeyRing, demands_key, is_loopback
from service.cli.given import as_environment, settings_of
from service.cli.options import DatabaseUrl, DataDir, JobsUrl, LogFormat
from service.db.engine import PROMPT_MS, Database, DatabaseFault
from service.db.migrate import ensure_there
from service.jobs.dbos_queue import DbosQueue
from service.jobs.queue import QueueUnavailable
from service.server import answer
from service.settings import Settings
from service.starting import Starting
from service.supervisor import Supervisor

news = structlog.get_logger("service")

BROKEN = 1
"""Exit code where the machine failed, not the options."""

_BACKLOG = 2048


@reporting(UsageFault)
def serve(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; one that others reach demands a key. Default: 127.0.0.1.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="0 takes any free one. Default: 8765.", min=0, max=65535)] = None,
    database_url: DatabaseUrl = None,
    jobs_url: JobsUrl = None,
    data_dir: DataDir = None,
    workers: Annotated[int | None, typer.Option(help="Processes that answer. Default: 1.", min=1, max=64)] = None,
    worker: Annotated[bool, typer.Option("--worker/--no-worker", help="Also run a worker on this machine.")] = False,
    device: Annotated[
        Literal["auto", "fake", "none"] | None,
        typer.Option(help="What that worker measures on. Default: auto.", metavar="auto|none"),
    ] = None,
    card: Annotated[str | None, typer.Option(help="GPU model of that worker.", metavar="NAME")] = None,
    log_format: LogFormat = None,
) -> None:
    """Answer requests and show the dashboard. SIGTERM or Ctrl-C stops within seconds."""
    shared = {"database_url": database_url, "jobs_url": jobs_url, "data_dir": data_dir, "device": device, "card": card}
    settings = settings_of(host=host, port=port, workers=workers, log_format=log_format, **shared)
    log.configure(settings.log_format)
    with ExitStack() as stack:
        listener = stack.enter_context(_listener(settings.host, settings.port))
        starting = stack.enter_context(Starting(listener))
        db = stack.enter_context(_database(settings, starting))
        _check_rest(settings, worker, starting)
        _refuse_open_door(settings, db)
        supervisor = Supervisor(as_environment(**shared, log_format=log_format)) if worker else None
        _run(settings, db, listener, starting, supervisor)


def _database(settings: Settings, starting: Starting) -> Database:
    """The database, ready. Raises UsageFault."""
    try:
        with Database(settings.db_url) as patient:  # another process may be making the tables just now
            starting.at("the database", url=patient.url)
            ensure_there(patient)
        return Database(settings.db_url, busy_ms=PROMPT_MS)
    except DatabaseFault as error:
        raise UsageFault(str(error)) from None


def _check_rest(settings: Settings, worker: bool, starting: Starting) -> None:
    """Raises UsageFault for what would be found only once a tuning, a worker or a pack needs it."""
    try:
        process_trust()
    except InvalidRequest as error:
        raise UsageFault(f"FUSETUNE_TRUST: {error}") from None
    starting.at("the job queue")
    queue = DbosQueue(settings.dbos_url)
    try:
        queue.open()
    except QueueUnavailable as error:
        raise UsageFault(f"--jobs-url: {error}") from None
    finally:
        queue.close()
    try:
        card_or_default(settings.card if worker else None)
    except UnknownCard as error:
        raise UsageFault(f"--card: {error}") from None


def _refuse_open_door(settings: Settings, db: Database) -> None:
    """Raises UsageFault where a key is demanded and there is none: nobody could get in."""
    if not demands_key(settings) and not is_loopback(settings.host):
        news.warning("no key is demanded: whoever reaches this address may use the service", host=settings.host)
    if demands_key(settings) and KeyRing(settings, db).is_empty():
        fix = "Make one with `python -m service keys create NAME`, or set FUSETUNE_API_KEY."
        raise UsageFault(f"--host {settings.host}: every request will need a key, and there is none. {fix}")


def _listener(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises UsageFault."""
    try:
        family = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except socket.gaierror as error:
        raise UsageFault(f"--host {host}: {error.strerror}. Name an address of this machine.") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            fix = "Stop what listens there, or choose another with --port; 0 takes any free one."
            raise UsageFault(f"--port {port}: in use on {host}. {fix}") from None
        raise UsageFault(f"--host {host} --port {port}: {error.strerror}. Choose others.") from None


def _run(
    settings: Settings, db: Database, listener: socket.socket, starting: Starting, supervisor: Supervisor | None
) -> None:
    starting.at("the processes that answer" if settings.workers > 1 else "the application")

    def started() -> None:
        starting.end()
        typer.echo(f"fusetune serves {_url(listener)} (open it in a browser for the dashboard)")
        if supervisor is not None:
            supervisor.start()

    def told_to_stop() -> None:
        if supervisor is not None:
            supervisor.ask_to_stop()

    try:
        if settings.workers > 1:
            crew.run(settings.workers, listener, _of(settings), starting.end, started, told_to_stop)
            has_begun = True
        else:
            has_begun = answer(settings, db, listener, started, told_to_stop)
    finally:
        if supervisor is not None:
            supervisor.stop()
    if not has_begun:
        raise typer.Exit(BROKEN)  # the log says why


def _of(settings: Settings) -> dict[str, str]:
    """The environment in which another process has the settings that options may have changed."""
    return as_environment(
        host=settings.host, port=settings.port, database_url=settings.db_url, jobs_url=settings.dbos_url,
        data_dir=settings.data_dir, log_format=settings.log_format,
    )  # fmt: skip


def _url(listener: socket.socket) -> str:
    """The address as a browser on this machine takes it."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
