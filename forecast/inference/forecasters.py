"""What forecasts windows: a trained model, or one of its baselines in its place."""

from abc import ABC, abstractmethod
from collections.abc import Sequence, Set
from functools import partial

import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor

from forecast.data import Batch, Windows
from forecast.data.scaled_panel import ScaledPanel
from forecast.data.scaler import Scaler
from forecast.evaluation.baselines import Baseline
from forecast.evaluation.names import LABELS, MODEL
from forecast.inference.model import TrainedModel
from forecast.inference.roll import roll
from forecast.system.errors import CheckpointError, ConfigError
from forecast.training.inputs_used import covariates_of_model

Points = Float[Tensor, "batch steps n_targets"]
Output = Float[Tensor, "batch pred_len n_targets ..."]


class PointForecaster(ABC):
    """What forecasts the windows of a trained model.

    Attributes:
        model: the trained model.
        name: `model`, or the name of the baseline.
        label: the name in words.
        reads_own_forecasts: whether the steps beyond pred_len are forecast from forecasts.
        history: rows before an origin that a forecast reads.
        quantiles: probabilities of the quantiles in the output; None: the output is a point forecast.
        is_refitted: whether it was fitted again after the test, so that its errors are those of the tested model.
    """

    model: TrainedModel
    name: str
    label: str
    reads_own_forecasts: bool
    history: int
    quantiles: Sequence[float] | None = None
    is_refitted: bool = False

    @abstractmethod
    def forecast(self, windows: Windows, batch: Batch, scaler: Scaler) -> tuple[Points, Output]:
        """Compute the scaled point forecasts of windows of a multiple of pred_len steps, and the first output.

        Args:
            windows, batch: the windows, and the batch of them to forecast.
            scaler: of the targets; it clips the point forecasts to its bounds.
        """

    @abstractmethod
    def covariates_ahead(self, scaled: ScaledPanel) -> Bool[np.ndarray, " covariates"]:
        """Whether each future covariate is read after the forecast origin."""

    @abstractmethod
    def describe(self) -> list[str]:
        """Lines for the terminal on what forecasts; none for the model that was tested."""

    @abstractmethod
    def tested(self) -> "PointForecaster":
        """The same forecaster before a refit on all rows."""

    def points(self, windows: Windows, batch: Batch, scaler: Scaler) -> Points:
        """The point forecasts of `forecast` alone."""
        return self.forecast(windows, batch, scaler)[0]


class ModelForecaster(PointForecaster):
    """The trained model."""

    name, label, reads_own_forecasts = MODEL, "the model", True

    def __init__(self, model: TrainedModel) -> None:
        self.model, self.history, self.quantiles = model, model.seq_len, model.quantiles
        self.is_refitted = model.refitted is not None

    def forecast(self, windows: Windows, batch: Batch, scaler: Scaler) -> tuple[Points, Output]:
        model = self.model
        return roll(
            lambda part: model.forecast(part.past, part.past_time, part.future_time),
            lambda output: scaler.clip(model.point(output), batch.series),
            batch,
            model.pred_len,
        )

    def covariates_ahead(self, scaled: ScaledPanel) -> Bool[np.ndarray, " covariates"]:
        read = covariates_of_model(self.model.network, scaled, untrained=self.model.is_untrained)
        return mark({covariate for covariate, is_ahead in read.items() if is_ahead}, scaled)

    def describe(self) -> list[str]:
        refit = self.model.refitted
        return (
            [f"model      refitted on all {refit['rows']:,} rows, to {refit['last_date']}"] if refit else []
        )

    def tested(self) -> PointForecaster:
        return ModelForecaster(self.model.tested())


class BaselineForecaster(PointForecaster):
    """A baseline in place of the trained model."""

    def __init__(self, model: TrainedModel, baseline: Baseline) -> None:
        self.model, self.baseline = model, baseline
        self.name, self.label = baseline.name, LABELS[baseline.name]
        self.reads_own_forecasts = baseline.reads_own_forecasts
        self.history = max(model.seq_len, baseline.history)

    def forecast(self, windows: Windows, batch: Batch, scaler: Scaler) -> tuple[Points, Output]:
        baseline, clip = self.baseline, partial(scaler.clip, series=batch.series)
        if not baseline.reads_own_forecasts:
            point = clip(baseline(windows, batch))
            return point, point
        short = windows.over(windows.starts, pred_len=self.model.pred_len)
        return roll(lambda part: baseline(short, part), clip, batch, self.model.pred_len)

    def covariates_ahead(self, scaled: ScaledPanel) -> Bool[np.ndarray, " covariates"]:
        return mark(self.baseline.covariates_ahead(scaled), scaled)

    def describe(self) -> list[str]:
        return [f"baseline   {self.label} in place of the trained model: {self.baseline.describe()}"]

    def tested(self) -> PointForecaster:
        return choose_forecaster(self.model.tested(), self.name)


def mark(covariates: Set[int], scaled: ScaledPanel) -> Bool[np.ndarray, " covariates"]:
    """Whether each future covariate of a panel is one of these numbers."""
    return np.isin(np.arange(len(scaled.panel.future_covariates)), list(covariates))


def choose_forecaster(model: TrainedModel, baseline: object = None) -> PointForecaster:
    """Return what forecasts: the baseline of this name, or for None the model.

    Raises:
        ConfigError: there is no such baseline.
        CheckpointError: the run of the model was not tested, so it holds no baselines.
    """
    if baseline is None:
        return ModelForecaster(model)
    if not isinstance(baseline, str) or baseline not in LABELS:
        raise ConfigError(f"baseline={baseline} is not one of {', '.join(LABELS)}; null: the model")
    if model.baselines is None:
        raise CheckpointError(
            f"{model.path}: its run was not tested, so it holds no baselines; give the folder of a finished run"
        )
    return BaselineForecaster(model, model.baselines.baselines()[baseline])
