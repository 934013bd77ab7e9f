"""How numbers, times and names are written. Every function is a Jinja filter of the same name."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

NOTHING = "\N{EN DASH}"
"""Stands where there is no value."""

_TIMES = "\N{MULTIPLICATION SIGN}"

_SHORT = 10
"""Digits of a hash that are shown; the whole is in the address and the title."""

_KIB = 1024
_AGO = ((60, "s"), (60, "min"), (24, "h"), (365, "d"))


def us(value: float | None) -> str:
    """Microseconds in four significant digits: `8.241 µs`, `1,234 µs`."""
    if value is None:
        return NOTHING
    if value >= 1000:
        return f"{value:,.0f} µs"
    digits = 3 if value < 10 else 2 if value < 100 else 1
    return f"{value:.{digits}f} µs"


def seconds(value: float | None) -> str:
    """A span: `0.42 s`, `42 s`, `2 min 5 s`, `1 h 3 min`."""
    if value is None:
        return NOTHING
    if value < 10:
        return f"{value:.3g} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    hours, minutes = whole // 3600, whole % 3600 // 60
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


def count(value: int | None) -> str:
    """A whole number with separators: `1,234,567`."""
    return NOTHING if value is None else f"{value:,}"


def many(value: int, one: str, more: str = "") -> str:
    """A number and its noun: `1 kernel`, `3 kernels`; `more` where the plural takes more than an s."""
    return f"{value:,} {one if value == 1 else more or f'{one}s'}"


def data_size(value: int | None) -> str:
    """Bytes in binary units: `512 B`, `48 KiB`, `80 GiB`."""
    if value is None:
        return NOTHING
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < _KIB or unit == "GiB":
            break
        amount /= _KIB
    return f"{amount:,.0f} {unit}" if amount >= 10 or amount == int(amount) else f"{amount:.1f} {unit}"


def share(value: float | None) -> str:
    """A part of 1 in percent: `83 %`; below a tenth with one decimal."""
    if value is None:
        return NOTHING
    percent = 100 * value
    return f"{percent:.1f} %" if 0 < percent < 10 else f"{percent:,.0f} %"


def baseline(name: str) -> str:
    """What a recorded baseline is, under its name."""
    return {"eager": "eager torch, op by op"}.get(name, name)


def factor(value: float | None) -> str:
    """How many times as fast: `3.21x`, with a real multiplication sign."""
    if value is None:
        return NOTHING
    return f"{value:.2f}{_TIMES}" if value < 100 else f"{value:,.0f}{_TIMES}"


def behind(ratio: float) -> str:
    """How much longer than the best, by the ratio of both times: `best`, `+1.3 %`; from twice as long on `2.40x`."""
    if ratio <= 1:
        return "best"
    return f"+{100 * (ratio - 1):.1f} %" if ratio < 2 else factor(ratio)


def short(value: str) -> str:
    """The beginning of a hash."""
    return value[:_SHORT]


def words(name: str) -> str:
    """An identifier as words: `wrong_result` is `wrong result`."""
    return name.replace("_", " ")


def points(value: int | None) -> str:
    """How many points of a space there are, or that it is more than is counted."""
    from search.space.counted import told  # `service.later`

    return NOTHING if value is None else told(value)


def input_set(name: str) -> str:
    """What an input set of the check holds (search/proof/verify/inputs.py)."""
    return {"zeros": "signed zeros", "inf_nan": "infinities and NaN"}.get(name, words(name))


def input_sets(names: Sequence[str]) -> str:
    """All of a check; those that differ by a number alone are told once, with how many they are."""
    kinds = Counter(name.rstrip("0123456789") for name in names)
    told_once = (
        input_set(kind) if count == 1 else f"{input_set(kind)} ({count} sets)" for kind, count in kinds.items()
    )
    return ", ".join(told_once) or NOTHING


def approximation(function: str) -> str:
    """An approximate function of the generated code: `ft_gelu_coarse` is `gelu (coarse)`."""
    name, _, grade = function.removeprefix("ft_").rpartition("_")
    return f"{words(name)} ({grade})" if name else function


def setting(value: Any) -> str:
    """A knob's value."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def point(knobs: Mapping[str, Any]) -> str:
    """A point of a space on one line, knobs in order of name."""
    return " ".join(f"{name}={setting(value)}" for name, value in sorted(knobs.items()))


_TERMS = {
    "fixed": "launch and ramp",
    "bandwidth": "memory bandwidth",
    "latency": "memory latency",
    "issue": "instructions",
    "mufu": "special functions",
    "smem": "shared memory",
    "copies": "bulk copies",
    "blocks": "starting blocks",
    "phases": "waiting between phases",
    "sync": "barriers",
    "cluster": "clusters",
    "spills": "register spills",
    "tail": "the last wave",
}
"""What the terms of `search.cost.model` are, for who has not read it."""

_TERM_US = 0.01


def largest(terms: Mapping[str, float]) -> list[tuple[str, float]]:
    """Terms of a prediction, the largest first, without those of less than a hundredth of a microsecond."""
    return sorted(((name, us) for name, us in terms.items() if us >= _TERM_US), key=lambda term: -term[1])


def term(name: str) -> str:
    """A term of a prediction in words."""
    return _TERMS.get(name, words(name))


def absolute(moment: datetime) -> str:
    """A moment in UTC to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """How long ago, in one unit: `just now`, `3 min ago`. A moment ahead of our clock is `just now` too."""
    if moment is None:
        return NOTHING
    amount = ((now or datetime.now(UTC)) - moment).total_seconds()
    if amount < 5:
        return "just now"
    for limit, unit in _AGO:
        if amount < limit:
            return f"{int(amount)} {unit} ago"
        amount /= limit
    return moment.astimezone(UTC).strftime("%Y-%m-%d")


def when(moment: datetime | None) -> Markup | str:
    """`ago` as a time element; its title is the moment itself."""
    if moment is None:
        return NOTHING
    template = Markup('<time datetime="{}" title="{}">{}</time>')
    return template.format(moment.astimezone(UTC).isoformat(timespec="seconds"), absolute(moment), ago(moment))


def drawing(svg: str) -> str:
    """An SVG as an address, for an image that carries it: nothing in it can act on the page."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


FILTERS: Mapping[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        us, seconds, count, many, data_size, share, baseline, factor, behind, short, words, input_set,
        input_sets, points, approximation,
        setting, point, largest, term, absolute, ago, when,
        drawing,
    )
}  # fmt: skip
