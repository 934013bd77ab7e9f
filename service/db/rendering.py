"""How a schema is compared and written down: the options that every use of Alembic shares, and differences in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from alembic.autogenerate.api import AutogenContext
from sqlalchemy import TypeDecorator


def render_item(kind: str, item: object, context: AutogenContext) -> str | Literal[False]:
    """Our column types as the plain ones beneath: a migration must not change when the classes do."""
    if kind == "type" and isinstance(item, TypeDecorator):
        return f"sa.{item.impl_instance!r}"
    return False


SCHEMA_OPTIONS: dict[str, Any] = {"compare_type": True, "compare_server_default": True, "render_item": render_item}


def in_words(differences: Iterable[Any]) -> list[str]:
    """Alembic's differences, a line each. They come as tuples, and as lists of tuples for one column."""
    found: list[str] = []
    for difference in differences:
        if isinstance(difference, list):
            found += in_words(difference)
        else:
            found.append(_line(*difference))
    return found


def _line(kind: str, *facts: Any) -> str:
    # `add_…` is what a migration would have to add: the models have it and the database lacks it.
    match kind.split("_", 1):
        case ["add", what]:
            return f"{_named(what, facts)} is missing"
        case ["remove", what]:
            return f"{_named(what, facts)} is not ours"
    _, table, column, _, found, wanted = facts
    return f"{table}.{column}: {kind.removeprefix('modify_')} is {found}, expected {wanted}"


def _named(what: str, facts: tuple[Any, ...]) -> str:
    last = facts[-1]
    place = facts[1] if what == "column" else getattr(getattr(last, "table", None), "name", None)
    name = getattr(last, "name", last)
    label = {"fk": "foreign key", "constraint": "constraint"}.get(what, what)
    return f"{label} {name}" if what == "table" else f"{place}: {label} {name}"
