from __future__ import annotations

import importlib.util
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from service.db.engine import Database
from service.db.models import Base, CardRow, WorkerRow
from service.db.types import now
from service.settings import Settings

SCRIPT = Path(__file__).parents[2] / "docker" / "worker_health.py"


@pytest.fixture(scope="module")
def health() -> ModuleType:
    """The script as a module: `docker` is no package of ours, and may be one of somebody else's."""
    spec = importlib.util.spec_from_file_location("worker_health", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, worker_id="worker-0", heartbeat_s=5.0)


@pytest.fixture
def beat(settings: Settings) -> Callable[..., None]:
    """Writes a worker whose last heartbeat is `seconds` old."""

    def write(seconds: float, name: str = "worker-0", **more: Any) -> None:
        with Database(settings.db_url) as database:
            Base.metadata.create_all(database.engine)
            card = CardRow(id="c", key="c", name="fake", facts={}, source="attached")
            at = now() - timedelta(seconds=seconds)
            worker = WorkerRow(id=name, host="h", pid=1, card_id="c", attached=True, heartbeat_at=at, **more)
            with database.write() as session:
                session.add(card)
                session.flush()
                session.add(worker)

    return write


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        pytest.param(0, "", id="just-now"),
        pytest.param(28, "", id="late"),
        pytest.param(32, "worker worker-0: no heartbeat for 32 s", id="silent"),
    ],
)
def test_a_worker_is_well_while_its_heart_beats(
    health: ModuleType, settings: Settings, beat: Callable[..., None], seconds: float, told: str
) -> None:
    beat(seconds)
    assert health.fault(settings) == told


def test_another_workers_heart_says_nothing(health: ModuleType, settings: Settings, beat: Callable[..., None]) -> None:
    beat(0, name="worker-1")
    assert health.fault(settings) == "worker worker-0: not in the database yet"


def test_a_worker_that_stopped_is_not_well(health: ModuleType, settings: Settings, beat: Callable[..., None]) -> None:
    beat(0, stopped_at=now())
    assert "stopped at" in health.fault(settings)


@pytest.mark.parametrize("exists", [False, True], ids=["no-file", "no-tables"])
def test_a_database_that_is_not_ready_is_no_health(health: ModuleType, settings: Settings, exists: bool) -> None:
    if exists:
        (settings.data_dir / "fusetune.db").touch()
    assert health.fault(settings).startswith("database sqlite:///")
