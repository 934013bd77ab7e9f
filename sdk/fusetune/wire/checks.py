"""What came of timing a served kernel again."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from fusetune.wire.artifact import Wire
from fusetune.wire.fusion import Seq


class Checked(Wire):
    """A kernel timed again, and the conditions then. `before_us`: its time up to then. `slower`: the share of it by
    which it is slower beyond noise, 0 where it is not. `marks`: what may make the samples worth less."""

    at: Annotated[datetime, Field(strict=False)]
    median_us: float
    p10_us: float
    p90_us: float
    before_us: float | None = None
    slower: float = 0.0
    generator: str
    driver: str | None = None
    clock_limit_mhz: int | None = None
    marks: Seq[str] = ()
