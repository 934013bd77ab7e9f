"""Fusions from files: one fusion, one case of a suite, or a folder of either."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.errors import InvalidFusion, Unsupported
from compiler.faults import STDIN, UsageFault, read_text
from compiler.ir import fusion as ir
from compiler.wire import bind
from fusetune.wire.binding import Binding
from fusetune.wire.fusion import Fusion
from fusetune.wire.parse import parse_binding, parse_fusion
from fusetune.wire.problems import InvalidDocument
from fusetune.wire.suite import strip_case
from fusetune.wire.symbols import symbols_of
from search.tuning.prepared import is_file_name

_SIZE = re.compile(r"[0-9]{1,20}")


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
        if not (symbol and equals and _SIZE.fullmatch(size)):
            found = repr(text) if len(text) <= 60 else f"{text[:57]!r}..."
            raise UsageFault(f"--bind: found {found}, expected SYMBOL=SIZE with a size >= 0. Write --bind M=8192.")
        if symbol in sizes:
            raise UsageFault(f"--bind: {symbol} is given twice. Give it one size.")
        sizes[symbol] = int(size)
    return sizes


def load_one(path: Path, case: str | None, sizes: Mapping[str, int]) -> Named:
    """The fusion of a file, bound to `sizes`. Raises UsageFault or InvalidDocument, noting the file."""
    text = read_text(path, "a fusion file")
    cases = _cases(path, text)
    if cases is None:
        if case is not None:
            raise UsageFault(f"--case: {path} is a fusion, not a suite. Leave --case out.")
        return _from_fusion(path, text, sizes, every_size_is_used=True)
    if case is None:
        raise UsageFault(f"{path}: a suite of {len(cases)} cases. Choose one with --case: {', '.join(cases)}.")
    if case not in cases:
        raise UsageFault(f"--case: found {case!r}, expected one of {', '.join(cases)}.")
    return _from_case(path, case, cases[case], sizes, every_size_is_used=True)


def load_many(paths: Sequence[Path], sizes: Mapping[str, int]) -> list[Named]:
    """All fusions of files, suites and folders (their `*.json`), in order; each takes of `sizes` the symbols it has."""
    named: list[Named] = []
    for path in paths:
        files = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not files:
            raise UsageFault(f"{path}: no *.json in this folder. Name a folder of fusions.")
        for file in files:
            text = read_text(file, "a fusion file")
            cases = _cases(file, text)
            if cases is None:
                named.append(_from_fusion(file, text, sizes, every_size_is_used=False))
            else:
                named.extend(_from_case(file, name, case, sizes) for name, case in cases.items())
    names = [one.name for one in named]
    for name in names:
        if names.count(name) > 1:
            raise UsageFault(f"{name}: two fusions have this name. Rename one of the files: results are kept by name.")
    return named


def _cases(path: Path, text: str) -> dict[str, Mapping[str, Any]] | None:
    """The cases of a suite by id; None for any other text, whose faults `parse_fusion` names."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or "cases" not in document:
        return None
    listed = document["cases"]
    if not isinstance(listed, list) or not listed:
        raise UsageFault(f"{path}: cases: expected a list of at least one case. Correct the suite.")
    cases: dict[str, Mapping[str, Any]] = {}
    for i, case in enumerate(listed):
        name = case.get("id") if isinstance(case, dict) else None
        if not isinstance(name, str) or not is_file_name(name):
            raise UsageFault(
                f"{path}: cases[{i}].id: found {name!r:.80}, expected a text that can name a file. Correct the suite."
            )
        if name in cases:
            raise UsageFault(f"{path}: cases[{i}].id: {name!r} is the id of another case. Rename one of the two.")
        cases[name] = case
    return cases


def _from_fusion(path: Path, text: str, sizes: Mapping[str, int], every_size_is_used: bool) -> Named:
    name = "stdin" if path == STDIN else path.stem
    if not is_file_name(name):
        raise UsageFault(f"{path}: results are kept under {name!r}, which cannot name a file. Rename the file.")
    try:
        fusion = parse_fusion(text)
        binding = parse_binding({"sizes": _sizes_for(fusion, sizes, every_size_is_used)})
    except InvalidDocument as error:
        error.add_note(f"in {path}")
        raise
    return Named(name, fusion, binding)


def _sizes_for(fusion: Fusion, sizes: Mapping[str, int], every_size_is_used: bool) -> dict[str, int]:
    """All sizes, so that binding refuses those that the fusion does not have; or only those that it has."""
    known = set(sizes if every_size_is_used else symbols_of(fusion))
    return {symbol: size for symbol, size in sizes.items() if symbol in known}


def _from_case(
    path: Path, name: str, case: Mapping[str, Any], sizes: Mapping[str, int], every_size_is_used: bool = False
) -> Named:
    try:
        document, binding = strip_case(case)
        fusion = parse_fusion(document)
        used = _sizes_for(fusion, sizes, every_size_is_used)
        return Named(name, fusion, parse_binding({**binding, "sizes": used}))
    except InvalidDocument as error:
        error.add_note(f"in {path}, case {name}")
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise UsageFault(
            f"{path}: case {name}: {error!r}. Expected inputs, ops and outputs; correct the suite."
        ) from None
