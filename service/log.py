"""Logs: one line an event on stderr, for people or as JSON; what libraries log takes the same way."""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal

import structlog
from structlog.types import Processor

_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


_CHATTY = ("alembic",)
"""Loggers of libraries whose news are not ours; their warnings are."""


def configure(log_format: Literal["console", "json"], level: int = logging.INFO) -> None:
    """Set up structlog and the standard library's logging, for the whole process."""
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(log_format)],
            foreign_pre_chain=_SHARED,
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def say_early(event: str, log_format: Literal["console", "json"], **facts: str) -> None:
    """A line as those of `configure`, before it is known how to configure anything."""
    line: Any = {"event": event, **facts}
    for process in (*_SHARED, *_rendering(log_format)):
        line = process(None, "info", line)
    print(line, file=sys.stderr, flush=True)


def _rendering(log_format: Literal["console", "json"]) -> list[Processor]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    # Its default shows the local variables of every frame, and with them the keys and passwords of a request.
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
