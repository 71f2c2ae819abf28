"""Long files read with missing values as NaN."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.data.files.file_source import LongSource
from forecast.tools.check.gaps import fill_gaps
from tests.support.long_files import LENGTHS, long_frame

OPTIONS: dict[str, Any] = {
    "past_covariates": ["temperature"],
    "future_covariates": ["price"],
    "static_covariates": ["region"],
}


@pytest.mark.parametrize("fill", ["previous", "zero"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_filling_gives_the_panel_that_training_reads(tmp_path: Path, fill: str, shuffled: bool) -> None:
    frame = long_frame(future=4)
    frame.loc[[3, 4], "y"] = np.nan
    frame.loc[5, "temperature"] = np.inf
    frame.loc[50, "price"] = np.nan
    frame = frame.drop(index=[7, 8, 60])
    if shuffled:
        frame = frame.sample(frac=1, random_state=0)
    frame.to_csv(tmp_path / "long.csv", index=False)
    source = LongSource(path=tmp_path / "long.csv", **OPTIONS, fill=fill)
    with pytest.warns(UserWarning, match=r"missing numbers filled"):
        expected = source.read()
    unfilled = source.read_unfilled()
    assert (~unfilled.in_file).sum() == 3
    assert np.isnan(unfilled.values[unfilled.in_history]).sum() == 4 + 3 * 3
    assert unfilled.in_history.sum() == sum(LENGTHS.values())
    filled = fill_gaps(unfilled, fill)
    assert filled.future is not None
    assert expected.future is not None
    np.testing.assert_array_equal(filled.values, expected.values)
    np.testing.assert_array_equal(filled.future, expected.future)
    pd.testing.assert_frame_equal(filled.static, expected.static)
    assert filled.grid.equals(expected.grid)


def test_a_complete_file_has_no_gaps(tmp_path: Path) -> None:
    long_frame().to_csv(tmp_path / "long.csv", index=False)
    unfilled = LongSource(path=tmp_path / "long.csv", **OPTIONS).read_unfilled()
    assert unfilled.in_file.all()
    assert np.isfinite(unfilled.values).all()
    assert unfilled.columns == ("y", "temperature", "price")
