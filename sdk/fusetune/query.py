"""What a Client method is asked: arguments in every form that is taken, as checked wire types."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pydantic

from fusetune.bindings import BindingLike, TensorLike, binding_of, bound_by, read_binding
from fusetune.errors import InvalidFusion, InvalidRequest
from fusetune.kernel import EmptyKernel, empty_kernel
from fusetune.wire import fingerprint
from fusetune.wire.artifact import Wire
from fusetune.wire.binding import Binding
from fusetune.wire.canonical import binding_hash
from fusetune.wire.fusion import Fusion, show
from fusetune.wire.infer import checked_types
from fusetune.wire.parse import parse_fusion, problem_of
from fusetune.wire.problems import InvalidDocument, Problem
from fusetune.wire.service import Accept, TuningRequest
from fusetune.wire.wanting import Enough

FusionLike = Fusion | Mapping[str, Any] | str | bytes
"""A fusion of the builder or of the wire, or its document, decoded or as JSON text."""

R = TypeVar("R", bound=Wire)
B = TypeVar("B", bound=pydantic.BaseModel)

AcceptLike = Accept | Mapping[str, Any]
"""`Accept`, or its fields: `{"correct": ["verified_emulated"], "time": ["none"]}`."""


EnoughLike = Enough | Mapping[str, Any]
"""`Enough`, or its fields."""


@dataclass(frozen=True, slots=True)
class Query:
    """A fusion at a binding, and the two hashes that the cache knows them by.

    `empty` is the answer where there is nothing to compute: the service is not asked then.
    """

    fusion: Fusion
    binding: Binding
    fingerprint: str
    binding_hash: str
    empty: EmptyKernel | None


def query_of(
    fusion: FusionLike, inputs: Sequence[TensorLike] | None = None, binding: BindingLike | None = None
) -> Query:
    """The query; without inputs and binding, of a fusion without symbols. Raises InvalidFusion, InvalidBinding."""
    if inputs is not None and binding is not None:
        fix = "Leave one of them out: sizes and layouts are read off tensors."
        raise InvalidRequest((Problem("inputs and binding", "both", "one of them", fix),))
    graph = read_fusion_like(fusion)
    if inputs is not None:
        found, bound = bound_by(graph, binding_of(graph, inputs))
    else:
        found, bound = read_binding(graph, Binding() if binding is None else binding)
    return Query(graph, found, fingerprint(graph), binding_hash(graph, found), empty_kernel(bound))


def read_fusion_like(fusion: FusionLike) -> Fusion:
    """The valid fusion in any of the forms that are taken. Raises InvalidFusion."""
    try:
        if not isinstance(fusion, Fusion):
            return parse_fusion(fusion)
        checked_types(fusion)
    except InvalidDocument as error:
        raise InvalidFusion(error.problems) from None
    # The builder's Fusion is a subclass; what travels is the wire's.
    return Fusion(
        format=fusion.format, inputs=fusion.inputs, scalars=fusion.scalars, ops=fusion.ops, outputs=fusion.outputs
    )


def read_accept(accept: AcceptLike | None) -> Accept:
    """The evidence that an answer may stand on; measured on a GPU by default. Raises InvalidRequest."""
    if accept is None:
        return Accept()
    if isinstance(accept, Accept):
        return accept
    try:
        return Accept.model_validate(accept)
    except pydantic.ValidationError as error:
        raise InvalidRequest(_problems(error, ("accept",))) from None


def read_enough(enough: EnoughLike | None) -> Enough | None:
    """When a search has enough; None: when its budget is spent. Raises InvalidRequest."""
    if enough is None or isinstance(enough, Enough):
        return enough
    try:
        return Enough.model_validate(enough)
    except pydantic.ValidationError as error:
        raise InvalidRequest(_problems(error, ("enough",))) from None


def tuning_request(query: Query, accept: Accept, **settings: Any) -> TuningRequest:
    """The body of POST /v1/tunings. Raises InvalidRequest where a setting is out of its range."""
    return checked_request(TuningRequest, fusion=query.fusion, binding=query.binding, accept=accept, **settings)


def checked_request(model: type[R], **fields: Any) -> R:
    """A request body. Raises InvalidRequest where a field is out of its range."""
    try:
        return model(**fields)
    except pydantic.ValidationError as error:
        raise InvalidRequest(_problems(error, ())) from None


def checked_root(model: type[B], value: object) -> B:
    """A request body that is no object but `value` itself. Raises InvalidRequest where it cannot be sent."""
    try:
        return model.model_validate_json(json.dumps(value, allow_nan=False))
    except pydantic.ValidationError as error:
        raise InvalidRequest(_problems(error, ())) from None
    except (TypeError, ValueError, RecursionError) as error:
        fix = "Pass what `json.loads` gives."
        raise InvalidRequest((Problem("schedules", show(str(error)), "what JSON can hold", fix),)) from None


def _problems(error: pydantic.ValidationError, place: tuple[str, ...]) -> tuple[Problem, ...]:
    """pydantic's faults in our terms; `place` is where the model stands."""
    faults = error.errors(include_url=False)
    return tuple(problem_of(fault, _place((*place, *fault["loc"]))) for fault in faults)


def _place(steps: Sequence[int | str]) -> str:
    """As the service writes a place: `accept.correct[0]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")
