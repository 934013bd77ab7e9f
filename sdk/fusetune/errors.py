"""What can go wrong in the SDK, one class for each thing a caller handles differently.

FusetuneError
├── InvalidFusion         a fusion that cannot mean anything: names, shapes, dtypes, attributes
├── InvalidBinding        sizes or tensors that do not fit the fusion
├── CannotConvert         a torch function, or a part of one, that fusions cannot say
├── NotCached             a jit function has no kernel for a call, and was told not to do without
├── InvalidLock           a lock of kernels that cannot be used
├── InvalidPack           a file of kernels that is none, is damaged, or has not what is asked for
├── UnusableKey           a file that holds no private key to sign with
├── InvalidRequest        another argument of a Client method that cannot be
├── KernelError           a kernel cannot be called like this, here, or at all
│   ├── WrongArguments    a tensor is not what the kernel was tuned for
│   ├── GuardFailed       a condition of the kernel on the call does not hold
│   ├── InvalidKernel     the stored kernel is damaged
│   ├── OutdatedProof     an older verifier proved the kernel right, which could pass a wrong one
│   ├── Untrusted         nobody whose kernels are taken has signed it
│   ├── NoDevice          no GPU, or none that can run this code
│   │   └── PackageMissing    torch, cuda-bindings or cryptography is not installed
│   └── LaunchFailed      the driver refused, or an earlier kernel broke the context
│       └── IndexOutOfRange   a kernel that reads where an index says has stopped
└── ServiceError          the service did not give what was asked for; `request` says what that was
    ├── ServiceUnavailable    nothing can be had of it now; the kernels in the store still can
    │   ├── ServerUnreachable     no connection, or a proxy that says the same
    │   ├── ServerNotReady        it answers that it cannot work now, and why
    │   ├── ServerTimedOut        no answer in time
    │   └── ServerBroken          the answer is not what the API says
    ├── ServerRefused         it said no, and why: `problem`
    │   └── Unauthorized          it wants another key
    ├── KernelNotFound        the cache has no kernel that is acceptable
    └── TuningEnded           a tuning came to no kernel, or none yet: `tuning` is its last known state
        ├── TuningFailed          something broke
        ├── TuningCancelled       somebody cancelled it
        ├── NoKernel              it came to its end without a kernel that the request accepts
        └── TuningTimedOut        the caller's patience is over; the tuning goes on
"""

from __future__ import annotations

from fusetune.wire.problems import Problem
from fusetune.wire.service import ProblemDetails, TuningView


class FusetuneError(Exception):
    """Base of everything the SDK raises on purpose."""


class FusetuneWarning(UserWarning):
    """Something is not as it should be, and the SDK went on without it: a dead server, an unusable folder."""


class _Faults(FusetuneError):
    """Something that was passed in cannot be. `problems` lists every fault with its place and its fix."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(str(p) for p in self.problems)


class InvalidFusion(_Faults):
    """The fusion cannot mean anything. `problems` lists every fault with its place and its fix."""


class InvalidBinding(_Faults):
    """Sizes or tensors that do not fit the fusion. `problems` lists every fault with its place and its fix."""


class CannotConvert(FusetuneError):
    """Fusions cannot say `operator`, for `reason`; `fix` is what to write instead, `line` where it stands in the code
    that was traced, as `file:line: code`, and `node` the graph's node. What is not known is empty."""

    def __init__(self, operator: str, reason: str, fix: str = "", line: str = "", node: object = None) -> None:
        super().__init__(operator, reason, fix, line)
        self.operator = operator
        self.reason = reason
        self.fix = fix
        self.line = line
        self.node = node

    def __reduce__(self) -> tuple[type[CannotConvert], tuple[object, ...]]:
        """A graph's node stays in its process."""
        return type(self), self.args

    def __str__(self) -> str:
        said = f"{self.operator}: {self.reason.removesuffix('.')}.{' ' * bool(self.fix)}{self.fix}"
        return f"{said}\n  at {self.line}" if self.line else said


class NotCached(FusetuneError):
    """`function` under jit has no kernel for a call of `key`, for the reason `why`."""

    def __init__(self, function: str, key: str, why: str) -> None:
        super().__init__(function, key, why)
        self.function = function
        self.key = key
        self.why = why

    def __str__(self) -> str:
        fix = f"Fill the cache before: {self.function}.tune((...)) with such arguments, on a machine with the card."
        return f"{self.function}: no kernel for {self.key} ({self.why}). {fix}"


class InvalidLock(FusetuneError):
    """A lock of kernels cannot be used: `where` (a file, or one of its kernels) and `reason`."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where = where
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.where}: {self.reason}. Take it from version control again, or write it anew: fusetune.write_lock."
        )


class InvalidPack(FusetuneError):
    """A pack of kernels cannot be used: `where` (its file) and `reason`."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where = where
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}. Have it built again: fusetune pack build, python -m service pack export."


class UnusableKey(FusetuneError):
    """A file that holds no private key to sign with: `path`, and `reason`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"signing key {self.path}: {self.reason}. Make one with `python -m service signing create FILE`."


class InvalidRequest(_Faults):
    """An argument of a Client method cannot be. `problems` lists every fault with its place and its fix."""


class KernelError(FusetuneError):
    """A kernel cannot be called like this, here, or at all. Another way to compute the same thing still works."""


class WrongArguments(KernelError):
    """`where` names the argument; `found` is what it is, `expected` what the kernel was tuned for."""

    def __init__(self, where: str, found: str, expected: str, fix: str) -> None:
        super().__init__(where, found, expected, fix)
        self.where = where
        self.found = found
        self.expected = expected
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.where}: found {self.found}, expected {self.expected}. {self.fix}"


class GuardFailed(KernelError):
    """A condition that travels with the kernel does not hold for this call."""

    def __init__(self, expr: str, message: str) -> None:
        super().__init__(expr, message)
        self.expr = expr
        self.message = message

    def __str__(self) -> str:
        return f"guard {self.expr!r} does not hold: {self.message}"


class InvalidKernel(KernelError):
    """The stored kernel is damaged or was not made by this version."""

    def __init__(self, where: str, reason: str, fix: str) -> None:
        super().__init__(where, reason, fix)
        self.where = where
        self.reason = reason
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}. {self.fix}"


class OutdatedProof(KernelError):
    """The kernel was proven right by verifier number `found`, which could pass a wrong one; `expected` is today's."""

    def __init__(self, where: str, found: int, expected: int) -> None:
        super().__init__(where, found, expected)
        self.where = where
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        fix = "Ask the service with Client.tune: it proves it again before it serves it. Or tune its fusion again."
        proven = f"it was proven by verifier {self.found}, expected {self.expected} or a later one"
        return f"{self.where}: {proven}: the older could pass a wrong kernel. {fix}"


class Untrusted(KernelError):
    """Nobody whose kernels are taken has signed it: `reason` says what was found. It is not loaded."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where = where
        self.reason = reason

    def __str__(self) -> str:
        ways = "`python -m service signing sign` for kernels, `service pack sign`, `sign_key` of write_lock"
        fix = f"Have it signed ({ways}), or add the key that signed it to those that you trust."
        return f"{self.where}: {self.reason}, expected a signature of a key that is trusted. {fix}"


class NoDevice(KernelError):
    """There is no GPU that can run this kernel. `is_absent`: because none of its architecture is attached at all."""

    def __init__(self, reason: str, fix: str, is_absent: bool = False) -> None:
        super().__init__(reason, fix, is_absent)
        self.reason = reason
        self.fix = fix
        self.is_absent = is_absent

    def __str__(self) -> str:
        return f"{self.reason}. {self.fix}"


class PackageMissing(NoDevice):
    """`package` is not installed, which `why` needs; `extra` of ours brings it."""

    def __init__(self, why: str, package: str, extra: str) -> None:
        super().__init__(f"{why}, and {package} is not installed", f"Install it: pip install 'fusetune[{extra}]'.")
        self.args = (why, package, extra)
        self.why = why
        self.package = package
        self.extra = extra


class LaunchFailed(KernelError):
    """A call of the CUDA driver failed; `code` is its CUresult, `status` that result's name."""

    def __init__(self, call: str, status: str, code: int, detail: str = "") -> None:
        super().__init__(call, status, code, detail)
        self.call = call
        self.status = status
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.call}: {self.status}" + (f" ({self.detail})" if self.detail else "")


class IndexOutOfRange(LaunchFailed):
    """A kernel stopped: an index that tells it where to read was negative or too large.

    `operators`: of the kernels that were called in this process, those that ask for one. The CUDA context is of no use
    after it, as after an assertion of torch's.
    """

    def __init__(self, call: str, status: str, code: int, detail: str, operators: tuple[str, ...]) -> None:
        super().__init__(call, status, code, detail)
        self.args = (call, status, code, detail, operators)
        self.operators = operators

    def __str__(self) -> str:
        asked = " or ".join(self.operators)
        fix = "Correct the indices (nothing counts from the end), and start the process anew."
        return f"an index was out of range, of {asked}: {super().__str__()}. {fix}"


class ServiceError(FusetuneError):
    """The service did not give what was asked for. `request` is a method and a path, such as `POST /v1/tunings`."""

    def __init__(self, request: str, *fields: object) -> None:
        super().__init__(request, *fields)
        self.request = request


class ServiceUnavailable(ServiceError):
    """Nothing can be had of the service now. Kernels in the store still work, and so does the plain operation."""


class ServerUnreachable(ServiceUnavailable):
    """No connection to `url` came about or lasted, or something in front of the service says that it is away."""

    def __init__(self, request: str, url: str, reason: str) -> None:
        super().__init__(request, url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        fix = "Start it (`python -m service serve`), or name its address: Client(url) or FUSETUNE_URL."
        return f"{self.request}: no service answers at {self.url} ({self.reason}). {fix}"


class ServerNotReady(ServiceUnavailable):
    """The service is there and cannot work: its database is away or full. `detail` and `fix` are its words."""

    def __init__(self, request: str, url: str, detail: str, fix: str) -> None:
        super().__init__(request, url, detail, fix)
        self.url = url
        self.detail = detail
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.request}: the service at {self.url} is not ready. {self.detail} {self.fix}".rstrip()


class ServerTimedOut(ServiceUnavailable):
    """No answer within `after_s` seconds."""

    def __init__(self, request: str, url: str, after_s: float) -> None:
        super().__init__(request, url, after_s)
        self.url = url
        self.after_s = after_s

    def __str__(self) -> str:
        fix = "Try again later, or allow more time: Client(timeout_s=...)."
        return f"{self.request}: no answer of {self.url} within {self.after_s:g} s. {fix}"


class ServerBroken(ServiceUnavailable):
    """An answer that a fusetune service of this version does not give."""

    def __init__(self, request: str, url: str, found: str, expected: str) -> None:
        super().__init__(request, url, found, expected)
        self.url = url
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        fix = "Is that address a fusetune service of this client's version? Its log may say more."
        return f"{self.request}: {self.url} answered {self.found}, expected {self.expected}. {fix}"


class ServerRefused(ServiceError):
    """The service said no. `problem.type` is stable: programs may branch on it.

    `retry_after_s`: when it may say yes, if it told.
    """

    def __init__(self, request: str, problem: ProblemDetails, retry_after_s: float | None = None) -> None:
        super().__init__(request, problem, retry_after_s)
        self.problem = problem
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        problem = self.problem
        lines = [f"{self.request}: {problem.title} ({problem.status}). {problem.detail} {problem.fix}".rstrip()]
        lines += [f"  {item}" for item in problem.problems]
        if self.retry_after_s is not None:
            lines.append(f"  It asks to wait {self.retry_after_s:g} s before the next try.")
        return "\n".join(lines)


class Unauthorized(ServerRefused):
    """The service wants a key, or another one."""

    def __str__(self) -> str:
        return f"{super().__str__()}\n  Pass a key: Client(api_key=...) or FUSETUNE_API_KEY."


class KernelNotFound(ServiceError):
    """The cache has no kernel for this key that stands on acceptable evidence. `card` is None if none was named."""

    def __init__(self, request: str, fingerprint: str, binding: str, card: str | None = None) -> None:
        super().__init__(request, fingerprint, binding, card)
        self.fingerprint = fingerprint
        self.binding = binding
        self.card = card

    def __str__(self) -> str:
        card = "any card that is up" if self.card is None else self.card
        key = f"fusion {self.fingerprint[:12]}, binding {self.binding[:12]}, {card}"
        return f"{self.request}: no kernel that is acceptable for {key}. Have one searched for with Client.tune."


class TuningEnded(ServiceError):
    """A tuning came to no kernel, or to none yet. `tuning` is its last known state."""

    def __init__(self, request: str, tuning: TuningView) -> None:
        super().__init__(request, tuning)
        self.tuning = tuning

    @property
    def tuning_id(self) -> str:
        """What `Client.tuning`, `wait`, `trials` and `cancel` take."""
        return self.tuning.id


class TuningFailed(TuningEnded):
    """Something broke while the tuning ran; `tuning.error` says what."""

    def __str__(self) -> str:
        return f"{self.request}: tuning {self.tuning_id} failed: {self.tuning.error or 'it does not say why'}"


class TuningCancelled(TuningEnded):
    """Somebody cancelled the tuning; it published no kernel."""

    def __str__(self) -> str:
        note = f" {self.tuning.note}" if self.tuning.note else ""
        return f"{self.request}: tuning {self.tuning_id} was cancelled.{note}"


class NoKernel(TuningEnded):
    """The tuning came to its end without a kernel that the request accepts. `why` says so in plain words."""

    def __init__(self, request: str, tuning: TuningView, why: str) -> None:
        super().__init__(request, tuning)
        self.args = (request, tuning, why)
        self.why = why

    def __str__(self) -> str:
        return f"{self.request}: tuning {self.tuning_id} ended without an acceptable kernel. {self.why}"


class TuningTimedOut(TuningEnded):
    """The caller's `timeout_s` is over. The tuning goes on, and its kernel will be in the cache."""

    def __init__(self, request: str, tuning: TuningView, after_s: float) -> None:
        super().__init__(request, tuning)
        self.args = (request, tuning, after_s)
        self.after_s = after_s

    def __str__(self) -> str:
        state = f"{self.tuning.state}{', ' + self.tuning.phase if self.tuning.phase else ''}"
        fix = f"It goes on: call Client.wait({self.tuning_id!r}) for its kernel, or Client.cancel."
        return f"{self.request}: tuning {self.tuning_id} is not at its end after {self.after_s:g} s ({state}). {fix}"
