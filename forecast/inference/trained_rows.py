"""Notes on forecasts of rows that the model was trained on."""

import warnings
from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool

from forecast.data import DataModule
from forecast.data.utc_offset import UtcOffset
from forecast.evaluation.backtest import Origins
from forecast.inference.forecaster_facts import note_on_dates
from forecast.inference.model import TrainedModel
from forecast.system.formatting import plural


def count_seen(model: TrainedModel, data: DataModule, origins: Origins) -> dict[str, int]:
    """Count the origins among the `training` rows of a model, and among its `validation` rows after them.

    For rows of the training data, the rows of each series count; for other data, the dates.
    """
    if data.options.split != "test" and data.last_date("train") == model.trained_until:
        trained, validated = (
            origins.rows < data.rows[split].stop[origins.series] for split in ("train", "val")
        )
    else:
        trained, validated = find_seen_dates(model, data.panel.dates(origins.rows))
    return {"training": int(trained.sum()), "validation": int((validated & ~trained).sum())}


def find_seen_dates(
    model: TrainedModel, dates: pd.DatetimeIndex
) -> tuple[Bool[np.ndarray, " dates"], Bool[np.ndarray, " dates"]]:
    """Whether each date lies up to the end of training, and whether up to the end of validation."""
    trained, validated = (
        np.asarray(dates <= pd.Timestamp(last or model.trained_until))
        for last in (model.trained_until, model.validated_until)
    )
    return trained, validated


def describe_ends(model: TrainedModel, utc_offset: UtcOffset) -> tuple[str, str]:
    """The last dates of training and of validation, as the data have them without an offset."""
    ends = model.trained_until, model.validated_until or model.trained_until
    trained, validated = (utc_offset.describe(end, with_offset=False) for end in ends)
    return trained, validated


def note_on_origins(model: TrainedModel, seen: Mapping[str, int], count: int, utc_offset: UtcOffset) -> str:
    """Return a caution if some of `count` origins lie among rows of training (`count_seen`), else an empty string."""
    trained, validated = describe_ends(model, utc_offset)
    until = {"training": trained, "validation": validated}
    parts = [f"{number:,} in {rows} rows (to {until[rows]})" for rows, number in seen.items() if number]
    if not parts:
        return ""
    return (
        f"of {count:,} origins, {' and '.join(parts)}: their errors say little about the errors of new dates; "
        "give fewer steps to backtest later rows only"
    )


def warn_of_seen_windows(model: TrainedModel, data: DataModule) -> None:
    """Warn of windows that forecast rows up to the end of training or validation, where all rows are test rows.

    The warning names the date from which on the rows have no such window. As many rows as in these data are history
    alone.
    """
    panel, windows = data.panel, data.windows["test"]
    rows = windows.origins(torch.arange(len(windows), device=windows.device)).cpu().numpy()
    trained, validated = find_seen_dates(model, panel.dates(rows))
    seen = trained | validated
    if not seen.any():
        return
    trained_until, validated_until = describe_ends(model, panel.utc_offset)
    told = f"{int(trained.sum()):,} forecast rows of training (to {trained_until})"
    if beyond := int((validated & ~trained).sum()):
        told += f" and {beyond:,} rows of validation (to {validated_until})"
    advice = "give later rows"
    if not seen.all():
        history = int((data.rows["test"].first - panel.starts).max())
        first_new = int(panel.grid.get_indexer(panel.dates(rows[~seen])).min())
        (first,) = panel.utc_offset.shown(panel.grid[[first_new - history]])
        advice = f"give the rows from {first} on, which have no such window"
    warnings.warn(
        f"of {plural(len(rows), 'window')}, {told}: their errors say little about the errors of new dates; {advice}",
        stacklevel=3,
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
