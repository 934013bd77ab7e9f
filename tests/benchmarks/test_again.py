"""Measured tables are predicted again: the same points, with times of today."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from benchmarks.search.again import main
from search.tuning.timed import read_timed

TABLE = Path(__file__).parents[2] / "benchmarks/tables/siblings/permute_bf16_210_333x251x411.t4.json.gz"


def test_points_keep_their_times_and_get_predictions(tmp_path: Path) -> None:
    main([str(TABLE), "--out", str(tmp_path), "--points", "3", "--without-compiling"])
    (found,) = map(read_timed, tmp_path.iterdir())
    before = {one.candidate: one for one in read_timed(TABLE).trials}
    assert len(found.trials) == 3
    for one in found.trials:
        assert (one.measured_us, one.again_us) == (before[one.candidate].measured_us, before[one.candidate].again_us)
        assert 0.3 < one.predicted_us / one.measured_us < 3.0
        assert {"bandwidth", "issue"} <= one.terms.keys()


def test_a_table_of_another_generator_is_refused(tmp_path: Path) -> None:
    document = json.loads(gzip.decompress(TABLE.read_bytes()))
    document["metadata"]["generator"] = "fusetune 0"
    (tmp_path / "old.t4.json").write_text(json.dumps(document))
    with pytest.raises(SystemExit, match="is of fusetune 0, this is"):
        main([str(tmp_path / "old.t4.json"), "--out", str(tmp_path)])
