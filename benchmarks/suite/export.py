"""Writes every case of the suites that can be timed as a fusion file: `python -m benchmarks.suite.export`.

A case says more than a fusion does (how to fill its inputs, how many bytes it moves, a small form of itself); the
fusion keeps the graph and, where an input is not dense, its strides.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fusetune.wire.suite import strip_case

HERE = Path(__file__).parent
SUITE = HERE / "suite_public.json"
LANGUAGE = HERE / "suite_language.json"
PRODUCTS = HERE / "suite_products.json"
SHAPES = HERE / "suite_shapes.json"
FUSIONS = HERE / "fusions"
FOLDERS = {SUITE: FUSIONS, LANGUAGE: FUSIONS / "language", PRODUCTS: FUSIONS / "products", SHAPES: FUSIONS / "shapes"}
"""Where the fusions of a suite lie."""


def fusion_files(suite: Path = SUITE) -> dict[str, str]:
    """File name -> text, one for each case that is not compile-only."""
    cases = json.loads(suite.read_text())["cases"]
    return {f"{case['id']}.json": to_text(fusion_of(case)) for case in cases if not case.get("compile_only")}


def fusion_of(case: Mapping[str, Any]) -> dict[str, Any]:
    """The case's fusion. It states the strides of inputs that are not dense, so that the file alone can be tuned."""
    fusion, binding = strip_case(case)
    for tensor, spec, layout in zip(fusion["inputs"], case["inputs"], binding["inputs"], strict=True):
        if not all(spec.get("contiguity", ())):
            tensor["strides"] = layout["strides"]
    return fusion


def to_text(fusion: dict[str, Any]) -> str:
    """JSON with one line for each input, op and output, so that a graph reads like a program."""
    fields = []
    for key, value in fusion.items():
        if isinstance(value, list):
            rows = ",\n".join(f"  {json.dumps(row)}" for row in value)
            fields.append(f'"{key}": [\n{rows}\n]')
        else:
            fields.append(f'"{key}": {json.dumps(value)}')
    return "{" + ",\n".join(fields) + "}\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Replaces the folders' files by a fresh export."""
    argparse.ArgumentParser(prog="python -m benchmarks.suite.export", description=__doc__).parse_args(argv)
    for suite, folder in FOLDERS.items():
        folder.mkdir(exist_ok=True)
        files = fusion_files(suite)
        for old in folder.glob("*.json"):
            if old.name not in files:
                old.unlink()
        for name, text in files.items():
            (folder / name).write_text(text)
        print(f"{len(files)} fusions in {folder}")


if __name__ == "__main__":
    main()
