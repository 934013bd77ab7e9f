"""A fusetune service in memory, as a function from request to response; over real sockets too, where a test asks.

By default a posted tuning is queued, runs, and ends with a kernel. `meddle` takes requests before the routes see them.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import httpx2

from fusetune.fusion import Fusion, FusionBuilder
from fusetune.wire import binding_hash, fingerprint
from fusetune.wire.artifact import VERIFIER, Conditions, Evidence, KernelArtifact, LaunchSpec, Resources, TensorSpec
from fusetune.wire.binding import Binding
from fusetune.wire.service import (
    Accept,
    CandidateView,
    Cards,
    CardStatus,
    CardView,
    Health,
    KernelAnswers,
    KernelLookup,
    KernelView,
    ProblemDetails,
    ProblemItem,
    Trials,
    TrialView,
    TuningRequest,
    TuningView,
)

URL = "http://fake.test"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
RESOURCES = Resources(registers=32, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0, static_smem_bytes=0)
CANDIDATE = CandidateView(scheduler="flat", point={"vector": 8})
MEASURED = Evidence(correct="verified_on_gpu", time="measured")
Meddler = Callable[[httpx2.Request], httpx2.Response | None]


def bias_gelu() -> Fusion:
    """gelu(x + bias) for any number M of rows of 64."""
    f = FusionBuilder()
    x, bias = f.input("x", ("M", 64), "bf16"), f.input("bias", (64,), "bf16")
    rows = bias.cast("f32").broadcast_to(x.shape, dims=(1,))
    f.output(f.gelu(x.cast("f32") + rows).cast("bf16"), name="out")
    return f.build()


def card(name: str = "NVIDIA H200") -> CardView:
    return CardView(
        id=sha256(name.encode()).hexdigest()[:16],
        name=name,
        capability=(9, 0),
        sm_count=132,
        max_sm_clock_mhz=1980,
        max_memory_clock_mhz=3201,
        memory_bytes=1 << 37,
        l2_bytes=1 << 26,
        power_w=700,
        source="table",
    )


def artifact(fusion: Fusion, binding: Binding, **changes: Any) -> KernelArtifact:
    """A kernel of x (M, 64) and bias (64,) that no GPU could run."""
    m, cubin = binding.sizes["M"], b"no cubin"

    def dense(*shape: int) -> TensorSpec:
        return TensorSpec(shape=shape, strides=(64, 1)[-len(shape) :], dtype="bf16", align=16)

    fields: dict[str, Any] = {
        "fingerprint": fingerprint(fusion),
        "binding": binding_hash(fusion, binding),
        "arch": "sm_90a",
        "inputs": (dense(m, 64), dense(64)),
        "outputs": (dense(m, 64),),
        "launches": (LaunchSpec(entry="fused", grid=(1, 1, 1), block=(32, 1, 1), args=()),),
        "cubin": base64.b64encode(cubin),
        "cubin_sha256": sha256(cubin).hexdigest(),
        "source": "",
        "ptx": "",
        "trace": {},
        "resources": RESOURCES,
        "code_hash": "c" * 64,
        "conditions": Conditions(generator="g", nvrtc="13.0"),
        "evidence": MEASURED,
    }
    return KernelArtifact(**{**fields, **changes})


def kernel_view(found: KernelArtifact, on: CardView | None = None, **changes: Any) -> tuple[KernelView, bytes]:
    data = found.model_dump_json().encode()
    sha = sha256(data).hexdigest()
    fields: dict[str, Any] = {
        "id": sha[:32],
        "artifact_sha256": sha,
        "fingerprint": found.fingerprint,
        "binding": found.binding,
        "card": on or card(),
        "policy": "default",
        "arch": found.arch,
        "evidence": found.evidence,
        "verifier": VERIFIER,
        "candidate": CANDIDATE,
        "resources": RESOURCES,
        "generator": "g",
        "nvrtc": "13.0",
        "created_at": EPOCH,
    }
    return KernelView(**{**fields, **changes}), data


def tuning_view(tuning_id: str, request: TuningRequest, **changes: Any) -> TuningView:
    fields: dict[str, Any] = {
        "id": tuning_id,
        "state": "queued",
        "fingerprint": fingerprint(request.fusion),
        "binding": binding_hash(request.fusion, request.binding),
        "name": request.name,
        "card": card(),
        "policy": "default",
        "budget_s": request.budget_s,
        "created_at": EPOCH,
    }
    return TuningView(**{**fields, **changes})


def problem(status: int, name: str, *items: ProblemItem, **headers: str) -> httpx2.Response:
    details = ProblemDetails(
        type=f"urn:fusetune:problem:{name}",
        title=name.replace("-", " "),
        status=status,
        detail=f"Detail of {name}.",
        fix="Fix it.",
        request_id="r-1",
        problems=items,
    )
    return httpx2.Response(
        status,
        content=details.model_dump_json(),
        headers={"content-type": "application/problem+json", **{k.replace("_", "-"): v for k, v in headers.items()}},
    )


def answer(model: Any, status: int = 200) -> httpx2.Response:
    return httpx2.Response(status, content=model.model_dump_json(), headers={"content-type": "application/json"})


def event(view: TuningView, name: str = "progress") -> str:
    return f"event: {name}\r\ndata: {view.model_dump_json()}\r\n\r\n"


class FakeService:
    """`steps` are what a tuning's view shows, one at each look, the last one for good; `events` the parts of a stream.

    A part is text, or an exception that cuts the stream there. Without `events`, the stream tells all steps.
    """

    def __init__(self, meddle: Meddler | None = None) -> None:
        self.meddle = meddle
        self.seen: list[httpx2.Request] = []
        self.kernels: dict[str, tuple[KernelView, bytes]] = {}
        self.requests: dict[str, TuningRequest] = {}
        self.looks: dict[str, int] = {}
        self.steps: list[dict[str, Any]] = [{"state": "queued", "ahead": 1}, {"state": "running", "phase": "timing"}]
        self.ends: dict[str, Any] = {"state": "done"}
        self.streams: list[list[str | Exception]] | None = None
        self.artifact_changes: dict[str, Any] = {}
        self.key: str | None = None

    def transport(self) -> httpx2.MockTransport:
        return httpx2.MockTransport(self.handle)

    def asked(self) -> list[str]:
        """`GET /v1/cards` and the like, in order."""
        return [f"{request.method} {request.url.path}" for request in self.seen]

    def add(self, fusion: Fusion, binding: Binding, *, on: CardView | None = None, **changes: Any) -> KernelView:
        """Puts a kernel into the cache."""
        view, data = kernel_view(artifact(fusion, binding, **self.artifact_changes), on, **changes)
        self.kernels[view.id] = (view, data)
        return view

    def handle(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        if self.meddle is not None and (found := self.meddle(request)) is not None:
            return found
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            return problem(401, "unauthorized")
        match request.method, [part for part in request.url.path.split("/") if part]:
            case "GET", ["readyz"]:
                return answer(Health(status="ok", checks={"database": "ok"}))
            case "GET", ["v1", "cards"]:
                return answer(Cards(items=(CardStatus(card=card()),)))
            case "POST", ["v1", "tunings"]:
                return self._open(TuningRequest.model_validate_json(request.content))
            case "POST", ["v1", "kernels", "lookup"]:
                return self._lookup(KernelLookup.model_validate_json(request.content))
            case "GET", ["v1", "tunings", tuning, *rest] if tuning in self.requests:
                return self._tuning(tuning, rest, request)
            case "DELETE", ["v1", "tunings", tuning] if tuning in self.requests:
                self.ends = {"state": "cancelled"}
                self.looks[tuning] = len(self.steps)
                return answer(self.view(tuning), 202)
            case "GET", ["v1", "kernels", kernel] if kernel in self.kernels:
                return httpx2.Response(200, content=self.kernels[kernel][1])
            case "GET", ["v1", "kernels", kernel, "info"] if kernel in self.kernels:
                return answer(self.kernels[kernel][0])
        return problem(404, "not-found")

    def view(self, tuning: str) -> TuningView:
        """The tuning as it stands; every look takes it one step on."""
        look = self.looks[tuning]
        self.looks[tuning] = look + 1
        return self._step(tuning, look)

    def _step(self, tuning: str, look: int) -> TuningView:
        request = self.requests[tuning]
        if look < len(self.steps):
            return tuning_view(tuning, request, **self.steps[look])
        changes = dict(self.ends)
        if changes["state"] == "done" and "kernel" not in changes:
            fusion = Fusion.from_json(request.fusion.to_json())
            changes["kernel"] = self.add(fusion, request.binding, tuning=tuning).id
        return tuning_view(tuning, request, **changes)

    def _open(self, request: TuningRequest) -> httpx2.Response:
        key = (fingerprint(request.fusion), binding_hash(request.fusion, request.binding))
        for view, _ in self.kernels.values():
            if (view.fingerprint, view.binding) == key and request.accept.allows(view.evidence) and not request.refresh:
                return answer(view)
        tuning = f"{len(self.requests):032x}"
        self.requests[tuning], self.looks[tuning] = request, 0
        return answer(self.view(tuning), 202)

    def _lookup(self, lookup: KernelLookup) -> httpx2.Response:
        def find(fp: str, binding: str, name: str | None, accept: Accept) -> KernelView | None:
            for view, _ in self.kernels.values():
                wanted = name in (None, view.card.id, view.card.name) and accept.allows(view.evidence)
                if (view.fingerprint, view.binding) == (fp, binding) and wanted:
                    return view
            return None

        found = tuple(find(key.fingerprint, key.binding, key.card, lookup.accept) for key in lookup.keys)
        return answer(KernelAnswers(kernels=found))

    def _tuning(self, tuning: str, rest: list[str], request: httpx2.Request) -> httpx2.Response:
        match rest:
            case []:
                return answer(self.view(tuning))
            case ["events"]:
                parts = self.streams.pop(0) if self.streams else self._events(tuning)
                headers = {"content-type": "text/event-stream; charset=utf-8"}
                return httpx2.Response(200, stream=Parts(parts), headers=headers)
            case ["trials"]:
                after = int(request.url.params.get("after", -1))
                trials = [t for t in some_trials() if t.number > after][:2]
                more = trials[-1].number < some_trials()[-1].number
                return answer(Trials(items=tuple(trials), next=trials[-1].number if more else None))
        return problem(404, "not-found")

    def _events(self, tuning: str) -> list[str | Exception]:
        steps = [self._step(tuning, look) for look in range(len(self.steps) + 1)]
        self.looks[tuning] = len(self.steps)
        return [": hello\r\n\r\n", *map(event, steps[:-1]), event(steps[-1], "end")]


class Parts(httpx2.SyncByteStream):
    """A body that comes in parts."""

    def __init__(self, parts: list[str | Exception]) -> None:
        self.parts = parts

    def __iter__(self) -> Iterator[bytes]:
        for part in self.parts:
            if isinstance(part, Exception):
                raise part
            yield part.encode()


def some_trials() -> list[TrialView]:
    return [
        TrialView(number=n, candidate=CANDIDATE, state="measured", recorded_at=EPOCH + timedelta(seconds=n))
        for n in range(5)
    ]


@contextmanager
def served(service: FakeService) -> Iterator[str]:
    """The service behind a real socket of this host; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            url = f"http://{self.headers['host']}{self.path}"
            found = service.handle(httpx2.Request(self.command, url, headers=dict(self.headers), content=body))
            self.send_response(found.status_code)
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.end_headers()
            for part in cast("Iterator[bytes]", found.stream):
                self.wfile.write(part)
                self.wfile.flush()

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815 (the names that http.server looks for)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def body_of(request: httpx2.Request) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(request.content)
    return found
