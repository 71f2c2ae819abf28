"""Training settings that `forecast.check` suggests, for the DataFrame of a caller who chooses none."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from forecast.data import frame_data
from forecast.tools.check.diagnosis import diagnose
from forecast.tools.check.settings import Choices, format_argument

KEYS = {
    "seq_len", "label_len", "attention", "model", "model.patch_len", "data.batch_size", "data.season", "data.transform",
    "data.steps", "trainer.max_epochs",
}  # fmt: skip
SPLIT = (0.7, 0.1, 0.2)


def suggest_overrides(frame: pd.DataFrame, columns: Mapping[str, Any], pred_len: int) -> list[str]:
    """The settings that suit a DataFrame, as overrides of the command line.

    Args:
        frame: as `forecast.fit` takes it.
        columns: the arguments of `fit` that name columns.
        pred_len: steps to forecast.

    Returns:
        Overrides; none if the rows are too few for windows of `pred_len` steps, which training then refuses.

    Raises:
        DataError: a DataFrame that cannot be used.
    """
    options = {
        "name": "frame",
        "split": SPLIT,
        "steps": "dates",
        "seq_len": 1,
        "pred_len": pred_len,
        **columns,
    }
    names = {
        key: columns[key] for key in ("target", "past_covariates", "future_covariates") if key in columns
    }
    choices = Choices(pred_len=pred_len, steps="dates", **names)
    found = diagnose(lambda **changed: frame_data(frame, **options | changed), choices, lambda _: None)
    return [format_argument(each.key, each.value) for each in found.settings if each.key in KEYS]
