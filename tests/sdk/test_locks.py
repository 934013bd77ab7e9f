"""A lock of kernels: what it names is taken, by its bytes; nothing else is, and nobody is asked."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fusetune
from fusetune.errors import InvalidLock, Untrusted, UnusableKey
from fusetune.running import LockedSource, ServiceSource, default_source, read_lock, use_source, write_lock
from fusetune.signer import Signer
from fusetune.signing import Trust
from fusetune.store import Store
from fusetune.wire.binding import Binding
from fusetune.wire.signature import Signature
from fusetune.wire.wanting import Distance
from service.ci.lock import LockError
from service.ci.signed import check_signature
from tests.sdk.fake_service import FakeService
from tests.sdk.test_running import FUSION, ROWS, source_of
from tests.sdk.test_signing import OURS, THEIRS, signed, written

OTHER = Binding(sizes={"M": 9})


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """One kernel, in the store `kernels` beside it."""
    source = source_of(FakeService(), tmp_path / "kernels")
    source.request(FUSION, ROWS, weight=1)
    assert source.wait(30)
    assert write_lock(tmp_path / "lock.json", source) == 1
    return tmp_path / "lock.json"


@pytest.fixture
def as_before() -> Iterator[None]:
    yield
    use_source(None)


def locked(lock: Path) -> LockedSource:
    return LockedSource(read_lock(lock), Store(lock.parent / "kernels"))


def test_what_it_names_is_taken_out_of_the_store(lock: Path) -> None:
    source = locked(lock)
    kernel = source.peek(FUSION, ROWS)
    assert kernel is not None
    assert kernel.origin == "store"
    (row,) = read_lock(lock).kernels
    assert (row.fingerprint, row.card.name) == (FUSION.fingerprint, "NVIDIA H200")


def test_what_it_does_not_name_has_no_kernel_though_the_store_has(lock: Path) -> None:
    source = source_of(FakeService(), lock.parent / "kernels")
    source.request(FUSION, OTHER, weight=1)
    assert source.wait(30)
    assert source.peek(FUSION, OTHER) is not None
    pinned = locked(lock)
    assert pinned.peek(FUSION, OTHER) is None
    pinned.request(FUSION, OTHER, weight=1)
    assert pinned.wait(0)
    assert "the lock has no kernel of it" in (pinned.why_not(FUSION, OTHER) or "")


def test_a_provisional_kernel_is_refused(lock: Path) -> None:
    source = source_of(FakeService(), lock.parent / "kernels")
    source.request(FUSION, ROWS, weight=1)
    assert source.wait(30)
    (kernel,) = source.held().values()
    assert kernel.info is not None
    kernel.info = kernel.info.model_copy(update={"provisional": Distance(at_most=0.1)})
    written = lock.read_bytes()
    with pytest.raises(InvalidLock, match="it is provisional, its search goes on"):
        write_lock(lock, source)
    assert lock.read_bytes() == written


def test_a_kernel_that_the_store_has_lost_is_told(lock: Path, tmp_path: Path) -> None:
    source = LockedSource(read_lock(lock), Store(tmp_path / "empty"))
    assert source.peek(FUSION, ROWS) is None
    assert "does not have it" in (source.why_not(FUSION, ROWS) or "")


def edit(lock: Path, **fields: Any) -> None:
    """Changes the one entry of the file as a hand would."""
    document = json.loads(lock.read_text())
    (entry,) = document["fusions"].values()
    if any(name.startswith("card__") for name in fields):
        entry["card"].pop("sha256", None)  # as locks from before have it
    for name, value in fields.items():
        *above, last = name.split("__")
        at = entry
        for part in above:
            at = at[part]
        at[last] = value
    lock.write_text(json.dumps(document))


def test_a_newer_kernel_of_the_key_changes_nothing(lock: Path) -> None:
    edit(lock, artifact_sha256="0" * 64)
    assert locked(lock).peek(FUSION, ROWS) is None  # the store's newest one is another


def test_an_entry_without_an_artifact_takes_the_kernel_of_its_code_and_launch(lock: Path) -> None:
    """As `service ci` writes it, which builds kernels from their schedules."""
    edit(lock, artifact_sha256=None)
    assert locked(lock).peek(FUSION, ROWS) is not None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("generator", "another"),
        ("code_hash", "0" * 64),
        ("launch_hash", "0" * 64),
        ("card__arch", "sm_100a"),
    ],
)
@pytest.mark.parametrize("names_bytes", [True, False])
def test_a_kernel_that_is_not_the_locked_one_is_not_taken(
    lock: Path, field: str, value: str, names_bytes: bool
) -> None:
    (row,) = read_lock(lock).kernels
    edit(lock, **{field: value}, artifact_sha256=row.artifact_sha256 if names_bytes else None)
    source = locked(lock)
    assert source.peek(FUSION, ROWS) is None
    assert f"{field.replace('__', '.')}: the lock has {value}, the kernel" in (source.why_not(FUSION, ROWS) or "")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("card__name", "NVIDIA H100"), ("card__sm_count", 133), ("card__power_w", 1), ("policy", "another"),
        ("nvrtc", "12.9"), ("evidence__correct", "verified_emulated"),
    ],
)  # fmt: skip
def test_an_entry_that_names_bytes_says_of_them_what_was_known(lock: Path, field: str, value: Any) -> None:
    edit(lock, **{field: value})
    source = locked(lock)
    assert source.peek(FUSION, ROWS) is None
    assert f"{field.replace('__', '.')}: the lock has {value}, the kernel" in (source.why_not(FUSION, ROWS) or "")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "NVIDIA H100"), ("arch", "sm_100a"), ("sm_count", 133), ("max_sm_clock_mhz", 1), ("power_w", 1),
        ("max_memory_clock_mhz", 1), ("memory_bytes", 1), ("l2_bytes", 1),
    ],
)  # fmt: skip
def test_a_fact_of_a_card_that_was_changed_is_noticed_as_the_lock_is_read(lock: Path, field: str, value: Any) -> None:
    document = json.loads(lock.read_text())
    (entry,) = document["fusions"].values()
    entry["card"][field] = value
    lock.write_text(json.dumps(document))
    with pytest.raises(InvalidLock, match=r"card: one of name, arch, sm_count, .* was changed"):
        read_lock(lock)


@pytest.mark.parametrize(("field", "value"), [("median_us", 3.0), ("driver", "590"), ("floor_us", 1.0)])
def test_what_may_change_while_a_kernel_is_timed_again_is_not_held_against_it(
    lock: Path, field: str, value: Any
) -> None:
    edit(lock, **{field: value})
    assert locked(lock).peek(FUSION, ROWS) is not None


def test_equal_kernels_are_written_with_equal_bytes_and_lines_of_their_own(lock: Path) -> None:
    text = lock.read_text()
    assert read_lock(lock).to_json() == text
    assert all(f'\n   "{name}": ' in text for name in ("code_hash", "launch_hash", "artifact_sha256"))


def test_a_lock_is_taken_from_whom_is_trusted_alone(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = read_lock(lock)
    assert read_lock(lock, None) == found
    with pytest.raises(Untrusted, match="it is not signed"):
        read_lock(lock, written(OURS))
    lock.write_text(found.model_copy(update={"signature": signed(OURS, found.signed_bytes())}).to_json())
    assert read_lock(lock, [written(THEIRS), written(OURS)]).fusions == found.fusions
    with pytest.raises(Untrusted, match="is signed by"):
        fusetune.use_lock(lock, trust=written(THEIRS))
    edit(lock, policy="another")
    with pytest.raises(Untrusted, match="is not over this content"):
        read_lock(lock, written(OURS))
    assert read_lock(lock).kernels[0].policy == "another", "whoever trusts nobody in particular checks hashes only"
    monkeypatch.setenv("FUSETUNE_TRUST", written(OURS))
    with pytest.raises(Untrusted, match="is not over this content"):
        read_lock(lock)


def test_a_lock_is_signed_as_it_is_written(lock: Path, tmp_path: Path) -> None:
    source, key = locked(lock), tmp_path / "key.pem"
    assert source.peek(FUSION, ROWS) is not None
    signer, plain = Signer.create(key), lock.read_text()
    assert fusetune.write_lock(lock, source, sign_key=key) == 1
    found = read_lock(lock, signer.public)
    assert found.signature is not None
    assert found.signature.key == signer.key
    assert fusetune.write_lock(tmp_path / "again", source, sign_key=str(key)) == 1
    assert (tmp_path / "again").read_text() == lock.read_text(), "the same kernels and key, the same bytes"
    edit(lock, policy="another")
    with pytest.raises(Untrusted, match="is not over this content"):
        read_lock(lock, signer.public)
    before = lock.read_text()
    (tmp_path / "text").write_text("hello")
    for name in ("text", "none"):
        with pytest.raises(UnusableKey):
            fusetune.write_lock(lock, source, sign_key=tmp_path / name)
    assert lock.read_text() == before, "nothing is written without the signature that was asked for"
    fusetune.write_lock(lock, source)
    assert lock.read_text() == plain


def test_a_signed_lock_of_a_program_is_one_for_ci(lock: Path, tmp_path: Path) -> None:
    source, key = locked(lock), tmp_path / "key.pem"
    source.peek(FUSION, ROWS)
    signer = Signer.create(key)
    fusetune.write_lock(lock, source, sign_key=key)
    check_signature(lock, read_lock(lock), Trust.of(signer.public))
    with pytest.raises(LockError, match=r"expected a signature of a key of --trust"):
        check_signature(lock, read_lock(lock), Trust.of(written(OURS)))


def test_what_is_signed_is_all_but_the_signature(lock: Path) -> None:
    before = read_lock(lock)
    signed = before.model_copy(update={"signature": Signature(key="0" * 64, value=base64.b64encode(bytes(64)))})
    assert signed.signed_bytes() == before.signed_bytes()
    lock.write_text(signed.to_json())
    assert read_lock(lock) == signed
    edit(lock, policy="another")
    assert read_lock(lock).signed_bytes() != before.signed_bytes()


@pytest.mark.parametrize(("card", "is_found"), [("the row's", True), ("B200", False)])
def test_a_card_has_its_own(lock: Path, card: str, is_found: bool) -> None:
    (row,) = read_lock(lock).kernels
    search: Any = fusetune.running.Search(card=row.card.name if is_found else card)
    assert (locked(lock).peek(FUSION, ROWS, search) is not None) == is_found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is damaged"),
        ('{"format": "fusetune.lock/2"}', "format"),
        ('{"format": "fusetune.kernels/1", "kernels": []}', "format"),
        ('{"fusions": {"a": {"fingerprint": "a"}}}', "fusions.a.fingerprint"),
    ],
)
def test_a_damaged_lock_is_refused_with_the_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "lock.json"
    file.write_text(text)
    with pytest.raises(InvalidLock, match=said) as caught:
        fusetune.use_lock(file)
    assert "write it anew" in str(caught.value)


def test_the_environment_names_one(lock: Path, monkeypatch: pytest.MonkeyPatch, as_before: None) -> None:
    monkeypatch.setenv("FUSETUNE_LOCK", str(lock))
    monkeypatch.setenv("FUSETUNE_HOME", str(lock.parent / "kernels"))
    use_source(None)
    source = default_source()
    assert isinstance(source, LockedSource)
    assert source.peek(FUSION, ROWS) is not None


def test_without_one_the_service_is_asked(monkeypatch: pytest.MonkeyPatch, as_before: None) -> None:
    monkeypatch.setenv("FUSETUNE_LOCK", "")
    use_source(None)
    assert type(default_source()) is ServiceSource
