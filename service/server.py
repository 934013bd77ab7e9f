"""One process that answers: uvicorn over the application, on a socket that listens already."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType

import uvicorn

from service import later
from service.app import create_app
from service.db.engine import Database
from service.http1 import BoundedHttp
from service.settings import Settings

GRACE_S = 5
"""How long a request that is being answered may take when the service stops."""


SWITCH_S = 0.0005
"""How long a thread that computes keeps the interpreter from the event loop, which waits for it after every look at the
database: 5 ms by default, of which an answer of the cache would wait for several."""


def answer(
    settings: Settings,
    db: Database,
    listener: socket.socket,
    started: Callable[[], None],
    told_to_stop: Callable[[], None],
) -> bool:
    """Answer until SIGTERM or Ctrl-C; False if it could not begin, and the log says why.

    `started` is called once requests are answered, `told_to_stop` when the signal comes.
    """
    app = create_app(settings, database=db)
    sys.setswitchinterval(SWITCH_S)

    def begun() -> None:
        later.begin()
        started()

    def stopping() -> None:
        app.state.stopping.set()
        told_to_stop()

    config = uvicorn.Config(
        app,
        http=BoundedHttp,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    # uvicorn raises the signal that stopped it once more at its end: it must find a handler that lets us finish.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)
    server = _Server(config, begun, stopping)
    server.run([listener])
    return server.started


def _ignore(number: int, frame: FrameType | None) -> None:
    pass


class _Server(uvicorn.Server):
    """uvicorn, which says when it has started and when it was told to stop: open streams are ended by us."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None], told_to_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = started
        self._on_stop = told_to_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._on_stop()
        super().handle_exit(sig, frame)
