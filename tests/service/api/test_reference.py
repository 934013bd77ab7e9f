"""The reference of the API shows what works."""

from __future__ import annotations

import re

import pytest

from docs.generate_api import api_page
from service.openapi_examples import EXAMPLES
from service.problems import KINDS
from tests.service.api.world import World


@pytest.mark.parametrize("path", EXAMPLES)
def test_an_example_is_answered(service: World, path: str) -> None:
    response = service.client.post(path, json=EXAMPLES[path])
    assert response.status_code in (200, 202), response.text


def test_links_inside_the_page_lead_somewhere() -> None:
    page = api_page()
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    slugs = [re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= set(slugs)
    assert len(set(slugs)) == len(slugs), "two headings with one anchor"


def test_every_kind_of_problem_is_explained() -> None:
    page = api_page()
    assert [kind.name for kind in KINDS if f"| `{kind.name}` | {kind.status} | {kind.meaning} |" not in page] == []


def test_every_path_that_takes_a_body_has_an_example() -> None:
    page = api_page()
    posted = re.findall(r"^### `POST (\S+)`$", page, re.MULTILINE)
    files = re.findall(r"^curl --data-binary @\S+ http://[^/]+(/\S+)$", page, re.MULTILINE)
    assert sorted(posted) == sorted([*EXAMPLES, *files])
