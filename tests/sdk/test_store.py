from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from fusetune import store as store_module
from fusetune.errors import FusetuneWarning
from fusetune.store import Store
from fusetune.wire.binding import Binding
from fusetune.wire.service import Accept, KernelView
from tests.sdk.fake_service import artifact, bias_gelu, card, kernel_view

FUSION = bias_gelu()
ACCEPT = Accept()


def made(rows: int = 8, on: str = "NVIDIA H200", source: str = "") -> tuple[KernelView, bytes]:
    return kernel_view(artifact(FUSION, Binding(sizes={"M": rows}), source=source), card(on))


def found(store: Store, view: KernelView) -> bytes | None:
    kernel = store.find(view.fingerprint, view.binding, ACCEPT)
    return None if kernel is None else kernel.artifact


def artifacts(root: Path) -> list[Path]:
    return sorted((root / "artifacts").iterdir())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_what_was_put_is_found_again_by_another_store(store: Store, tmp_path: Path) -> None:
    view, data = made()
    store.put(view, data)
    again = Store(tmp_path)
    assert again.artifact(view.artifact_sha256) == data
    kernel = again.find(view.fingerprint, view.binding, ACCEPT)
    assert kernel is not None
    assert (kernel.view, kernel.artifact) == (view, data)


@pytest.mark.parametrize(
    ("change", "is_found"),
    [
        pytest.param({}, True, id="the-key"),
        pytest.param({"fingerprint": "0" * 64}, False, id="another-fusion"),
        pytest.param({"binding": "0" * 64}, False, id="another-binding"),
        pytest.param({"card": "NVIDIA H100"}, False, id="another-card"),
        pytest.param({"card": "NVIDIA H200"}, True, id="card-by-name"),
        pytest.param({"card": card().id}, True, id="card-by-id"),
        pytest.param({"accept": Accept(time=("none",))}, False, id="other-evidence"),
    ],
)
def test_a_key_is_fusion_binding_card_and_evidence(store: Store, change: dict[str, Any], is_found: bool) -> None:
    view, data = made()
    store.put(view, data)
    key = {"fingerprint": view.fingerprint, "binding": view.binding, "accept": ACCEPT, **change}
    assert (store.find(**key) is not None) is is_found


def test_a_newer_kernel_for_a_key_takes_its_place(store: Store) -> None:
    old, new = made(), made(source="// faster")
    store.put(*old)
    store.put(*new)
    assert found(store, new[0]) == new[1]
    assert store.artifact(old[0].artifact_sha256) == old[1]


def test_other_bytes_than_announced_are_not_taken(store: Store) -> None:
    view, data = made()
    with pytest.raises(ValueError, match="sha256"):
        store.put(view, data + b" ")


def test_a_damaged_artifact_is_absent_and_removed(store: Store, tmp_path: Path) -> None:
    view, data = made()
    store.put(view, data)
    (path,) = artifacts(tmp_path)
    path.write_bytes(data[:-1])
    assert store.artifact(view.artifact_sha256) is None
    assert artifacts(tmp_path) == []
    assert found(store, view) is None
    store.put(view, data)
    assert found(store, view) == data


@pytest.mark.parametrize("text", [b"", b"{}", b"\xff\xfe", None])
def test_a_damaged_entry_is_absent_and_removed(store: Store, tmp_path: Path, text: bytes | None) -> None:
    view, data = made()
    store.put(view, data)
    (entry,) = (tmp_path / "index").rglob("*.json")
    entry.write_bytes(made(rows=9)[0].model_dump_json().encode() if text is None else text)
    assert found(store, view) is None
    assert not entry.exists()


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "A" * 64, "0" * 63])
def test_names_that_are_no_hashes_touch_nothing(store: Store, tmp_path: Path, name: str) -> None:
    view, data = made()
    assert store.artifact(name) is None
    assert store.find(name, view.binding, ACCEPT) is None
    store.put(view.model_copy(update={"fingerprint": name}), data)
    store.put(view.model_copy(update={"card": view.card.model_copy(update={"id": "../../x"})}), data)
    assert list(tmp_path.iterdir()) == []


def test_the_longest_unused_goes_first(tmp_path: Path) -> None:
    kernels = [made(rows) for rows in (1, 2, 3)]
    each = len(kernels[0][1]) + len(kernels[0][0].model_dump_json())
    store = Store(tmp_path, max_bytes=int(each * 2.5))
    for age, (view, data) in enumerate(kernels[:2]):
        store.put(view, data)
        for path in tmp_path.rglob("*.json"):
            if path.stat().st_mtime > 2_000:
                os.utime(path, (1_000 + age, 1_000 + age))
    assert found(store, kernels[0][0]) is not None  # used now
    store.put(*kernels[2])
    assert [found(store, view) is not None for view, _ in kernels] == [True, False, True]
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.json")) <= store.max_bytes


def test_what_a_dead_process_left_half_written_goes_too(tmp_path: Path) -> None:
    view, data = made()
    store = Store(tmp_path, max_bytes=3 * len(data))
    left = tmp_path / "artifacts" / ".x.json.1.part"
    left.parent.mkdir()
    left.write_bytes(b"x" * 3 * len(data))
    os.utime(left, (1, 1))
    store.put(view, data)
    assert not left.exists()
    assert found(store, view) == data


def _put_many(root: Path, start: multiprocessing.synchronize.Event, name: str) -> None:
    start.wait(60)
    store = Store(root)
    for rows in range(1, 13):
        view, data = made(rows, source="// the same")
        store.put(view, data)
        assert store.artifact(view.artifact_sha256) == data, name


def test_two_processes_share_a_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start = context.Event()
    workers = [context.Process(target=_put_many, args=(tmp_path, start, name)) for name in "ab"]
    for worker in workers:
        worker.start()
    start.set()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert len(artifacts(tmp_path)) == 12
    assert not list(tmp_path.rglob("*.part"))
    store = Store(tmp_path)
    assert all(found(store, made(rows, source="// the same")[0]) for rows in range(1, 13))


@pytest.mark.parametrize("where", ["a-file", "inside-a-file"])
def test_an_unusable_folder_is_one_warning(tmp_path: Path, where: str) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    store = Store(blocked if where == "a-file" else blocked / "store")
    view, data = made()
    with pytest.warns(FusetuneWarning, match="FUSETUNE_HOME") as warned:
        store.put(view, data)
    store.put(view, data)  # not told twice: warnings are errors in tests
    assert len(warned) == 1
    assert store.artifact(view.artifact_sha256) is None
    assert found(store, view) is None


def test_a_folder_that_may_only_be_read_still_answers(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, data = made()
    store.put(view, data)

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(store_module, "_write", refuse)
    monkeypatch.setattr(os, "utime", refuse)
    assert found(store, view) == data
    with pytest.warns(FusetuneWarning, match="Read-only file system"):
        store.put(*made(9))


def test_the_default_folder_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSETUNE_HOME", str(tmp_path / "home"))
    assert Store().root == tmp_path / "home"
    monkeypatch.setenv("FUSETUNE_HOME", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert Store().root == tmp_path / "cache" / "fusetune"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Store().root == tmp_path / ".cache" / "fusetune"


def test_a_store_travels_to_other_processes(store: Store) -> None:
    assert pickle.loads(pickle.dumps(store)).root == store.root
