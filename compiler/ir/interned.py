"""Values of which equal ones are one object: comparing and hashing them costs nothing, however deep they are.

An axis, a transform, an expression of indices is asked for thousands of times in the making of one kernel, as a key or
beside another. A class made by `interned` gives back the object that it has made of the same fields before, for as long
as anybody holds it: equality and hash are then those of the object, which Python compares without a call.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform
from weakref import ref

_T = TypeVar("_T")

_changing = threading.RLock()
"""Held while an object is made, or forgotten: of two threads with the same fields one makes it. Collecting garbage may
end objects in the middle of either, in the same thread."""


_recent: deque[object] = deque(maxlen=1 << 15)
"""The objects made last, held whoever else does: the next kernel of a search has most of them, and what was found of
them, in common with the one before."""


class _Kept(ref[Any]):
    """A weak reference that knows what its object was made of."""

    __slots__ = ("key",)

    key: tuple[Any, ...]


class Keeping:
    """Base of immutable values that keep what was found of them: a subclass has a slot for each such fact, and finds it
    by a method `_find_` and its name when it is first asked for."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            find = getattr(type(self), f"_find_{name}", None)
            if find is None:
                raise AttributeError(f"{type(self).__name__} has no {name}.")
            found = find(self)
            object.__setattr__(self, name, found)
            return found


@dataclass_transform(frozen_default=True, eq_default=False)
def interned(cls: type[_T]) -> type[_T]:
    """A frozen dataclass with slots whose equal values are one object. Fields must be hashable.

    A base class may have slots for what follows from the fields (`Keeping`).
    """
    made_of: Any = dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)(cls)
    names = tuple(f.name for f in fields(made_of))
    defaults = {f.name: f.default for f in fields(made_of) if f.default is not MISSING}
    setters = tuple(getattr(made_of, name).__set__ for name in names)
    count = len(names)
    rest = {n: tuple(defaults[name] for name in names[n:]) for n in range(count - len(defaults), count)}
    known: dict[tuple[Any, ...], _Kept] = {}
    lookup, changing, hold = known.get, _changing, _recent.append  # a module's names are gone when a process ends

    def forget(gone: ref[Any]) -> None:
        key = gone.key  # type: ignore[attr-defined]  # of a _Kept, which weakref calls a ref
        with changing:
            if lookup(key) is gone:
                del known[key]

    def in_order(args: tuple[Any, ...], given: dict[str, Any]) -> tuple[Any, ...]:
        values = {**defaults, **dict(zip(names, args, strict=False)), **given}
        if len(args) > count or len(values) != count or not given.keys().isdisjoint(names[: len(args)]):
            raise TypeError(f"{cls.__name__}: found {args!r} and {given!r}, expected the fields {', '.join(names)}.")
        return tuple(values[name] for name in names)

    def new(kind: type[Any], /, *args: Any, **given: Any) -> Any:
        if given:
            args = in_order(args, given)
        elif len(args) != count:
            args += rest[len(args)] if len(args) in rest else in_order(args, given)
        kept = lookup(args)
        if kept is not None and (found := kept()) is not None:
            return found
        with changing:
            kept = lookup(args)
            if kept is not None and (found := kept()) is not None:
                return found
            made = object.__new__(kind)
            for set_field, value in zip(setters, args, strict=True):
                set_field(made, value)
            kept = known[args] = _Kept(made, forget)
            kept.key = args
            hold(made)
            return made

    def reduced(self: Any) -> tuple[Any, ...]:
        return made_of, tuple(getattr(self, name) for name in names)

    del made_of.__init__, made_of.__getstate__, made_of.__setstate__
    made_of.__new__, made_of.__reduce__ = new, reduced
    made_of.__hash__, made_of.__eq__ = object.__hash__, object.__eq__
    return made_of  # type: ignore[no-any-return]  # Any, to take members away from it
