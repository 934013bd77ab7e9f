"""From text, bytes or a decoded document to a checked fusion or binding; every fault named by place and fix."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fusetune.wire.binding import Binding, InputBinding
from fusetune.wire.fusion import FORMAT, MODEL_OF_OP, Fusion, Input, Output, show
from fusetune.wire.infer import checked_types, nearest
from fusetune.wire.problems import InvalidDocument, Problem

Document = str | bytes | Mapping[str, Any]
M = TypeVar("M", Fusion, Binding)

_FORMAT_FIX = f'Write "format": "{FORMAT}".'

_EXPECTED = {
    "int_type": "an integer",
    "greater_than_equal": "an integer >= 0",
    "string_type": "a text",
    "bool_type": "true or false",
    "tuple_type": "an array",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
"""pydantic's error types, as the JSON that was expected."""


def parse_fusion(document: Document) -> Fusion:
    """The fusion in `document`, which is valid: `infer` finds no fault in it. Raises InvalidDocument."""
    fusion = read_fusion(document)
    checked_types(fusion)
    return fusion


def read_fusion(document: Document) -> Fusion:
    """The fusion in `document`, its grammar checked and its meaning not. Raises InvalidDocument."""
    return _validate(Fusion, document, "fusion")


def parse_binding(document: Document) -> Binding:
    """The binding in `document`; whether it fits a fusion is for `apply_binding` to say. Raises InvalidDocument."""
    return _validate(Binding, document, "binding")


def _validate(model: type[M], document: Document, root: str) -> M:
    decoded = _decode(document, root) if isinstance(document, str | bytes) else document
    if not isinstance(decoded, Mapping):
        raise InvalidDocument((Problem(root, show(decoded), "a JSON object", f"Write the {root} as an object."),))
    try:
        return model.model_validate(dict(decoded), by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidDocument(tuple(_problem(model, fault, root) for fault in error.errors())) from None


def _decode(text: str | bytes, root: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
    except RecursionError:
        reason = "arrays or objects nested too deeply"
    except ValueError as error:
        reason = str(error)
    raise InvalidDocument((Problem(root, f"text that is not JSON ({reason})", "JSON", "Correct the text there."),))


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    repeated = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if repeated is not None:
        raise ValueError(f"field {show(repeated)} stands twice in one object")
    return dict(pairs)


def _refuse_constant(text: str) -> Any:
    raise ValueError(f'{text} is no JSON number; write "inf", "-inf" or "nan" in quotes')


def _problem(model: type[BaseModel], fault: ErrorDetails, root: str) -> Problem:
    """One of pydantic's errors in our terms."""
    place, kind, found, context = fault["loc"], fault["type"], show(fault["input"]), fault.get("ctx", {})
    where = _place_text(model, place, root)
    owner = _owner(model, place)
    match kind:
        case "missing":
            fix = _FORMAT_FIX if place[-1] == "format" else f"Add {show(str(place[-1]))}."
            return Problem(where, "nothing", f"the field {show(str(place[-1]))}", fix)
        case "extra_forbidden":
            fields = _field_names(owner)
            fix = f"{nearest(str(place[-1]), fields)}Remove it."
            return Problem(where, "an unknown field", f"one of {', '.join(fields)}", fix)
        case "union_tag_invalid":
            name = str(context.get("tag", ""))
            fix = f"{nearest(name, list(MODEL_OF_OP))}Known operators: {' '.join(sorted(MODEL_OF_OP))}."
            return Problem(f"{where}.op", show(name), "the name of an operator", fix)
        case "union_tag_not_found":
            return Problem(f"{where}.op", "nothing", "the name of an operator", 'Add "op".')
        case "literal_error":
            fix = _FORMAT_FIX if place[-1] == "format" else "Write one of these."
            return Problem(where, found, str(context.get("expected", "")).replace(" or ", ", "), fix)
    if "expected" in context and "fix" in context:
        return Problem(where, str(context["found"]), context["expected"], context["fix"])
    expected = _EXPECTED.get(kind, fault["msg"])
    return Problem(where, found, expected, f"Write {expected} there.")


def _place_text(model: type[BaseModel], place: tuple[int | str, ...], root: str) -> str:
    """`ops[3].in[1]`. After an op's position pydantic names the operator, which is no part of the document."""
    steps = place[:2] + place[3:] if model is Fusion and place[:1] == ("ops",) else place
    text = "" if model is Fusion else root
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text or root


def _owner(model: type[BaseModel], place: tuple[int | str, ...]) -> type[BaseModel]:
    """The model whose field the place names."""
    if model is Fusion and len(place) > 2:
        owners: dict[str, type[BaseModel]] = {"inputs": Input, "outputs": Output}
        return owners.get(str(place[0])) or MODEL_OF_OP[str(place[2])]
    if model is Binding and len(place) > 2:
        return InputBinding
    return model


def _field_names(model: type[BaseModel]) -> list[str]:
    return sorted(field.alias or name for name, field in model.model_fields.items())
