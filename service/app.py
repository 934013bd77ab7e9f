"""The application: routes, the layers around them, and what runs beside them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

import structlog
from fastapi import FastAPI
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from service import problems
from service.again import ToldAgain
from service.auth import Gate, KeyRing
from service.border import Border
from service.dashboard.faults import page_for_browsers, unexpected
from service.dashboard.routes import router as dashboard
from service.db.engine import PROMPT_MS, Database
from service.db.migrate import ensure_there
from service.heads import Heads
from service.jobs.dbos_queue import DbosQueue
from service.jobs.queue import JobQueue
from service.limits import BodyLimit
from service.metrics import Metrics
from service.operations import events
from service.operations.answers import Answers
from service.operations.board import Board
from service.operations.context import Context
from service.operations.handover import Handover
from service.routes import audit, cards, fusions, health, kernels, login, packs, schedules, spaces, tunings
from service.settings import Settings

log = structlog.get_logger("service")

USES_S = 30.0
"""How often it is stored when keys were used last."""

HANDOVER_S = 2.0
"""How often tunings that wait for a worker, or for the job queue, are looked after."""

_MODULES = (tunings, kernels, fusions, spaces, schedules, cards, packs, audit, health, login)
_ROUTERS = (*(module.router for module in _MODULES), dashboard)


def create_app(settings: Settings, *, database: Database | None = None, queue: JobQueue | None = None) -> FastAPI:
    """The service as an ASGI application. What is not given is made from `settings`, and closed at the end.

    `app.state` holds `settings`, `db`, `queue`, and `stopping`, an event that ends open streams. Raises DatabaseFault
    for a URL that names no database; whether it answers is found when the application starts.
    """
    db = database or Database(settings.db_url, busy_ms=PROMPT_MS)
    jobs = queue or DbosQueue(settings.dbos_url)
    handover = Handover(db, jobs, settings)
    ring = KeyRing(settings, db)
    metrics = Metrics(db, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(ensure_there, db)
        tasks = [asyncio.create_task(_keep_handing_over(handover)), asyncio.create_task(_keep_noting(ring))]
        try:
            yield
        finally:
            app.state.stopping.set()
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await run_in_threadpool(_write_down_uses, ring)
            if queue is None:
                jobs.close()
            if database is None:
                db.close()

    # Its pages about the API would load scripts from elsewhere; routes/health.py serves the document, /docs shows it.
    # The routes as they were made: a router that is included makes them all again at an application's first request.
    app = FastAPI(
        routes=[route for router in _ROUTERS for route in router.routes],
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.settings, app.state.db, app.state.queue = settings, db, jobs
    app.state.context = Context(settings, db, handover, Answers(db, settings))
    app.state.board = Board(partial(events.following, app.state.context), settings.poll_s / 4)
    app.state.ring, app.state.metrics = ring, metrics
    app.state.stopping = threading.Event()
    problems.install(app, _ROUTERS)
    app.add_exception_handler(HTTPException, page_for_browsers(problems.handle_http))
    # The last one added is the outermost.
    app.add_middleware(ToldAgain, answers=app.state.context.answers, settings=settings)
    app.add_middleware(Gate, settings=settings, ring=ring)
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes)
    app.add_middleware(Heads)
    app.add_middleware(Border, metrics=metrics, answer=unexpected)
    return app


async def _keep_noting(ring: KeyRing) -> None:
    """Stores when keys were used, not at each use: an answer from the cache takes less than a commit."""
    while True:
        await asyncio.sleep(USES_S)
        await run_in_threadpool(_write_down_uses, ring)


def _write_down_uses(ring: KeyRing) -> None:
    try:
        ring.write_down_uses()
    except SQLAlchemyError as error:
        log.warning("when keys were used could not be stored", error=type(error).__name__)


async def _keep_handing_over(handover: Handover) -> None:
    """Hands over what the last run of this service left, then what could not be handed over when it was posted."""
    while True:
        try:
            await run_in_threadpool(handover.run)
        except SQLAlchemyError as error:
            log.warning("queued tunings could not be looked after", error=type(error).__name__)
        await asyncio.sleep(HANDOVER_S)
