"""What runs in the children of test_child.py."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from compiler.child import LastReply


class Picky(Exception):
    """Pickles, but cannot be built again from its args."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(a + b)


class Plain(Exception):
    pass


def actor(greeting: str) -> Callable[[Any], Any]:
    """Answers (verb, argument) requests, most of them badly."""

    def handle(request: tuple[str, Any]) -> Any:
        match request:
            case ("echo", argument):
                return (greeting, argument, os.getpid())
            case ("exit", code):
                print("last words", file=sys.stderr, flush=True)
                os._exit(code)
            case ("signal", number):
                os.kill(os.getpid(), number)
                time.sleep(60)
            case ("segv", _):
                import ctypes

                ctypes.string_at(8)
            case ("hang", _):
                time.sleep(60)
            case ("hang deaf", _):
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(60)
            case ("plain error", _):
                raise Plain("as itself")
            case ("picky error", _):
                raise Picky(1, 2)
            case ("unpicklable", _):
                return lambda: None
            case ("eat", size):
                return len(bytearray(size))
            case ("last", argument):
                return LastReply(argument)
            case ("print", text):
                print(text)
                return None
        raise ValueError(request)

    return handle


def refuses(_: Any) -> Callable[[Any], Any]:
    raise Plain("no handler")


def dies(_: Any) -> Callable[[Any], Any]:
    print("cannot start", file=sys.stderr, flush=True)
    os._exit(7)


class Idling:
    """Does three pieces of work while nobody asks, and fails at a fourth; answers how many it has begun."""

    def __init__(self) -> None:
        self.begun = 0

    def __call__(self, request: None) -> int:
        return self.begun

    def idle(self) -> bool:
        self.begun += 1
        if self.begun > 3:
            raise Plain("nobody hears of it")
        return True


def idling(init: None) -> Idling:
    return Idling()
