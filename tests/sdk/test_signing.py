"""Told whom to trust, the client loads nothing that nobody of these has signed, from wherever it comes."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fusetune.client import Client
from fusetune.errors import InvalidRequest, PackageMissing, Untrusted
from fusetune.kernel import Kernel
from fusetune.running.source import ServiceSource
from fusetune.signing import Trust, public_key
from fusetune.store import Store
from fusetune.wire.binding import Binding
from fusetune.wire.service import KernelView
from fusetune.wire.signature import Signature, kernel_bytes, key_id
from tests.sdk.fake_service import URL, FakeService, artifact, bias_gelu, kernel_view

FUSION = bias_gelu()
BINDING = Binding(sizes={"M": 8})
OURS, THEIRS = Ed25519PrivateKey.from_private_bytes(b"o" * 32), Ed25519PrivateKey.from_private_bytes(b"t" * 32)


def written(key: Ed25519PrivateKey) -> str:
    return f"ed25519:{base64.b64encode(key.public_key().public_bytes_raw()).decode()}"


def signed(key: Ed25519PrivateKey, message: bytes) -> Signature:
    name = key_id(key.public_key().public_bytes_raw())
    return Signature(key=name, value=base64.b64encode(key.sign(message)))


def kernel(*keys: Ed25519PrivateKey, of: bytes | None = None) -> tuple[KernelView, bytes]:
    """A kernel that these have signed, or a view whose signatures are of other bytes."""
    view, data = kernel_view(artifact(FUSION, BINDING))
    message = kernel_bytes(sha256(data if of is None else of).hexdigest())
    return view.model_copy(update={"signatures": tuple(signed(key, message) for key in keys)}), data


OTHERWISE = Signature(key=key_id(OURS.public_key().public_bytes_raw()), value=base64.b64encode(b"0" * 64))


@pytest.mark.parametrize(
    ("made", "why"),
    [
        pytest.param(lambda: kernel(OURS), None, id="ours"),
        pytest.param(lambda: kernel(THEIRS, OURS), None, id="both"),
        pytest.param(lambda: kernel(), "it is not signed", id="nobodys"),
        pytest.param(lambda: kernel(THEIRS), "it is signed by", id="theirs"),
        pytest.param(lambda: kernel(OURS, of=b"other bytes"), "is not over this content", id="of-other-bytes"),
        pytest.param(
            lambda: (kernel()[0].model_copy(update={"signatures": (OTHERWISE,)}), kernel()[1]),
            "is not over this content",
            id="no-signature-at-all",
        ),
    ],
)
def test_what_is_loaded(made: Callable[[], tuple[KernelView, bytes]], why: str | None) -> None:
    view, data = made()
    trust = Trust.of([written(OURS)])
    if why is None:
        assert Kernel.from_json(data, info=view, trust=trust).info == view
    else:
        with pytest.raises(Untrusted, match=why):
            Kernel.from_json(data, info=view, trust=trust)
    assert Kernel.from_json(data, info=view).info == view, "told no keys, it asks for none"


def test_a_signature_of_another_kind_of_thing_is_none_of_a_kernel() -> None:
    view, data = kernel()
    other = (signed(OURS, f"fusetune.pack/1 sha256 {view.artifact_sha256}".encode()), signed(OURS, data))
    for one in other:
        with pytest.raises(Untrusted):
            Trust.of(written(OURS)).check_kernel("k", data, [one])


@pytest.fixture
def service() -> FakeService:
    return FakeService()


def test_a_client_and_its_store(service: FakeService, tmp_path: Path) -> None:
    view, data = kernel(THEIRS)
    service.kernels[view.id] = (view, data)
    arguments: dict[str, Any] = {"store": Store(tmp_path), "transport": service.transport()}
    for trust, is_loaded in ((None, True), (written(THEIRS), True), (written(OURS), False)):
        with Client(URL, trust=trust, **arguments) as client:
            if is_loaded:
                assert client.tune(FUSION, binding=BINDING).info == view
            else:
                with pytest.raises(Untrusted):
                    client.tune(FUSION, binding=BINDING)


def test_a_process_that_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view, data = kernel(THEIRS)
    Store(tmp_path).put(view, data)
    keys = tmp_path / "keys"
    keys.write_text(f"# who builds our kernels\n{written(OURS)}\n")
    for trust, is_loaded in ((str(keys), False), (f"{written(OURS)}, {written(THEIRS)}", True)):
        monkeypatch.setenv("FUSETUNE_TRUST", trust)
        source = ServiceSource(store=Store(tmp_path))
        assert (source.peek(FUSION, BINDING) is not None) == is_loaded
    monkeypatch.setenv("FUSETUNE_TRUST", str(keys))
    path = tmp_path / "kernel.json"
    path.write_bytes(data)
    with pytest.raises(Untrusted, match="it is not signed"):
        Kernel.load(path)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("ed25519:AAAA", id="too-short"),
        pytest.param("ed25519:not base64!", id="no-base64"),
        pytest.param([], id="none"),
        pytest.param(["rsa:AAAA"], id="another-kind"),
        pytest.param("/nowhere/keys", id="no-file"),
        pytest.param(written(OURS) + ",ed25519:", id="one-of-two"),
    ],
)
def test_what_is_no_key_is_told_before_anything_is_asked(given: Any) -> None:
    with pytest.raises(InvalidRequest, match="trust"):
        Client(URL, trust=given)


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    view, data = kernel(OURS)
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(PackageMissing, match=r"pip install 'fusetune\[sign\]'"):
        Kernel.from_json(data, info=view, trust=Trust.of(written(OURS)))
    assert Kernel.from_json(data, info=view).info == view


def test_a_key_as_it_is_written() -> None:
    assert public_key(written(OURS)) == OURS.public_key().public_bytes_raw()
