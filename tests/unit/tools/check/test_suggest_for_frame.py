"""Settings that are suggested for a DataFrame."""

import warnings

import numpy as np
import pandas as pd
import pytest

from forecast.system.errors import DataError
from forecast.tools.check.options import suggest_overrides


def sales(days: int) -> pd.DataFrame:
    """A series whose first two days have no value, of which its reader warns."""
    sold = np.random.default_rng(0).normal(size=days)
    sold[:2] = np.nan
    return pd.DataFrame({"sold": sold}, index=pd.date_range("2021-01-01", periods=days, freq="D", name="ds"))


def test_training_alone_warns_of_the_frame() -> None:
    with warnings.catch_warnings(action="error"):
        found = suggest_overrides(sales(150), {"target": "sold"}, {"pred_len": 4}, ())
    assert any(line.startswith("seq_len=") for line in found)


def test_the_suggestions_are_printed_with_their_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    found = suggest_overrides(sales(150), {"target": "sold"}, {}, {"label_len"})
    assert any(line.startswith("pred_len=") for line in found)
    printed = capsys.readouterr().err
    assert all(f"suggested: {line}  (" in printed for line in found)
    assert "label_len" not in printed


def test_the_warnings_of_a_frame_that_is_refused_are_said() -> None:
    with pytest.warns(UserWarning, match="left out 2 rows before the first value"), pytest.raises(DataError):
        suggest_overrides(sales(6), {"target": "sold"}, {"pred_len": 4}, ())


def test_lengths_without_windows_are_refused_as_in_training() -> None:
    with pytest.raises(DataError, match=r"needs 150 rows \(seq_len=146, pred_len=4\), and there are"):
        suggest_overrides(sales(150), {"target": "sold"}, {"seq_len": 146, "pred_len": 4}, ())
