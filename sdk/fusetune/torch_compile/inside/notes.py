"""What is known of a graph's regions, on disk beside the kernels: a later process need not look at them again."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Literal

from fusetune.torch_compile.inside.regions import PortableRegion
from fusetune.whole import written_whole
from fusetune.wire.artifact import Wire
from fusetune.wire.fusion import Seq


class TimedKernel(Wire):
    """A kernel (`code`: its hash) and what Inductor makes of its region, timed one beside the other, microseconds."""

    fingerprint: str
    binding: str
    code: str
    otherwise_us: float
    kernel_us: float


class GraphNotes(Wire):
    """The regions of one graph, forward and backward, and what was measured of them on `device`."""

    format: Literal["fusetune.graph/1"] = "fusetune.graph/1"
    device: str
    regions: Seq[PortableRegion]
    verdicts: Seq[TimedKernel] = ()

    def verdict(self, key: tuple[str, str], code: str) -> TimedKernel | None:
        """What was measured of this kernel."""
        return next((x for x in self.verdicts if (x.fingerprint, x.binding) == key and x.code == code), None)


class Notes:
    """A folder of them, by a graph's key. It never fails: at worst it knows nothing. None: nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def read(self, key: str, device: str) -> GraphNotes | None:
        """What is known of a graph; what was written on another kind of device is not."""
        if self.folder is None:
            return None
        try:
            found = GraphNotes.model_validate_json((self.folder / f"{key}.json").read_bytes())
        except (OSError, ValueError):  # no file, or none of ours
            return None
        return found if found.device == device else None

    def write(self, key: str, notes: GraphNotes) -> None:
        """A reader never sees half of it."""
        if self.folder is None:
            return
        target = self.folder / f"{key}.json"
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            with written_whole(target) as part:
                part.write_text(notes.model_dump_json())
