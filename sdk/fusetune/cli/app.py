"""Commands and their options. Exit codes: docs/cli.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fusetune.cli.given import accept_of, as_json, read_fusion_of, sizes_of
from fusetune.client import Client
from fusetune.errors import (
    CannotConvert,
    FusetuneError,
    InvalidBinding,
    InvalidFusion,
    InvalidLock,
    InvalidPack,
    InvalidRequest,
    ServerRefused,
    Untrusted,
    UnusableKey,
)
from fusetune.kernel import Kernel
from fusetune.pack import Pack
from fusetune.packing import build
from fusetune.store import Store
from fusetune.wire import fingerprint

_INPUT_FAULTS = (
    InvalidFusion,
    InvalidBinding,
    InvalidLock,
    InvalidPack,
    InvalidRequest,
    CannotConvert,
    ServerRefused,
    Untrusted,
    UnusableKey,
)


def tune(chosen: argparse.Namespace) -> int:
    """Have a fusion's kernel found by the service, and say what it is."""
    fusion, binding = _asked(chosen)
    with Client(chosen.url) as client:
        try:
            kernel = client.tune(
                fusion, binding=binding, budget_s=chosen.budget_s, trials=chosen.trials, card=chosen.card,
                accept=accept_of(chosen.emulated), name=chosen.name, progress=True,
            )  # fmt: skip
        except KeyboardInterrupt:
            print("What the service has begun goes on: the same command joins it.", file=sys.stderr)
            raise
    return _shown(kernel, chosen.out)


def get(chosen: argparse.Namespace) -> int:
    """The kernel that the service, or else the store, has of a fusion; nothing is searched for."""
    fusion, binding = _asked(chosen)
    with Client(chosen.url) as client:
        kernel = client.kernel(fusion, binding=binding, card=chosen.card, accept=accept_of(chosen.emulated))
    return _shown(kernel, chosen.out)


def lower(chosen: argparse.Namespace) -> int:
    """The fusion of a torch function, as a document; or a fusion file, checked, as it travels."""
    fusion, _ = read_fusion_of(chosen.fusion, chosen.input)
    text = str(fusion) if chosen.text else fusion.to_json()
    if chosen.out is None:
        print(text)
    else:
        Path(chosen.out).write_text(text + "\n", encoding="utf-8")
    return 0


def list_(chosen: argparse.Namespace) -> int:
    """The kernels of the store, or with --tunings the tunings of the service."""
    if chosen.tunings:
        with Client(chosen.url) as client:
            for one in client.tunings():
                best = "" if one.best is None else f"  {one.best.median_us:.1f} us"
                print(f"{one.id[:12]}  {one.name or one.fingerprint[:12]}  {one.card.name}  {one.state}{best}")
        return 0
    store = Store()
    found = list(store.kernels())
    for view in found:
        print(_row(view))
    if not found:
        print(f"The store in {store.root} has no kernel: fusetune tune has one found.", file=sys.stderr)
    return 0


def report(chosen: argparse.Namespace) -> int:
    """What is known of a fusion: its key, and every kernel of the store, with evidence and what eager torch took."""
    fusion, _ = read_fusion_of(chosen.fusion, chosen.input)
    found = [view for view in Store().kernels() if view.fingerprint == fingerprint(fusion)]
    if chosen.json:
        print(as_json([view.model_dump(mode="json") for view in found]))
        return 0
    print(f"{fusion}\nfingerprint {fingerprint(fusion)}")
    for view in found:
        baselines = ", ".join(f"{b.name} {b.median_us:.1f} us" for b in view.baselines) or "no baseline"
        print(f"{_row(view)}  beside {baselines}  {view.evidence.correct}, time {view.evidence.time}")
    if not found:
        print("The store has no kernel of it: fusetune tune has one found.")
    return 0


def pack_build(chosen: argparse.Namespace) -> int:
    """The kernels that a lock names, out of the store, in one file that needs no service; prints its hash."""
    print(build(chosen.lock, chosen.out, None if chosen.store is None else Store(chosen.store), chosen.sign_key))
    return 0


def pack_show(chosen: argparse.Namespace) -> int:
    """What is in a pack, every kernel held against its hash."""
    pack = Pack.load(chosen.file, sha256=chosen.sha256, trust=chosen.trust)
    print(pack)
    for view in pack.kernels():
        pack.get(view)
        print(f"{_row(view)}  {view.evidence.correct}, time {view.evidence.time}")
    return 0


def parser() -> argparse.ArgumentParser:
    """All commands."""
    top = argparse.ArgumentParser(prog="fusetune", description="Tuned kernels of fusions, from a fusetune service.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for name, run in (("tune", tune), ("get", get), ("lower", lower), ("list", list_), ("report", report)):
        made = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        made.set_defaults(run=run)
        if name != "list":
            made.add_argument("fusion", metavar="FUSION", help="a fusion file, - or MODULE:FUNCTION of torch")
            made.add_argument("--input", action="append", default=[], metavar="bf16[M,N]", help="a tensor of FUNCTION")
        if name in ("tune", "get"):
            made.add_argument("--bind", action="append", default=[], metavar="M=8192", help="the size of a symbol")
            made.add_argument("--card", metavar="NAME", help="GPU model")
            made.add_argument("--emulated", action="store_true", help="also take what was proven in the emulator")
        if name in ("tune", "get", "lower"):
            made.add_argument("--out", metavar="FILE", help="where to write it")
        if name in ("tune", "get", "list"):
            made.add_argument("--url", help="address of the service")
    tuning, listing = commands.choices["tune"], commands.choices["list"]
    tuning.add_argument("--budget-s", type=float, default=60.0, help="seconds of search")
    tuning.add_argument("--trials", type=int, metavar="N", help="candidates at most")
    tuning.add_argument("--name", help="what people call it")
    listing.add_argument("--tunings", action="store_true", help="the tunings of the service instead")
    commands.choices["lower"].add_argument("--text", action="store_true", help="as a person reads it")
    commands.choices["report"].add_argument("--json", action="store_true", help="one JSON list in place of the text")
    packs = commands.add_parser("pack", help="Kernels in one file.").add_subparsers(required=True, metavar="COMMAND")
    made = packs.add_parser("build", help=pack_build.__doc__, description=pack_build.__doc__)
    made.set_defaults(run=pack_build)
    made.add_argument("--lock", required=True, metavar="FILE", help="a lock: of service ci, or of fusetune.write_lock")
    made.add_argument("--out", required=True, metavar="FILE", help="where to write it")
    made.add_argument("--store", metavar="DIR", help="the store that has the kernels")
    made.add_argument("--sign-key", metavar="FILE", help="private key to sign it with")
    made = packs.add_parser("show", help=pack_show.__doc__, description=pack_show.__doc__)
    made.set_defaults(run=pack_show)
    made.add_argument("file", metavar="FILE", help="a pack")
    made.add_argument("--sha256", metavar="HASH", help="the hash that it must have")
    made.add_argument("--trust", metavar="KEYS", help="public keys of which one must have signed it")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    chosen = parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = chosen.run
    try:
        return run(chosen)
    except KeyboardInterrupt:
        return 130
    except (FusetuneError, OSError) as error:
        print("\n".join((_in_words(error), *getattr(error, "__notes__", ()))), file=sys.stderr)
        return 2 if isinstance(error, (*_INPUT_FAULTS, FileNotFoundError)) else 1


def _in_words(error: FusetuneError | OSError) -> str:
    """The message; of a file that cannot be had, its path and the system's reason, without the number."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}. Check the path."
    return str(error)


def _asked(chosen: argparse.Namespace) -> tuple[Any, Any]:
    fusion, binding = read_fusion_of(chosen.fusion, chosen.input)
    return fusion, binding if binding is not None else sizes_of(chosen.bind) or None


def _shown(kernel: Any, out: str | None) -> int:
    print(kernel)
    if out is not None:
        if not isinstance(kernel, Kernel):
            print("There is nothing to write: every output is empty.", file=sys.stderr)
            return 0
        kernel.save(out)
    return 0


def _row(view: Any) -> str:
    time = "not timed" if view.median_us is None else f"{view.median_us:.1f} us"
    return f"{view.id[:12]}  {view.name or view.fingerprint[:12]}  {view.binding[:12]}  {view.card.name}  {time}"
