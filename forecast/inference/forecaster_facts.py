"""Facts about a model or baseline that are printed with each of its forecasts. Imports no torch."""

from dataclasses import dataclass

import pandas as pd

from forecast.data.utc_offset import UtcOffset
from forecast.evaluation.reported_scores import ReportedScores


@dataclass(frozen=True)
class ForecasterFacts:
    """Facts on a model or baseline that describe its forecasts, in values that JSON can hold.

    Attributes:
        name: `model`, or the name of the baseline.
        label: the name in words.
        is_recursive: whether the steps beyond pred_len are forecast from forecasts.
        is_refitted: whether it was fitted again after the test.
        pred_len: steps that are forecast at once.
        description: lines for the terminal on what forecasts.
        domain: transforms and bounds of the targets in words; empty if there are none.
        has_transforms: whether a target is transformed.
        trained_until: last date of the training rows.
        test: scores of the test; None without a test.
    """

    name: str
    label: str
    is_recursive: bool
    is_refitted: bool
    pred_len: int
    description: list[str]
    domain: str
    has_transforms: bool
    trained_until: str
    test: ReportedScores | None


def note_on_dates(trained_until: str, dates: pd.DatetimeIndex, utc_offset: UtcOffset) -> str:
    """Return a caution if any of these dates of the grid was trained on, else an empty string."""
    if not (dates <= pd.Timestamp(trained_until)).any():
        return ""
    shown = utc_offset.describe(trained_until, with_offset=False)
    return f"dates to {shown} were trained on: their errors say little about the errors of new dates"
