"""Notes on forecasts of rows that the model was trained on."""

import pandas as pd

from forecast.data import DataModule
from forecast.inference.model import TrainedModel


def note_on_dates(model: TrainedModel, dates: pd.DatetimeIndex) -> str:
    """Return a caution if any of these dates was trained on, else an empty string."""
    if not (dates <= pd.Timestamp(model.trained_until)).any():
        return ""
    return f"dates to {model.trained_until} were trained on: their errors say little about the errors of new dates"


def note_on_test(model: TrainedModel, data: DataModule) -> str:
    """Return a caution if the first test date of a series was trained on, as after a refit; else an empty string.

    One of several series may be tested before the training of another one ends: several series are looked at only where
    all their rows are the test split.
    """
    if len(data.panel) > 1 and data.options.split != "test":
        return ""
    first, last = data.rows["test"]
    return note_on_dates(model, data.panel.dates(first[first < last]))
