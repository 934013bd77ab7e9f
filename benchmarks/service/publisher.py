"""Publishes kernels while the service is under load, and asks for each: is the answer the new one at once?

Run as a program, `python benchmarks/service/publisher.py URL FILLED HOST PORT EVERY_S DOORS`, with the service's tree
on PYTHONPATH, until its standard input ends. Each kernel is asked for over so many connections, which the processes of
a service share. Prints one JSON object: how many were published, how many answers were old.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import select
import sys
import uuid
from pathlib import Path

from service.db import kernels
from service.db.engine import Database
from service.db.models import KernelRow

sys.path.insert(0, str(Path(__file__).parent))
import stored  # type: ignore[import-not-found]  # the program lies beside it, whichever tree is on the path


def main(url: str, filled: str, host: str, port: str, every_s: str, doors: str) -> None:
    """Publish until nobody listens."""
    told = json.loads(Path(filled).read_text())
    draw, published, late = random.Random(1), 0, 0
    headers = {"authorization": f"Bearer {told['key']}", "content-type": "application/json"}
    with Database(url) as db:
        print("up", flush=True)
        asking = [http.client.HTTPConnection(host, int(port)) for _ in range(int(doors))]
        while not select.select([sys.stdin], [], [], float(every_s))[0]:
            key = draw.randrange(stored.KEYS)
            content = f"published {uuid.uuid4()}".encode()  # never bytes that an earlier load has published
            with db.write() as session:
                sha256 = kernels.put_artifact(session, content)
                row = stored.kernel(*told["names"][key], told["card"], sha256)
                kernels.publish(session, KernelRow(**row), replace_slower_only=False)
            published += 1
            for door in asking:
                door.request("POST", "/v1/tunings", json.dumps(stored.request(key)), headers)
                answer = json.loads(door.getresponse().read())
                late += answer["id"] != hashlib.sha256(content).hexdigest()[:32]
    print(json.dumps({"published": published, "late": late}))


if __name__ == "__main__":
    main(*sys.argv[1:])
