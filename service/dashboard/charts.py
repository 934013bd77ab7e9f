"""Plotly figures as JSON. Colours are names of CSS properties, which the page's script looks up in the theme."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

Figure = dict[str, Any]

MAX_POINTS = 4000
"""Dots of a chart; more would say no more and draw slowly. Improvements are always among them."""

_LOG_FROM = 6.0
"""A chart whose slowest point is so many times the fastest has a logarithmic axis."""

_MANY_POWERS = 5
"""An axis over more powers of ten has a tick at each of them alone."""

_BINS = 30


@dataclass(frozen=True, slots=True)
class Line:
    """A time to compare with, in microseconds."""

    name: str
    us: float


def improvements(history: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """The measured trials, by number and median, that were faster than all before them."""
    better: list[tuple[int, float]] = []
    for number, us in history:
        if not better or us < better[-1][1]:
            better.append((number, us))
    return better


_WHOLE: Figure = {"cliponaxis": False}
"""The first trial lies on the axis: its point is drawn whole."""


def best_so_far(
    history: Sequence[tuple[int, float]],
    last_trial: int,
    floor_us: float | None,
    baselines: Sequence[Line],
    winner: int | None = None,
    is_fake: bool = False,
) -> Figure:
    """The measured trials of a tuning, the best of them over time, the floor and the baselines as lines.

    `history` is number and median in order of number, `last_trial` where the lines end. Predicted times are not in it.
    Without a measured trial there is nothing to draw, not even the lines.
    """
    if not history:
        return {"data": [], "layout": {}}
    better = improvements(history)
    shown = _thinned(history, {number for number, _ in better})
    end = max(last_trial, 1)
    how = "invented by the fake device" if is_fake else "measured"
    traces: list[Figure] = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": f"trial, {how}"
            if len(shown) == len(history)
            else f"trial, {how} ({len(shown):,} of {len(history):,})",
            "x": [number for number, _ in shown],
            "y": [us for _, us in shown],
            "marker": {"color": "--chart-trial", "size": 6, "opacity": 0.75},
            **_WHOLE,
            "hovertemplate": "trial %{x}<br>%{y:.4~g} µs<extra></extra>",
        },
        {
            "type": "scatter",
            "mode": "lines",
            "name": "best so far",
            "x": [*(number for number, _ in better), end],
            "y": [*(us for _, us in better), better[-1][1]],
            "line": {"color": "--chart-best", "width": 2.5, "shape": "hv"},
            "hoverinfo": "skip",
        },
    ]
    found = dict(history)
    if winner is not None and winner in found:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "served kernel",
                "x": [winner],
                "y": [found[winner]],
                "marker": {"color": "--chart-best", "size": 13, "symbol": "star"},
                **_WHOLE,
                "hovertemplate": "served kernel, trial %{x}<br>%{y:.4~g} µs<extra></extra>",
            }
        )
    if floor_us is not None:
        traces.append(_across(Line("roofline floor, computed", floor_us), end, "--chart-floor", "dot"))
    traces += [
        _across(Line(f"baseline {escape(line.name)}, {how}", line.us), end, "--chart-baseline", "dash")
        for line in baselines
    ]
    times = [us for _, us in history] + [line.us for line in baselines] + ([floor_us] if floor_us else [])
    layout = _layout("trial", "median, µs")
    layout["yaxis"] |= _scale(times)
    layout["xaxis"] |= {"rangemode": "tozero"}
    return {"data": traces, "layout": layout}


def predicted(
    predictions: Sequence[tuple[int, float]], last_trial: int, floor_us: float | None, winner: int | None = None
) -> Figure:
    """What a model expects of the trials of a tuning that has measured none, and the floor; each point says so."""
    if not predictions:
        return {"data": [], "layout": {}}
    end, found = max(last_trial, 1), dict(predictions)
    traces = [_predicted_points("trial", predictions, {"size": 7, "symbol": "circle-open"})]
    if winner is not None and winner in found:
        star = {"size": 13, "symbol": "star-open"}
        traces.append(_predicted_points("served kernel", [(winner, found[winner])], star))
    if floor_us is not None:
        traces.append(_across(Line("roofline floor, computed", floor_us), end, "--chart-floor", "dot"))
    times = [*found.values(), *([floor_us] if floor_us else [])]
    layout = _layout("trial", "predicted, not measured, µs")
    layout["yaxis"] |= _scale(times)
    layout["xaxis"] |= {"rangemode": "tozero"}
    return {"data": traces, "layout": layout | {"showlegend": True}}


def _predicted_points(name: str, points: Sequence[tuple[int, float]], marker: Figure) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{name}, predicted",
        "x": [number for number, _ in points],
        "y": [us for _, us in points],
        "marker": {"color": "--chart-trial", **marker},
        **_WHOLE,
        "hovertemplate": f"{name} %{{x}}<br>predicted: %{{y:.4~g}} µs, not measured<extra></extra>",
    }


def samples(values: Sequence[float], median_us: float, p10_us: float, p90_us: float) -> Figure:
    """The samples of one kernel's time: in the order taken, and beside it how often each time was seen."""
    span = max(values) - min(values)
    bin_us = span / _BINS if span > 0 else max(median_us, 1.0) / _BINS
    traces: list[Figure] = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": list(range(1, len(values) + 1)),
            "y": list(values),
            "marker": {"color": "--chart-trial", "size": 5, "opacity": 0.8},
            "hovertemplate": "sample %{x}<br>%{y:.5~g} µs<extra></extra>",
        },
        {
            "type": "histogram",
            "y": list(values),
            "xaxis": "x2",
            "ybins": {"start": min(values) - bin_us / 2, "end": max(values) + bin_us, "size": bin_us},
            "marker": {"color": "--chart-trial"},
            "hovertemplate": "%{x} samples<br>%{y} µs<extra></extra>",
        },
    ]
    layout = _layout("sample, in the order taken", "µs")
    layout |= {"showlegend": False, "bargap": 0.08}
    layout["xaxis"] |= {"domain": [0, 0.72]}
    layout["xaxis2"] = {**layout["xaxis"], "domain": [0.76, 1], "title": {"text": "samples"}, "nticks": 4}
    layout["shapes"] = [
        _rule(us, width, dash) for us, width, dash in ((median_us, 2, "solid"), (p10_us, 1, "dot"), (p90_us, 1, "dot"))
    ]
    layout["annotations"] = [
        {
            "xref": "paper", "x": 1, "xanchor": "right", "y": us, "yanchor": side, "showarrow": False, "text": name,
            "font": {"size": 11, "color": "--chart-ink"}, "bgcolor": "--panel", "opacity": 0.85,
        }
        for us, name, side in ((median_us, "median", "bottom"), (p10_us, "p10", "top"), (p90_us, "p90", "bottom"))
    ]  # fmt: skip
    return {"data": traces, "layout": layout}


def _scale(times: Sequence[float]) -> Figure:
    """The axis of these times."""
    if max(times) <= _LOG_FROM * min(times):
        return {"type": "linear"}
    return {"type": "log", **_log_ticks(min(times), max(times))}


def _log_ticks(low: float, high: float) -> Figure:
    """Ticks at 1, 2 and 5 of each power of ten, in full: between the powers Plotly writes their first digits alone."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    leading = (1, 2, 5) if len(powers) <= _MANY_POWERS else (1,)
    ticks = [digit * 10.0**power for power in powers for digit in leading]
    return {"tickvals": ticks, "ticktext": [f"{tick:,.10g}" for tick in ticks]}


def _thinned(history: Sequence[tuple[int, float]], kept: set[int]) -> Sequence[tuple[int, float]]:
    if len(history) <= MAX_POINTS:
        return history
    every = -(-len(history) // MAX_POINTS)
    return [trial for i, trial in enumerate(history) if i % every == 0 or trial[0] in kept]


def _across(line: Line, end: int, colour: str, dash: str) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{line.name}: {line.us:,.4g} µs",
        "x": [0, end],
        "y": [line.us, line.us],
        "line": {"color": colour, "width": 1.5, "dash": dash},
        "hoverinfo": "skip",
    }


def _rule(us: float, width: int, dash: str) -> Figure:
    line = {"color": "--chart-best", "width": width, "dash": dash}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": us, "y1": us, "line": line}


def _layout(x: str, y: str) -> Figure:
    axis = {"gridcolor": "--chart-grid", "linecolor": "--chart-grid", "zeroline": False, "automargin": True}
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": "--chart-ink"},
        "margin": {"l": 48, "r": 12, "t": 8, "b": 40},
        "hovermode": "closest",
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "xaxis": {**axis, "title": {"text": x}},
        "yaxis": {**axis, "title": {"text": y}},
        "uirevision": "kept",
    }
