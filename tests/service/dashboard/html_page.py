"""An HTML page as tests look at it: elements with their text, and what breaks the rules that every page keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"area", "br", "col", "hr", "img", "input", "link", "meta", "rect"}


@dataclass
class Element:
    """An element; `text` is that of everything in it, with single spaces."""

    tag: str
    attrs: dict[str, str]
    parent: Element | None
    parts: list[str | Element] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join("".join(self._texts()).split())

    def _texts(self) -> Iterator[str]:
        for part in self.parts:
            if isinstance(part, str):
                yield part
            else:
                yield from part._texts()

    def walk(self) -> Iterator[Element]:
        for part in self.parts:
            if isinstance(part, Element):
                yield part
                yield from part.walk()

    def all(self, tag: str | None = None, **attrs: str) -> list[Element]:
        """Elements below with that tag and those attributes (`class_`, `data_label`); a class may be one of several."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attrs.items()}
        return [one for one in self.walk() if (tag is None or one.tag == tag) and _has(one, wanted)]

    def one(self, tag: str | None = None, **attrs: str) -> Element:
        found = self.all(tag, **attrs)
        assert len(found) == 1, f"{len(found)} of {tag} {attrs}"
        return found[0]

    def texts(self, tag: str | None = None, **attrs: str) -> list[str]:
        return [one.text for one in self.all(tag, **attrs)]


def _has(element: Element, wanted: dict[str, str]) -> bool:
    return all(
        value in element.attrs.get(name, "").split() if name == "class" else element.attrs.get(name) == value
        for name, value in wanted.items()
    )


class HtmlPage(Element):
    """A parsed page; one whose tags do not nest is refused."""

    def __init__(self, source: str) -> None:
        super().__init__("", {}, None)
        self.source = source
        _Parser(self).parse(source)

    def faults(self) -> list[str]:
        """What breaks a rule of every page."""
        return list(self._faults())

    def _faults(self) -> Iterator[str]:
        for id, count in Counter(one.attrs["id"] for one in self.walk() if "id" in one.attrs).items():
            if count > 1:
                yield f"id {id} stands {count} times"
        ids = {one.attrs.get("id") for one in self.walk()}
        for one in self.walk():
            yield from _element_faults(one, ids)
        if len(self.all("h1")) != 1:
            yield "not exactly one h1"
        if not self.all("main", id="main") or not self.all("a", href="#main"):
            yield "no way to skip to the content"


def _element_faults(one: Element, ids: set[str | None]) -> Iterator[str]:
    where = f"<{one.tag} {one.attrs}>"
    if any(name.startswith("on") or name == "style" for name in one.attrs):
        yield f"{where} has an inline handler or style"
    for name in ("href", "src", "action", "hx-get"):
        value = one.attrs.get(name)
        if one.tag == "img" and name == "src" and (value or "").startswith("data:image/svg+xml;base64,"):
            continue  # the image is in the page itself: nobody is asked for it
        if value is not None and (not value.startswith(("/", "?", "#")) or value.startswith("//")):
            yield f"{where} leaves this host"
    match one.tag:
        case "script" if "src" not in one.attrs or one.text:
            yield f"{where} is inline"
        case "table" if not one.all("caption"):
            yield f"{where} has no caption"
        case "th" if "scope" not in one.attrs:
            yield f"{where} has no scope"
        case "input" | "select" if one.attrs.get("type") != "hidden" and not _is_labelled(one):
            yield f"{where} has no label"
        case "button" | "a" if not one.text:
            yield f"{where} has no text"
        case "img" if "alt" not in one.attrs:
            yield f"{where} has no alternative text"
    labelled = one.attrs.get("aria-labelledby")
    if labelled is not None and labelled not in ids:
        yield f"{where} is labelled by {labelled}, which is not there"


def _is_labelled(one: Element) -> bool:
    parent = one.parent
    while parent is not None:
        if parent.tag == "label":
            return True
        parent = parent.parent
    return "aria-label" in one.attrs


class _Parser(HTMLParser):
    def __init__(self, page: HtmlPage) -> None:
        super().__init__()
        self._open: list[Element] = [page]

    def parse(self, source: str) -> None:
        self.feed(source)
        self.close()
        assert len(self._open) == 1, f"never closed: {[one.tag for one in self._open[1:]]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs}, self._open[-1])
        self._open[-1].parts.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].parts.append(Element(tag, {name: value or "" for name, value in attrs}, self._open[-1]))

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag} {self._open[-1].attrs}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].parts.append(data)
