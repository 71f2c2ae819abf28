# pyright: reportMissingImports=false
"""Forecasts by LightGBM: one model for all columns and steps, with early stopping on the validation windows."""

import math
from typing import Any

import lightgbm
import numpy as np
from jaxtyping import Float32, Float64

from peer_scores.forecasters import MAX_ROWS, MAX_TREES, PATIENCE_TREES
from peer_scores.lightgbm_features import make_features, trailing_means
from peer_scores.rows import Rows, interpolate
from peer_scores.tasks import Task
from peer_scores.windows import Forecasts, Split


def forecast(
    rows: Rows, task: Task, split: Split, settings: dict[str, Any]
) -> tuple[Forecasts, dict[str, Any]]:
    """Train a model, and return the forecasts of the test windows and the number of trees."""
    targets = interpolate(split.standardise(rows.targets))
    data = {
        part: lightgbm.Dataset(*make_samples(rows, targets, task, split, part), categorical_feature=[0])
        for part in ("train", "val")
    }
    data["val"].set_reference(data["train"])
    stop = lightgbm.early_stopping(PATIENCE_TREES, verbose=False)
    booster = lightgbm.train(
        settings, data["train"], num_boost_round=MAX_TREES, valid_sets=[data["val"]], callbacks=[stop]
    )
    starts, forecasts = split.starts("test"), []
    for column, target in enumerate(targets.T):
        features = add_column(make_features(rows, target, task, split, starts), column)
        changes = np.asarray(booster.predict(features, num_threads=1)).reshape(-1, split.horizon)
        level = trailing_means(target, split.seq_len)[starts]
        forecasts.append(changes + level[:, None])
    return np.stack(forecasts), {"trees": booster.best_iteration}


def make_samples(
    rows: Rows, targets: Float64[np.ndarray, "rows columns"], task: Task, split: Split, part: str
) -> tuple[Float32[np.ndarray, "samples features"], Float64[np.ndarray, " samples"]]:
    """Return features and outputs of every window of each column, or of one in k if there are too many."""
    starts = split.starts(part)
    stride = math.ceil(len(starts) * split.horizon * task.columns / MAX_ROWS)
    starts = starts[::stride]
    inputs, outputs = [], []
    for column, target in enumerate(targets.T):
        inputs.append(add_column(make_features(rows, target, task, split, starts), column))
        level = trailing_means(target, split.seq_len)[starts]
        outputs.append((target[split.steps(starts)] - level[:, None]).ravel())
    return np.concatenate(inputs), np.concatenate(outputs)


def add_column(
    features: Float32[np.ndarray, "samples features"], column: int
) -> Float32[np.ndarray, "samples with_column"]:
    """Put the number of the forecast column before the features."""
    return np.concatenate([np.full((len(features), 1), column, np.float32), features], axis=1)
