"""The OpenAPI document holds: whatever is sent, answers are those that it lists."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import checks
from schemathesis.generation import GenerationMode
from schemathesis.generation.hypothesis.builder import HypothesisTestConfig, HypothesisTestMode, create_test

from service.app import create_app
from service.openapi import document, kept
from service.openapi_examples import EXAMPLES
from service.problems import KINDS
from service.settings import Settings
from tests.service.api.world import HOST, REQUEST, RecordingQueue, World, world

ROOT = Path(__file__).parents[3]
checks.load_all_checks()
# Not `positive_data_acceptance`: a schema cannot say what a fusion means, so what fits it may still be refused.
CHECKS = checks.CHECKS.get_by_names(
    [
        "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
        "response_schema_conformance", "negative_data_rejection", "unsupported_method", "allow_header_conformance",
    ]
)  # fmt: skip
OPERATIONS = {
    "POST /v1/tunings", "GET /v1/tunings", "GET /v1/tunings/{tuning_id}", "DELETE /v1/tunings/{tuning_id}",
    "GET /v1/tunings/{tuning_id}/trials", "GET /v1/tunings/{tuning_id}/history.t4.json",
    "GET /v1/tunings/{tuning_id}/events", "GET /v1/kernels",
    "POST /v1/kernels/lookup", "GET /v1/kernels/{kernel_id}", "GET /v1/kernels/{kernel_id}/info",
    "GET /v1/kernels/{kernel_id}/source", "GET /v1/kernels/{kernel_id}/ptx", "GET /v1/kernels/{kernel_id}/cubin",
    "GET /v1/kernels/{kernel_id}/schedule", "GET /v1/fusions", "GET /v1/fusions/{fingerprint}", "GET /v1/cards",
    "DELETE /v1/kernels/{kernel_id}", "DELETE /v1/fusions/{fingerprint}", "GET /v1/audit", "GET /v1/pack",
    "POST /v1/pack",
    "POST /v1/schedules/check", "POST /v1/spaces", "GET /healthz", "GET /readyz", "GET /metrics",
}  # fmt: skip

MANY = {"POST /v1/tunings": 3, "POST /v1/spaces": 8}
"""Operations of which the ordinary run sends one request in so many."""


def paths(service: World) -> dict[str, Any]:
    app: Any = service.client.app
    found: dict[str, Any] = kept(app)["paths"]
    return found


def test_every_path_is_in_it(shared: World) -> None:
    assert {f"{method.upper()} {path}" for path, item in paths(shared).items() for method in item} == OPERATIONS


def test_every_kind_of_problem_is_documented_somewhere(shared: World) -> None:
    said = str(paths(shared))
    # Of paths and methods that a document does not have, it cannot speak; nor of what is not of the API.
    assert {kind.name for kind in KINDS if f"`{kind.name}`" not in said} == {
        "method-not-allowed", "not-http", "headers-too-large", "bad-form",
    }  # fmt: skip
    assert "HTTPValidationError" not in said


def test_operations_are_called_as_people_would(shared: World) -> None:
    """Generators of clients make functions of these."""
    ids = [one["operationId"] for item in paths(shared).values() for one in item.values()]
    assert len(set(ids)) == len(ids)
    assert {"open_tuning", "list_kernels", "get_cubin", "cancel_tuning"} <= set(ids)
    assert all(re.fullmatch(r"[a-z]+(_[a-z0-9]+)+", id) for id in ids)


def test_bodies_have_examples_and_answers_their_headers(shared: World) -> None:
    for path, item in paths(shared).items():
        for one in item.values():
            for kind, media in one.get("requestBody", {}).get("content", {}).items():
                assert media.get("example") == (EXAMPLES[path] if kind == "application/json" else None)
            for status, answer in one["responses"].items():
                assert "X-Request-Id" in answer["headers"]
                assert ("Retry-After" in answer["headers"]) == (status in ("429", "503"))
    cubin = paths(shared)["/v1/kernels/{kernel_id}/cubin"]["get"]["responses"]["200"]
    assert {"ETag", "Cache-Control"} <= set(cubin["headers"])


def test_the_page_about_the_api_has_all_of_it_and_loads_nothing_from_elsewhere(shared: World) -> None:
    page = shared.client.get("/docs")
    assert page.status_code == 200
    for path, item in paths(shared).items():
        assert path in page.text
        assert all(f'id="{one["operationId"]}"' in page.text for one in item.values())
    assert 'href="#tuningrequest"' in page.text
    assert 'id="tuningrequest"' in page.text
    loaded = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    assert [one for one in loaded if not re.match(r"#|/(?!/)", one)] == []


def test_bodies_are_the_wire_types(shared: World) -> None:
    body = paths(shared)["/v1/tunings"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/TuningRequest"}


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A service with a kernel and a tuning in it, that all operations share, whatever they leave of it."""
    with world(tmp_path_factory.mktemp("used")) as found:
        found.kernel()
        found.post({**REQUEST, "refresh": True})
        yield found


@pytest.fixture(scope="module")
def documented() -> Any:
    """The document, and what is drawn of it: of the one run that asks, not of every process that collects tests."""
    with tempfile.TemporaryDirectory() as folder:  # the application is only asked about itself
        app = create_app(Settings(data_dir=Path(folder)), queue=RecordingQueue())
    return schemathesis.openapi.from_dict(document(app))


def drawn(examples: int) -> settings:
    """So many requests of each operation, the same in every run."""
    unshared = [HealthCheck.function_scoped_fixture]
    return settings(
        derandomize=True, database=None, deadline=None, max_examples=examples, suppress_health_check=unshared
    )


def expect_documented(operation: str, service: World, documented: Any, each: int = 1) -> None:
    """Examples, what covers the schema, and few that are drawn: what `schema.parametrize` makes at collection,
    in two seconds of each process. `each`: of so many one is sent."""
    method, path = operation.split()
    numbers = count()

    def ask(case: Any) -> None:
        if next(numbers) % each == 0:
            case.call_and_validate(HOST, app=service.client.app, checks=CHECKS)

    config = HypothesisTestConfig(documented.config, [*HypothesisTestMode], explicit_settings=drawn(4), seed=0)
    create_test(operation=documented[path][method], test_func=ask, config=config)()
    assert next(numbers) > 1


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_answers_are_those_that_are_documented(operation: str, used: World, documented: Any) -> None:
    """Of tunings a third, of spaces an eighth: each has 1,400 by the fusion and the binding of its bodies alone."""
    expect_documented(operation, used, documented, each=MANY.get(operation, 1))


@pytest.mark.long
@pytest.mark.parametrize("operation", MANY)
def test_all_answers_to_fusions_are_those_that_are_documented(operation: str, used: World, documented: Any) -> None:
    expect_documented(operation, used, documented)


@pytest.mark.long
@pytest.mark.parametrize("mode", [*GenerationMode], ids=lambda mode: str(mode.name))
@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_many_answers_are_those_that_are_documented(
    operation: str, mode: GenerationMode, used: World, documented: Any
) -> None:
    """What fits the document, and what does not."""
    method, path = operation.split()

    @given(case=documented[path][method].as_strategy(generation_mode=mode))
    @drawn(50)
    def ask(case: Any) -> None:
        case.call_and_validate(HOST, app=used.client.app, checks=CHECKS)

    ask()
