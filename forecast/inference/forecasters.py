"""Forecasters of windows: a trained model, or one of its baselines."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence, Set
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from forecast.data import Batch, Windows
from forecast.data.covariates import covariate_feature_names
from forecast.data.scaled_panel import ScaledPanel
from forecast.data.scaler import Scaler
from forecast.evaluation.baselines import Baseline
from forecast.evaluation.scores import LABELS, MODEL
from forecast.inference.forecast import ForecasterFacts
from forecast.inference.model import TrainedModel
from forecast.inference.options import check_baseline
from forecast.linear.covariate_steps import find_covariates
from forecast.models.linear_model import LinearWeights
from forecast.system.errors import CheckpointError
from forecast.training.create_model import covariates_of_model, past_of_model

Step = Callable[[Batch], Tensor]
"""Function of a batch of windows. Returns scaled forecasts (batch, pred_len, n_targets), or quantiles of them."""

Points = Float[Tensor, "batch steps n_targets"]
Output = Float[Tensor, "batch pred_len n_targets ..."]


def round_up_horizon(horizon: int, pred_len: int) -> int:
    """Round the horizon up to a multiple of pred_len, the number of steps that whole passes forecast."""
    return -(-horizon // pred_len) * pred_len


@torch.inference_mode()
def forecast_recursively(
    step: Step, point: Callable[[Tensor], Tensor], batch: Batch, pred_len: int, target_index: list[int]
) -> tuple[Float[Tensor, "batch steps n_targets"], Float[Tensor, "batch pred_len n_targets ..."]]:
    """Scaled point forecasts of all steps of a batch, and what `step` returned for the first `pred_len` of them.

    Args:
        step: forecasts `pred_len` steps.
        point: takes the point forecasts from what `step` returns.
        batch: windows of a multiple of `pred_len` steps. If there are several passes, `step` reads no past of columns
            that it does not forecast: they are 0 in the later passes.
        pred_len: number of steps of a pass.
        target_index: numbers of the columns that are forecast.
    """
    seq_len, horizon = batch.past.shape[1], batch.future_time.shape[1]
    time = torch.cat([batch.past_time, batch.future_time], dim=1)
    past, parts, first = batch.past, [], None
    for done in range(0, horizon, pred_len):
        window = time[:, done : done + seq_len + pred_len]
        output = step(
            batch._replace(
                past=past,
                past_time=window[:, :seq_len],
                future=batch.future[:, done : done + pred_len],
                future_time=window[:, seq_len:],
            )
        )
        first = output if first is None else first
        parts.append(point(output))
        if done + pred_len < horizon:
            ahead = past.new_zeros(len(past), pred_len, past.shape[2])
            ahead[..., target_index] = parts[-1].to(ahead)
            past = torch.cat([past, ahead], dim=1)[:, -seq_len:]
    assert first is not None
    return torch.cat(parts, dim=1), first


class PointForecaster(ABC):
    """A forecaster of the windows of a trained model: the model itself or a baseline.

    Attributes:
        model: the trained model.
        name: `model`, or the name of the baseline.
        label: the name in words.
        is_recursive: whether the steps beyond pred_len are forecast from forecasts.
        history: rows before an origin that a forecast reads.
        quantiles: probabilities of the quantiles in the output; None: the output is a point forecast.
        is_refitted: whether it was fitted again after the test, so that its errors are those of the tested model.
    """

    model: TrainedModel
    name: str
    label: str
    is_recursive: bool
    history: int
    quantiles: Sequence[float] | None = None
    is_refitted: bool = False

    @abstractmethod
    def forecast(self, windows: Windows, batch: Batch, scaler: Scaler) -> tuple[Points, Output]:
        """Compute the scaled point forecasts of all steps, and the raw output of the first pred_len steps.

        Args:
            windows, batch: the windows, and the batch of them to forecast.
            scaler: of the targets; it clips the point forecasts to its bounds.
        """

    @abstractmethod
    def covariates_ahead(self, scaled: ScaledPanel) -> Bool[np.ndarray, " covariates"]:
        """Whether each future covariate is read after the forecast origin."""

    @abstractmethod
    def columns_read(self) -> set[str]:
        """The columns whose past is read, beside that of the targets, and the future covariates."""

    @abstractmethod
    def describe(self) -> list[str]:
        """Lines for the terminal on what forecasts; none for the model that was tested."""

    @abstractmethod
    def tested(self) -> "PointForecaster":
        """The same forecaster before a refit on all rows."""

    def facts(self) -> ForecasterFacts:
        """The facts that are printed with each of its forecasts."""
        model, domain = self.model, self.model.target_scaler.domain
        return ForecasterFacts(
            name=self.name,
            label=self.label,
            is_recursive=self.is_recursive,
            is_refitted=self.is_refitted,
            pred_len=model.pred_len,
            description=self.describe(),
            domain=domain.describe(model.target_columns),
            has_transforms=domain.has_transforms,
            trained_until=model.trained_until,
            test=model.test,
        )

    def points(self, windows: Windows, batch: Batch, scaler: Scaler) -> Points:
        """The point forecasts of `forecast` alone."""
        return self.forecast(windows, batch, scaler)[0]


class ModelForecaster(PointForecaster):
    """The trained model."""

    name, label, is_recursive = MODEL, "the model", True

    def __init__(self, model: TrainedModel) -> None:
        self.model, self.history, self.quantiles = model, model.seq_len, model.quantiles
        self.is_refitted = model.refitted is not None

    def forecast(self, windows: Windows, batch: Batch, scaler: Scaler) -> tuple[Points, Output]:
        model = self.model
        return forecast_recursively(
            lambda part: model.forecast(part.past, part.past_time, part.future_time),
            lambda output: scaler.clip(model.point(output), batch.series),
            batch,
            model.pred_len,
            model.target_index,
        )

    def covariates_ahead(self, scaled: ScaledPanel) -> Bool[np.ndarray, " covariates"]:
        read = covariates_of_model(self.model.network, scaled, untrained=self.model.is_untrained)
        return mark({covariate for covariate, is_ahead in read.items() if is_ahead}, scaled)

    def columns_read(self) -> set[str]:
        model, linear = self.model, self.model.network.linear_weights()
        past = past_of_model(model.network, len(model.feature_columns), untrained=model.is_untrained)
        columns = {model.feature_columns[i] for i in past}
        if linear is None or not model.is_untrained:
            return columns | set(model.data_state["future_covariates"])
        return columns | columns_of_linear(model, linear)

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
        self.is_recursive = baseline.is_recursive
        self.history = max(model.seq_len, baseline.history)
        self.is_refitted = model.refitted is not None and baseline.weights is not None

    def forecast(self, windows: Windows, batch: Batch, scaler: Scaler) -> tuple[Points, Output]:
        baseline, clip = self.baseline, partial(scaler.clip, series=batch.series)
        if not baseline.is_recursive:
            point = clip(baseline(windows, batch))
            return point, point
        short = windows.with_starts(windows.starts, pred_len=self.model.pred_len)
        return forecast_recursively(
            lambda part: baseline(short, part), clip, batch, self.model.pred_len, self.model.target_index
        )

    def covariates_ahead(self, scaled: ScaledPanel) -> Bool[np.ndarray, " covariates"]:
        return mark(self.baseline.covariates_ahead(scaled), scaled)

    def columns_read(self) -> set[str]:
        weights = self.baseline.weights
        return set() if weights is None else columns_of_linear(self.model, weights)

    def describe(self) -> list[str]:
        return [f"baseline   {self.label} in place of the trained model: {self.baseline.describe()}"]

    def tested(self) -> PointForecaster:
        return choose_forecaster(self.model.tested(), self.name)


def mark(covariates: Set[int], scaled: ScaledPanel) -> Bool[np.ndarray, " covariates"]:
    """Whether each future covariate of a panel is one of these numbers."""
    return np.isin(np.arange(len(scaled.panel.future_covariates)), list(covariates))


def columns_of_linear(model: TrainedModel, weights: LinearWeights) -> set[str]:
    """The columns that a linear model of the data of `model` reads, see `PointForecaster.columns_read`."""
    features, state = model.feature_columns, model.data_state
    covariates, n_time = state["future_covariates"], state["n_time_features"]
    known = covariate_feature_names(covariates, state.get("known_steps", [None] * len(covariates)))
    n_calendar = n_time - len(known) - len(state["static_features"])
    read = find_covariates(weights, n_time, n_calendar, len(covariates))
    past = {features[position % len(features)] for position in weights.past_index.tolist()}
    return past | {covariates[covariate] for covariate in read}


def find_unread_columns(forecasters: Sequence[PointForecaster]) -> frozenset[str]:
    """The columns of a file that none of these forecasters of one model reads; none without forecasters."""
    if not forecasters:
        return frozenset()
    return forecasters[0].model.columns_beside(
        set().union(*(forecaster.columns_read() for forecaster in forecasters))
    )


def list_forecasters(model: TrainedModel) -> list[PointForecaster]:
    """The forecasters that a test measures: the model and its baselines. Empty if the run was not tested."""
    if model.baselines is None:
        return []
    baselines = model.baselines.baselines().values()
    return [ModelForecaster(model), *(BaselineForecaster(model, baseline) for baseline in baselines)]


def choose_forecaster(model: TrainedModel, baseline: object = None) -> PointForecaster:
    """Return what forecasts: the baseline of this name, or for None the model.

    Raises:
        ConfigError: there is no such baseline.
        CheckpointError: the run of the model was not tested, so it holds no baselines.
    """
    if baseline is None:
        return ModelForecaster(model)
    check_baseline(baseline)
    if model.baselines is None:
        raise CheckpointError(
            f"{model.path}: its run was not tested, so it holds no baselines; give the folder of a finished run"
        )
    return BaselineForecaster(model, model.baselines.baselines()[str(baseline)])
