"""What those who look after a service ask of it: what is deleted, who did what, packs out of it and into it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from fusetune.errors import InvalidPack, InvalidRequest, ServerBroken
from fusetune.pack import check_out
from fusetune.query import FusionLike, read_fusion_like
from fusetune.transport import Transport
from fusetune.whole import written_whole
from fusetune.wire import fingerprint
from fusetune.wire.fusion import show
from fusetune.wire.pack import PackFile, UnusablePack
from fusetune.wire.problems import Problem
from fusetune.wire.service import AuditEntries, AuditEntry, DeletedFusionView, KernelView, PackTaken
from fusetune.wire.wheel import SUFFIX, wheel

PACK_S = 300.0
"""Seconds to wait for a service that writes a pack or takes one in: it may hold thousands of kernels."""

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


class Administration:
    """Methods of a Client that want a key of the scope `admin`; `export_pack` does with one that reads.

    They raise Unauthorized for another key, ServerRefused for what is not there or not allowed, and ServiceError
    otherwise. Where `fusion` is asked for, its fingerprint will do.
    """

    _transport: Transport

    def delete_kernel(self, kernel: str | KernelView) -> None:
        """Takes a kernel out of the service for good, by its id or its view. Its trial stays."""
        name: object = kernel.id if isinstance(kernel, KernelView) else kernel
        if not isinstance(name, str) or not name:
            fix = "Pass the `id` of a KernelView."
            raise InvalidRequest((Problem("kernel", show(kernel), "the id of a kernel", fix),))
        self._transport.send("DELETE", f"/kernels/{quote(name, safe='')}")

    def delete_fusion(self, fusion: FusionLike) -> DeletedFusionView:
        """Takes a fusion out with its bindings, kernels, tunings and trials. Its tunings must have ended."""
        response = self._transport.send("DELETE", f"/fusions/{_fingerprint(fusion)}")
        return self._transport.read(response, DeletedFusionView)

    def audit(
        self, *, actor: str | None = None, action: str | None = None, subject: str | None = None
    ) -> Iterator[AuditEntry]:
        """Who did what to what, the newest first; only entries with these words, if given."""
        words = {"actor": actor, "action": action, "subject": subject}
        return self._transport.pages("/audit", AuditEntries, words, following="before")

    def export_pack(
        self,
        path: str | os.PathLike[str],
        *,
        fusions: Sequence[FusionLike] = (),
        card: str | None = None,
        history: bool = False,
        timeout_s: float = PACK_S,
    ) -> str:
        """Writes what is served into a pack at `path`, a wheel if that ends in `.whl`; returns the pack's hash.

        `fusions`: of these only. `card`: for this one only. `history`: with all trials of the searches. Every member
        was held against its hash before the file is there. Raises OSError.
        """
        check_out(path)
        params: dict[str, str | int | Sequence[str]] = {"fingerprint": [_fingerprint(one) for one in fusions]}
        if card is not None:
            params["card"] = card
        if history:
            params["history"] = "true"
        with written_whole(path) as part:
            with part.open("wb") as file:
                response = self._transport.download("/pack", file, params, timeout_s)
            expected = response.headers.get("etag", "").strip('"')
            try:
                with PackFile(part) as pack:
                    pack.check()
            except UnusablePack as error:
                raise self._broken(f"a pack that is damaged: {error}", "a whole one") from None
            if pack.sha256 != expected:
                raise self._broken(f"a pack with sha256 {pack.sha256[:16]}", f"sha256 {expected[:16]}")
            if Path(path).name.endswith(SUFFIX):
                part.write_bytes(wheel(Path(path).name, part.read_bytes()))
        return pack.sha256

    def import_pack(
        self, path: str | os.PathLike[str], *, sha256: str | None = None, timeout_s: float = PACK_S
    ) -> PackTaken:
        """Has a service take the kernels of a pack in, all or, if it contradicts itself, none. It believes them.

        `sha256`: the hash that the pack must have. The answer's `left` names what was left out, and why. Raises
        InvalidPack for a file that is none, before anything is sent; OSError.
        """
        try:
            with PackFile(Path(path)) as pack:
                if sha256 is not None and pack.sha256 != sha256:
                    raise UnusablePack(f"its sha256 is {pack.sha256}, expected {sha256}")
        except UnusablePack as error:
            raise InvalidPack(str(path), str(error)) from None
        response = self._transport.send("POST", "/pack", body=Path(path), timeout_s=timeout_s)
        taken = self._transport.read(response, PackTaken)
        if taken.sha256 != pack.sha256:
            found = f"what came of a pack with sha256 {taken.sha256[:16]}"
            raise ServerBroken(
                "POST /v1/pack", self._transport.url, found, f"of the one that was sent ({pack.sha256[:16]})"
            )
        return taken

    def _broken(self, found: str, expected: str) -> ServerBroken:
        return ServerBroken("GET /v1/pack", self._transport.url, found, expected)


def _fingerprint(fusion: FusionLike) -> str:
    """Raises InvalidFusion."""
    if isinstance(fusion, str) and _FINGERPRINT.fullmatch(fusion):
        return fusion
    return fingerprint(read_fusion_like(fusion))
