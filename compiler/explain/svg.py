"""A small writer of SVG: shapes as text, one picture around them. The same shapes give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape, quoteattr

INK = "#222222"
FAINT = "#8a8a8a"
WARN = "#b3261e"
PAPER = "#ffffff"


def picture(width: float, height: float, title: str, shapes: Iterable[str]) -> str:
    """A whole SVG document on white paper; `title` is for readers that do not see it."""
    size = f'width="{_n(width)}" height="{_n(height)}" viewBox="0 0 {_n(width)} {_n(height)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="sans-serif">'
    body = [head, f"<title>{_text(title)}</title>", rect(0, 0, width, height, fill=PAPER), *shapes, "</svg>"]
    return "\n".join(body) + "\n"


def rect(
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    fill: str = "none",
    stroke: str | None = None,
    thick: float = 1,
    round_by: float = 0,
    dash: str | None = None,
) -> str:
    """A rectangle; without `stroke` it has no outline."""
    corner = f' rx="{_n(round_by)}"' if round_by else ""
    return (
        f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"{corner} fill="{fill}"'
        f"{_stroke(stroke, thick, dash)}/>"
    )


def line(
    x1: float, y1: float, x2: float, y2: float, *, stroke: str = INK, thick: float = 1, dash: str | None = None
) -> str:
    """A straight line."""
    return f'<line x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"{_stroke(stroke, thick, dash)}/>'


def circle(x: float, y: float, radius: float, *, fill: str = "none", stroke: str | None = None) -> str:
    """A circle about (x, y)."""
    return f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}" fill="{fill}"{_stroke(stroke, 1, None)}/>'


def text(
    x: float,
    y: float,
    words: object,
    *,
    size: float = 12,
    fill: str = INK,
    anchor: str = "start",
    bold: bool = False,
) -> str:
    """One line of text with its baseline at `y`; `anchor`: start, middle or end."""
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" fill="{fill}" text-anchor={quoteattr(anchor)}{weight}>'
        f"{_text(str(words))}</text>"
    )


def legend(x: float, y: float, entries: Sequence[tuple[str, str]], width: float) -> tuple[list[str], float]:
    """Coloured squares with their meaning, `(colour, words)`, in lines of `width`; and the height they take."""
    shapes: list[str] = []
    at, row = x, y
    for colour, words in entries:
        needs = 24 + text_width(words) + 14
        if at > x and at + needs > x + width:
            at, row = x, row + 20
        shapes += [rect(at, row, 14, 14, fill=colour, stroke=FAINT), text(at + 20, row + 11.5, words)]
        at += needs
    return shapes, (row - y + 20) if entries else 0


def text_width(words: str, size: float = 12) -> float:
    """About how wide a text is: sans-serif letters are 0.56 em on average."""
    return len(words) * size * 0.56


def _stroke(stroke: str | None, thick: float, dash: str | None) -> str:
    if stroke is None:
        return ""
    dashes = f' stroke-dasharray="{dash}"' if dash is not None else ""
    return f' stroke="{stroke}" stroke-width="{_n(thick)}"{dashes}'


def _n(number: float) -> str:
    """A coordinate in tenths, so that rounding elsewhere cannot change a picture."""
    return f"{round(number, 1):g}" if abs(number) < 1e5 else f"{number:.0f}"


def _text(words: str) -> str:
    """Characters that XML cannot hold, or that do not print, become question marks."""
    return escape("".join(c if c.isprintable() else "?" for c in words))
