"""Settings that only the user of a file can choose, and the suggestion for a DataFrame."""

import warnings
from collections.abc import Collection, Container, Mapping
from typing import Any

import pandas as pd

from forecast.data import frame_data
from forecast.system.formatting import quote_for_shell, shorten, write_mapping
from forecast.tools.check.diagnosis import Diagnosis, diagnose, warnings_only_with_errors
from forecast.tools.check.settings import Choices, leave_out_typed, print_suggested


def describe_options(diagnosis: Diagnosis, typed: Container[str]) -> list[str]:
    """Settings that depend on what the numbers are, and are not suggested; `typed`: the keys that are set."""
    lines = []
    if any(season.name == "a week" for season in diagnosis.seasons) and "data.holidays" not in typed:
        lines.append(
            "if public holidays matter: data.holidays=COUNTRY, such as US, DE or DE-BY (extra holidays)"
        )
    positive = [
        column.name
        for column in diagnosis.columns
        if column.name in diagnosis.targets and column.minimum >= 0
    ]
    if positive and "data.lower" not in typed:
        if len(positive) == len(diagnosis.targets):
            lines.append(
                "no target is ever negative: if none can be, data.lower=0 keeps forecasts at or above 0"
            )
        else:
            named = shorten(positive)
            example = quote_for_shell(f"data.lower={write_mapping(positive[0], 0)}")
            lines.append(f"never negative: {named}; for one that cannot be: {example}")
    return lines


KEYS = {
    "seq_len", "label_len", "pred_len", "attention", "model", "model.patch_len", "data.batch_size", "data.columns",
    "data.drop", "data.past_covariates", "data.season", "data.transform", "data.steps", "trainer.max_epochs",
}  # fmt: skip
SPLIT = (0.7, 0.1, 0.2)


def suggest_overrides(
    frame: pd.DataFrame | pd.Series,
    columns: Mapping[str, Any],
    chosen: Mapping[str, Any],
    typed: Collection[str],
) -> list[str]:
    """Print the settings that suit a DataFrame, and return them as overrides of the command line.

    Args:
        frame: as `forecast.fit` takes it.
        columns: the arguments of `fit` that name columns.
        chosen: seq_len, label_len, pred_len and features, if the caller sets them.
        typed: the keys that the caller sets, which are left out.

    Returns:
        Overrides.

    Raises:
        DataError: a DataFrame that cannot be used, or whose rows are too few for windows of these lengths.
    """
    options = {
        "name": "frame",
        "split": SPLIT,
        "steps": "dates",
        "seq_len": 1,
        "pred_len": chosen.get("pred_len", 1),
        **columns,
    }
    names = {
        key: columns[key] for key in ("target", "past_covariates", "future_covariates") if key in columns
    }
    choices = Choices(steps="dates", must_fit=True, **chosen, **names)
    with warnings_only_with_errors():
        found = diagnose(lambda **changed: frame_data(frame, **options | changed), choices, lambda _: None)
    for each in found.settings:
        if each.key == "data.na_values":
            warnings.warn(f"{each.why}: replace them by NaN in the DataFrame", stacklevel=2)
    settings = [each for each in leave_out_typed(found.settings, typed) if each.key in KEYS]
    return print_suggested(settings, describe_options(found, typed))
