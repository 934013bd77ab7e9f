"""What a Client does for those who look after a service, against a real one: by function calls, and over a socket."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
import uvicorn

from fusetune import AsyncClient, Client, Pack, errors
from fusetune.wire.pack import PackFile
from service.http1 import BoundedHttp
from tests.service.api.test_access import OPERATOR, bearer
from tests.service.api.test_deleting import looked_up
from tests.service.api.test_packs import damaged, proven
from tests.service.api.world import ADD, World, world


def transport(service: World) -> httpx2.MockTransport:
    """The service as a client's network."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        found = service.client.request(
            request.method, str(request.url), content=request.read(), headers=dict(request.headers)
        )
        headers = {k: v for k, v in found.headers.items() if k not in ("content-encoding", "content-length")}
        return httpx2.Response(found.status_code, headers=headers, content=found.content)

    return httpx2.MockTransport(handle)


def client_of(service: World, key: str | None = None) -> Client:
    return Client("http://127.0.0.1:8765", key, store=None, transport=transport(service))


def test_a_pack_is_carried_from_one_service_to_another(sites: list[World], tmp_path: Path) -> None:
    one, other = sites
    row, path = proven(one), tmp_path / "p.ftpack"
    with client_of(one) as source, client_of(other) as target:
        sha256 = source.export_pack(path, fusions=[ADD], card="H200", history=True)
        assert source.export_pack(tmp_path / "again.ftpack", fusions=[row.fingerprint]) == sha256
        assert Pack.load(path, sha256=sha256).kernels()
        taken = target.import_pack(path, sha256=sha256)
        assert (taken.sha256, taken.kernels, taken.known, taken.left) == (sha256, 1, 0, ())
        assert target.import_pack(path).known == 1
        assert [one.action for one in target.audit(action="pack.imported", subject=sha256)] == ["pack.imported"] * 2
        (entry,) = target.audit(action="kernel.imported")
        assert entry.detail == {"pack": sha256}
    assert sorted(one.name for one in tmp_path.glob("*.ftpack*")) == ["again.ftpack", "p.ftpack"]


def test_a_pack_is_carried_as_a_wheel(sites: list[World], tmp_path: Path) -> None:
    one, other = sites
    row, path = proven(one), tmp_path / "team_kernels-1.0-py3-none-any.whl"
    with client_of(one) as source, client_of(other) as target:
        sha256 = source.export_pack(path)
        assert target.import_pack(path, sha256=sha256).kernels == 1
        with pytest.raises(errors.InvalidRequest, match="the wheel's name"):
            source.export_pack(tmp_path / "kernels.whl")
    assert looked_up(other, row)["id"] == row.id


def test_what_is_deleted_is_answered_no_more(sites: list[World]) -> None:
    service, _ = sites
    row, other = proven(service), proven(service, "// faster", 5.0)
    with client_of(service) as client:
        client.delete_kernel(other.id)
        assert looked_up(service, row) is None
        with pytest.raises(errors.ServerRefused, match="was deleted on"):
            client.delete_kernel(other.id)
        gone = client.delete_fusion(ADD)
        assert (gone.fingerprint, gone.kernels) == (row.fingerprint, 1)
        with pytest.raises(errors.ServerRefused, match="No fusion has the id"):
            client.delete_fusion(row.fingerprint)
        assert [one.action for one in client.audit(subject=row.fingerprint)] == ["fusion.deleted"]
        for nothing in ("", None):
            with pytest.raises(errors.InvalidRequest, match="the id of a kernel"):
                client.delete_kernel(nothing)  # type: ignore[arg-type]  # what is refused
        with pytest.raises(errors.InvalidFusion):
            client.delete_fusion("{}")


def test_the_audit_log_is_read_page_by_page(sites: list[World], monkeypatch: pytest.MonkeyPatch) -> None:
    service, _ = sites
    monkeypatch.setattr("fusetune.transport.PAGE", 2)
    proven(service)
    with client_of(service) as client:
        for _ in range(5):
            client.import_pack(exported(client, service))
        ids = [entry.id for entry in client.audit(action="pack.imported")]
    assert len(ids) == 5
    assert ids == sorted(ids, reverse=True)


def exported(client: Client, service: World) -> Path:
    path = service.settings.data_dir / "p.ftpack"
    client.export_pack(path)
    return path


@pytest.mark.parametrize("scope", ["read", "tune", "admin"])
def test_a_key_of_a_smaller_scope_is_told_what_it_lacks(tmp_path: Path, scope: str) -> None:
    with world(tmp_path, host="0.0.0.0", api_key=OPERATOR) as service:
        row = proven(service)
        key = bearer(service, "somebody", scope=scope)["Authorization"].removeprefix("Bearer ")
        with client_of(service, key) as client:
            path = exported(client, service)
            calls = (
                lambda: client.import_pack(path),
                lambda: list(client.audit()),
                lambda: client.delete_kernel(row.id),
                lambda: client.delete_fusion(ADD),
            )
            for call in calls:
                if scope == "admin":
                    call()
                else:
                    with pytest.raises(errors.Unauthorized, match=f"needs the scope admin; the key of .* has {scope}"):
                        call()


def test_what_is_no_pack_is_not_sent_and_a_damaged_one_is_refused(sites: list[World], tmp_path: Path) -> None:
    service, _ = sites
    proven(service)
    path = tmp_path / "p.ftpack"
    with client_of(service) as client:
        path.write_text("no pack")
        with pytest.raises(errors.InvalidPack, match="no ZIP archive"):
            client.import_pack(path)
        client.export_pack(path)
        with pytest.raises(errors.InvalidPack, match="expected 0000"):
            client.import_pack(path, sha256="0" * 64)
        path.write_bytes(damaged(path.read_bytes()))
        with pytest.raises(errors.ServerRefused, match="its sha256 is not the one"):
            client.import_pack(path)
        with pytest.raises(FileNotFoundError):
            client.import_pack(tmp_path / "nothing")
        assert list(client.audit()) == []


def test_a_pack_that_is_damaged_on_its_way_is_no_file(sites: list[World], tmp_path: Path) -> None:
    service, _ = sites
    proven(service)
    whole = service.client.get("/v1/pack")
    etag = whole.headers["etag"]
    for content, tag in ((damaged(whole.content), etag), (b"", etag), (whole.content, '"0"')):
        answer = httpx2.MockTransport(lambda _, c=content, t=tag: httpx2.Response(200, content=c, headers={"etag": t}))
        with Client(store=None, transport=answer) as client, pytest.raises(errors.ServerBroken):
            client.export_pack(tmp_path / "p.ftpack")
    with (
        client_of(service) as client,
        pytest.raises(errors.ServerRefused, match="No kernel of 0000000000000000 is served"),
    ):
        client.export_pack(tmp_path / "p.ftpack", fusions=["0" * 64])
    assert not list(tmp_path.glob("*.ftpack*"))
    assert not list(tmp_path.glob(".*"))


def test_it_can_be_awaited(sites: list[World], tmp_path: Path) -> None:
    one, other = sites
    row = proven(one)

    async def main() -> list[str]:
        urls = "http://127.0.0.1:8765"
        async with (
            AsyncClient(urls, store=None, transport=transport(one)) as source,
            AsyncClient(urls, store=None, transport=transport(other)) as target,
        ):
            sha256 = await source.export_pack(tmp_path / "p.ftpack")
            assert (await target.import_pack(tmp_path / "p.ftpack", sha256=sha256)).kernels == 1
            await target.delete_kernel(row.id)
            assert (await target.delete_fusion(ADD)).fingerprint == row.fingerprint
            return [entry.action async for entry in target.audit()]

    assert asyncio.run(main()) == ["fusion.deleted", "kernel.deleted", "pack.imported", "kernel.imported"]


@contextmanager
def over_a_socket(service: World) -> Iterator[str]:
    config = uvicorn.Config(service.client.app, http=BoundedHttp, lifespan="off", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def test_a_pack_over_the_limit_is_refused_in_words_while_it_is_sent(tmp_path: Path) -> None:
    """The service answers and closes before it has read a large body; the answer must not be lost for that."""
    with world(tmp_path, max_body_bytes=4096) as service, over_a_socket(service) as url:
        proven(service, random.Random(0).randbytes(4_000_000).hex())
        with Client(url, store=None) as client:
            path = tmp_path / "p.ftpack"
            sha256 = client.export_pack(path)
            assert PackFile(path).sha256 == sha256
            assert path.stat().st_size > 1 << 20
            for _ in range(3):
                with pytest.raises(errors.ServerRefused, match="4096"):
                    client.import_pack(path)
            assert client.health().status == "ok"
