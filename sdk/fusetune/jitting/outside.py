"""What a function reads beside its arguments, and whether it is still what it was when a call was traced.

A trace burns numbers in, and holds tensors. So a call's key has what stands in the variables that the function closes
over, in global ones, and in the attributes that its code names, of objects that it reaches so: a configuration, a
module, a class, a dictionary. Where there is nothing of the kind, nothing is asked in a call.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from fusetune.graph.effects import is_open, is_users, slots_of
from fusetune.jitting.call_key import PLAIN, NoKey, of_tensor, of_value
from fusetune.jitting.last_seen import LastSeen, WatchedPlace

MOST_PLACES = 400
"""Places that are watched; what a function reaches beyond them is taken to stay."""

_KINDS = (torch.Tensor, float, *PLAIN, torch.dtype, torch.device)


class Outside:
    """The places of one function. They are looked for when a call has to be traced (`look`): what is read may not be
    there before."""

    def __init__(self, function: Any) -> None:
        self._function = function
        cells = tuple(getattr(function, "__closure__", None) or ())
        held = getattr(function, "__globals__", {})
        names = [n for n in _names_of(getattr(function, "__code__", None)) if isinstance(held.get(n), _KINDS)]
        self._own: dict[object, WatchedPlace] = {id(cell): WatchedPlace(_in_cell, cell, _of) for cell in cells}
        self._own |= {(id(held), name): WatchedPlace(held.get, name, _of) for name in names if name in held}
        self._places = dict(self._own)
        self._held: dict[int, Any] = {}  # what was watched stays: another object would get its id
        self._set()

    def look(self) -> bool:
        """Looks for places that were not known; whether there are any, so that keys are others from now on."""
        before = len(self._places)
        walk = _Walk()
        for name, place in walk.places(self._function):
            if len(self._places) < MOST_PLACES or place.key is _as_it_is or place.is_many:
                self._places.setdefault(name, place)
        self._held |= walk.reached if len(self._places) != before else {}
        self._set()
        return len(self._places) != before

    def stay(self) -> None:
        """Variables alone are asked from now on: the function runs in eager whatever it reads."""
        self._places = dict(self._own)
        self._set()

    def _set(self) -> None:
        self._asked = tuple(self._places.values())
        self.key: Callable[[], tuple[Any, ...]] = self._key if self._asked else tuple  # nothing is asked in a call then

    def _key(self) -> tuple[Any, ...]:
        """What it is now: a tensor put in another's place is another key, and so is another number. Raises NoKey."""
        return tuple([place.key(place.read(place.at)) for place in self._asked])

    def still(self, key: tuple[Any, ...]) -> Callable[[], bool] | None:
        """Whether what stands there now still does, asked in less time than a key takes; None where its key is not
        `key` any more."""
        places = self._asked
        found = LastSeen(places).still if places else _nothing_changes
        return found if self._asked is places and self.key() == key else None


class _Walk:
    """Through the code of the user's functions, and what that names."""

    def __init__(self) -> None:
        self._seen: set[object] = set()
        self._modules: set[int] = set()
        self.reached: dict[int, Any] = {}

    def places(self, function: Any) -> Iterator[tuple[object, WatchedPlace]]:
        """Each place that a call may read, under a name of its own."""
        waiting: list[tuple[Any, tuple[str, ...]]] = [(function, ())]
        while waiting and len(self._seen) < MOST_PLACES:
            x, names = waiting.pop()
            if (id(x), names) in self._seen or isinstance(x, _KINDS):
                continue
            self._seen.add((id(x), names))
            self.reached[id(x)] = x
            yield from self._of(x, names, waiting)

    def _of(self, x: Any, names: tuple[str, ...], waiting: list[Any]) -> Iterator[tuple[object, WatchedPlace]]:
        if isinstance(x, functools.partial):
            waiting += [(part, names) for part in (x.func, *x.args, *x.keywords.values())]
        elif isinstance(x, types.MethodType):
            own = _names_of(x.__func__.__code__) if isinstance(x.__func__, types.FunctionType) else names
            waiting += [(x.__self__, own), (x.__func__, ())]
        elif isinstance(x, types.FunctionType):
            if is_users(x.__module__):
                yield from self._of_code(x, waiting)
        elif isinstance(x, dict):
            yield from self._in(x, [key for key in x if isinstance(key, PLAIN)], names, waiting)
        elif isinstance(x, list | tuple):
            yield (id(x), "items"), WatchedPlace(_itself, x, _items, is_many=True)
            waiting += [(item, names) for item in x]
        elif isinstance(x, types.ModuleType):
            if is_users(x.__name__):
                yield from self._in(vars(x), names, names, waiting)
        elif isinstance(x, type):
            yield from self._of_class(x, x, names, waiting)
        elif is_open(x):
            yield from self._of_object(x, names, waiting)

    def _of_code(self, fn: types.FunctionType, waiting: list[Any]) -> Iterator[tuple[object, WatchedPlace]]:
        names = _names_of(fn.__code__)
        for cell in fn.__closure__ or ():
            yield id(cell), WatchedPlace(_in_cell, cell, _of)
            waiting += [(held, names) for held in _contents(cell)]
        waiting += [(x, names) for x in (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values())]
        yield from self._in(fn.__globals__, names, names, waiting)

    def _of_object(self, x: Any, names: tuple[str, ...], waiting: list[Any]) -> Iterator[tuple[object, WatchedPlace]]:
        called = [getattr(type(x), name, None) for name in ("forward", "__call__")]
        functions = [one for one in called if isinstance(one, types.FunctionType) and is_users(one.__module__)]
        names = tuple(dict.fromkeys([*names, *(name for one in functions for name in _names_of(one.__code__))]))
        waiting += [(one, ()) for one in functions]
        own = getattr(x, "__dict__", {})
        if isinstance(x, torch.nn.Module):
            yield from self._of_modules(x)
            is_own = is_users(type(x).__module__)  # of others it is not known what they name
            for held in (x._parameters, x._buffers, x._modules):
                yield from self._in(held, names if is_own else list(held), names, waiting)
        yield from self._in(own, names, names, waiting)
        for name, place in slots_of(type(x)).items():
            if name in names:
                yield (id(x), name), WatchedPlace(functools.partial(_slot, x), place, _of)
                waiting += [(held, names) for held in [_slot(x, place)] if held is not None]
        yield from self._of_class(type(x), x, names, waiting)

    def _of_modules(self, x: torch.nn.Module) -> Iterator[tuple[object, WatchedPlace]]:
        """Whether each module in it is being trained, and which these are."""
        for part in x.modules() if id(x) not in self._modules else ():
            self._modules.add(id(part))
            yield (id(part), "training"), WatchedPlace(vars(part).get, "training", _as_it_is)
            yield (id(part), "parts"), WatchedPlace(_itself, part._modules.values(), _items, is_many=True)

    def _of_class(
        self, kind: type, owner: object, names: tuple[str, ...], waiting: list[Any]
    ) -> Iterator[tuple[object, WatchedPlace]]:
        """`owner`: the object whose methods these are."""
        for part in kind.__mro__:
            if not is_users(part.__module__):
                continue
            for name in names:
                x = vars(part).get(name)
                code = x.fget if isinstance(x, property) else getattr(x, "__func__", x)
                if isinstance(code, types.FunctionType):
                    waiting += [(code, ()), (owner, _names_of(code.__code__))]
                elif name in vars(part) and not isinstance(x, types.MemberDescriptorType):
                    yield (id(part), name), WatchedPlace(vars(part).get, name, _of_part)
                    if isinstance(own := getattr(owner, "__dict__", None), dict):  # it may get one of its own
                        yield (id(own), name), WatchedPlace(own.get, name, _of_part)
                    waiting.append((x, names))

    def _in(
        self, held: Mapping[Any, Any], keys: Any, names: tuple[str, ...], waiting: list[Any]
    ) -> Iterator[tuple[object, WatchedPlace]]:
        for key in keys:
            if key in held and not _stays(held[key]):
                yield (id(held), key), WatchedPlace(held.get, key, _of_part)
                waiting.append((held[key], names))


def _stays(x: Any) -> bool:
    """Whether nobody puts another thing in its place: modules, and what libraries define."""
    is_code = isinstance(x, type | types.FunctionType | types.BuiltinFunctionType)
    return not is_users(x.__name__ if isinstance(x, types.ModuleType) else x.__module__ if is_code else "__main__")


def _names_of(code: types.CodeType | None) -> tuple[str, ...]:
    """Global variables and attributes that code names, that of functions in it too."""
    if code is None:
        return ()
    inner = [name for x in code.co_consts if isinstance(x, types.CodeType) for name in _names_of(x)]
    return tuple(dict.fromkeys([*code.co_names, *inner]))


def _contents(cell: Any) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # it is not filled yet
        return []


def _in_cell(cell: Any) -> Any:
    return next(iter(_contents(cell)), None)


def _itself(x: Any) -> Any:
    return x


_as_it_is = _itself
"""Whether a module is being trained, as part of a key."""


def _slot(owner: object, place: Any) -> Any:
    try:
        return place.__get__(owner)
    except AttributeError:  # nothing was put there yet
        return None


def _items(held: Any) -> tuple[Any, ...]:
    return tuple([_of(x) for x in held])


def _of(x: object) -> tuple[Any, ...]:
    if isinstance(x, torch.Tensor):
        return (id(x), *of_tensor(x))
    return of_value(x) if isinstance(x, _KINDS) else (id(x),)


def _of_part(x: object) -> tuple[Any, ...]:
    """The same of what an object holds. A call that reads none of its tensors has a key whatever they are."""
    try:
        return _of(x)
    except NoKey:
        return id(x), getattr(x, "requires_grad", None)


def _nothing_changes() -> bool:
    return True


__all__ = ["NoKey", "Outside"]
