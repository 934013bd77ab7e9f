"""`Client`: asks a fusetune service for kernels, and falls back to what it gave before."""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from fusetune.administration import Administration
from fusetune.bindings import BindingLike, TensorLike
from fusetune.environment import Environment
from fusetune.errors import (
    FusetuneWarning,
    InvalidRequest,
    KernelNotFound,
    NoKernel,
    OutdatedProof,
    ServerBroken,
    ServiceUnavailable,
    TuningCancelled,
    TuningFailed,
)
from fusetune.kernel import EmptyKernel, Kernel
from fusetune.progress import told_to
from fusetune.query import (
    AcceptLike,
    EnoughLike,
    FusionLike,
    Query,
    checked_request,
    checked_root,
    query_of,
    read_accept,
    read_enough,
    read_fusion_like,
    tuning_request,
)
from fusetune.shelf import Shelf
from fusetune.signing import Trust, TrustLike
from fusetune.store import Store
from fusetune.transport import Transport
from fusetune.waiting import Deadline, Follower, Pace, Progress
from fusetune.wire import fingerprint
from fusetune.wire.binding import Binding
from fusetune.wire.fusion import show
from fusetune.wire.problems import Problem
from fusetune.wire.service import (
    ACTIVE,
    Accept,
    Cards,
    CardStatus,
    Health,
    KernelAnswers,
    KernelKey,
    KernelLookup,
    KernelView,
    SpaceRequest,
    SpaceView,
    Trials,
    TrialStateName,
    TrialView,
    TuningRequest,
    Tunings,
    TuningView,
)
from fusetune.wire.verdicts import (
    MAX_CASES,
    ScheduleCases,
    ScheduleVerdict,
    ScheduleVerdicts,
)
from fusetune.wire.wanting import Want

if TYPE_CHECKING:
    from fusetune.transport import HttpTransport

AnyKernel = Kernel | EmptyKernel
"""What a query is answered with; both are called alike."""

LOOKUP_KEYS = 256
"""The most keys of one POST /v1/kernels/lookup (fusetune.wire.service.KernelLookup)."""


class Client(Administration):
    """A fusetune service, to be used as a context manager or closed; several threads may share it.

    `url` and `api_key` are FUSETUNE_URL (else http://127.0.0.1:8765) and FUSETUNE_API_KEY unless given. `timeout_s`
    bounds each wait for the network. `store`: where kernels are kept for days without the service; True is the default
    folder (`fusetune.store.Store`), None is none. `transport` takes the place of the network in tests. `trust`: public
    keys of which one must have signed a kernel before it is loaded (`fusetune.signing`); FUSETUNE_TRUST unless given.

    A fusion is one of `FusionBuilder`, or its document. A binding is read off `inputs`, tensors in order, or given as
    sizes (`{"M": 8192}`), a Binding or its document. `card` is a GPU model's name or a card's id; without, the card of
    a worker that is up. `accept` is the evidence to accept: verified and measured on a GPU unless it says otherwise.
    Where every output is empty, the answer is an EmptyKernel and nobody is asked.

    Methods raise InvalidFusion, InvalidBinding and InvalidRequest for what cannot be, OutdatedProof for a kernel that a
    service of an older version has proven, and ServiceError otherwise.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 10.0,
        store: Store | str | os.PathLike[str] | bool | None = True,
        transport: HttpTransport | None = None,
        pace: Pace | None = None,
        trust: TrustLike | None = None,
    ) -> None:
        defaults = Environment.read()
        self._transport = Transport(url or defaults.url, api_key or defaults.api_key, timeout_s, transport)
        self._store = _store(store)
        self._shelf = Shelf(self._transport, self._store, None if trust is None else Trust.of(trust))
        self._pace = pace

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the connections back."""
        self._transport.close()

    def __repr__(self) -> str:
        return f"Client({self._transport.url!r}{', with a key' if self._transport.has_key else ''}, {self._store!r})"

    def tune(
        self,
        fusion: FusionLike,
        *,
        inputs: Sequence[TensorLike] | None = None,
        binding: BindingLike | None = None,
        budget_s: float = 60.0,
        trials: int | None = None,
        accept: AcceptLike | None = None,
        card: str | None = None,
        refresh: bool = False,
        name: str | None = None,
        wait: Want = "best",
        enough: EnoughLike | None = None,
        progress: Progress | bool | None = None,
        timeout_s: float | None = None,
    ) -> AnyKernel:
        """The fastest kernel that is known, or else is found within `budget_s` seconds of search or `trials`.

        `wait` "first" takes the first kernel that is right on all input sets and was timed, while the search goes on:
        its `info.provisional` says how far it may be from the best, which a later call without `wait` waits for. It is
        neither kept in the store nor written into a lock. `enough` ends the search early (`{"within_floor": 0.02}`, or
        `improvement`: fusetune.wire.wanting.Enough). `refresh` searches although the cache has an answer.
        `progress`: True for a line on stderr, or a function that is called with every new TuningView. The wait ends
        after `timeout_s` with TuningTimedOut; the tuning goes on, as it does after Ctrl-C. Where the service cannot be
        had, the answer comes from the store, with a warning.

        Raises NoKernel, TuningFailed, TuningCancelled, TuningTimedOut, or another ServiceError.
        """
        query, wanted = query_of(fusion, inputs, binding), read_accept(accept)
        deadline = Deadline(timeout_s)
        request = tuning_request(
            query, wanted, budget_s=budget_s, trials=trials, card=card, refresh=refresh, want=wait,
            enough=read_enough(enough), name=name,
        )  # fmt: skip
        if query.empty is not None:
            return query.empty
        try:
            found = self._post(request)
            if isinstance(found, TuningView):
                found = self._end(found, wanted, progress, deadline, wait, is_old=found.state not in ACTIVE)
            return self._shelf.fetch(found, wanted, query)
        except ServiceUnavailable as error:
            kernel = self._stored(query, wanted, card, error)
            if kernel is None:
                raise
            _warn_of_store(error, stacklevel=3)
            return kernel

    def submit(
        self,
        fusion: FusionLike,
        *,
        inputs: Sequence[TensorLike] | None = None,
        binding: BindingLike | None = None,
        budget_s: float = 60.0,
        trials: int | None = None,
        accept: AcceptLike | None = None,
        card: str | None = None,
        refresh: bool = False,
        name: str | None = None,
    ) -> TuningView:
        """Like `tune`, without waiting; `wait` does that. Where the cache has the answer: the tuning that found it."""
        query, wanted = query_of(fusion, inputs, binding), read_accept(accept)
        request = tuning_request(query, wanted, budget_s=budget_s, trials=trials, card=card, refresh=refresh, name=name)
        if query.empty is not None:
            fix = "Call Client.tune: it answers at once."
            raise InvalidRequest((Problem("binding", "outputs without elements", "something to compute", fix),))
        found = self._post(request)
        if isinstance(found, TuningView):
            return found
        if found.tuning is None:
            fix = "Take it with Client.kernel, or search again with refresh=True."
            expected = "one that a tuning of this service found"
            raise InvalidRequest((Problem("fusion", f"kernel {found.id} in the cache", expected, fix),))
        return self.tuning(found.tuning)

    def wait(
        self,
        tuning: str | TuningView,
        *,
        accept: AcceptLike | None = None,
        progress: Progress | bool | None = None,
        timeout_s: float | None = None,
    ) -> Kernel:
        """The kernel of a tuning, by its id, once that has ended. Raises what `tune` raises."""
        wanted, deadline = read_accept(accept), Deadline(timeout_s)
        view = self.tuning(tuning if isinstance(tuning, str) else tuning.id)
        return self._shelf.fetch(self._end(view, wanted, progress, deadline), wanted)

    def tuning(self, tuning_id: str) -> TuningView:
        """How far a tuning is."""
        return self._transport.get(_tuning_path(tuning_id), TuningView)

    def cancel(self, tuning_id: str) -> TuningView:
        """Ends a tuning; it publishes no kernel. One that has ended already stays as it is."""
        return self._transport.read(self._transport.send("DELETE", _tuning_path(tuning_id)), TuningView)

    def trials(self, tuning_id: str, *, state: TrialStateName | None = None) -> Iterator[TrialView]:
        """What happened to each candidate of a tuning, in order; only those in `state`, if given."""
        return self._transport.pages(f"{_tuning_path(tuning_id)}/trials", Trials, {"state": state})

    def kernel(
        self,
        fusion: FusionLike,
        *,
        inputs: Sequence[TensorLike] | None = None,
        binding: BindingLike | None = None,
        card: str | None = None,
        accept: AcceptLike | None = None,
    ) -> AnyKernel:
        """The kernel in the cache; nothing is searched for. Raises KernelNotFound, or another ServiceError."""
        query = query_of(fusion, inputs, binding)
        (found,) = self._lookup([query], read_accept(accept), card)
        if found is None:
            raise KernelNotFound("POST /v1/kernels/lookup", query.fingerprint, query.binding_hash, card)
        return found

    def kernels(
        self,
        wanted: Sequence[tuple[FusionLike, BindingLike | Sequence[TensorLike] | None]],
        *,
        card: str | None = None,
        accept: AcceptLike | None = None,
    ) -> list[AnyKernel | None]:
        """The kernels in the cache for many pairs of a fusion and a binding or inputs, None where there is none.

        Where the service cannot be had, all come from the store; if that has none at all, the ServiceError is raised.
        """
        queries = [
            query_of(fusion, binding=bound)
            if bound is None or isinstance(bound, Binding | Mapping | str | bytes)
            else query_of(fusion, inputs=bound)
            for fusion, bound in map(_pair, range(len(wanted)), wanted)
        ]
        return self._lookup(queries, read_accept(accept), card)

    def tunings(self, fusion: FusionLike | None = None) -> Iterator[TuningView]:
        """All tunings, the newest first; only those of `fusion`, if given."""
        asked = None if fusion is None else fingerprint(read_fusion_like(fusion))
        return self._transport.pages("/tunings", Tunings, {"fingerprint": asked})

    def space(
        self,
        fusion: FusionLike,
        *,
        inputs: Sequence[TensorLike] | None = None,
        binding: BindingLike | None = None,
        card: str | None = None,
        samples: int = 5,
        seed: int = 0,
    ) -> SpaceView:
        """What a search would look through: points, legal ones, refusals by rule, `samples` legal points."""
        query = query_of(fusion, inputs, binding)
        request = checked_request(
            SpaceRequest, fusion=query.fusion, binding=query.binding, card=card, samples=samples, seed=seed
        )
        response = self._transport.send("POST", "/spaces", body=request)
        return self._transport.read(response, SpaceView)

    def check_schedules(
        self, schedules: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, arch: str | None = None
    ) -> tuple[ScheduleVerdict, ...]:
        """Verdicts on explicit schedules, in order: one document, or several (256 are sent at a time).

        `arch` is a compile target such as "sm_90a"; by default, for each schedule the least that has what it uses.
        """
        documents = [schedules] if isinstance(schedules, Mapping) else list(schedules)
        params: dict[str, str | int] = {} if arch is None else {"arch": arch}
        verdicts: list[ScheduleVerdict] = []
        for start in range(0, len(documents), MAX_CASES):
            body = checked_root(ScheduleCases, documents[start : start + MAX_CASES])
            response = self._transport.send("POST", "/schedules/check", body=body, params=params)
            answers = self._transport.read(response, ScheduleVerdicts).root
            if len(answers) != len(body.root):
                found, expected = f"{len(answers)} verdicts", f"{len(body.root)}, one for each schedule"
                raise ServerBroken("POST /v1/schedules/check", self._transport.url, found, expected)
            verdicts += answers
        return tuple(verdicts)

    def cards(self) -> tuple[CardStatus, ...]:
        """The cards that the service knows, and the workers that serve them."""
        return self._transport.get("/cards", Cards).items

    def health(self) -> Health:
        """Whether the service is ready, and what is not. Raises ServiceError where there is none."""
        return self._transport.health()

    def _post(self, request: TuningRequest) -> KernelView | TuningView:
        # The key makes a request that has to be sent twice one request.
        headers = {"idempotency-key": uuid.uuid4().hex}
        response = self._transport.send("POST", "/tunings", body=request, headers=headers)
        if response.status_code == 200:
            return self._transport.read(response, KernelView)
        return self._transport.read(response, TuningView)

    def _end(
        self,
        view: TuningView,
        accept: Accept,
        progress: Progress | bool | None,
        deadline: Deadline,
        want: Want = "best",
        is_old: bool = False,
    ) -> KernelView:
        """The kernel that the tuning comes to, or its first. Raises ServiceError."""
        with told_to(progress) as tell:
            follower = Follower(self._transport, view, deadline, tell, self._pace, want)
            try:
                view = follower.run()
            except BaseException as error:
                if follower.view.state in ACTIVE:
                    again = f"Client.wait({view.id!r}) gets its kernel, Client.cancel({view.id!r}) stops it."
                    error.add_note(f"fusetune: tuning {view.id} goes on in the service. {again}")
                raise
        return self._result(view, accept, is_old)

    def _result(self, view: TuningView, accept: Accept, is_old: bool = False) -> KernelView:
        """What an ended tuning has published, or one that goes on. Raises TuningFailed, TuningCancelled, NoKernel."""
        request = f"GET /v1{_tuning_path(view.id)}"
        if view.state == "failed":
            raise TuningFailed(request, view)
        if view.state == "cancelled":
            raise TuningCancelled(request, view)
        kernel = view.first if view.state in ACTIVE else view.kernel
        if kernel is None:
            raise NoKernel(request, view, f"{view.note or 'It does not say why.'}{_since(view, is_old)}")
        found = self._transport.get(f"/kernels/{quote(kernel, safe='')}/info", KernelView)
        if not accept.allows(found.evidence):
            allowed = f"accepted: {' or '.join(accept.correct)}; {' or '.join(accept.time)}"
            why = f"Its kernel is {found.evidence.correct}, its time {found.evidence.time} ({allowed}). {view.note}"
            raise NoKernel(request, view, f"{why.rstrip()}{_since(view, is_old)}")
        return found

    def _lookup(self, queries: Sequence[Query], accept: Accept, card: str | None) -> list[AnyKernel | None]:
        """An answer for each query, by the service or else by the store."""
        found: list[AnyKernel | None] = [query.empty for query in queries]
        open_ones = [i for i, query in enumerate(queries) if query.empty is None]
        try:
            views = self._views([queries[i] for i in open_ones], accept, card)
            loaded: dict[str, Kernel] = {}
            for i, view in zip(open_ones, views, strict=True):
                if view is not None:
                    if view.artifact_sha256 not in loaded:
                        loaded[view.artifact_sha256] = self._shelf.fetch(view, accept, queries[i])
                    found[i] = loaded[view.artifact_sha256]
        except ServiceUnavailable as error:
            stored = {i: self._stored(queries[i], accept, card, error) for i in open_ones}
            if not any(stored.values()):
                raise
            _warn_of_store(error, stacklevel=4)
            return [stored.get(i, found[i]) for i in range(len(queries))]
        return found

    def _stored(self, query: Query, accept: Accept, card: str | None, error: ServiceUnavailable) -> Kernel | None:
        """The store's answer in place of the service's; one that it refuses is told as a note on `error`."""
        try:
            return self._shelf.find(query, accept, card)
        except OutdatedProof as refused:
            error.add_note(f"fusetune: the store has no kernel in its place. {refused}")
            return None

    def _views(self, queries: Sequence[Query], accept: Accept, card: str | None) -> list[KernelView | None]:
        """What the cache has for each query."""
        views: list[KernelView | None] = []
        for start in range(0, len(queries), LOOKUP_KEYS):
            part = queries[start : start + LOOKUP_KEYS]
            keys = tuple(KernelKey(fingerprint=q.fingerprint, binding=q.binding_hash, card=card) for q in part)
            response = self._transport.send("POST", "/kernels/lookup", body=KernelLookup(keys=keys, accept=accept))
            answers = self._transport.read(response, KernelAnswers).kernels
            if len(answers) != len(part):
                found, expected = f"{len(answers)} kernels", f"{len(part)}, one for each key"
                raise ServerBroken("POST /v1/kernels/lookup", self._transport.url, found, expected)
            views += answers
        return views


def _store(store: Store | str | os.PathLike[str] | bool | None) -> Store | None:
    if isinstance(store, Store):
        return store
    if store is None or store is False:
        return None
    return Store() if store is True else Store(store)


def _pair(position: int, pair: object) -> tuple[Any, Any]:
    """One of the pairs that `Client.kernels` takes. Raises InvalidRequest."""
    if isinstance(pair, tuple | list) and len(pair) == 2:
        return pair[0], pair[1]
    expected, fix = "a pair of a fusion and a binding or inputs", "Write (fusion, None) where no size is open."
    raise InvalidRequest((Problem(f"wanted[{position}]", show(pair), expected, fix),))


def _since(view: TuningView, is_old: bool) -> str:
    """What to say of a search that had ended before it was asked for."""
    if not is_old or view.ended_at is None:
        return ""
    ended = view.ended_at.strftime("%Y-%m-%d %H:%M UTC")
    return f" That search ended on {ended}, and nothing has changed since: refresh=True searches again."


def _tuning_path(tuning_id: object) -> str:
    if not isinstance(tuning_id, str) or not tuning_id:
        fix = "Pass the `id` of a TuningView."
        raise InvalidRequest((Problem("tuning", show(tuning_id), "the id of a tuning", fix),))
    return f"/tunings/{quote(tuning_id, safe='')}"


def _warn_of_store(error: ServiceUnavailable, stacklevel: int) -> None:
    """Says that an answer is an old one; `stacklevel` reaches the line that called the public method."""
    text = "\n".join((str(error), *getattr(error, "__notes__", ())))
    warnings.warn(f"the kernel comes from the store on disk: {text}", FusetuneWarning, stacklevel=stacklevel)
