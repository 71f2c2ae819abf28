"""The compared forecasters and their settings, which were fixed before any test score. Standard library only."""

from dataclasses import dataclass, field
from typing import Any

from peer_scores.tasks import Task


@dataclass(frozen=True)
class Forecaster:
    """A forecaster.

    Attributes:
        library: `forecast`, `lightgbm` or `neuralforecast`.
        model: option of `model` of this project, or a class of neuralforecast.
        one_column_settings: for the library on tasks of one column, besides those of all its models.
        multivariate: a window of the model holds all columns.
    """

    library: str
    model: str = ""
    one_column_settings: dict[str, Any] = field(default_factory=dict)
    multivariate: bool = False


LIGHTGBM = {
    "objective": "l2",
    "learning_rate": 0.1,
    "num_leaves": 31,
    "seed": 1,
    "num_threads": 1,
    "verbose": -1,
}
"""Defaults of LightGBM for the objective, the rate and the leaves."""
MAX_TREES, PATIENCE_TREES = 1000, 50
MAX_ROWS = 4_000_000
"""Rows of features in training and validation; a window has one for each step of the horizon and column."""

NEURALFORECAST: dict[str, Any] = {
    "max_steps": 1000, "val_check_steps": 100, "early_stop_patience_steps": 3, "windows_batch_size": 128,
    "inference_windows_batch_size": 1024, "random_seed": 1,
}  # fmt: skip
"""The first two are defaults of neuralforecast."""
WINDOWS, MAX_BATCH = 32, 256
"""With several columns, a batch holds that many windows of each, as in this project, but at most `MAX_BATCH` windows of
one column."""
STEP = 11
"""With several columns, training and validation windows begin every `STEP` rows: models of one column copy all of them
at every step. No day of a task is a multiple of 11 steps, so that windows begin at every time of the day."""
ROBUST = {"scaler_type": "robust"}
"""Each window is scaled by its own median, as in neuralforecast's tutorials on electricity prices with covariates. It
fails on weather, where windows without rain have no deviation."""
SMALL_BATCH = {"windows_batch_size": 32}
"""A step of 128 windows takes TFT 4 s of one core."""
TIMEXER = {"windows_batch_size": 32, "learning_rate": 1e-4, "patch_len": 24}
"""The batch is the default of the library, the rest that of the authors' code for electricity prices. With the rate of
the library, 1e-3, validation errors on the prices of NP and DE hardly fall below those before training."""

FORECASTERS = {
    "default model": Forecaster("forecast", "residual_informer"),
    "`model=mlp`": Forecaster("forecast", "mlp"),
    "`model=patch_encoder`": Forecaster("forecast", "patch_encoder"),
    "LightGBM": Forecaster("lightgbm"),
    "NHITS": Forecaster("neuralforecast", "NHITS", ROBUST),
    "TSMixerx": Forecaster("neuralforecast", "TSMixerx", multivariate=True),
    "BiTCN": Forecaster("neuralforecast", "BiTCN", ROBUST),
    "TFT": Forecaster("neuralforecast", "TFT", SMALL_BATCH),
    "TimeXer": Forecaster("neuralforecast", "TimeXer", TIMEXER, multivariate=True),
    "PatchTST": Forecaster("neuralforecast", "PatchTST"),
}


def list_settings(task: Task, forecaster: Forecaster) -> dict[str, Any]:
    """Return the settings of a peer on a task."""
    if forecaster.library == "lightgbm":
        return LIGHTGBM
    if task.columns == 1:
        return NEURALFORECAST | forecaster.one_column_settings
    size = WINDOWS if forecaster.multivariate else min(WINDOWS * task.columns, MAX_BATCH)
    return NEURALFORECAST | {"windows_batch_size": size, "step_size": STEP}
