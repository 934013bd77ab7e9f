"""What can go wrong in the SDK, one class for each thing a caller handles differently.

FusetuneError
├── InvalidFusion        a fusion that cannot mean anything: names, shapes, dtypes, attributes
└── KernelError          a kernel cannot be called like this, here, or at all
    ├── WrongArguments   a tensor is not what the kernel was tuned for
    ├── GuardFailed      a condition of the kernel on the call does not hold
    ├── InvalidKernel    the stored kernel is damaged
    ├── NoDevice         no GPU, or none that can run this code
    └── LaunchFailed     the driver refused, or an earlier kernel broke the context
"""

from __future__ import annotations

from fusetune.wire.problems import Problem


class FusetuneError(Exception):
    """Base of everything the SDK raises on purpose."""


class InvalidFusion(FusetuneError):
    """The fusion cannot mean anything. `problems` lists every fault with its place and its fix."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(str(p) for p in self.problems)


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


class NoDevice(KernelError):
    """There is no GPU that can run this kernel."""

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(reason, fix)
        self.reason = reason
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.reason}. {self.fix}"


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
