"""Packs go out of one service and into another, all or nothing; a deleted kernel does not come back with one."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select
from typer.testing import CliRunner

from fusetune.pack import Pack
from fusetune.signer import Signer
from fusetune.signing import Trust
from fusetune.wire.artifact import VERIFIER, Timing, Verification
from fusetune.wire.pack import PackFile, PackWriter, UnusablePack, pack_bytes, with_signatures
from fusetune.wire.signature import kernel_bytes
from fusetune.wire.wheel import wheel
from service.cli.pack import pack as command
from service.db import kernels, signatures
from service.db.models import AuditRow, FusionRow, KernelRow
from tests.service.api.test_deleting import looked_up
from tests.service.api.test_malformed import check
from tests.service.api.world import World, artifact_document

PROOF = Verification(
    device="NVIDIA H200", input_sets=("random",), max_error=0, tolerance=0, deterministic=True, verifier=VERIFIER
)


def proven(service: World, source: str = "// kernel", median_us: float = 10.0) -> KernelRow:
    """A kernel whose artifact has its proof and its time, as a worker leaves it."""
    timing = Timing(policy="p", card="NVIDIA H200", median_us=median_us, p10_us=4, p90_us=11, samples_us=(median_us,))
    document = artifact_document(source).model_copy(update={"verification": PROOF, "timing": timing})
    content = document.model_dump_json().encode()
    with service.db.write() as session:
        sha256 = kernels.put_artifact(session, content)
    return service.kernel(median_us=median_us, artifact_sha256=sha256, id=kernels.kernel_id(sha256))


def send(service: World, content: bytes) -> Any:
    return service.client.post("/v1/pack", content=content, headers={"Content-Type": "application/zip"})


def test_a_pack_goes_from_one_service_to_another(sites: list[World], tmp_path: Path) -> None:
    one, other = sites
    row = proven(one)
    found = one.client.get("/v1/pack")
    assert (found.status_code, found.headers["content-type"]) == (200, "application/zip")
    assert one.client.get("/v1/pack").content == found.content
    told = send(other, found.content)
    sha256 = PackFile(found.content).sha256
    assert told.json() == {"sha256": sha256, "kernels": 1, "known": 0, "trials": 0, "left": []}
    answer = looked_up(other, row)
    assert (answer["id"], answer["median_us"], answer["evidence"]) == (row.id, 10.0, looked_up(one, row)["evidence"])
    path = f"/v1/kernels/{row.id}"
    assert other.client.get(path).content == one.client.get(path).content
    assert send(other, found.content).json()["known"] == 1
    (tmp_path / "p.ftpack").write_bytes(found.content)
    (view,) = Pack.load(tmp_path / "p.ftpack", sha256=sha256).kernels()
    assert view.id == row.id
    with other.db.read() as session:
        actions = session.scalars(select(AuditRow.action).order_by(AuditRow.id)).all()
    assert actions == ["kernel.imported", "pack.imported", "pack.imported"]


def test_a_kernel_that_was_deleted_here_is_left_out(sites: list[World]) -> None:
    one, other = sites
    row = proven(one)
    content = one.client.get("/v1/pack").content
    send(other, content)
    other.client.delete(f"/v1/kernels/{row.id}")
    assert send(other, content).json()["left"] == [f"{row.id}: it was deleted here"]
    assert looked_up(other, row) is None
    assert other.client.get(f"/v1/kernels/{row.id}").status_code == 410


def test_a_better_kernel_stays(sites: list[World]) -> None:
    one, other = sites
    slow = proven(one)
    fast = proven(other, "// faster", 5.0)
    send(other, one.client.get("/v1/pack").content)
    assert looked_up(other, slow)["id"] == fast.id
    assert send(one, other.client.get("/v1/pack").content).json()["kernels"] == 1
    assert looked_up(one, slow)["id"] == fast.id


def rewritten(content: bytes, **lie: Any) -> bytes:
    """The pack with other claims about its kernel, whole in itself."""
    before, pack = PackFile(content), PackWriter()
    (packed,) = before.manifest.kernels
    fields = json.loads(packed.view.model_dump_json())
    view = type(packed.view).model_validate_json(json.dumps({**fields, **lie}))
    pack.add(view, before.member(f"kernels/{view.artifact_sha256}.json"), packed.binding)
    for name in before.manifest.members:
        if name.startswith("fusions/"):
            pack.add_document(name, json.loads(before.member(name)))
    return pack.content()


def with_history(content: bytes) -> bytes:
    before, pack = PackFile(content), PackWriter()
    for packed in before.manifest.kernels:
        pack.add(packed.view, before.member(f"kernels/{packed.view.artifact_sha256}.json"), packed.binding)
    for name in before.manifest.members:
        if name.startswith("fusions/"):
            pack.add_document(name, json.loads(before.member(name)))
    pack.add_document("history/t.json", {"told": 1})
    return pack.content()


def damaged(content: bytes, before_text: bytes = b"// kernel", after_text: bytes = b"// lernel") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as before, zipfile.ZipFile(out, "w") as after:
        for name in before.namelist():
            after.writestr(name, before.read(name).replace(before_text, after_text))
    return out.getvalue()


EMULATED = {"correct": "verified_emulated", "time": "measured"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(lambda c: b"hello", "no ZIP archive", id="no-pack"),
        pytest.param(lambda c: b"", "no ZIP archive", id="nothing"),
        pytest.param(damaged, "its sha256 is not the one", id="damaged"),
        pytest.param(lambda c: damaged(with_history(c), b"told", b"bold"), "history/t.json: its sha256", id="history"),
        pytest.param(lambda c: rewritten(c, median_us=0.001), "timing", id="another-time"),
        pytest.param(lambda c: rewritten(c, verifier=VERIFIER + 1), "verification", id="another-verifier"),
        pytest.param(lambda c: rewritten(c, evidence=EMULATED), "evidence", id="evidence"),
        pytest.param(lambda c: rewritten(c, id="0" * 32), "id", id="another-id"),
        pytest.param(lambda c: rewritten(c, binding="0" * 64), "binding", id="another-binding"),
        pytest.param(lambda c: rewritten(c, card={**_card(c), "power_w": 1}), "its card has the id", id="another-card"),
    ],
)
def test_a_pack_that_contradicts_itself_is_refused_whole(sites: list[World], change: Any, why: str) -> None:
    one, other = sites
    proven(one)
    refused = send(other, change(one.client.get("/v1/pack").content))
    check(refused, 422, "unusable-pack")
    assert why in refused.json()["detail"]
    with other.db.read() as session:
        assert session.scalar(select(func.count()).select_from(FusionRow)) == 0


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA], ids=["bzip2", "lzma"])
def test_a_member_packed_in_another_way_is_refused_whole_or_damaged(sites: list[World], method: int) -> None:
    _, other = sites
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("pack.json", b"{}" * 100)
    whole = out.getvalue()
    start = len("pack.json") + 30
    for content in (whole, whole[:start] + b"\xff" * 20 + whole[start + 20 :]):
        refused = send(other, content)
        check(refused, 422, "unusable-pack")
        assert "pack.json: its compression is" in refused.json()["detail"]


def test_a_pack_with_any_byte_changed_ends_without_an_error_of_the_server(sites: list[World]) -> None:
    """Names, offsets, sizes and flags of the archive's tables among them."""
    one, _ = sites
    proven(one)
    content = one.client.get("/v1/pack").content
    tables = content.index(b"PK\x01\x02")
    for at in (*range(60), *range(tables, len(content))):
        for bit in (0x01, 0x80):
            changed = content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :]
            try:
                found = PackFile(changed)
                for name in found.manifest.members:
                    found.member(name)
            except UnusablePack:
                continue


def _card(content: bytes) -> dict[str, Any]:
    card: dict[str, Any] = json.loads(PackFile(content).manifest.kernels[0].view.card.model_dump_json())
    return card


@pytest.mark.parametrize(
    "trace",
    [{"steps": ["split"]}, {"steps": {}}, {"launches": [{"steps": []}]}, {"launches": "one"},
     {"launches": [{"reads": [], "writes": [], "steps": [1]}]}],
    ids=["a-word", "no-list", "what-is-read", "no-launches", "a-number"],
)  # fmt: skip
def test_a_trace_that_nobody_could_show_is_refused(sites: list[World], trace: dict[str, Any]) -> None:
    one, other = sites
    proven(one)
    before, pack = PackFile(one.client.get("/v1/pack").content), PackWriter()
    (packed,) = before.manifest.kernels
    artifact = json.loads(before.member(f"kernels/{packed.view.artifact_sha256}.json")) | {"trace": trace}
    content = json.dumps(artifact).encode()
    sha256 = hashlib.sha256(content).hexdigest()
    view = packed.view.model_copy(update={"artifact_sha256": sha256, "id": kernels.kernel_id(sha256)})
    pack.add(view, content, packed.binding)
    refused = send(other, pack.content())
    check(refused, 422, "unusable-pack")
    assert "trace: found something else" in refused.json()["detail"]


def test_what_is_not_proven_today_is_left_out(sites: list[World]) -> None:
    one, other = sites
    row = proven(one)
    content = rewritten(one.client.get("/v1/pack").content, verifier=VERIFIER - 1)
    assert send(other, content).json() == {
        "sha256": PackFile(content).sha256, "kernels": 0, "known": 0, "trials": 0,
        "left": [f"{row.id}: verifier {VERIFIER - 1} proved it, which could pass a wrong one"],
    }  # fmt: skip


def test_a_pack_of_nothing(sites: list[World]) -> None:
    one, _ = sites
    assert check(one.client.get("/v1/pack"), 404, "not-found")["detail"] == "No kernel of any fusion is served here."
    found = check(one.client.get(f"/v1/pack?fingerprint={'0' * 64}"), 404, "not-found")
    assert found["detail"] == "No kernel of 0000000000000000 is served here."
    check(one.client.get("/v1/pack?card=no-such"), 422, "unknown-card")
    check(one.client.get("/v1/pack?fingerprint=x"), 422, "invalid-request")


def signed_by(content: bytes, *signers: Signer, over: bytes | None = None) -> bytes:
    message = pack_bytes(PackFile(content).sha256) if over is None else over
    return with_signatures(content, [signer.signature(message) for signer in signers])


def test_told_whom_to_trust_a_service_takes_their_packs_alone(
    sites: list[World], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = sites
    row = proven(one)
    ours, theirs, next_one = (Signer.create(tmp_path / f"{name}.pem") for name in ("ours", "theirs", "next"))
    with one.db.write() as session:
        signature = ours.sign(kernel_bytes(row.artifact_sha256))
        signatures.put(session, row.artifact_sha256, ours.key, signature)
    content = one.client.get("/v1/pack").content
    monkeypatch.setenv("FUSETUNE_TRUST", ours.public)
    for pack, why in (
        (content, "it is not signed"),  # though its kernel is, by us
        (signed_by(content, theirs), f"it is signed by {theirs.key[:16]} only"),
        (signed_by(content, ours, over=pack_bytes("0" * 64)), "is not over this content"),
    ):
        refused = send(other, pack)
        check(refused, 422, "untrusted-pack")
        assert why in refused.json()["detail"]
        assert PackFile(pack).sha256 in refused.json()["detail"]
    with other.db.read() as session:
        assert session.scalar(select(func.count()).select_from(FusionRow)) == 0
        assert session.scalar(select(func.count()).select_from(AuditRow)) == 0
    assert send(other, signed_by(content, theirs, ours)).json()["kernels"] == 1
    monkeypatch.setenv("FUSETUNE_TRUST", f"{ours.public},{next_one.public}")
    assert send(other, signed_by(content, next_one)).json()["known"] == 1, "a rotated key beside the old one"
    monkeypatch.setenv("FUSETUNE_TRUST", next_one.public)
    check(send(other, signed_by(content, ours)), 422, "untrusted-pack")


def test_the_command_line_says_whom_to_trust(
    sites: list[World], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = sites
    row = proven(one)
    ours, theirs = (Signer.create(tmp_path / f"{name}.pem") for name in ("ours", "theirs"))
    (tmp_path / "keys").write_text(f"# of the team\n{ours.public}\n")
    file, there = tmp_path / "p.ftpack", ("--data-dir", str(tmp_path / "other"))
    content = one.client.get("/v1/pack").content

    def run(*words: object) -> Any:
        return CliRunner().invoke(command, ["import", str(file), *map(str, words), *there])

    for pack in (content, signed_by(content, theirs)):
        file.write_bytes(pack)
        refused = run("--trust", tmp_path / "keys")
        assert (refused.exit_code, "Nothing was taken" in refused.stderr) == (2, True)
        monkeypatch.setenv("FUSETUNE_TRUST", ours.public)
        assert run().exit_code == 2
        monkeypatch.delenv("FUSETUNE_TRUST")
    file.write_bytes(signed_by(content, ours))
    assert run("--trust", "ed25519:nonsense").exit_code == 2
    assert other.client.get("/v1/kernels").json()["items"] == []
    assert run("--trust", tmp_path / "keys").exit_code == 0
    assert looked_up(other, row)["id"] == row.id


def test_a_pack_may_travel_as_a_wheel(sites: list[World], tmp_path: Path) -> None:
    one, other = sites
    row = proven(one)
    out, key = tmp_path / "team_kernels-1.0-py3-none-any.whl", tmp_path / "key.pem"
    signer = Signer.create(key)

    def run(*words: object) -> Any:
        return CliRunner().invoke(command, [str(word) for word in words])

    here, there = ("--data-dir", tmp_path / "one"), ("--data-dir", tmp_path / "other")
    sha256 = run("export", "--out", out, *here).stdout.strip()
    assert PackFile(out).signatures == ()
    assert run("sign", out, "--key", key).exit_code == 0
    assert Pack.load(out, sha256=sha256, trust=signer.public).kernels()[0].id == row.id
    assert out.read_bytes() == wheel(out.name, inner(out))
    assert send(other, out.read_bytes()).json()["kernels"] == 1
    assert run("import", out, "--trust", signer.public, *there).stdout.startswith(
        "0 kernels were taken in, 1 were known"
    )
    for bad in (run("export", "--out", tmp_path / "p.whl", *here), run("sign", _renamed(out), "--key", key)):
        assert (bad.exit_code, "Call it like" in bad.stderr) == (2, True)


def inner(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read("team_kernels.ftpack")


def _renamed(path: Path) -> Path:
    (path.parent / "other.whl").write_bytes(path.read_bytes())
    return path.parent / "other.whl"


def test_from_the_command_line(sites: list[World], tmp_path: Path) -> None:
    one, other = sites
    row = proven(one)
    key, out = Signer.create(tmp_path / "key.pem"), tmp_path / "p.ftpack"

    def run(*words: object) -> Any:
        return CliRunner().invoke(command, [str(word) for word in words])

    here, there = ("--data-dir", tmp_path / "one"), ("--data-dir", tmp_path / "other")
    made = run("export", "--out", out, "--key", tmp_path / "key.pem", "--fingerprint", row.fingerprint, *here)
    sha256 = made.stdout.strip()
    assert Pack.load(out, sha256=sha256, trust=key.public).kernels()[0].id == row.id
    second = Signer.create(tmp_path / "second.pem")
    assert run("sign", out, "--key", tmp_path / "second.pem").exit_code == 0
    for one_key in (key, second):
        Trust.of(one_key.public).check("p", pack_bytes(sha256), PackFile(out).signatures)
    refused = run("import", out, "--sha256", "0" * 64, *there)
    assert (refused.exit_code, "Nothing was taken" in refused.stderr) == (2, True)
    taken = run("import", out, "--sha256", sha256, *there)
    assert taken.stdout == "1 kernels were taken in, 0 were known, 0 left out.\n"
    assert looked_up(other, row)["id"] == row.id
    assert run("export", "--out", out, "--card", "no-such", *here).exit_code == 2
    assert run("export", "--out", out, "--fingerprint", "0" * 64, *here).exit_code == 2
    assert run("import", tmp_path / "key.pem", *there).exit_code == 2
    assert run("import", tmp_path / "nothing", *there).exit_code == 2
