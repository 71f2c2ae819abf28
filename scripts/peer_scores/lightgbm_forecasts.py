# pyright: reportMissingImports=false
"""Forecasts by LightGBM: one model for all steps of the horizon, with early stopping on the validation windows."""

from typing import Any

import lightgbm
import numpy as np

from peer_scores.forecasters import LIGHTGBM, MAX_TREES, PATIENCE_TREES
from peer_scores.lightgbm_features import WEEK, make_features, trailing_means
from peer_scores.tasks import Rows
from peer_scores.windows import Forecasts, Split


def forecast(rows: Rows, split: Split, settings: dict[str, Any]) -> tuple[Forecasts, dict[str, Any]]:
    """Train on all training windows, and return the forecasts of the test windows and the number of trees."""
    inputs, outputs = {}, {}
    level = trailing_means(rows.target, WEEK)
    for part in ("train", "val", "test"):
        inputs[part] = make_features(rows, split, part)
        outputs[part] = (rows.target[split.steps(part)] - level[split.starts(part)][:, None]).ravel()
    train = lightgbm.Dataset(inputs["train"], outputs["train"], free_raw_data=True)
    val = lightgbm.Dataset(inputs["val"], outputs["val"], reference=train)
    stop = lightgbm.early_stopping(PATIENCE_TREES, verbose=False)
    booster = lightgbm.train(
        LIGHTGBM | settings, train, num_boost_round=MAX_TREES, valid_sets=[val], callbacks=[stop]
    )
    changes = np.asarray(booster.predict(inputs["test"], num_threads=1)).reshape(-1, split.horizon)
    return changes + level[split.starts("test")][:, None], {"trees": booster.best_iteration}
