"""Templates into pages: everything is escaped, a name that a template does not know is an error."""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from service.dashboard.assets import asset_url
from service.dashboard.evidence import badges, doubt, is_fake, time_badge
from service.dashboard.filters import FILTERS

logged_in: ContextVar[bool] = ContextVar("logged_in", default=False)
"""Whether the browser that asks for a page holds a key: it is offered to log out then."""


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(FILTERS)
    environment.globals.update(
        asset=asset_url, badges=badges, doubt=doubt, is_fake=is_fake, time_badge=time_badge, logged_in=logged_in.get
    )
    return environment


def render(template: str, **context: Any) -> str:
    """The template's text with `context` in it."""
    return _environment().get_template(template).render(context)
