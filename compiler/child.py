"""A child process for work that may crash, hang or eat memory, killed and replaced without harm to its parent.

The parent holds a `Child`; the child runs `target(init)` once, which returns a handler, and then answers requests one
at a time. Python starts afresh in the child (spawn, not fork: a forked process inherits locks and CUDA state that
cannot be used). Messages are pickles: the child is not expected to be hostile, only to break.

How a request can end:

    result                      the handler returned
    the handler's exception     it came back as itself, with the child's traceback as a note
    HandlerFailed               the exception, or the result, could not be pickled
    ChildDied                   the process ended (exit code or signal, end of its stderr)
    ChildTimedOut               the deadline passed and the process was killed
    ChildGone                   it was meant for one life of the child, and that one has ended

After the last three the next request starts a new process.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from types import TracebackType
from typing import IO, Any, Self

from compiler.deadlines import RequestDeadline
from compiler.errors import CompilerError

STDERR_TAIL_BYTES = 4000

GRACE_S = 2.0
"""A child has so long to end by itself once its pipes are closed."""
"""How much of the child's last words goes into `ChildDied`."""

_KILLS = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})

Handler = Callable[[Any], Any]


class ChildError(CompilerError):
    """The request got no answer from the handler itself."""


class ChildDied(ChildError):
    """The process ended. `exit_code` is negative for a signal, as in `subprocess`; `stderr` holds its last words."""

    def __init__(self, name: str, exit_code: int, stderr: str = "") -> None:
        super().__init__(name, exit_code, stderr)
        self.name = name
        self.exit_code = exit_code
        self.stderr = stderr

    @property
    def ended_by(self) -> str:
        """`SIGSEGV` or `exit code 3`."""
        if self.exit_code >= 0:
            return f"exit code {self.exit_code}"
        try:
            return signal.Signals(-self.exit_code).name
        except ValueError:
            return f"signal {-self.exit_code}"

    @property
    def is_killed(self) -> bool:
        """Somebody ended it: a person, a supervisor, the system for want of memory. Broken code gets no such signal."""
        return -self.exit_code in _KILLS

    def __str__(self) -> str:
        return f"child {self.name} died ({self.ended_by})\n{self.stderr}".rstrip()


class ChildGone(ChildError):
    """The process that the request was meant for ended before it got the request: nobody's fault."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"child {self.name} ended before it was asked"


class ChildTimedOut(ChildError):
    """The deadline passed and the process was killed."""

    def __init__(self, name: str, timeout_s: float) -> None:
        super().__init__(name, timeout_s)
        self.name = name
        self.timeout_s = timeout_s

    def __str__(self) -> str:
        return f"child {self.name} gave no answer in {self.timeout_s:g} s and was killed"


class HandlerFailed(ChildError):
    """The handler raised or returned what cannot be pickled. `text`: the child's traceback. The child lives on."""

    def __init__(self, name: str, reason: str, text: str) -> None:
        super().__init__(name, reason, text)
        self.name = name
        self.reason = reason
        self.text = text

    def __str__(self) -> str:
        return f"child {self.name}: {self.reason}\n{self.text}".rstrip()


@dataclass(frozen=True, slots=True)
class LastReply:
    """Returned by a handler whose process must not be used again: the parent gets `value`, the child exits."""

    value: Any


@dataclass(frozen=True, slots=True)
class StartUp:
    """What it took a child to start: from when to when on the monotonic clock, and seconds of a processor."""

    begun_s: float
    ended_s: float
    cpu_s: float


def spawned(name: str, pipe: int, lifeline: int, output: IO[bytes]) -> subprocess.Popen[bytes]:
    """A process that runs `serve` with these descriptors. The name is there for `ps`."""
    return subprocess.Popen(
        # -P: no folder is searched that the parent does not search.
        [sys.executable, "-P", "-c", "from compiler.child import serve; serve()", str(pipe), str(lifeline), name],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=(pipe, lifeline),
        start_new_session=True,  # Ctrl-C is the parent's to handle; what the child started dies with it
    )


class _Process:
    """One life of a child: the process, its pipe, its lifeline and its stderr."""

    def __init__(self, name: str) -> None:
        self.pipe, theirs = Pipe(duplex=True)
        lifeline, self._lifeline = os.pipe()
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        try:
            self._popen = spawned(name, theirs.fileno(), lifeline, self._stderr)
        except BaseException:
            self.pipe.close()
            os.close(self._lifeline)
            self._stderr.close()
            raise
        finally:
            theirs.close()
            os.close(lifeline)

    def alive(self) -> bool:
        return self._popen.poll() is None

    def kill(self) -> None:
        try:
            os.killpg(self._popen.pid, signal.SIGKILL)
        except ProcessLookupError:
            self._popen.kill()

    def bury(self) -> tuple[int, str]:
        """Closes the pipes, waits, kills after `GRACE_S`. Returns exit code and end of stderr."""
        self.pipe.close()
        os.close(self._lifeline)
        try:
            self._popen.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            self._popen.wait()
        with self._stderr as f:
            f.seek(max(0, f.seek(0, os.SEEK_END) - STDERR_TAIL_BYTES))
            return self._popen.returncode, f.read().decode(errors="replace").strip()


class Child:
    """A worker process behind `request`. Starts on the first request, again on the one after a death.

    `target` is `module:function`, importable in a fresh Python with the parent's `sys.path`; `target(init)` returns the
    handler. `memory_limit_bytes` bounds the address space (RLIMIT_AS): leave it None where CUDA is used, which reserves
    far more than it touches. `start_timeout_s` bounds interpreter start, imports and `target(init)`, and does not count
    towards a request's own time. One request at a time; threads queue.

    A handler may have a method `idle`, which does a piece of work that a later request may need and says whether there
    is more: it is called while no request has come.
    """

    def __init__(
        self,
        target: str,
        init: Any = None,
        memory_limit_bytes: int | None = None,
        name: str = "child",
        start_timeout_s: float = 120.0,
    ) -> None:
        module, _, function = target.partition(":")
        if not module or not function:
            raise ValueError(f"target is {target!r}, expected 'module:function'")
        self.name = name
        self.starts = 0
        self.start_up: StartUp | None = None
        """Of the last start that went well."""
        self._hello = pickle.dumps((module, function, init, memory_limit_bytes))
        self._start_timeout_s = start_timeout_s
        self._process: _Process | None = None
        self._begun: float | None = None
        """When the process began, while its first answer has not been read."""
        self._lock = threading.Lock()
        self._killed = threading.Event()

    def request(self, payload: Any, timeout_s: float, life: int | None = None) -> Any:
        """Sends `payload` to the handler and returns its result.

        `life` is a value of `starts`, where only the process of that start knows what the request is about. Raises what
        the handler raised, HandlerFailed, ChildDied, ChildTimedOut, ChildGone; an unpicklable `payload` raises before
        anything is sent.
        """
        message = pickle.dumps(payload)
        with self._lock:
            self._start()
            if life is not None and life != self.starts:
                raise ChildGone(self.name)
            return self._exchange(message, timeout_s)

    def begin(self) -> None:
        """Begins to start the process, and returns at once. What it says comes with the next call, in that call's
        thread: an answer may hold what its reader has to import, which a second thread must not do meanwhile."""
        with self._lock:
            self._begin()

    def start(self) -> None:
        """Starts the process now, so that the first request does not wait for imports. Raises as `request` does."""
        with self._lock:
            self._start()

    def kill(self) -> None:
        """Kills the process at once, whatever it works on, and for good: that request and all later ones raise
        ChildDied or ChildGone. May be called by any thread."""
        self._killed.set()
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """Ends the process. A later request starts a new one."""
        with self._lock:
            self._bury()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self) -> None:
        if self._process is not None:
            return
        if self._killed.is_set():
            raise ChildGone(self.name)
        self._process, self._begun = _Process(self.name), time.monotonic()
        self.starts += 1
        if self._killed.is_set():  # in the meantime
            self._process.kill()
        with suppress(OSError):  # it has died: whoever reads its answer finds that out
            self._process.pipe.send_bytes(self._hello)

    def _start(self) -> None:
        if self._process is not None and self._begun is None and not self._process.alive():
            self._bury()  # died between requests: nobody's fault
        self._begin()
        if (begun := self._begun) is None:
            return
        try:
            cpu_s: float = self._exchange(None, self._start_timeout_s)
        except BaseException:
            self._bury()
            raise
        self._begun, self.start_up = None, StartUp(begun, time.monotonic(), cpu_s)

    def _exchange(self, message: bytes | None, timeout_s: float) -> Any:
        """The answer to a message; to one that was sent already, where there is none."""
        process = self._process
        assert process is not None
        deadline = RequestDeadline(timeout_s, process.kill)
        answer: bytes | None
        try:
            if message is not None:
                process.pipe.send_bytes(message)
            answer = process.pipe.recv_bytes()
        except (EOFError, OSError):
            answer = None
        except BaseException:  # KeyboardInterrupt: the answer would be read by the next request
            deadline.finish()
            process.kill()
            self._bury()
            raise
        if deadline.finish():
            self._bury()
            raise ChildTimedOut(self.name, timeout_s)
        if answer is None:
            raise ChildDied(self.name, *self._bury())
        return self._open(answer)

    def _open(self, answer: bytes) -> Any:
        kind, value = pickle.loads(answer)
        match kind:
            case "result":
                return value
            case "last":
                self._bury()
                return value
            case "raised":
                raise value
            case _:
                raise HandlerFailed(self.name, *value)

    def _bury(self) -> tuple[int, str]:
        process, self._process, self._begun = self._process, None, None
        return process.bury() if process is not None else (0, "")


def serve() -> None:
    """Runs in the child: argv is the pipe's and the lifeline's file descriptor. Never returns."""
    pipe = Connection(int(sys.argv[1]))
    # A busy handler cannot see the pipe close, so a thread watches a second one: the child never outlives its parent.
    threading.Thread(target=_exit_at_eof, args=(int(sys.argv[2]),), daemon=True).start()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    handler: Handler = _make_handler
    try:
        while True:
            _work_idle(handler, pipe)
            answer = _answer(handler, pipe.recv_bytes())
            pipe.send_bytes(answer.message)
            if answer.last:
                break
            if answer.handler is not None:
                handler = answer.handler
    except (EOFError, OSError):
        pass  # the parent closed the pipe: the ordinary end
    sys.stderr.flush()
    os._exit(0)  # no interpreter shutdown: destructors of a broken CUDA context may hang


@dataclass(frozen=True, slots=True)
class _Ready:
    """What the greeting makes; stays in the child."""

    handler: Handler


@dataclass(frozen=True, slots=True)
class _Answer:
    message: bytes
    last: bool = False
    handler: Handler | None = None


def _work_idle(handler: Handler, pipe: Connection) -> None:
    """What a handler does while nobody asks; whatever goes wrong there, the next request meets it again."""
    work: Callable[[], bool] | None = getattr(handler, "idle", None)
    with suppress(Exception):
        while work is not None and not pipe.poll() and work():
            pass


def _make_handler(hello: tuple[str, str, Any, int | None]) -> _Ready:
    """The handler of the first message: sets the limit, imports the target, calls it."""
    module, function, init, memory_limit_bytes = hello
    if memory_limit_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (memory_limit_bytes, memory_limit_bytes))
    gc.disable()  # imports leave no cycles, and looking for some takes a tenth of their time
    try:
        return _Ready(getattr(importlib.import_module(module), function)(init))
    finally:
        gc.enable()


def _answer(handler: Handler, message: bytes) -> _Answer:
    """The pickled outcome of one request; whatever happens short of process death becomes an answer."""
    try:
        result = handler(pickle.loads(message))
    except Exception as error:  # noqa: BLE001 (the parent decides which it expects)
        # Without a handler there is nothing to go on with.
        return _Answer(_pickled_error(error), last=handler is _make_handler)
    if isinstance(result, _Ready):
        return _Answer(pickle.dumps(("result", time.process_time())), handler=result.handler)
    last = isinstance(result, LastReply)
    value = result.value if isinstance(result, LastReply) else result
    try:
        return _Answer(pickle.dumps(("last" if last else "result", value)), last)
    except Exception as error:  # noqa: BLE001 (PicklingError, TypeError, AttributeError, RecursionError, whatever reduces)
        reason = f"the handler returned a {type(value).__name__}, which cannot be pickled: {error}"
        return _Answer(pickle.dumps(("failed", (reason, ""))), last)


def _pickled_error(error: Exception) -> bytes:
    """The exception itself where it survives the journey there and back, else its text."""
    text = "".join(traceback.format_exception(error)).strip()
    try:
        error.add_note(f"in the child:\n{text}")
        answer = pickle.dumps(("raised", error))
        pickle.loads(answer)  # many exceptions pickle and then cannot be built again
    except Exception:  # noqa: BLE001 (as above)
        return pickle.dumps(("failed", (f"the handler raised {type(error).__name__}", text)))
    return answer


def _exit_at_eof(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(0)
