"""Files that a reader never sees half of."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(target: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to, which takes the place of `target` once all went well. Raises OSError, which names that."""
    place = Path(target)
    part = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(place)
    except OSError as error:
        if error.errno is None or error.filename not in (part, str(part)):
            raise
        raise type(error)(error.errno, error.strerror, str(place)) from None
    finally:
        part.unlink(missing_ok=True)
