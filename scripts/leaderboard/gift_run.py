"""Train on the rows before the first origin of a setting of GIFT-Eval, and score the forecasts of all origins."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from forecast import Model, fit
from leaderboard.fev_tables import TableTask
from leaderboard.gift_scores import Deciles, Forecast, Past, score_forecasts
from leaderboard.gift_settings import Setting
from leaderboard.run import CONTEXT, LEVELS, Row, score_with_baseline, stack_deciles

VALIDATION_SHARE, VALIDATION_SEQUENCES = 0.15, 4_000
SERIES, DATE, VALUE = "series", "date", "value"
TABLE_WINDOWS, SERIES_WINDOWS = 2_000, 6_000
"""Windows of an epoch: of all series of a table, and of one series."""
COMMON = ["model.tokens=independent", "trainer.max_epochs=6", "logger=[]", "pictures=false"]
"""Overrides of every run: a series is forecast from its own past."""


def run_setting(
    setting: Setting | TableTask,
    root: Path,
    model: str,
    overrides: list[str],
    score: Callable[[Any, Past, Forecast], dict[str, float]] = score_forecasts,
) -> list[Row]:
    """Train a model, and return its row and that of the linear baseline of the same run.

    The working directory receives a run folder. Seconds are those of the processor.
    """
    values, inputs = setting.read(root).to_numpy(dtype=np.float64), setting.read_inputs(root)
    rows = inputs.iloc[: setting.origins(len(inputs))[0]]
    return score_with_baseline(
        setting.name,
        (model, "linear baseline"),
        lambda: train(setting, rows, [f"model={model}", *overrides]),
        lambda trained, baseline: score(
            setting, values, lambda origin: predict(setting, trained, inputs.iloc[:origin], baseline)
        ),
        time.process_time,
    )


def train(setting: Setting | TableTask, rows: pd.DataFrame, overrides: list[str]) -> Model:
    """Train on nine deciles: the epoch is selected on the last rows, then the model is trained on all rows.

    The test, whose scores are not read, has one window. Validation has the rows before it.
    """
    test = len(rows) - setting.horizon
    n_validation = max(int(VALIDATION_SHARE * len(rows)), 3 * setting.horizon)
    stride = max(1, n_validation * len(rows.columns) // VALIDATION_SEQUENCES)
    split = ",".join(f"'{rows.index[row]}'" for row in (test - n_validation, test))
    frame, layout = arrange_rows(setting, rows)
    return fit(
        frame,
        **layout,
        attention="full",
        seq_len=setting.seq_len,
        pred_len=setting.horizon,
        loss="quantile",
        levels=list(LEVELS),
        refit="full",
        windows_per_epoch=SERIES_WINDOWS if layout else TABLE_WINDOWS,
        overrides=[*COMMON, f"data.split=[{split}]", f"data.eval_stride={stride}", *overrides],
    )


def arrange_rows(setting: Setting | TableTask, rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the frame of `fit` and `predict`, and the arguments of `fit` that describe it.

    The columns of a table begin together. The series of m4_hourly do not, and are rows of a long frame.
    """
    if setting.dataset != "m4_hourly":
        return rows, {}
    frame = rows.T.rename_axis(index=SERIES).melt(var_name=DATE, value_name=VALUE, ignore_index=False)
    return frame.reset_index().dropna(), {"target": VALUE, "id_column": SERIES, "date_column": DATE}


def predict(
    setting: Setting | TableTask, trained: Model, past: pd.DataFrame, baseline: str | None
) -> Deciles:
    """Forecast the steps after `past`, a table of all series."""
    frame, layout = arrange_rows(setting, past.iloc[-CONTEXT * setting.seq_len :])
    found = trained.predict(frame, levels=LEVELS, baseline=baseline)
    if not layout:
        return np.stack([stack_deciles(found, name) for name in past], axis=1)
    return np.stack([stack_deciles(found.loc[name], VALUE) for name in past], axis=1)
