"""Packs: kernels of one file, called without a service, a compiler or a network. See `fusetune.wire.pack`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusetune.bindings import DTYPE_OF
from fusetune.errors import InvalidPack, InvalidRequest, OutdatedProof, Untrusted, WrongArguments
from fusetune.kernel import Kernel
from fusetune.signing import Trust, TrustLike, process_trust
from fusetune.wire.artifact import VERIFIER, TensorSpec, is_proven_today
from fusetune.wire.pack import PACK_SUFFIX, PackFile, UnusablePack, kernel_member, pack_bytes
from fusetune.wire.problems import InvalidDocument
from fusetune.wire.service import Accept, KernelView
from fusetune.wire.wheel import check_name

if TYPE_CHECKING:
    from fusetune.torch import TorchTensor


class Pack:
    """The kernels of a pack's file, which is only read; each is held against its hash, and kept, when it is needed.

    With `trust`, the keys of FUSETUNE_TRUST by default, one of them must have signed the pack, or else the kernel that
    is wanted. Several threads may share it.
    """

    def __init__(self, path: str | os.PathLike[str], file: PackFile, trust: Trust | None) -> None:
        self.path = Path(path)
        self._file = file
        self._trust = trust
        self._is_vouched = trust is None
        self._kernels: dict[str, Kernel] = {}
        self._lock = threading.Lock()

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, sha256: str | None = None, trust: TrustLike | None = None) -> Pack:
        """Opens a pack, and holds it against the hash and the keys that are told.

        Raises OSError, InvalidPack, InvalidRequest for keys that are none, Untrusted where neither the pack nor any of
        its kernels is signed by one of the keys, PackageMissing.
        """
        keys = process_trust() if trust is None else Trust.of(trust)
        try:
            file = PackFile(Path(path))
            if sha256 is not None and file.sha256 != sha256:
                raise UnusablePack(f"its sha256 is {file.sha256}, expected {sha256}")
            pack = cls(path, file, keys)
            pack._vouch()
        except UnusablePack as error:
            raise InvalidPack(str(path), str(error)) from None
        return pack

    @classmethod
    def installed(cls, name: str, *, sha256: str | None = None, trust: TrustLike | None = None) -> Pack:
        """The pack of a wheel that is installed, by the name of its distribution: otherwise as `load`.

        Raises InvalidPack where there is none, and what `load` raises.
        """
        return cls.load(_installed(name), sha256=sha256, trust=trust)

    def _vouch(self) -> None:
        if self._trust is None:
            return
        ours = self._trust.keys.keys()
        signatures = self._file.signatures
        try:
            self._trust.check(str(self.path), pack_bytes(self.sha256), signatures)
            self._is_vouched = True
        except Untrusted:
            views = [one.view for one in self._file.manifest.kernels]
            if any(one.key in ours for one in signatures) or not any(
                one.key in ours for view in views for one in view.signatures
            ):
                raise

    @property
    def sha256(self) -> str:
        """The hash that names all of its content."""
        return self._file.sha256

    def close(self) -> None:
        """Gives the file back. Kernels that were had stay usable."""
        self._file.close()

    def __repr__(self) -> str:
        return f"Pack({str(self.path)!r}: {len(self._file.manifest.kernels)} kernels, sha256 {self.sha256[:16]})"

    def kernels(self) -> list[KernelView]:
        """What is known of each kernel."""
        return [one.view for one in self._file.manifest.kernels]

    def get(self, view: KernelView) -> Kernel:
        """The kernel of a view. Raises InvalidPack, InvalidKernel, OutdatedProof, Untrusted."""
        with self._lock:
            found = self._kernels.get(view.artifact_sha256)
            if found is None:
                found = self._kernels[view.artifact_sha256] = self._read(view)
            return found

    def _read(self, view: KernelView) -> Kernel:
        where = f"kernel {view.id} of {self.path}"
        if not is_proven_today(view.verifier):
            raise OutdatedProof(where, view.verifier, VERIFIER)
        try:
            data = self._file.member(kernel_member(view.artifact_sha256))
        except UnusablePack as error:
            raise InvalidPack(str(self.path), str(error)) from None
        kernel = Kernel.from_json(
            data, where=where, info=view, origin="pack", trust=self._trust, is_vouched=self._is_vouched
        )
        said = (kernel.artifact.fingerprint, kernel.artifact.binding, kernel.artifact.evidence, kernel.artifact.arch)
        if said != (view.fingerprint, view.binding, view.evidence, view.arch):
            raise InvalidPack(str(self.path), f"{kernel_member(view.artifact_sha256)} is not the kernel {view.id}")
        return kernel

    def find(
        self, fingerprint: str, binding: str, accept: Accept | None = None, card: str | None = None
    ) -> Kernel | None:
        """The kernel of a key whose evidence is accepted, measured on a GPU by default. Raises what `get` raises."""
        wanted = accept or Accept()
        for view in self._of(fingerprint, card):
            if view.binding == binding and wanted.allows(view.evidence):
                return self.get(view)
        return None

    def function(
        self, fusion: str | None = None, *, card: str | None = None, accept: Accept | None = None
    ) -> PackedFunction:
        """A fusion of the pack as one function of tensors, for all the sizes and layouts that the pack has it for.

        `fusion`: its name or fingerprint, or a beginning of that; may be left out where the pack has one only. `card`:
        a GPU model, or a card's id; may be left out where its kernels are for one only. Kernels over lists of tensors
        are had by `find`. `accept`: the evidence to accept, measured on a GPU by default. Raises InvalidPack.
        """
        views = [view for view in self.kernels() if fusion is None or _is_called(view, fusion)]
        names = sorted({view.fingerprint for view in views})
        if len(names) != 1:
            found = "no fusion" if not names else f"{len(names)} fusions"
            known = ", ".join(sorted({view.name or view.fingerprint[:12] for view in self.kernels()})) or "nothing"
            raise InvalidPack(str(self.path), f"{found} for {fusion!r}; it has {known}")
        views = self._of(names[0], card)
        wanted = accept or Accept()
        if views and not any(wanted.allows(view.evidence) for view in views):
            said = views[0].evidence
            found = f"its kernels of {fusion or names[0][:12]} are {said.correct}, their time {said.time}"
            raise InvalidPack(str(self.path), f"{found}, which is not accepted: pass accept to take them")
        views = [view for view in views if wanted.allows(view.evidence)]
        cards = sorted({view.card.name for view in views})
        if len(cards) != 1:
            known = ", ".join(sorted({view.card.name for view in self._of(names[0], None)}))
            raise InvalidPack(str(self.path), f"name one card of {known}, found {card!r}")
        return PackedFunction(self, views)

    def _of(self, fingerprint: str, card: str | None) -> list[KernelView]:
        return [
            view
            for view in self.kernels()
            if view.fingerprint == fingerprint
            and (card is None or card == view.card.id or card.lower() == view.card.name.lower())
        ]


class PackedFunction:
    """One fusion at every binding that a pack has: called like a kernel, it takes the one that its tensors fit."""

    def __init__(self, pack: Pack, views: Iterable[KernelView]) -> None:
        self._pack = pack
        self._views = list(views)
        self._known: dict[Any, Kernel] = {}

    def __call__(
        self, *inputs: TorchTensor | float, out: TorchTensor | Sequence[TorchTensor] | None = None
    ) -> TorchTensor | tuple[TorchTensor, ...]:
        """Runs the kernel for these tensors. Raises WrongArguments where the pack has none, and what Kernel raises."""
        return self.kernel_for(*inputs)(*inputs, out=out)

    def kernel_for(self, *inputs: Any) -> Kernel:
        """The kernel that these tensors fit, of several that of most alignment. Raises WrongArguments."""
        key = tuple(_key(one) for one in inputs)
        known = self._known.get(key)
        if known is not None:
            return known
        kernels = [self._pack.get(view) for view in self._views]
        fitting = [kernel for kernel in kernels if _fits(kernel.artifact.inputs, inputs)]
        if not fitting:
            sizes = "; ".join(", ".join(str(list(spec.shape)) for spec in one.artifact.inputs) for one in kernels[:5])
            found = ", ".join(str(list(getattr(one, "shape", ()))) for one in inputs)
            more = f" and {len(kernels) - 5} more" if len(kernels) > 5 else ""
            expected = f"shapes, strides and dtypes that {self._pack.path} has a kernel for: {sizes}{more}"
            raise WrongArguments("inputs", found or "no tensors", expected, "Pack a kernel for these too.")
        best = max(fitting, key=lambda kernel: sum(spec.align for spec in kernel.artifact.inputs))
        self._known[key] = best
        return best

    def __repr__(self) -> str:
        name = self._views[0].name or self._views[0].fingerprint[:12]
        return f"PackedFunction({name}: {len(self._views)} bindings, {self._views[0].card.name})"


def check_out(out: str | os.PathLike[str]) -> None:
    """Raises InvalidRequest for a name that a pack, or a wheel of one, cannot have."""
    try:
        check_name(Path(out).name)
    except InvalidDocument as error:
        raise InvalidRequest(error.problems) from None


def _installed(name: str) -> Path:
    """Where the pack of a distribution lies. Raises InvalidPack."""
    try:
        found = distribution(name)
    except (PackageNotFoundError, ValueError):  # ValueError: no name at all
        raise InvalidPack(repr(name), "no wheel of this name is installed here") from None
    packs = [one for one in found.files or () if one.name.endswith(PACK_SUFFIX)]
    if len(packs) != 1:
        raise InvalidPack(f"{name} {found.version}", f"it was installed with {len(packs)} packs, expected one")
    return Path(str(packs[0].locate()))


def _is_called(view: KernelView, word: str) -> bool:
    return bool(word) and (view.name == word or view.fingerprint.startswith(word))


_ALIGNS = (128, 16, 8, 4, 2, 1)


def _key(one: Any) -> Any:
    """All that decides whether a tensor fits a kernel; a number is one like any other."""
    if not hasattr(one, "data_ptr"):
        return None
    align = next(a for a in _ALIGNS if one.data_ptr() % a == 0)
    return tuple(one.shape), tuple(one.stride()), str(one.dtype), align


def _fits(specs: Sequence[TensorSpec], inputs: Sequence[Any]) -> bool:
    tensors = inputs[: len(specs)]
    return len(tensors) == len(specs) and all(map(_is_like, specs, tensors))


def _is_like(spec: TensorSpec, one: Any) -> bool:
    if not hasattr(one, "data_ptr") or tuple(one.shape) != spec.shape:
        return False
    moving = [(a, b) for a, b, size in zip(one.stride(), spec.strides, spec.shape, strict=True) if size > 1]
    is_laid_out = all(a == b for a, b in moving)
    return (
        is_laid_out
        and DTYPE_OF.get(str(one.dtype).rpartition(".")[2]) == spec.dtype
        and one.data_ptr() % spec.align == 0
    )
