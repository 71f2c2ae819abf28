"""The suggestion of a transform for targets with outliers."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from forecast.data import DataModule, csv_data
from forecast.tools.check.columns import find_sentinel
from forecast.tools.check.relations import suggest_transform

RANDOM = np.random.default_rng(0)
EVEN, HEAVY = RANDOM.normal(size=400), RANDOM.standard_t(2, size=400)


def data(folder: Path, **options: object) -> DataModule:
    dates = pd.date_range("2024-01-01", periods=400, freq="h", name="date")
    pd.DataFrame({"even": EVEN, "heavy": HEAVY}, dates).to_csv(folder / "mine.csv")
    return csv_data(
        path=folder / "mine.csv", name="mine", seq_len=24, pred_len=6, split=[0.7, 0.1, 0.2], **options
    )


def test_targets_with_outliers_are_named(tmp_path: Path) -> None:
    assert stats.kurtosis(HEAVY) > 10 > stats.kurtosis(EVEN)
    train = [np.stack([EVEN, HEAVY], axis=1)]
    (setting,) = suggest_transform(train, ["even", "heavy"], data(tmp_path))
    assert (setting.key, setting.value) == ("data.transform", "auto")
    assert "outliers in heavy;" in setting.why


def test_series_are_judged_one_by_one(tmp_path: Path) -> None:
    """Two levels of two series are no outliers."""
    train = [EVEN[:, None], 1000 + EVEN[:20, None]]
    assert suggest_transform(train, ["even"], data(tmp_path)) == []


def test_nothing_is_suggested_beside_a_choice_or_for_constants(tmp_path: Path) -> None:
    assert suggest_transform([HEAVY[:, None]], ["heavy"], data(tmp_path, transform="asinh")) == []
    assert suggest_transform([np.ones((50, 1))], ["one"], data(tmp_path)) == []
    assert suggest_transform([], ["heavy"], data(tmp_path)) == []


def test_rare_days_marked_by_one_are_no_outliers(tmp_path: Path) -> None:
    marks = (np.arange(400) % 40 == 0).astype(float)[:, None]
    assert stats.kurtosis(marks[:, 0]) > 10
    assert suggest_transform([marks], ["holiday"], data(tmp_path)) == []


@pytest.mark.parametrize(("code", "found"), [(-9999.0, -9999.0), (-99.99, -99.99), (-99.5, None)])
def test_codes_for_missing_values(code: float, found: float | None) -> None:
    """Whole numbers, and numbers of nines, that lie far from all others."""
    values = np.r_[RANDOM.normal(350, 10, 500), np.full(5, code)]
    assert find_sentinel(values) == found
