"""`jit`: the function, its calls by key, and what is known of each key."""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch.utils import _pytree as pytree

from fusetune.errors import CannotConvert, FusetuneError, FusetuneWarning, InvalidRequest, LaunchFailed, NotCached
from fusetune.fusion import Fusion
from fusetune.graph.effects import KEEPS
from fusetune.jitting.call_key import NoKey, call_key
from fusetune.jitting.clocks import Clock, EventClock
from fusetune.jitting.gradient import gradient_of
from fusetune.jitting.last_call import LastCall
from fusetune.jitting.outside import Outside
from fusetune.jitting.specialized import Specialized
from fusetune.jitting.switches import SWAPPING, is_asserted
from fusetune.jitting.trial import KernelTrial
from fusetune.query import AcceptLike
from fusetune.running.process import default_source
from fusetune.running.source import KernelSource, Search, ServiceSource, search_of
from fusetune.torch import is_capturing
from fusetune.wire.printing import html_table
from fusetune.wire.problems import Problem

Mode = Literal["background", "block", "cached"]
MAX_KEYS = 256
"""Kinds of call that one function is traced for; beyond them eager runs, with a warning: something in the key changes
with every call, most often a number that should be a tensor."""
_LIKE_EVERY = 32
"""Calls of a kind after which what tells calls like its last one may be made again: it takes as long as three keys."""

_CHOICES: dict[str, tuple[str, ...]] = {
    "mode": ("background", "block", "cached"),
    "effort": ("none", "quick", "full"),
    "fallback": ("eager", "raise"),
    "swap": ("call", "sync_point"),
    "take": ("faster", "always"),
}


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """A torch function whose calls run a tuned kernel once there is one, and the function itself until then.

    `mode`: "background" never waits: a miss is asked for, and eager runs. "block" waits for the kernel. "cached" asks
    nobody: store or eager. `effort`: "none" (the best predicted schedule), "quick" (32 candidates), "full". `budget_s`
    bounds a search. `accept`: evidence, as the Client's. `grad`: gradients come of a kernel too, for which the forward
    one saves what would cost much to make again; without it a call that needs gradients runs in eager. `dynamic`:
    sizes stay open in the fusion; `buckets` then says at which sizes a search is worth it: "exact", "pow2" or a list,
    of which the next larger is tuned, and a call's own size gets that search's best schedule, built anew. `fallback`:
    "raise" makes a miss an error. `swap`: "sync_point" takes new kernels there alone. `take`: "faster" has a kernel
    timed beside eager, once, in a call, before it runs. `name` is for people, `source`
    another than the default.

    Raises InvalidRequest for an option that cannot be.
    """
    unknown = sorted(options.keys() - OPTIONS)
    if unknown:
        found, known = f"unknown {', '.join(unknown)}", f"of {', '.join(sorted(OPTIONS))}"
        raise InvalidRequest((Problem("the options of jit", found, known, "Correct the name."),))
    if function is None:
        return functools.partial(jit, **options)
    return JitFunction(function, **options)


class JitFunction:
    """A function under `jit`; several threads may call it. `__wrapped__` is the function itself."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        mode: Mode = "background",
        effort: str = "full",
        budget_s: float | None = None,
        accept: AcceptLike | None = None,
        grad: bool = False,
        dynamic: bool = False,
        buckets: Sequence[int] | str = "exact",
        fallback: str = "eager",
        swap: str = "call",
        take: str = "faster",
        name: str | None = None,
        source: KernelSource | None = None,
    ) -> None:
        _check({"mode": mode, "effort": effort, "fallback": fallback, "swap": swap, "take": take})
        _check_values(function, buckets, budget_s)
        functools.update_wrapper(self, function)
        self.__wrapped__ = function
        self.name: str = name or str(getattr(function, "__name__", type(function).__name__))
        self.mode, self.grad, self.dynamic, self.buckets = mode, grad, dynamic, buckets
        self.fallback, self.swap = fallback, swap
        # A kernel that somebody named (a lock, an operator of torch), or beside which nothing may run, is not judged.
        self._is_judged = take == "faster" and mode != "cached" and fallback == "eager"
        self._clock: Clock | None = None
        self._search: Search = search_of(
            effort, budget_s, accept, None, self.name if self.name.isidentifier() else None
        )
        self._source = source
        self._outside = Outside(function)
        self._is_inside = False
        self._known: dict[tuple[Any, ...], Specialized] = {}
        self._last: tuple[LastCall, Specialized] | None = None
        self._lock = threading.RLock()
        self._warned: set[str] = set()
        if swap == "sync_point":
            SWAPPING.add(self)

    @property
    def source(self) -> KernelSource:
        """Where its kernels come from."""
        return self._source if self._source is not None else default_source()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns. Raises what that raises; NotCached in assert_cached, or with fallback="raise"."""
        if torch.compiler.is_compiling():
            return self.__wrapped__(*args, **kwargs)
        last = self._last
        if last is not None and last[0].is_like(args, kwargs):
            found = last[1]
            found.calls += 1
            try:
                return found.run(args, kwargs)  # type: ignore[misc]  # a last call had a kernel; no time to ask
            except FusetuneError as error:
                return self._failed(error, args, kwargs)
        try:
            key = (self._outside.key(), call_key(args, kwargs, torch.is_grad_enabled()))
            kind = self._known.get(key)
            if kind is None and self._outside.look():
                key = (self._outside.key(), key[1])
                kind = self._known.get(key)
        except NoKey as why:
            return self._eager(f"{why} has no key", args, kwargs)
        if kind is None or kind.run is None:
            return self._miss(key, kind, args, kwargs)
        if kind.calls >= kind.like_at and (kind.last is None or not kind.last.is_like(args, kwargs)):
            still, kind.like_at = self._outside.still(key[0]), kind.calls + _LIKE_EVERY
            kind.last = None if still is None else LastCall.of(args, kwargs, still)
        self._last = None if kind.last is None else (kind.last, kind)
        kind.calls += 1
        return self._run(kind, args, kwargs)

    def _run(self, found: Specialized, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        assert found.run is not None, "a kernel was taken"
        try:
            return found.run(args, kwargs)
        except FusetuneError as error:
            return self._failed(error, args, kwargs)

    def _failed(self, error: FusetuneError, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call that no kernel takes gives; after a launch that failed nothing can be had on the device."""
        if isinstance(error, LaunchFailed):
            raise error
        return self._eager(str(error), args, kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Fusion:
        """The fusion of a call, which is not made; the forward's where it needs gradients. Raises CannotConvert."""
        found = self._specialized(args, kwargs)
        if found.fusion is None:
            raise found.refusal or CannotConvert(self.name, found.why, "Call it as it is.")
        return found.fusion

    def tune(self, args: Sequence[Any], timeout_s: float | None = None) -> Any:
        """The kernel of a call with these arguments, waited for; of one that needs gradients the forward's, once the
        backward's is there too. Raises CannotConvert, NotCached if none comes."""
        self.lower(*args)
        found = self._specialized(tuple(args), {})
        kernel = self._asked(found, timeout_s, tuple(args), {})
        if kernel is None:
            raise NotCached(self.name, found.key_text, self._why(found))
        return kernel

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """What a call does, in words: its key, which kernel it has and on what evidence, or why none; its fusion."""
        found = self._specialized(args, kwargs)
        lines = [f"{self.name}: {self._why(found)}"]
        if found.fusion is not None:
            lines += [f"key: {found.key_text}", *(str(part.fusion) for part in found.parts)]
        return "\n".join(lines)

    def show(self, *args: Any, stage: Literal["fusion", "cuda", "ptx"] = "cuda", **kwargs: Any) -> str:
        """The fusion of a call, or its kernel's source or PTX. Raises NotCached where there is no kernel."""
        if stage == "fusion":
            return str(self.lower(*args, **kwargs))
        found = self._specialized(args, kwargs)
        if found.kernel is None:
            raise NotCached(self.name, found.key_text, self._why(found))
        artifacts = [part.kernel.artifact for part in found.parts]
        return "\n".join(str(x.source if stage == "cuda" else x.ptx) for x in artifacts)

    def keys(self) -> list[dict[str, Any]]:
        """Every kind of call so far: its key, how often it ran, and what runs it."""
        return [
            {"key": x.key_text, "calls": x.calls, "runs": "eager" if x.run is None else x.origin, "why": self._why(x)}
            for x in list(self._known.values())
        ]

    def _repr_html_(self) -> str:
        rows = [(str(x["key"]), str(x["calls"]), str(x["runs"]), str(x["why"])) for x in self.keys()]
        return html_table(("key", "calls", "runs", "why"), rows)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> Any:
        return self.__wrapped__.__qualname__

    def arrived(self) -> set[str]:
        """Keys whose kernels are there and not yet taken."""
        waiting = [x for x in list(self._known.values()) if x.run is None and self._peek(x) is not None]
        return {x.key_text for x in waiting if self._is_chosen(x)}

    def take(self, keys: set[str]) -> int:
        """Take the kernels of these keys; returns how many."""
        waiting = [x for x in list(self._known.values()) if x.run is None and x.key_text in keys]
        return sum(self._take(x) for x in waiting)

    def part(self, which: str, function: Callable[..., Any], is_inside: bool = False) -> JitFunction:
        """Another function on these terms: a part of a call. `is_inside`: an operator of torch calls it."""
        made = JitFunction(
            function, mode=self.mode, dynamic=self.dynamic, buckets=self.buckets, fallback=self.fallback,
            swap=self.swap, name=f"{self.name}_{which}", source=self._source,
        )  # fmt: skip
        made._search, made._is_inside, made._is_judged = self._search, is_inside, self._is_judged and not is_inside
        return made

    def _miss(self, key: tuple[Any, ...], found: Specialized | None, args: Any, kwargs: Any) -> Any:
        if is_capturing():
            return self._eager("", args, kwargs, found)
        if found is None:
            if len(self._known) >= MAX_KEYS:
                return self._eager(f"{MAX_KEYS} kinds of call were traced; pass what changes as a tensor", args, kwargs)
            found = self._specialized(args, kwargs, key)
        found.calls += 1
        if found.fusion is None:
            return self._eager(found.why, args, kwargs, found)
        if self.mode == "block":
            self._asked(found, None, args, kwargs)
        elif (kernels := self._peek(found)) is not None:
            self._try(found, kernels, args, kwargs)
            if self.swap == "call":
                self._take(found)
        if found.run is not None:
            return self._run(found, args, kwargs)
        if self.mode == "background":
            self._request(found)
        return self._eager(self._why(found), args, kwargs, found)

    def _specialized(self, args: Any, kwargs: Any, key: tuple[Any, ...] | None = None) -> Specialized:
        if key is None:
            self._outside.look()
            key = (self._outside.key(), call_key(tuple(args), kwargs, torch.is_grad_enabled()))
        with self._lock:
            if key not in self._known:
                found = self._made(args, kwargs)
                if KEEPS in found.why:  # and so it reads something else in every call, of which no trace comes
                    self._outside.stay()
                    key = (self._outside.key(), key[1])
                self._known[key] = found
            return self._known[key]

    def _made(self, args: Any, kwargs: Any) -> Specialized:
        tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
            if not self.grad:
                return Specialized.eager("it needs gradients, and was not decorated with grad=True")
            found = Specialized.of_gradient(functools.partial(gradient_of, self, args, kwargs))
        else:
            found = Specialized.traced(self.__wrapped__, args, kwargs, self.dynamic, self._is_inside)
        elsewhere = {x.device.type for x in tensors} - {"cuda"}
        if elsewhere and not getattr(self.source, "any_device", False):
            found.why = f"its tensors are on {', '.join(sorted(elsewhere))}, and kernels run on CUDA devices"
            found.stays_eager = True
        elif tensors and tensors[0].is_cuda:
            found.device = tensors[0].device
            for part in found.parts:
                part.card = torch.cuda.get_device_name(tensors[0].device)
        return found

    def _peek(self, found: Specialized) -> list[Any] | None:
        """The kernels of all its parts, once they are there."""
        is_asked_anyway = found.trial is not None and is_asserted()  # slower, and eager shall not run
        if found.fusion is None or (found.stays_eager and not is_asked_anyway):
            return None
        kernels = [self._peek_part(part) for part in found.parts]
        return None if None in kernels else kernels

    def _peek_part(self, part: Specialized) -> Any:
        assert part.fusion is not None
        if not isinstance(self.source, ServiceSource):
            return self.source.peek(part.fusion, part.binding)
        return self.source.peek(part.fusion, part.binding, part.search_on_card(self._search))

    def _take(self, found: Specialized) -> bool:
        kernels = self._peek(found)
        if kernels is None or not self._is_chosen(found):
            return False
        with self._lock:
            found.run = found.hold(*kernels)
        return True

    def _try(self, found: Specialized, kernels: Sequence[Any], args: Any, kwargs: Any) -> None:
        """Has kernels that came timed beside eager, once."""
        with self._lock:
            found.kernel = found.kernel or kernels[0]
            clock = self._clock_of(found)
            if clock is not None and found.trial is None:
                captured = None if found.halves else found.captured
                run = found.hold(*kernels)
                found.trial = KernelTrial(clock, self.__wrapped__, run, captured, args, kwargs)

    def _is_chosen(self, found: Specialized) -> bool:
        """Whether its kernels run: where they are measured faster than eager, or nothing is measured."""
        if self._clock_of(found) is None:
            return True
        if found.trial is None:
            return False
        found.stays_eager = found.trial.is_faster is False
        return found.trial.is_faster is True

    def _clock_of(self, found: Specialized) -> Clock | None:
        """What times its kernels; None where they are taken as they are."""
        if not self._is_judged or is_asserted() or getattr(found.kernel, "origin", None) == "empty":
            return None
        return EventClock(found.device) if self._clock is None and found.device is not None else self._clock

    def _request(self, found: Specialized) -> None:
        if found.fusion is None or found.stays_eager:
            return
        for part in found.parts:
            if part.fusion is None or (found.halves and self._peek_part(part) is not None):
                continue
            for binding, search in part.searches(self._search, self.buckets):
                extra: dict[str, Any] = {"search": search} if isinstance(self.source, ServiceSource) else {}
                self.source.request(part.fusion, binding, weight=found.bytes * max(found.calls, 1), **extra)

    def kernel_of(self, part: Specialized) -> Any:
        """The kernel of a part in a form that its call has only now, if it is there; what is not is asked for. Kernels
        that are taken at the sync point alone have no such forms."""
        if part.kernel is None and self.swap == "call" and not is_capturing():
            if self.mode != "cached" and self._peek(part) is None:
                self._request(part)
                if self.mode == "block":
                    self._wait(None)
            part.kernel = next(iter(self._peek(part) or ()), None)
        return part.kernel

    def _asked(self, found: Specialized, timeout_s: float | None, args: Any, kwargs: Any) -> Any:
        """The kernel, waited for, and timed; None if none came."""
        if self._peek(found) is None:
            self._request(found)
            if not found.stays_eager:
                self._wait(timeout_s)
        if (kernels := self._peek(found)) is not None:
            self._try(found, kernels, args, kwargs)
            if found.trial is not None:
                found.trial.wait(found.device)
            self._take(found)
        return found.kernel

    def _wait(self, timeout_s: float | None) -> None:
        wait = getattr(self.source, "wait", None)
        if wait is not None:
            wait(timeout_s)

    def _why(self, found: Specialized) -> str:
        if found.run is not None:
            told = "" if found.trial is None else f"; measured here: {found.trial.why}"
            return " and ".join(f"{part.kernel!r}" for part in found.parts) + told
        if found.why or found.trial is not None:
            return f"eager runs: {found.why or found.trial.why}"  # type: ignore[union-attr]  # one of the two is there
        why_not = getattr(self.source, "why_not", lambda *_: None)
        said = next((said for part in found.parts if (said := why_not(part.fusion, part.binding))), None)
        return f"eager runs: {said}" if said else "eager runs until its kernel has come"

    def _eager(self, why: str, args: Any, kwargs: Any, found: Specialized | None = None) -> Any:
        if found is not None and (self.fallback == "raise" or is_asserted()):
            raise NotCached(self.name, found.key_text, why)
        trouble = found is None or found.why or getattr(self.source, "trouble", None)
        if why and trouble and why not in self._warned:
            self._warned.add(why)
            warnings.warn(f"{self.name}: {why}", FusetuneWarning, stacklevel=4)
        return self.__wrapped__(*args, **kwargs)


def _check(chosen: dict[str, str]) -> None:
    wrong = [
        Problem(name, repr(value), " or ".join(map(repr, _CHOICES[name])), "Write one of these.")
        for name, value in chosen.items()
        if value not in _CHOICES[name]
    ]
    if wrong:
        raise InvalidRequest(tuple(wrong))


def _check_values(function: object, buckets: object, budget_s: Any) -> None:
    wrong: list[Problem] = []
    if not callable(function):
        wrong.append(Problem("function", repr(function), "a function of tensors", "Decorate a function."))
    is_list = isinstance(buckets, list | tuple) and all(type(x) is int and x > 0 for x in buckets)
    if not is_list and buckets not in ("exact", "pow2"):
        expected = "'exact', 'pow2' or a list of sizes from 1"
        wrong.append(Problem("buckets", repr(buckets), expected, "Write one of these."))
    is_number = isinstance(budget_s, int | float) and not isinstance(budget_s, bool)
    if budget_s is not None and (not is_number or not budget_s > 0):
        wrong.append(Problem("budget_s", repr(budget_s), "seconds above 0, or None", "Leave it out for no bound."))
    if wrong:
        raise InvalidRequest(tuple(wrong))


OPTIONS = frozenset(inspect.signature(JitFunction.__init__).parameters) - {"self", "function"}
"""Names that `jit` takes."""
