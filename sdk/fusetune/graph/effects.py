"""What a function does beside what it returns: a trace of it must leave no tensor of the trace behind.

A module that keeps its last result, a list that each call adds to: the trace would put tensors without memory there,
and a kernel would not do it again. Such a function is refused, and all is put back.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from argparse import Namespace
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fusetune.errors import CannotConvert

MOST_HELD = 4000
"""Things that are looked at; what a function reaches beyond them is taken to stay."""

KEEPS = "a call keeps something outside of the function, which a kernel does not do"
RETURN_IT = "Return it, or call the function as it is."


@contextlib.contextmanager
def nothing_kept(fn: Callable[..., Any]) -> Iterator[None]:
    """Raises CannotConvert, and puts back what was there, if what is run in it changes what `fn` reaches: attributes
    of objects, modules and functions, lists, sets, dictionaries, and variables that it closes over or calls global."""
    before = list(_held(fn))
    changed: list[str] = []
    try:
        yield
    finally:
        for one in before:
            if (found := one.changed()) is not None:
                changed.append(found)
                one.put_back()
    if changed:
        raise CannotConvert("the function", f"{KEEPS}: {changed[0]}", RETURN_IT)


@dataclass(frozen=True, eq=False)
class _Variables:
    """Attributes of an object, or what a dictionary holds. `owner`: whose, in words."""

    owner: str
    values: dict[Any, Any]
    before: Mapping[Any, Any]

    def changed(self) -> str | None:
        if len(self.values) == len(self.before) and all(
            self.before.get(key, self) is x for key, x in self.values.items()
        ):
            return None
        keys = [*self.values, *self.before]
        return f"{self.owner} {next(k for k in keys if self.values.get(k, self) is not self.before.get(k, self))!r}"

    def put_back(self) -> None:
        for key in [key for key in self.values if key not in self.before]:
            del self.values[key]
        for key, x in self.before.items():
            if self.values.get(key, self) is not x:
                self.values[key] = x


@dataclass(frozen=True, eq=False)
class _Items:
    """What a list holds, or a queue."""

    values: list[Any] | deque[Any]
    before: Sequence[Any]

    def changed(self) -> str | None:
        is_same = len(self.values) == len(self.before) and all(
            x is y for x, y in zip(self.values, self.before, strict=True)
        )
        return None if is_same else f"items of a {type(self.values).__name__} of {len(self.before)}"

    def put_back(self) -> None:
        self.values.clear()
        self.values.extend(self.before)


@dataclass(frozen=True, eq=False)
class _Members:
    """What a set holds."""

    values: set[Any]
    before: Sequence[Any]

    def changed(self) -> str | None:
        is_same = {*map(id, self.values)} == {*map(id, self.before)}
        return None if is_same else f"members of a set of {len(self.before)}"

    def put_back(self) -> None:
        self.values.clear()
        self.values.update(self.before)


@dataclass(frozen=True, eq=False)
class _Globals:
    """The global variables that a function names. `before`: those of them that there are."""

    values: dict[str, Any]
    names: Sequence[str]
    before: Mapping[str, Any]

    def changed(self) -> str | None:
        found = (x for x in self.names if self.values.get(x, self) is not self.before.get(x, self))
        name = next(found, None)
        return None if name is None else f"the global variable {name!r}"

    def put_back(self) -> None:
        for name in self.names:
            if name in self.before:
                self.values[name] = self.before[name]
            else:
                self.values.pop(name, None)


@dataclass(frozen=True, eq=False)
class _Cell:
    """A variable that a function closes over."""

    cell: Any
    name: str
    before: Any

    def changed(self) -> str | None:
        return None if self.cell.cell_contents is self.before else f"the variable {self.name!r}"

    def put_back(self) -> None:
        self.cell.cell_contents = self.before


@dataclass(frozen=True, eq=False)
class _OfClass:
    """Attributes of a class, but for those of Python's own."""

    owner: type
    before: Mapping[str, Any]

    def changed(self) -> str | None:
        now = _plain(self.owner)
        names = (x for x in {**now, **self.before} if now.get(x, self) is not self.before.get(x, self))
        name = next(names, None)
        return None if name is None else f"{self.owner.__name__}'s class attribute {name!r}"

    def put_back(self) -> None:
        now = _plain(self.owner)
        for name in now.keys() - self.before.keys():
            delattr(self.owner, name)
        for name, x in self.before.items():
            if now.get(name, self) is not x:
                setattr(self.owner, name, x)


@dataclass(frozen=True, eq=False)
class _Slots:
    """Attributes that an object has no dictionary for (`__slots__`). `places`: their descriptors, by name."""

    owner: object
    places: Mapping[str, Any]
    before: Mapping[str, Any]

    def changed(self) -> str | None:
        now = _in_slots(self.owner, self.places)
        name = next((x for x in self.places if now.get(x, self) is not self.before.get(x, self)), None)
        return None if name is None else f"{type(self.owner).__name__}'s attribute {name!r}"

    def put_back(self) -> None:
        now = _in_slots(self.owner, self.places)
        for name, place in self.places.items():
            if now.get(name, self) is not (x := self.before.get(name, self)):
                place.__delete__(self.owner) if x is self else place.__set__(self.owner, x)


_Held = _Variables | _Items | _Members | _Globals | _Cell | _OfClass | _Slots


def _held(fn: Callable[..., Any]) -> Iterator[_Held]:
    """What a function can reach and change, as it is now."""
    waiting: list[Any] = [fn]
    seen: set[int] = set()
    while waiting and len(seen) < MOST_HELD:
        x: Any = waiting.pop()
        if id(x) in seen or isinstance(x, _STAY) or (isinstance(x, type) and not is_users(x.__module__)):
            continue
        seen.add(id(x))
        if isinstance(x, type):
            yield _OfClass(x, _plain(x))
            waiting += [*vars(x).values(), *x.__bases__]
        elif isinstance(x, types.FunctionType):
            if is_users(x.__module__):
                yield from _own_of(x, waiting)
        elif isinstance(x, types.MethodType):
            waiting += [x.__self__, x.__func__]
        elif isinstance(x, functools.partial):
            waiting += [x.func, *x.args, *x.keywords.values()]
        elif isinstance(x, dict):
            yield _Variables("the key", x, dict(x))
            waiting += x.values()
        elif isinstance(x, list | deque):
            yield _Items(x, tuple(x))
            waiting += x
        elif isinstance(x, set):
            yield _Members(x, tuple(x))
            waiting += x
        elif isinstance(x, tuple):
            waiting += x
        elif is_open(x):
            own = getattr(x, "__dict__", None)
            if isinstance(own, dict):
                yield _Variables(f"{type(x).__name__}'s attribute", own, dict(own))
                waiting += own.values()
            places = slots_of(type(x))
            if places:
                held = _in_slots(x, places)
                yield _Slots(x, places, held)
                waiting += held.values()
            waiting.append(type(x))


def _own_of(fn: types.FunctionType, waiting: list[Any]) -> Iterator[_Held]:
    """The variables of a function that outlive its calls; what they hold is to be looked at."""
    yield _Variables(f"{fn.__name__}'s attribute", fn.__dict__, dict(fn.__dict__))
    waiting += [*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values(), *fn.__dict__.values()]
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            held = cell.cell_contents
        except ValueError:  # not there yet
            continue
        yield _Cell(cell, name, held)
        waiting.append(held)
    names = fn.__code__.co_names
    named = {name: fn.__globals__[name] for name in names if name in fn.__globals__}
    yield _Globals(fn.__globals__, names, named)
    waiting += named.values()


def _plain(owner: type) -> dict[str, Any]:
    """A class's own attributes, without what Python keeps there."""
    return {name: x for name, x in vars(owner).items() if not (name.startswith("__") or name == "_abc_impl")}


def slots_of(owner: type) -> dict[str, Any]:
    """The descriptors of what lies in slots, by name."""
    every = [vars(part) for part in owner.__mro__ if is_users(part.__module__)]
    return {name: x for own in every for name, x in own.items() if isinstance(x, types.MemberDescriptorType)}


def _in_slots(owner: object, places: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, place in places.items():
        with contextlib.suppress(AttributeError):  # nothing was put there yet
            found[name] = place.__get__(owner)
    return found


_STAY = (torch.Tensor, types.ModuleType, str, bytes, int, float, complex, type(None), torch.dtype, torch.device)
_LIBRARIES = {*sys.stdlib_module_names, "torch", "fusetune", "numpy", "sympy"}
"""Whose objects change as they run, and keep no tensor for it."""


def is_open(x: object) -> bool:
    """Whether a user puts things into the object's attributes: a module, one of a class of the user's, a namespace."""
    return isinstance(x, torch.nn.Module | types.SimpleNamespace | Namespace) or is_users(type(x).__module__)


def is_users(module: str | None) -> bool:
    """Whether the module is the user's, by its name."""
    return (module or "").partition(".")[0] not in _LIBRARIES or module == "__main__"
