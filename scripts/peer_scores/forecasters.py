"""The compared forecasters and their settings, which were fixed before any test score. Standard library only."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Forecaster:
    """A forecaster.

    Attributes:
        library: `forecast`, `lightgbm` or `neuralforecast`.
        model: option of `model` of this project, or a class of neuralforecast.
        settings: for the library, besides those of all its models.
    """

    library: str
    model: str = ""
    settings: dict[str, Any] = field(default_factory=dict)


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

NEURALFORECAST: dict[str, Any] = {
    "max_steps": 1000, "val_check_steps": 100, "early_stop_patience_steps": 3, "windows_batch_size": 128,
    "inference_windows_batch_size": 1024, "random_seed": 1,
}  # fmt: skip
"""The first two are defaults of neuralforecast."""
ROBUST = {"scaler_type": "robust"}
"""Each window is scaled by its own median, as in neuralforecast's tutorials on electricity prices with covariates."""

FORECASTERS = {
    "default model": Forecaster("forecast", "residual_informer"),
    "`model=mlp`": Forecaster("forecast", "mlp"),
    "`model=patch_encoder`": Forecaster("forecast", "patch_encoder"),
    "LightGBM": Forecaster("lightgbm"),
    "NHITS": Forecaster("neuralforecast", "NHITS", ROBUST),
    "TSMixerx": Forecaster("neuralforecast", "TSMixerx"),
    "BiTCN": Forecaster("neuralforecast", "BiTCN", ROBUST),
    "TFT": Forecaster("neuralforecast", "TFT"),
    "TimeXer": Forecaster("neuralforecast", "TimeXer"),
    "PatchTST": Forecaster("neuralforecast", "PatchTST"),
}
