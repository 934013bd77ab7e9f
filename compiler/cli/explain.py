"""`python -m compiler explain`: what was inferred of a schedule, in words and pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from compiler.arch import arch_named
from compiler.cli.cases import WANTED, documents_in, plain
from compiler.cli.check import exit_code
from compiler.cli.subject import DEFAULT_ARCH, FollowedSchedule, has_a_format, subject_of
from compiler.errors import InvalidFusion, InvalidStep, UnknownArch, Unsupported
from compiler.explain.case import Explained, explain_case, explain_trace
from compiler.faults import UsageFault, read_text, reporting
from compiler.judging import judge_all
from compiler.schedule.explicit import MalformedCase
from compiler.schedule.trace import launches_of
from compiler.verdict import Verdict


@reporting(UsageFault, UnknownArch, InvalidFusion, InvalidStep, Unsupported)
def explain(
    file: Annotated[
        Path,
        typer.Argument(
            help="A case or a list of cases, a kernel artifact or a trace (JSON); - reads stdin.",
            metavar="FILE",
            allow_dash=True,
        ),
    ],
    case: Annotated[str | None, typer.Option("--case", help="Only the case of this name.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for pictures (SVG); with several cases, one folder each.")
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(
            "--arch",
            help=f"Compile target. Default: for each case the least that will do, for an artifact its own, for a trace "
            f"{DEFAULT_ARCH}.",
        ),
    ] = None,
) -> None:
    """Explain schedules: tensor maps, tiles, tensor memory, what is checked at launch. Needs no GPU.

    Exits as `check` does.
    """
    if arch is not None:
        arch_named(arch)
    text = read_text(file, WANTED)
    documents = documents_in(file, text)
    if case is None and len(documents) == 1 and has_a_format(documents[0]):
        pages: list[Explained | Verdict] = [*_launches(subject_of(file, text, documents[0], arch), file)]
    else:
        pages = [_explained(one, arch) for one in _chosen(documents, case, file)]
    if out is not None:
        _draw(out, [page for page in pages if isinstance(page, Explained)], is_one=len(pages) == 1)
    texts = [
        page.text() if isinstance(page, Explained) else f"{page.name or '(without a name)'}: {page.error}"
        for page in pages
    ]
    typer.echo("\n\n".join("\n".join(map(plain, text.split("\n"))) for text in texts))
    verdicts = [page.verdict if isinstance(page, Explained) else page for page in pages]
    raise typer.Exit(max(map(exit_code, verdicts), default=0))


def _launches(subject: FollowedSchedule, file: Path) -> Iterator[Explained]:
    """The explanation of each launch of a kernel."""
    launches = launches_of(subject.trace)
    for number, launch in enumerate(launches):
        name = f"{file.name}, launch {number}" if len(launches) > 1 else file.name
        yield explain_trace(name, launch.trace, subject.arch)


def _chosen(documents: list[object], name: str | None, file: Path) -> list[object]:
    if name is None:
        return documents
    found: list[object] = [d for d in documents if isinstance(d, dict) and d.get("name") == name]
    if not found:
        known = ", ".join(str(d["name"]) for d in documents if isinstance(d, dict) and "name" in d)
        raise UsageFault(
            f"--case: found {name!r}, expected one of {known[:400] or 'none: no case has a name'} in {file}."
        )
    return found


def _explained(document: Any, arch: str | None) -> Explained | Verdict:
    """The explanation, or the verdict on a document that cannot be explained."""
    (verdict,) = judge_all([document], arch)
    if verdict.legal is None:
        return verdict
    try:
        return explain_case(document, arch)
    except MalformedCase as error:
        return Verdict(verdict.name, None, error=str(error))


def _draw(folder: Path, pages: list[Explained], *, is_one: bool) -> None:
    """Writes all pictures. Raises UsageFault for a folder that cannot be written into."""
    taken: set[Path] = set()
    for page in pages:
        for picture in page.pictures():
            place = folder if is_one else folder / _slug(page.verdict.name or "case")
            path = _free(place / _slug(picture.name), taken)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(picture.svg, encoding="utf-8")
            except OSError as error:
                raise UsageFault(
                    f"--out {folder}: cannot be written ({error.strerror}). Name another folder."
                ) from None


def _slug(name: str) -> str:
    """A name that is one file or folder name anywhere."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip(".")[:100] or "unnamed"


def _free(path: Path, taken: set[Path]) -> Path:
    """The path, or one beside it where two names come to the same one."""
    found, n = path, 2
    while found in taken:
        found, n = path.with_stem(f"{path.stem}_{n}"), n + 1
    taken.add(found)
    return found
