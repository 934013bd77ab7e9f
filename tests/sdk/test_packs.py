"""Packs: kernels of one file, without a service; damaged, foreign or unsigned ones are named and not loaded."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fusetune.cli.app import main
from fusetune.errors import FusetuneError, InvalidPack, OutdatedProof, Untrusted, WrongArguments
from fusetune.pack import Pack
from fusetune.running import PackSource, default_source, use_pack, use_source
from fusetune.signer import Signer
from fusetune.store import Store
from fusetune.whole import written_whole
from fusetune.wire.artifact import VERIFIER, Evidence
from fusetune.wire.binding import Binding
from fusetune.wire.lock import Lock, LockedCard, LockedEvidence, LockEntry
from fusetune.wire.pack import MANIFEST, SIGNATURES, PackWriter, kernel_member, pack_bytes
from fusetune.wire.service import Accept, KernelView
from tests.sdk.fake_service import artifact, bias_gelu, card, kernel_view
from tests.sdk.test_signing import OURS, THEIRS, kernel, signed, written

FUSION = bias_gelu()


def made(rows: int, on: str = "NVIDIA H200", **changes: Any) -> tuple[KernelView, bytes]:
    return kernel_view(artifact(FUSION, Binding(sizes={"M": rows}), source=on), card(on), **changes)


def packed(*kernels: tuple[KernelView, bytes]) -> PackWriter:
    pack = PackWriter()
    for view, data in kernels:
        pack.add(view, data)
    return pack


def put(folder: Path, content: bytes) -> Path:
    path = folder / "kernels.ftpack"
    path.write_bytes(content)
    return path


@dataclass
class Tensor:
    """As much of a tensor as decides which kernel is taken."""

    shape: tuple[int, ...]
    address: int = 4096
    dtype: str = "torch.bfloat16"
    strides: tuple[int, ...] | None = None

    def stride(self) -> tuple[int, ...]:
        return self.strides or (64, 1)[-len(self.shape) :]

    def data_ptr(self) -> int:
        return self.address


def test_what_was_packed_is_found_and_only_read(tmp_path: Path) -> None:
    kernels = [made(8), made(16), made(8, "NVIDIA H100")]
    path = put(tmp_path, packed(*kernels).content())
    path.chmod(0o400)
    before = path.read_bytes()
    pack = Pack.load(path)
    assert {view.id for view in pack.kernels()} == {view.id for view, _ in kernels}
    for view, _ in kernels:
        found = pack.find(view.fingerprint, view.binding, card=view.card.name)
        assert found is not None
        assert (found.info, found.origin) == (view, "pack")
        assert pack.get(view) is found
    assert pack.find("0" * 64, kernels[0][0].binding) is None
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == [path]


def test_equal_contents_are_one_file_whatever_their_order(tmp_path: Path) -> None:
    one, other = packed(made(8), made(16)), packed(made(16), made(8))
    assert one.content() == other.content()
    assert Pack.load(put(tmp_path, one.content()), sha256=one.sha256).sha256 == one.sha256
    with pytest.raises(InvalidPack, match="expected 0000"):
        Pack.load(tmp_path / "kernels.ftpack", sha256="0" * 64)


def test_one_function_for_many_bindings(tmp_path: Path) -> None:
    pack = Pack.load(put(tmp_path, packed(made(8), made(16)).content()))
    function = pack.function()
    for rows in (8, 16, 8):
        found = function.kernel_for(Tensor((rows, 64)), Tensor((64,)))
        assert found.artifact.inputs[0].shape == (rows, 64)


@pytest.mark.parametrize(
    "tensors",
    [
        pytest.param((Tensor((9, 64)), Tensor((64,))), id="another-size"),
        pytest.param((Tensor((8, 64)),), id="one-too-few"),
        pytest.param((Tensor((8, 64), dtype="torch.float32"), Tensor((64,))), id="another-dtype"),
        pytest.param((Tensor((8, 64), strides=(1, 8)), Tensor((64,))), id="other-strides"),
        pytest.param((Tensor((8, 64), address=4098), Tensor((64,))), id="less-aligned"),
        pytest.param((1.0, 2.0), id="no-tensors"),
    ],
)
def test_tensors_that_no_kernel_is_for(tmp_path: Path, tensors: tuple[Any, ...]) -> None:
    function = Pack.load(put(tmp_path, packed(made(8)).content())).function()
    with pytest.raises(WrongArguments, match="a kernel for"):
        function(*tensors)


def test_a_function_is_asked_for_without_doubt(tmp_path: Path) -> None:
    pack = Pack.load(put(tmp_path, packed(made(8, name="gelu"), made(8, "NVIDIA H100", name="gelu")).content()))
    with pytest.raises(InvalidPack, match="name one card of NVIDIA H100, NVIDIA H200"):
        pack.function("gelu")
    assert pack.function("gelu", card="nvidia h100").kernel_for(Tensor((8, 64)), Tensor((64,))).info is not None
    for word in ("other", ""):
        with pytest.raises(InvalidPack, match="no fusion"):
            pack.function(word)


def test_a_function_takes_the_evidence_that_is_accepted(tmp_path: Path) -> None:
    emulated = Evidence(correct="verified_emulated", time="predicted")
    made_so = artifact(FUSION, Binding(sizes={"M": 8}), evidence=emulated)
    pack = Pack.load(put(tmp_path, packed(kernel_view(made_so), made(16)).content()))
    with pytest.raises(WrongArguments):
        pack.function().kernel_for(Tensor((8, 64)), Tensor((64,)))
    accept = Accept(correct=("verified_emulated",), time=("predicted",))
    found = pack.function(accept=accept).kernel_for(Tensor((8, 64)), Tensor((64,)))
    assert found.artifact.evidence == emulated
    only = Pack.load(put(tmp_path, packed(kernel_view(made_so)).content()))
    with pytest.raises(InvalidPack, match="are verified_emulated, their time predicted"):
        only.function()


def changed(content: bytes, change: Callable[[dict[str, bytes]], Any]) -> bytes:
    """The archive with other members, as ZIP has them in order."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


MEMBER = kernel_member(made(8)[0].artifact_sha256)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(lambda c: b"", "no ZIP", id="empty"),
        pytest.param(lambda c: c[: len(c) // 2], "no ZIP", id="cut-short"),
        pytest.param(lambda c: changed(c, lambda m: m.pop(MANIFEST)), "it has no pack.json", id="no-manifest"),
        pytest.param(lambda c: changed(c, lambda m: m.pop(MEMBER)), "is missing", id="a-kernel-less"),
        pytest.param(lambda c: changed(c, lambda m: m.update(more=b"x")), "more is not listed", id="a-member-more"),
        pytest.param(lambda c: changed(c, lambda m: m.update({MANIFEST: b"{}"})), "is not listed", id="another-list"),
        pytest.param(lambda c: changed(c, lambda m: m.update({MANIFEST: b"["})), "pack.json", id="no-json"),
        pytest.param(lambda c: changed(c, lambda m: m.update({SIGNATURES: b"[1]"})), "signatures.json", id="signature"),
    ],
)
def test_a_file_that_is_no_whole_pack_is_refused(tmp_path: Path, content: Callable[[bytes], bytes], why: str) -> None:
    path = put(tmp_path, content(packed(made(8)).content()))
    with pytest.raises(InvalidPack, match=why):
        Pack.load(path, trust=written(OURS))


def test_a_kernel_that_was_changed_is_not_loaded(tmp_path: Path) -> None:
    content = packed(made(8), made(16)).content()
    path = put(tmp_path, changed(content, lambda m: m.update({MEMBER: m[MEMBER].replace(b"fused", b"other")})))
    pack = Pack.load(path)
    for view in pack.kernels():
        if kernel_member(view.artifact_sha256) == MEMBER:
            with pytest.raises(InvalidPack, match="its sha256 is not the one"):
                pack.get(view)
        else:
            assert pack.get(view).info == view


def test_what_a_view_says_of_its_kernel_must_be_so(tmp_path: Path) -> None:
    view, data = made(8)
    for lie in ({"binding": "0" * 64}, {"fingerprint": "0" * 64}, {"arch": "sm_100a"}):
        pack = Pack.load(put(tmp_path, packed((view.model_copy(update=lie), data)).content()))
        with pytest.raises(InvalidPack, match="is not the kernel"):
            pack.get(pack.kernels()[0])


def test_what_an_older_verifier_proved_is_refused(tmp_path: Path) -> None:
    pack = Pack.load(put(tmp_path, packed(made(8, verifier=VERIFIER - 1)).content()))
    with pytest.raises(OutdatedProof):
        pack.function().kernel_for(Tensor((8, 64)), Tensor((64,)))


@pytest.mark.parametrize(
    ("kernels", "signers", "error"),
    [
        pytest.param([kernel()], [OURS], None, id="the-pack-is-ours"),
        pytest.param([kernel()], [THEIRS, OURS], None, id="the-pack-is-of-both"),
        pytest.param([kernel(OURS)], [], None, id="its-kernel-is-ours"),
        pytest.param([kernel(OURS)], [THEIRS], None, id="our-kernel-in-their-pack"),
        pytest.param([kernel()], [], Untrusted, id="nobodys"),
        pytest.param([kernel(THEIRS)], [THEIRS], Untrusted, id="theirs"),
    ],
)
def test_whose_packs_are_loaded(tmp_path: Path, kernels: Any, signers: Any, error: type[FusetuneError] | None) -> None:
    pack = packed(*kernels)
    pack.sign([signed(key, pack_bytes(pack.sha256)) for key in signers])
    path = put(tmp_path, pack.content())
    if error is None:
        loaded = Pack.load(path, trust=written(OURS))
        assert loaded.get(loaded.kernels()[0]).origin == "pack"
    else:
        with pytest.raises(error):
            Pack.load(path, trust=written(OURS))
    assert Pack.load(path).sha256 == pack.sha256, "signatures do not change the hash"


def test_a_signature_of_another_pack_is_none(tmp_path: Path) -> None:
    pack, other = packed(kernel()), packed(made(16))
    pack.sign([signed(OURS, pack_bytes(other.sha256))])
    with pytest.raises(Untrusted, match="is not over this content"):
        Pack.load(put(tmp_path, pack.content()), trust=written(OURS))


def test_one_kernel_of_somebody_else_in_a_pack_that_nobody_signed(tmp_path: Path) -> None:
    ours, (view, data) = kernel(OURS), made(16)
    pack = Pack.load(put(tmp_path, packed(ours, (view, data)).content()), trust=written(OURS))
    assert pack.get(ours[0]).info == ours[0]
    with pytest.raises(Untrusted):
        pack.get(view)


def test_the_functions_of_a_process_take_a_pack(tmp_path: Path) -> None:
    path = put(tmp_path, packed(made(8)).content())
    use_pack(path)
    try:
        source = default_source()
        assert isinstance(source, PackSource)
        assert source.peek(FUSION, Binding(sizes={"M": 8})) is not None
        source.request(FUSION, Binding(sizes={"M": 9}), weight=1.0)
        assert source.peek(FUSION, Binding(sizes={"M": 9})) is None
        assert "nothing else is taken" in (source.why_not(FUSION, Binding(sizes={"M": 9})) or "")
    finally:
        use_source(None)


def locked(view: KernelView) -> Lock:
    entry = LockEntry(
        fingerprint=view.fingerprint, binding_hash=view.binding, card=LockedCard.of_view(view.card, view.arch),
        policy=view.policy, generator=view.generator, nvrtc=view.nvrtc, code_hash="c" * 64,
        launch_hash=artifact(FUSION, Binding(sizes={"M": 8})).launch_hash, artifact_sha256=view.artifact_sha256,
        evidence=LockedEvidence(verifier=VERIFIER),
    )  # fmt: skip
    return Lock(fusions={"gelu": entry})


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    for place in (tmp_path / "none" / "p.ftpack", tmp_path):
        with pytest.raises(OSError, match=rf"'{place}'$"), written_whole(place) as part:
            part.write_bytes(b"")
    assert list(tmp_path.iterdir()) == []


def test_a_lock_is_packed_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view, data = made(8)
    store, lock, out = tmp_path / "store", tmp_path / "kernels.lock", tmp_path / "kernels.ftpack"
    lock.write_text(locked(view).to_json())
    words = ["pack", "build", "--lock", str(lock), "--out", str(out), "--store", str(store)]
    assert main(words) == 2, "the store is empty"
    assert not out.exists()
    Store(store).put(view, data)
    assert main(words) == 0
    sha256 = capsys.readouterr().out.strip()
    assert main(["pack", "show", str(out), "--sha256", sha256]) == 0
    assert view.id[:12] in capsys.readouterr().out
    assert main(["pack", "show", str(out), "--sha256", "0" * 64]) == 2
    assert main(["pack", "show", str(out), "--trust", written(OURS)]) == 2
    assert "it is not signed" in capsys.readouterr().err
    signer = Signer.create(tmp_path / "key.pem")
    assert main([*words, "--sign-key", str(tmp_path / "key.pem")]) == 0
    assert main(["pack", "show", str(out), "--sha256", sha256, "--trust", signer.public]) == 0
    before = out.read_bytes()
    assert main([*words, "--sign-key", str(lock)]) == 2
    assert out.read_bytes() == before
    assert main(["pack", "show", str(lock)]) == 2
    assert main(["pack", "build", "--lock", str(out), "--out", str(out)]) == 2
