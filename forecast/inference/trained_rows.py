"""Notes on forecasts of rows that the model was trained on."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from forecast.data import DataModule
from forecast.evaluation.backtest import Origins
from forecast.inference.forecaster_facts import note_on_dates
from forecast.inference.model import TrainedModel


def count_seen(model: TrainedModel, data: DataModule, origins: Origins) -> dict[str, int]:
    """Count the origins among the `training` rows of a model, and among its `validation` rows after them.

    For rows of the training data, the rows of each series count; for other data, the dates.
    """
    if data.options.split != "test" and data.last_date("train") == model.trained_until:
        trained, validated = (
            origins.rows < data.rows[split].last[origins.series] for split in ("train", "val")
        )
    else:
        dates = data.panel.dates(origins.rows)
        trained, validated = (
            np.asarray(dates <= pd.Timestamp(last or model.trained_until))
            for last in (model.trained_until, model.validated_until)
        )
    return {"training": int(trained.sum()), "validation": int((validated & ~trained).sum())}


def note_on_origins(model: TrainedModel, seen: Mapping[str, int], count: int) -> str:
    """Return a caution if some of `count` origins lie among rows of training (`count_seen`), else an empty string."""
    until = {"training": model.trained_until, "validation": model.validated_until}
    parts = [f"{number:,} in {rows} rows (to {until[rows]})" for rows, number in seen.items() if number]
    if not parts:
        return ""
    return (
        f"of {count:,} origins, {' and '.join(parts)}: their errors say little about the errors of new dates; "
        "give fewer steps to backtest later rows only"
    )


def note_on_test(model: TrainedModel, data: DataModule) -> str:
    """Return a caution if the first test date of a series was trained on, as after a refit; else an empty string.

    With several series, the test of one may begin before the training of another ends. They are therefore examined
    only if all their rows are test rows.
    """
    if len(data.panel) > 1 and data.options.split != "test":
        return ""
    first, last = data.rows["test"]
    return note_on_dates(model.trained_until, data.panel.dates(first[first < last]), data.panel.utc_offset)
