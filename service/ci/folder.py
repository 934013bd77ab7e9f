"""The fusions of a folder, each bound; what cannot be used is told apart, so that the others are still checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from compiler.errors import InvalidFusion, Unsupported
from compiler.faults import UsageFault
from compiler.ir.fusion import Fusion
from compiler.wire import to_wire
from fusetune.wire.binding import Binding
from fusetune.wire.problems import InvalidDocument
from fusetune.wire.symbols import symbols_of
from search.cli.load import Named, load_many
from service.ci.lock import CiLock


@dataclass(frozen=True)
class LockSubject:
    """A fusion of the folder. `binding` is written out: strides and alignment for every input."""

    name: str
    fusion: Fusion
    binding: Binding
    input_names: tuple[str, ...]

    @classmethod
    def of(cls, named: Named) -> LockSubject:
        """Raises InvalidFusion or Unsupported."""
        fusion = named.bound()
        layouts = to_wire(fusion)[1].inputs
        binding = Binding(sizes=named.binding.sizes, inputs=layouts)
        return cls(named.name, fusion, binding, tuple(tensor.name for tensor in named.fusion.inputs))


@dataclass(frozen=True, slots=True)
class Unusable:
    """A file, or a case of a suite, that cannot be checked or tuned, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Folder:
    """What `read_folder` found, in order of file name. `unread`: folders in it that hold fusions too."""

    subjects: tuple[LockSubject, ...]
    unusable: tuple[Unusable, ...]
    unread: tuple[str, ...] = ()

    @property
    def all(self) -> list[LockSubject | Unusable]:
        """Both, in order of name."""
        return sorted([*self.subjects, *self.unusable], key=lambda one: one.name)

    @property
    def names(self) -> frozenset[str]:
        """Every name that has a file, usable or not."""
        return frozenset(one.name for one in self.all)


def read_folder(folder: Path, sizes: Mapping[str, int], lock: CiLock, lock_file: Path) -> Folder:
    """The fusions of `folder`, its `*.json` but the lock. A symbol without a size in `sizes` keeps that of the lock.

    Raises UsageFault for a folder without fusions, for two of one name, and for a size of a symbol that none has.
    """
    if not folder.is_dir():
        raise UsageFault(f"--fusions: {folder} is no folder. Name a folder of fusion files (*.json).")
    files = [path for path in sorted(folder.glob("*.json")) if path.resolve() != lock_file.resolve()]
    if not files:
        raise UsageFault(f"--fusions: {folder} has no *.json. Name a folder of fusion files.")
    subjects: list[LockSubject] = []
    unusable: list[Unusable] = []
    symbols: set[str] = set()
    for path in files:
        locked = lock.fusions.get(path.stem)
        try:
            loaded = load_many([path], {**(locked.binding.sizes if locked else {}), **sizes})
        except (InvalidDocument, UsageFault) as error:
            unusable.append(Unusable(path.stem, str(error)))
            continue
        for named in loaded:
            symbols.update(symbols_of(named.fusion))
            try:
                subjects.append(LockSubject.of(named))
            except (InvalidFusion, Unsupported) as error:
                unusable.append(Unusable(named.name, str(error)))
    if not unusable:
        _refuse_unknown(sizes, symbols)
    unread = tuple(path.name for path in sorted(folder.iterdir()) if path.is_dir() and any(path.rglob("*.json")))
    found = Folder(tuple(subjects), tuple(unusable), unread)
    _refuse_twins(found)
    return found


def _refuse_unknown(sizes: Mapping[str, int], symbols: set[str]) -> None:
    unknown = sorted(sizes.keys() - symbols)
    if unknown:
        known = ", ".join(sorted(symbols)) or "none"
        raise UsageFault(f"--bind: no fusion has the symbol {', '.join(unknown)}; they have {known}. Correct the name.")


def _refuse_twins(folder: Folder) -> None:
    names = [one.name for one in folder.all]
    for name in names:
        if names.count(name) > 1:
            raise UsageFault(f"{name}: two fusions have this name. Rename one: the lock is kept by name.")
