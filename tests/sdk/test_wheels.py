"""Packs as wheels: installers take them, equal ones have equal bytes, what is installed is a pack like any other."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.utils import canonicalize_name, parse_wheel_filename
from wheel.wheelfile import WheelFile

from fusetune.cli.app import main
from fusetune.errors import InvalidPack, InvalidRequest, Untrusted
from fusetune.pack import Pack
from fusetune.packing import build
from fusetune.store import Store
from fusetune.wire.pack import PackFile, UnusablePack, pack_bytes, with_signatures
from fusetune.wire.problems import InvalidDocument
from fusetune.wire.wheel import check_name, named, wheel
from tests.sdk.test_packs import Tensor, locked, made, packed
from tests.sdk.test_signing import OURS, THEIRS, signed, written

ROOT = Path(__file__).parents[2]
NAME = "team_kernels-1.2.post1+cu13-py3-none-any.whl"
CONTENT = packed(made(8, name="gelu"), made(16, name="gelu")).content()
SHA256 = PackFile(CONTENT).sha256


def put(folder: Path, pack: bytes = CONTENT, name: str = NAME) -> Path:
    path = folder / name
    path.write_bytes(wheel(name, pack))
    return path


def test_it_is_a_wheel_by_the_word_of_the_libraries(tmp_path: Path) -> None:
    path = put(tmp_path)
    name, version, _, tags = parse_wheel_filename(path.name)
    assert (name, str(version), [str(tag) for tag in tags]) == ("team-kernels", "1.2.post1+cu13", ["py3-none-any"])
    with WheelFile(path) as archive:  # reading a member holds it against RECORD
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    info = "team_kernels-1.2.post1+cu13.dist-info"
    assert set(members) == {"team_kernels.ftpack", *(f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD"))}
    metadata = Metadata.from_email(members[f"{info}/METADATA"], validate=True)
    assert (canonicalize_name(metadata.name), metadata.version) == (name, version)
    assert metadata.summary == f"2 kernels of fusetune, pack sha256 {SHA256}"
    assert members["team_kernels.ftpack"] == CONTENT
    assert not any(name.endswith(".py") for name in members), "it brings no code"


def test_equal_packs_are_equal_wheels(tmp_path: Path) -> None:
    other = packed(made(16, name="gelu"), made(8, name="gelu")).content()
    assert wheel(NAME, other) == wheel(NAME, CONTENT)
    assert wheel(NAME, packed(made(8)).content()) != wheel(NAME, CONTENT)


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        pytest.param("team_kernels-1-py3-none-any.whl", True, id="least"),
        pytest.param("a-2026.11.28rc1.dev0+h100.2-py3-none-any.whl", True, id="long-version"),
        pytest.param("kernels.whl", False, id="no-version"),
        pytest.param("team-kernels-1.0-py3-none-any.whl", False, id="dash-in-name"),
        pytest.param("Team_kernels-1.0-py3-none-any.whl", False, id="capital"),
        pytest.param("team__kernels-1.0-py3-none-any.whl", False, id="two-underscores"),
        pytest.param("team_kernels-one-py3-none-any.whl", False, id="no-number"),
        pytest.param("team_kernels-1.0-cp311-cp311-linux_x86_64.whl", False, id="another-tag"),
        pytest.param("fusetune-1.0-py3-none-any.whl", False, id="the-sdk-itself"),
        pytest.param("kernels.ftpack", True, id="no-wheel"),
    ],
)
def test_names_that_installers_take(tmp_path: Path, name: str, is_one: bool) -> None:
    if is_one:
        check_name(name)
        if name.endswith(".whl"):
            parse_wheel_filename(name)
        return
    for refused in (lambda: check_name(name), lambda: named(name, CONTENT)):
        with pytest.raises(InvalidDocument, match="the wheel's name: found"):
            refused()
    with pytest.raises(InvalidRequest, match=r"Call it like team_kernels-1\.0"):
        build(tmp_path / "none.lock", tmp_path / name)


SCRIPT = """
import socket, sys
def no(*_, **__): raise AssertionError("a connection")
socket.socket.connect = no
import fusetune
class T:
    dtype = "torch.bfloat16"
    def __init__(self, *shape): self.shape = shape
    def stride(self): return (64, 1)[-len(self.shape):]
    def data_ptr(self): return 4096
pack = fusetune.Pack.installed("team-kernels", sha256=sys.argv[1], trust=sys.argv[2])
gelu = pack.function("gelu")
print(*(gelu.kernel_for(T(rows, 64), T(64)).artifact.inputs[0].shape[0] for rows in (8, 16)))
print(sorted({name.partition(".")[0] for name in sys.modules} & {"compiler", "search", "service", "torch", "cuda"}))
"""


def test_installed_it_is_called_without_a_service_a_compiler_or_a_network(tmp_path: Path) -> None:
    signatures = [signed(OURS, pack_bytes(SHA256))]
    path, target = put(tmp_path, with_signatures(CONTENT, signatures)), tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", str(target), str(path)], check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(target), str(ROOT / "sdk")))}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", SCRIPT, *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    done = run(SHA256, written(OURS))
    assert (done.stdout, done.stderr) == ("8 16\n[]\n", "")
    assert "Untrusted: " in run(SHA256, written(THEIRS)).stderr
    assert "InvalidPack: " in run("0" * 64, written(OURS)).stderr


def site(folder: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None) -> None:
    """What an installer would leave of NAME in a folder of `sys.path`."""
    with zipfile.ZipFile(io.BytesIO(wheel(NAME, CONTENT))) as archive:
        archive.extractall(folder)
    if content is not None:
        (folder / "team_kernels.ftpack").write_bytes(content)
    monkeypatch.syspath_prepend(folder)


def test_what_is_installed_is_held_against_its_hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site(tmp_path, monkeypatch, None)
    pack = Pack.installed("team_kernels")
    assert pack.sha256 == SHA256
    assert pack.function().kernel_for(Tensor((8, 64)), Tensor((64,))).origin == "pack"
    with pytest.raises(Untrusted, match="it is not signed"):
        Pack.installed("team_kernels", trust=written(OURS))
    monkeypatch.setenv("FUSETUNE_TRUST", written(OURS))
    with pytest.raises(Untrusted):
        Pack.installed("team_kernels")


@pytest.mark.parametrize(
    ("content", "why"), [(b"", "no ZIP archive"), (CONTENT[:-30], "no ZIP archive"), (wheel(NAME, CONTENT), None)]
)
def test_what_was_changed_after_it_was_installed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, why: str | None
) -> None:
    site(tmp_path, monkeypatch, content)
    if why is None:
        assert Pack.installed("team_kernels").sha256 == SHA256, "a wheel is read as the pack in it"
    else:
        with pytest.raises(InvalidPack, match=why):
            Pack.installed("team_kernels")


@pytest.mark.parametrize("name", ["no-such-kernels", "", "pydantic"])
def test_a_distribution_without_a_pack(name: str) -> None:
    with pytest.raises(InvalidPack, match=r"no wheel of this name|with 0 packs"):
        Pack.installed(name)


def test_a_wheel_is_read_without_being_installed(tmp_path: Path) -> None:
    pack = Pack.load(put(tmp_path), sha256=SHA256)
    assert len(pack.kernels()) == 2
    assert pack.get(pack.kernels()[0]).origin == "pack"


def archive(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made_of:
        for name, data in members:
            made_of.writestr(name, data)
    return out.getvalue()


MARK = ("a-1.dist-info/WHEEL", b"")
ONE = archive(MARK, ("a.ftpack", CONTENT))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(archive(MARK), "a wheel with 0 packs", id="none"),
        pytest.param(archive(MARK, ("a.ftpack", CONTENT), ("b.ftpack", CONTENT)), "a wheel with 2 packs", id="two"),
        pytest.param(archive(MARK, ("a.ftpack", b"hello")), "no ZIP archive", id="text"),
        pytest.param(archive(MARK, ("a.ftpack", ONE)), "it has no pack.json", id="a-wheel-in-a-wheel"),
        pytest.param(wheel(NAME, CONTENT).replace(b"PK\x03\x04", b"PK\x03\x05"), "damaged", id="damaged"),
    ],
)
def test_wheels_that_hold_no_pack(content: bytes, why: str) -> None:
    assert PackFile(ONE).sha256 == SHA256
    with pytest.raises(UnusablePack, match=why):
        PackFile(content)


def test_a_lock_is_built_into_a_wheel_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view, data = made(8)
    store, lock = tmp_path / "store", tmp_path / "kernels.lock"
    lock.write_text(locked(view).to_json())
    Store(store).put(view, data)
    outs = [tmp_path / "a" / NAME, tmp_path / "b" / NAME]
    for out in outs:
        out.parent.mkdir()
        assert main(["pack", "build", "--lock", str(lock), "--out", str(out), "--store", str(store)]) == 0
    sha256 = capsys.readouterr().out.split()[0]
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert main(["pack", "show", str(outs[0]), "--sha256", sha256]) == 0
    assert view.id[:12] in capsys.readouterr().out
    bad = tmp_path / "kernels.whl"
    assert main(["pack", "build", "--lock", str(lock), "--out", str(bad), "--store", str(store)]) == 2
    assert "py3-none-any.whl" in capsys.readouterr().err
    assert not bad.exists()
