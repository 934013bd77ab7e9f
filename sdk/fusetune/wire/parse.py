"""From text, bytes or a decoded document to a checked one; every fault named by place and fix.

`parse_fusion` and `parse_binding` read one document each. `decode` and `read` are their two halves, for documents that
hold fusions among other things: requests of the service.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, RootModel, ValidationError
from pydantic_core import ErrorDetails

from fusetune.wire.advice import for_dtype, for_operator, nearest
from fusetune.wire.binding import Binding
from fusetune.wire.fusion import FORMAT, MODEL_OF_OP, DTypeName, Fusion, show
from fusetune.wire.infer import MAX_PROBLEMS, checked_types
from fusetune.wire.patterns import IN_WORDS
from fusetune.wire.problems import InvalidDocument, NotJson, Problem

Document = str | bytes | Mapping[str, Any]
M = TypeVar("M", bound=BaseModel)

MAX_DEPTH = 32
"""Arrays and objects inside each other (own limit: a fusion needs 4, and what walks a document may recurse)."""

_MAX_DIGITS = 400
"""Of an integer: enough for every f64. Python itself would refuse to print the products of much longer ones."""

_FORMAT_FIX = f'Write "format": "{FORMAT}".'

_EXPECTED = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "a text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "an array",
    "list_type": "an array",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
"""pydantic's error types, as the JSON that was expected."""

_LIMITS = {
    "greater_than_equal": ("ge", "{number} >= {limit}"),
    "less_than_equal": ("le", "{number} <= {limit}"),
    "too_short": ("min_length", "at least {limit} entries"),
    "too_long": ("max_length", "at most {limit} entries"),
    "string_too_short": ("min_length", "a text of at least {limit} characters"),
    "string_too_long": ("max_length", "a text of at most {limit} characters"),
}
"""pydantic's error types that speak of a limit: its name in their context, and what was expected."""


def parse_fusion(document: Document) -> Fusion:
    """The fusion in `document`, which is valid: `infer` finds no fault in it. Raises InvalidDocument."""
    fusion = read_fusion(document)
    checked_types(fusion)
    return fusion


def read_fusion(document: Document) -> Fusion:
    """The fusion in `document`, its grammar checked and its meaning not. Raises InvalidDocument."""
    return read(Fusion, _decoded(document, "fusion"), "fusion", prefix="")


def parse_binding(document: Document) -> Binding:
    """The binding in `document`; whether it fits a fusion is for `apply_binding` to say. Raises InvalidDocument."""
    return read(Binding, _decoded(document, "binding"), "binding", prefix="binding")


def _decoded(document: Document, root: str) -> Any:
    return decode(document, root) if isinstance(document, str | bytes) else document


def decode(text: str | bytes, root: str) -> Any:
    """JSON without what parsers read differently: other encodings, repeated names, NaN, halves of characters, depth.

    `root` is what problems call the whole text. Raises NotJson.
    """
    try:
        decoded = json.loads(
            text.decode() if isinstance(text, bytes) else text,
            object_pairs_hook=_without_repeats,
            parse_constant=_refuse_constant,
            parse_int=_integer,
        )
        _check_shape(decoded)
    except RecursionError:
        reason = "arrays or objects nested too deeply"
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        reason = f"not UTF-8: {error.reason} at position {error.start}"
    except ValueError as error:
        reason = str(error)
    else:
        return decoded
    raise NotJson((Problem(root, f"text that is not JSON ({reason})", "JSON", "Correct the text there."),))


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = Counter(name for name, _ in pairs)
        repeated = next(name for name, times in names.items() if times > 1)
        raise ValueError(f"field {show(repeated)} stands twice in one object")
    return found


def _refuse_constant(text: str) -> Any:
    raise ValueError(f'{text} is no JSON number; write "inf", "-inf" or "nan" in quotes')


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"an integer of {len(digits)} characters, at most {_MAX_DIGITS} are read")
    return int(digits)


def _check_shape(decoded: Any) -> None:
    """Raise ValueError for what is nested too deeply, and for text that UTF-8 cannot hold ("\\ud800" alone)."""
    waiting: list[tuple[Any, int]] = [(decoded, 1)]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, str):
            if not value.isascii():
                value.encode()
        elif isinstance(value, list | dict):
            if depth > MAX_DEPTH:
                raise ValueError(f"arrays or objects nested too deeply, more than {MAX_DEPTH} times")
            parts = [*value, *value.values()] if isinstance(value, dict) else value
            waiting.extend((part, depth + 1) for part in parts)


def read(model: type[M], decoded: Any, root: str, prefix: str = "") -> M:
    """`decoded` as a `model`. `root` is what problems call the whole, `prefix` what stands before each place in it.

    Raises InvalidDocument with the first `MAX_PROBLEMS` faults.
    """
    if not issubclass(model, RootModel):
        if not isinstance(decoded, Mapping):
            raise InvalidDocument((Problem(root, show(decoded), "a JSON object", f"Write the {root} as an object."),))
        decoded = dict(decoded)
    try:
        return model.model_validate(decoded, by_alias=True, by_name=False)
    except ValidationError as error:
        faults = error.errors(include_url=False)[:MAX_PROBLEMS]
    raise InvalidDocument(tuple(problem_of(fault, *_place(model, fault["loc"], root, prefix)) for fault in faults))


def problem_of(fault: ErrorDetails, where: str, owner: type[BaseModel] | None = None) -> Problem:
    """One of pydantic's errors in our terms; `owner` is the model whose field it is about."""
    place, kind, found, context = fault["loc"], fault["type"], show(fault["input"]), fault.get("ctx", {})
    match kind:
        case "missing":
            fix = _FORMAT_FIX if place[-1] == "format" else f"Add {show(str(place[-1]))}."
            return Problem(where, "nothing", f"the field {show(str(place[-1]))}", fix)
        case "extra_forbidden":
            fields = [] if owner is None else _field_names(owner)
            fix = f"{nearest(str(place[-1]), fields)}Remove it."
            return Problem(where, "an unknown field", f"one of {', '.join(fields)}", fix)
        case "union_tag_invalid":
            name = str(context.get("tag", ""))
            fix = f"{for_operator(name, MODEL_OF_OP)}Known operators: {' '.join(sorted(MODEL_OF_OP))}."
            return Problem(f"{where}.op", show(name), "the name of an operator", fix)
        case "union_tag_not_found":
            return Problem(f"{where}.op", "nothing", "the name of an operator", 'Add "op".')
        case "literal_error":
            fix = _FORMAT_FIX if place[-1:] == ("format",) else "Write one of these."
            if place[-1:] == ("dtype",) and isinstance(fault["input"], str):
                fix = f"{for_dtype(fault['input'], get_args(DTypeName))}{fix}"
            return Problem(where, found, str(context.get("expected", "")).replace(" or ", ", "), fix)
    if "expected" in context and "fix" in context:
        return Problem(where, str(context["found"]), context["expected"], context["fix"])
    if kind in _LIMITS:
        name, text = _LIMITS[kind]
        limit = context[name]
        number = "an integer" if isinstance(limit, int) else "a number"
        expected = text.format(number=number, limit=f"{limit:g}" if isinstance(limit, float) else limit)
        if limit == 1:
            expected = expected.replace("entries", "entry").replace("characters", "character")
    elif kind == "string_pattern_mismatch":
        pattern = context["pattern"]
        expected = IN_WORDS.get(pattern, f"a text that matches {pattern}")
    else:
        expected = _EXPECTED.get(kind, fault["msg"])
    if expected == "an array" and isinstance(fault["input"], int | float | str):
        return Problem(where, found, expected, f"Write it in brackets: [{found}].")
    return Problem(where, found, expected, f"Write {expected} there.")


def _place(model: type[BaseModel], place: tuple[int | str, ...], root: str, prefix: str) -> tuple[str, type[BaseModel]]:
    """`ops[3].in[1]`, and the model that the last field but one leads to.

    After an op's position pydantic names the operator, which is no part of the document.
    """
    text, owner, steps = prefix, model, list(place)
    while steps:
        step = steps.pop(0)
        if isinstance(step, int):
            text += f"[{step}]"
            continue
        text += f".{step}" if text else step
        if owner is Fusion and step == "ops" and len(steps) > 1:
            text += f"[{steps.pop(0)}]"
            owner = MODEL_OF_OP[str(steps.pop(0))]
        elif steps:
            owner = _model_of(owner, step)
    return text or root, owner


def _model_of(owner: type[BaseModel], field: str) -> type[BaseModel]:
    """The model that the values of a field are made of; `owner` itself if they are no models."""
    waiting = [info.annotation for name, info in owner.model_fields.items() if field in (info.alias, name)]
    while waiting:
        found: Any = waiting.pop()
        if isinstance(found, type) and issubclass(found, BaseModel):
            return found
        waiting.extend(get_args(found))
    return owner


def _field_names(model: type[BaseModel]) -> list[str]:
    return sorted(field.alias or name for name, field in model.model_fields.items())
