"""Measured tables predicted again by the model as it is now: `python -m benchmarks.search.again TABLE.t4.json.gz …`.

    python -m benchmarks.search.again TABLE.t4.json.gz … --out FOLDER [--points 300] [--seed 1] [--without-compiling]

A table (`benchmarks.search.table`) has the predictions of the day on which it was measured. Of each so many points are
drawn, or all there are; their kernels are generated, compiled for the table's card, and predicted with the registers
that they have. Nothing runs, no GPU is needed: a kernel takes 0.1 to 0.5 s of a core, or 0.05 s `--without-compiling`,
where registers are estimated as they are before a search compiles anything. What is written, a table of the same
points, is for `benchmarks.search.ranked`, `benchmarks.search.residuals` and `benchmarks.search.replay`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from compiler.arch import Card, card_named
from compiler.errors import CompileError, IllegalSchedule, InvalidStep, Unsupported
from compiler.generator import GENERATOR
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, generate
from fusetune.wire import t4
from search.cli.load import load_many
from search.cost.model import Prediction, in_a_row
from search.cost.predicting import predictor, refiner
from search.space.renamed import point_today
from search.tuning.candidates.finishing import finished
from search.tuning.candidates.plan import Plan
from search.tuning.failing import Failure

SUITES = Path(__file__).resolve().parents[1] / "suite"
"""Where the fusions of the tables are found, by their fingerprints."""

Predicted = Callable[[Generated], Prediction | None]
"""None for a kernel that does not compile."""


def plans(card: Card, wanted: Mapping[str, str]) -> dict[str, Plan]:
    """By name of a table, the fusion with the fingerprint and binding that it names, of all suites."""
    found: dict[str, Plan] = {}
    for suite in sorted(SUITES.glob("suite_*.json")):
        for one in load_many([suite], {}):
            if one.name not in wanted or one.name in found:
                continue
            plan = Plan.of(one.bound(), card)
            if f"{plan.fusion.fingerprint} {plan.fusion.binding_hash}" == wanted[one.name]:
                found[one.name] = plan
    return found


def drawn(document: Mapping[str, Any], points: int, seed: int) -> list[int]:
    """Numbers of so many results with a time of their own and a prediction, in the order of the table."""
    told, results = document["metadata"]["predicted_us"], t4.read(document)
    timed = [
        n
        for n, (one, result) in enumerate(zip(document["results"], results, strict=True))
        if result.us is not None and one.get("times", {}).get("runtimes") and told[n]
    ]
    chosen = np.random.default_rng(seed).permutation(len(timed))[:points]
    return [timed[n] for n in sorted(chosen.tolist())]


def again(document: Mapping[str, Any], plan: Plan, numbers: Sequence[int], predict: Predicted) -> dict[str, Any]:
    """The table of these points with predictions of today; what is no kernel any more is left out."""
    kept, found = [], []
    for n in numbers:
        knobs = dict(document["results"][n]["configuration"])
        scheduler = plan.schedulers.get(str(knobs.pop(t4.SCHEDULER)))
        if scheduler is None:
            continue
        try:
            prediction = predict(generate(scheduler.trace(plan.fusion, point_today(knobs)), plan.arch))
        except (IllegalSchedule, InvalidStep, Unsupported, KeyError):  # KeyError: a knob of an older version
            continue
        if prediction is not None:
            kept.append(n)
            found.append(prediction)
    names = sorted({name for one in found for name in one.terms})
    told = dict(document["metadata"])
    if again_us := told.get("again_us"):
        told["again_us"] = [again_us[n] for n in kept]
    told["predicted_us"] = [round(one.total_us, 4) for one in found]
    told["predicted_terms"] = {
        name: [None if (us := one.terms.get(name)) is None else round(us, 7) for one in found] for name in names
    }
    return {**document, "metadata": told, "results": [document["results"][n] for n in kept]}


def compiling(pool: CompilePool, card: Card) -> Predicted:
    """With the registers that a kernel has."""
    refine = refiner(card)

    def predicted(generated: Generated) -> Prediction | None:
        try:
            built = finished(generated, pool.submit(generated.source, card.arch.name).result(), refine)
        except CompileError:
            return None
        if isinstance(built, Failure) or built.predicted_us is None:
            return None
        return Prediction(built.predicted_us, built.predicted_terms)

    return predicted


def foreseeing(card: Card) -> Predicted:
    """With estimated registers."""
    predict = predictor(card)
    return lambda generated: in_a_row(predict(launch) for launch in generated.launches)


def read(paths: Sequence[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and documents. Exits where one is no table of this generator."""
    for path in paths:
        raw = path.read_bytes()
        document = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
        told = document.get("metadata", {})
        if told.get("generator") != GENERATOR:
            raise SystemExit(f"error: {path} is of {told.get('generator')}, this is {GENERATOR}")
        yield path.name.partition(".")[0], document


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes a table for each that is named."""
    parser = argparse.ArgumentParser(prog="benchmarks.search.again")
    parser.add_argument("tables", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write to")
    parser.add_argument("--points", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without-compiling", action="store_true")
    asked = parser.parse_args(arguments)
    asked.out.mkdir(parents=True, exist_ok=True)
    documents = dict(read(asked.tables))
    cards = {str(document["metadata"]["card"]) for document in documents.values()}
    if len(cards) > 1:
        raise SystemExit(f"error: the tables are of several cards: {', '.join(sorted(cards))}. Name those of one.")
    card = card_named(cards.pop())
    keys = {name: f"{one['metadata']['fingerprint']} {one['metadata']['binding']}" for name, one in documents.items()}
    known = plans(card, keys)
    with ExitStack() as stack:
        predict = foreseeing(card)
        if not asked.without_compiling:
            pool = stack.enter_context(CompilePool(os.cpu_count() or 1))
            pool.start()
            predict = compiling(pool, card)
        for name, document in documents.items():
            if name not in known:
                raise SystemExit(f"error: no suite in {SUITES} has the fusion of {name}")
            table = again(document, known[name], drawn(document, asked.points, asked.seed), predict)
            raw = (json.dumps(table, separators=(",", ":"), sort_keys=True) + "\n").encode()
            (asked.out / f"{name}.t4.json.gz").write_bytes(gzip.compress(raw, mtime=0))
            print(f"{name}: {len(table['results'])} points predicted again", flush=True)


if __name__ == "__main__":
    main()
