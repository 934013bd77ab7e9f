"""A kernel's page shows the map of its tensor memory; where a schedule has none, nothing of it stands there."""

from __future__ import annotations

import base64

from starlette.testclient import TestClient

from service.db.engine import Database
from tests.service.dashboard.html_page import HtmlPage
from tests.service.dashboard.seed import post, publish
from tests.service.dashboard.tensor_memory import publish_with_tensor_memory


def test_the_map_of_each_copy_by_warp_and_by_register(database: Database, client: TestClient) -> None:
    with database.write() as session:
        id = publish_with_tensor_memory(session, post(session, "add", {"M": 128, "N": 16})).id
    page = HtmlPage(client.get(f"/kernels/{id}").text)
    assert page.faults() == []
    assert "which warp, and which register of which thread, holds what" in page.text
    for said in ("store to tensor", "load from tensor", "subpartition 3", "32x32b.x1", "that of: store to tensor"):
        assert said in page.text
    images = [image for image in page.all("img") if image.attrs["alt"]]
    assert len(images) == 4, "by warp and by register, of the store and of the load"
    head, _, data = images[0].attrs["src"].partition(",")
    drawn = base64.b64decode(data).decode()
    assert head == "data:image/svg+xml;base64"
    assert "tensor in tensor memory: store to it by warp" in drawn
    assert all("the text below" in image.attrs["alt"] for image in images)


def test_a_kernel_without_tensor_memory_has_no_map(database: Database, client: TestClient) -> None:
    with database.write() as session:
        id = publish(session, post(session, "add", {"M": 128, "N": 16}), 1, 12.5, None).id
    text = HtmlPage(client.get(f"/kernels/{id}").text).text
    assert "Copies" in text
    assert "Tensor memory" not in text
