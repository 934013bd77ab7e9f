"""The load table: `python -m benchmarks.service.run [--old DIR] [--workers N] [--postgres URL] [--json FILE]`.

A service is started on what `stored.py` stores, of this tree and, with `--old`, of another beside it; each load runs on
one and then on the other, so both meet the same machine. Log and keys are on, and kernels are published meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.service import stored
from benchmarks.service.load import Connection, get, post, run, zipf

HERE = Path(__file__).parent
THIS = HERE.parents[1]
HOST = "127.0.0.1"
DRAWS = 4000
OTHER_NAMES = 10
"""One request of so many is spelled with other names."""

PUBLISH_EVERY_S = 0.1
DOORS = 3
"""Connections for each of several processes that a published kernel is asked for by: which one takes which is left to
the kernel, so that each process has one is very likely, not certain."""
START_S = 120.0


@dataclass(frozen=True, slots=True)
class Service:
    """A running one."""

    name: str
    tree: Path
    pid: int
    port: int
    url: str
    filled: Path
    key: str
    names: list[list[str]]
    processes: int = 1


def _environment(tree: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": f"{tree}{os.pathsep}{tree / 'sdk'}", "PYTHONUNBUFFERED": "1"}


@contextlib.contextmanager
def service(name: str, tree: Path, folder: Path, url: str | None = None, processes: int = 1) -> Iterator[Service]:
    """The service of `tree`, filled and up: so many processes that answer."""
    folder.mkdir()
    url, filled = url or f"sqlite:///{folder / 'fusetune.db'}", folder / "filled.json"
    environment = _environment(tree) | {"FUSETUNE_REQUIRE_KEY": "true", "FUSETUNE_DATABASE_URL": url}
    subprocess.run([sys.executable, HERE / "stored.py", url, filled], check=True, cwd=tree, env=environment)
    told, log = json.loads(filled.read_text()), folder / "log"
    command = [sys.executable, "-m", "service", "serve", "--port", "0", "--data-dir", str(folder)]
    command += ["--workers", str(processes)] if processes > 1 else []  # an older tree may not know it
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=tree, env=environment, stdout=out, stderr=out)
    try:
        port = _port(process, log)
        yield Service(name, tree, process.pid, port, url, filled, told["key"], told["names"], processes)
    finally:
        process.terminate()
        process.wait()


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    until = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < until:
        if said := re.search(r"fusetune serves http://[^:]+:(\d+)", log.read_text()):
            return int(said[1])
        time.sleep(0.1)
    raise SystemExit(f"the service did not start:\n{log.read_text()[-2000:]}")


@contextlib.contextmanager
def publishing(one: Service, into: dict[str, int]) -> Iterator[None]:
    """Kernels are published meanwhile; how many, and how many answers were late, is added to `into`."""
    doors = 1 if one.processes == 1 else DOORS * one.processes
    arguments = [one.url, one.filled, HOST, one.port, PUBLISH_EVERY_S, doors]
    command = [sys.executable, str(HERE / "publisher.py"), *map(str, arguments)]
    process = subprocess.Popen(
        command, cwd=one.tree, env=_environment(one.tree), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()  # it is up
    try:
        yield
    finally:
        out, _ = process.communicate()
        for name, count in json.loads(out).items():
            into[name] = into.get(name, 0) + count


def cached(one: Service, connection: int) -> list[bytes]:
    """Cached POSTs by Zipf, one of ten with names that nobody used before."""
    drawn = zipf(stored.KEYS, DRAWS, connection)
    return [
        post("/v1/tunings", stored.request(key, f"n{connection}_{n}_" if n % OTHER_NAMES == 0 else ""), one.key)
        for n, key in enumerate(drawn)
    ]


def lookups(one: Service, connection: int) -> list[bytes]:
    """Lookups of 256 keys each."""
    sets = [zipf(stored.KEYS, 4000, seed) for seed in range(20)]
    named = [[one.names[key] for key in list(dict.fromkeys(drawn))[:256]] for drawn in sets]
    return [
        post(
            "/v1/kernels/lookup", {"keys": [{"fingerprint": f, "binding": b, "card": "H100"} for f, b in keys]}, one.key
        )
        for keys in named
    ]


def artifacts(one: Service, connection: int) -> list[bytes]:
    """Whole kernels."""
    listed, after = [], ""
    door = Connection(HOST, one.port)
    for _ in range(3):
        page = json.loads(door.ask(get(f"/v1/kernels?limit=100{after}", one.key))[1])
        listed += [kernel["id"] for kernel in page["items"]]
        after = f"&after={_quoted(page['next'])}"
    door.close()
    return [get(f"/v1/kernels/{id}", one.key) for id in listed]


def depths(one: Service, connection: int) -> list[bytes]:
    """Pages of 50 from the front to the end of the list."""
    at, asked = "", []
    door = Connection(HOST, one.port)
    for _ in range(400):
        asked.append(get(f"/v1/kernels?limit=50{at}", one.key))
        following = json.loads(door.ask(asked[-1])[1])["next"]
        if following is None:
            break
        at = f"&after={_quoted(following)}"
    door.close()
    return asked[::40]


def trials(one: Service, connection: int) -> list[bytes]:
    """Pages of trials, from the first to the last."""
    return [get(f"/v1/tunings/{'f' * 32}/trials?limit=50&after={n}", one.key) for n in range(0, stored.TRIALS, 1999)]


def dashboard(one: Service, connection: int) -> list[bytes]:
    """The start page from the front to the end of the list, and the page of the tuning with all those trials."""
    at, asked = "", []
    door = Connection(HOST, one.port)
    while True:
        asked += [get(f"/?{at}", one.key), get(f"/tunings/{'f' * 32}", one.key)]
        following = json.loads(door.ask(get(f"/v1/fusions?limit=100&{at}", one.key))[1])["next"]
        if following is None:
            break
        at = f"after={_quoted(following)}"
    door.close()
    return asked


def _quoted(cursor: str) -> str:
    return cursor.replace("+", "%2B").replace(":", "%3A").replace("~", "%7E")


ROWS: tuple[tuple[str, int, Callable[[Service, int], Sequence[bytes]]], ...] = (
    ("cached POST", 1, cached),
    ("cached POST", 8, cached),
    ("256 keys", 1, lookups),
    ("artifact", 1, artifacts),
    ("page of kernels", 1, depths),
    ("page of trials", 1, trials),
    ("dashboard", 1, dashboard),
)


FIGURES = {"rate": ".0f", "p50_ms": ".2f", "p99_ms": ".2f", "processor_ms": ".2f"}


def table(results: list[dict[str, Any]], names: Sequence[str]) -> str:
    """The results as Markdown."""
    heads = " | ".join(f"{name}: answers/s | p50 ms | p99 ms | processor ms" for name in names)
    lines = [f"| request | connections | {heads} |", f"|---|---|{'---|' * (4 * len(names))}"]
    for row in results:
        cells = " | ".join(
            " | ".join(f"{row[name][figure]:{how}}" for figure, how in FIGURES.items()) for name in names
        )
        lines.append(f"| {row['request']} | {row['connections']} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Runs all loads and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", type=Path, help="another tree, measured beside this one")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load")
    parser.add_argument("--workers", type=int, help="another service of this tree, of so many processes")
    parser.add_argument("--postgres", help="an empty PostgreSQL database, for a third service, of this tree")
    parser.add_argument("--json", type=Path, help="where to write the results")
    given = parser.parse_args()
    published: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        started = partial(_started, stack, Path(folder))
        services = [started("before", given.old.resolve())] if given.old else []
        services.append(started("after", THIS))
        if given.workers:
            services.append(started(f"after, {given.workers} processes", THIS, processes=given.workers))
        if given.postgres:
            services.append(started("after, PostgreSQL", THIS, given.postgres))
        results: list[dict[str, Any]] = []
        for request, connections, requests in ROWS:
            row: dict[str, Any] = {"request": request, "connections": connections}
            for one in services:
                row[one.name] = _measured(one, connections, given.seconds, requests, published)
            results.append(row)
            print(json.dumps(row), file=sys.stderr)
    names = [one.name for one in services]
    print(table(results, names))
    print(json.dumps(published))
    if given.json:
        given.json.write_text(json.dumps({"rows": results, "published": published}, indent=1) + "\n")


def _started(
    stack: contextlib.ExitStack, folder: Path, name: str, tree: Path, url: str | None = None, *, processes: int = 1
) -> Service:
    own = folder / str(len(list(folder.iterdir())))
    return stack.enter_context(service(name, tree, own, url, processes))


def _measured(
    one: Service,
    connections: int,
    seconds: float,
    requests: Callable[[Service, int], Sequence[bytes]],
    published: dict[str, dict[str, int]],
) -> dict[str, float]:
    """A load after a first pass that nobody counts; and the service's processor time for an answer."""
    made = [requests(one, number) for number in range(connections)]
    with publishing(one, published.setdefault(one.name, {})):
        run(HOST, one.port, connections, 3.0, made.__getitem__)
        before = _processor_s(one.pid)
        told = run(HOST, one.port, connections, seconds, made.__getitem__)
        spent_s = _processor_s(one.pid) - before
    return asdict(told) | {"processor_ms": 1000 * spent_s / (told.rate * seconds)}


def _processor_s(pid: int) -> float:
    """What a process and its children have taken of processors, in seconds (proc_pid_stat(5), fields 14 and 15)."""
    children = [one for task in Path(f"/proc/{pid}/task").iterdir() for one in (task / "children").read_text().split()]
    fields = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split() for one in (pid, *children)]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
