"""Files that a reader never sees half of."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

_PARTS = count()


@contextmanager
def written_whole(target: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to, which takes the place of `target` once all went well: the last of several writers wins.
    Raises OSError, which names `target`."""
    place = Path(target)
    part = place.with_name(f".{place.name}.{os.getpid()}.{threading.get_ident()}.{next(_PARTS)}.part")
    try:
        yield part
        part.replace(place)
    except OSError as error:
        if error.errno is None or error.filename not in (part, str(part)):
            raise
        raise type(error)(error.errno, error.strerror, str(place)) from None
    finally:
        part.unlink(missing_ok=True)
