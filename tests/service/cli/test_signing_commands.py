"""`signing`: keys are made, used on what is stored, rotated, and what they signed is served with the kernel at once."""

from __future__ import annotations

import base64
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from typer.testing import CliRunner, Result

from fusetune.errors import UnusableKey
from fusetune.signer import Signer
from fusetune.signing import Trust
from fusetune.wire.signature import Signature, kernel_bytes
from service.cli.signing import signing
from service.db import signatures
from service.db.models import ArtifactRow
from tests.service.api.test_again import ask, warm
from tests.service.api.world import World, world


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(signing, [str(word) for word in words])


def test_a_key_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    made = run("create", path)
    assert (made.exit_code, stat.S_IMODE(path.stat().st_mode)) == (0, 0o600)
    assert made.stdout.startswith("ed25519:")
    assert run("public", path).stdout == made.stdout
    before = path.read_bytes()
    assert run("create", path).exit_code == 2
    assert path.read_bytes() == before


def test_what_is_no_key_to_sign_with_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    curve = generate_private_key(SECP256R1())
    other.write_bytes(curve.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (tmp_path / "text").write_text("hello")
    for name, why in (("other.pem", "another kind"), ("text", "no private key"), ("none", "No such file")):
        with pytest.raises(UnusableKey, match=why):
            Signer.load(tmp_path / name)
        told = run("public", tmp_path / name)
        assert (told.exit_code, told.stdout) == (2, "")


def served(service: World) -> Any:
    return service.client.get("/v1/kernels").json()["items"][0]


def test_stored_kernels_are_signed_and_keys_rotated(tmp_path: Path) -> None:
    first, second = Signer.create(tmp_path / "1.pem"), Signer.create(tmp_path / "2.pem")
    with world(tmp_path) as service:
        row = service.kernel()
        assert warm(service)["signatures"] == []
        for signer, name in ((first, "1.pem"), (second, "2.pem")):
            done = run("sign", tmp_path / name, "--data-dir", tmp_path)
            assert done.stdout == f"1 kernels are signed by {signer.public}.\n"
            assert run("sign", tmp_path / name, "--data-dir", tmp_path).stdout.startswith("0 kernels")
            answer, is_told_again = ask(service)
            assert not is_told_again, "what was kept in memory is of before"
            content = service.client.get(f"/v1/kernels/{row.id}").content
            found = [Signature.model_validate_json(_json(one)) for one in answer.json()["signatures"]]
            Trust.of(signer.public).check_kernel("k", content, found)
        assert warm(service) == served(service)
        gone = run("forget", first.key, "--data-dir", tmp_path)
        assert gone.stdout == f"1 signatures of {first.key} are gone.\n"
        assert [one["key"] for one in ask(service)[0].json()["signatures"]] == [second.key]
        assert run("forget", "short", "--data-dir", tmp_path).exit_code == 2


def _json(one: Any) -> str:
    return Signature(key=one["key"], value=one["value"].encode()).model_dump_json()


def test_what_is_damaged_is_not_signed(tmp_path: Path) -> None:
    Signer.create(tmp_path / "1.pem")
    with world(tmp_path) as service:
        row = service.kernel()
        with service.db.write() as session:
            session.get_one(ArtifactRow, row.artifact_sha256).content = b"something else"
        told = run("sign", tmp_path / "1.pem", "--data-dir", tmp_path)
        assert (told.exit_code, "is damaged" in told.stderr) == (2, True)
        assert served(service)["signatures"] == []


def test_a_signature_goes_with_its_kernel(tmp_path: Path) -> None:
    signer = Signer.create(tmp_path / "1.pem")
    with world(tmp_path) as service:
        row = service.kernel()
        with service.db.write() as session:
            value = signer.sign(kernel_bytes(row.artifact_sha256))
            signatures.put(session, row.artifact_sha256, signer.key, value)
        (one,) = served(service)["signatures"]
        assert (one["key"], base64.b64decode(one["value"])) == (signer.key, value)
        assert service.client.delete(f"/v1/kernels/{row.id}").status_code == 204
        with service.db.read() as session:
            assert signatures.of(session, [row.artifact_sha256]) == {}
