"""Every fusion that is taken, by name."""

from __future__ import annotations

from tests.search.user_fusions.functions import FUNCTIONS
from tests.search.user_fusions.indexed import INDEXED
from tests.search.user_fusions.mixed import MIXED
from tests.search.user_fusions.norms import NORMS
from tests.search.user_fusions.posted import Posted
from tests.search.user_fusions.quantised import QUANTISED
from tests.search.user_fusions.updates import UPDATES
from tests.search.user_fusions.views import VIEWS

_EVERY = (*QUANTISED, *INDEXED, *UPDATES, *NORMS, *FUNCTIONS, *VIEWS, *MIXED)

POSTED: dict[str, Posted] = {one.name: one for one in _EVERY}

assert len(POSTED) == len(_EVERY), "two fusions have one name"
