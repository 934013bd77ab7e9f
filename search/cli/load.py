"""Fusions from files: one fusion, one case of a suite, or a folder of either."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.arch import DEFAULT_CARD, Card, card_named
from compiler.errors import InvalidFusion, Unsupported
from compiler.ir import fusion as ir
from compiler.wire import bind
from fusetune.wire.binding import Binding
from fusetune.wire.fusion import Fusion
from fusetune.wire.parse import parse_binding, parse_fusion
from fusetune.wire.problems import InvalidDocument
from fusetune.wire.suite import strip_case
from fusetune.wire.symbols import symbols_of
from search.cli.faults import UsageFault


@dataclass(frozen=True, slots=True)
class Named:
    """A fusion and the binding its file gives it, under the name of the file or case."""

    name: str
    fusion: Fusion
    binding: Binding

    def bound(self) -> ir.Fusion:
        """Raises InvalidFusion or Unsupported, with the name as a note."""
        try:
            return bind(self.fusion, self.binding)
        except (InvalidFusion, Unsupported) as error:
            error.add_note(f"in {self.name}")
            raise


def sizes_of(binds: Sequence[str]) -> dict[str, int]:
    """`["M=8192", "N=4096,K=64"]` as sizes. Raises UsageFault."""
    sizes: dict[str, int] = {}
    for text in (part for bind_option in binds for part in bind_option.split(",")):
        symbol, equals, size = (piece.strip() for piece in text.partition("="))
        if not (symbol and equals and size.isdecimal()):
            raise UsageFault(f"--bind: found {text!r}, expected SYMBOL=SIZE with a size >= 0. Write --bind M=8192.")
        if symbol in sizes:
            raise UsageFault(f"--bind: {symbol} is given twice. Give it one size.")
        sizes[symbol] = int(size)
    return sizes


def load_one(path: Path, case: str | None, sizes: Mapping[str, int]) -> Named:
    """The fusion of a file, bound to `sizes`. Raises UsageFault or InvalidDocument, noting the file."""
    cases = _cases(path)
    if cases is None:
        if case is not None:
            raise UsageFault(f"--case: {path} is a fusion, not a suite. Leave --case out.")
        return _from_fusion_file(path, sizes, every_size_is_used=True)
    if case is None:
        raise UsageFault(f"{path}: a suite of {len(cases)} cases. Choose one with --case: {', '.join(cases)}.")
    if case not in cases:
        raise UsageFault(f"--case: found {case!r}, expected one of {', '.join(cases)}.")
    return _from_case(path, case, cases[case], sizes)


def load_many(paths: Sequence[Path], sizes: Mapping[str, int]) -> list[Named]:
    """All fusions of files, suites and folders (their `*.json`), in order; each takes of `sizes` the symbols it has."""
    named: list[Named] = []
    for path in paths:
        files = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not files:
            raise UsageFault(f"{path}: no *.json in this folder. Name a folder of fusions.")
        for file in files:
            cases = _cases(file)
            if cases is None:
                named.append(_from_fusion_file(file, sizes, every_size_is_used=False))
            else:
                named.extend(_from_case(file, name, case, {}) for name, case in cases.items())
    names = [one.name for one in named]
    for name in names:
        if names.count(name) > 1:
            raise UsageFault(f"{name}: two fusions have this name. Rename one of the files: results are kept by name.")
    return named


def card_or_default(name: str | None) -> Card:
    """The card of that name, else the default of a machine without a GPU. Raises UnknownCard."""
    return card_named(name or DEFAULT_CARD)


def _cases(path: Path) -> dict[str, Mapping[str, Any]] | None:
    """The cases of a suite file by id; None for any other file, whose faults `parse_fusion` names."""
    try:
        document = json.loads(_text(path))
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or "cases" not in document:
        return None
    try:
        return {str(case["id"]): case for case in document["cases"]}
    except (TypeError, KeyError):
        raise UsageFault(f"{path}: cases: expected an array of objects with an id. Correct the suite.") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageFault(f"{path}: cannot be read ({reason}). Name a fusion file.") from None


def _from_fusion_file(path: Path, sizes: Mapping[str, int], every_size_is_used: bool) -> Named:
    try:
        fusion = parse_fusion(_text(path))
        known = set(sizes if every_size_is_used else symbols_of(fusion))
        binding = parse_binding({"sizes": {symbol: size for symbol, size in sizes.items() if symbol in known}})
    except InvalidDocument as error:
        error.add_note(f"in {path}")
        raise
    return Named(path.stem, fusion, binding)


def _from_case(path: Path, name: str, case: Mapping[str, Any], sizes: Mapping[str, int]) -> Named:
    try:
        fusion, binding = strip_case(case)
        return Named(name, parse_fusion(fusion), parse_binding({**binding, "sizes": dict(sizes)}))
    except InvalidDocument as error:
        error.add_note(f"in {path}, case {name}")
        raise
    except (KeyError, TypeError) as error:
        raise UsageFault(
            f"{path}: case {name}: {error!r}. Expected inputs, ops and outputs; correct the suite."
        ) from None
