from __future__ import annotations

import pytest

# The test of every table stands there: what it asserts is shown as in a test's own module.
pytest.register_assert_rewrite("tests.compiler.legality.cases")
