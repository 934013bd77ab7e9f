from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest

import fusetune
from fusetune import errors
from fusetune.wire.problems import Problem
from fusetune.wire.service import ProblemDetails, TuningRequest
from tests.sdk.fake_service import bias_gelu, tuning_view

FAULTS = (Problem("here", "a", "b", "Mend it."),)
REQUEST = TuningRequest.model_validate({"fusion": bias_gelu(), "binding": {"sizes": {"M": 8}}})
VIEW = tuning_view("t1", REQUEST, error="disk full")
DETAILS = ProblemDetails(type="urn:x", title="Queue full", status=429, detail="1000 wait.", fix="Wait.")

EXAMPLES: dict[type[errors.FusetuneError], tuple[Any, ...]] = {
    errors.InvalidFusion: (FAULTS,),
    errors.InvalidBinding: (FAULTS,),
    errors.CannotConvert: (
        "aten.sort.default",
        "fusions have no such operator",
        "Leave it outside.",
        "f.py:3: sort(x)",
    ),
    errors.InvalidRequest: (FAULTS,),
    errors.NotCached: ("f", "12/34", "eager runs"),
    errors.WrongArguments: ("input 0", "a", "b", "Mend it."),
    errors.GuardFailed: ("ptr[0] == 0", "message"),
    errors.InvalidKernel: ("cubin", "reason", "Fix."),
    errors.InvalidPack: ("a.ftpack", "reason"),
    errors.InvalidLock: ("lock.json", "reason"),
    errors.UnusableKey: ("key.pem", "No such file"),
    errors.OutdatedProof: ("kernel k", 1, 2),
    errors.Untrusted: ("kernel k", "it is not signed"),
    errors.NoDevice: ("reason", "Fix."),
    errors.PackageMissing: ("a kernel is called", "torch", "torch"),
    errors.LaunchFailed: ("call", "CUDA_ERROR_UNKNOWN", 999, "detail"),
    errors.IndexOutOfRange: ("call", "CUDA_ERROR_LAUNCH_FAILED", 719, "detail", ("take v0", "gather v1")),
    errors.ServerUnreachable: ("GET /v1/cards", "http://host", "refused"),
    errors.ServerNotReady: ("GET /v1/cards", "http://host", "Its disk is full.", "Make room."),
    errors.ServerTimedOut: ("GET /v1/cards", "http://host", 10.0),
    errors.ServerBroken: ("GET /v1/cards", "http://host", "200 text/html", "a Cards"),
    errors.ServerRefused: ("POST /v1/tunings", DETAILS, 7.0),
    errors.Unauthorized: ("POST /v1/tunings", DETAILS, None),
    errors.KernelNotFound: ("POST /v1/kernels/lookup", "f" * 64, "b" * 64, None),
    errors.TuningFailed: ("GET /v1/tunings/t1", VIEW),
    errors.TuningCancelled: ("GET /v1/tunings/t1", VIEW),
    errors.NoKernel: ("GET /v1/tunings/t1", VIEW, "No GPU."),
    errors.TuningTimedOut: ("GET /v1/tunings/t1", VIEW, 5.0),
}
ALL = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.FusetuneError)]


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_errors_survive_a_process_border(kind: type[errors.FusetuneError]) -> None:
    error = kind(*EXAMPLES[kind])
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_every_error_that_can_be_raised_is_tested_exported_and_in_the_tree() -> None:
    leaves = {c for c in ALL if not c.__subclasses__()} | {errors.ServerRefused, errors.LaunchFailed, errors.NoDevice}
    assert leaves == set(EXAMPLES)
    public = {c.__name__ for c in ALL if not c.__name__.startswith("_")}
    assert public <= set(fusetune.__all__)
    assert all(name in (errors.__doc__ or "") for name in public)


@pytest.mark.parametrize("kind", [k for k in EXAMPLES if issubclass(k, errors.ServiceError)])
def test_an_error_of_the_service_begins_with_its_request(kind: type[errors.ServiceError]) -> None:
    error = kind(*EXAMPLES[kind])
    assert str(error).startswith(f"{error.request}: ")
    assert error.request == EXAMPLES[kind][0]
