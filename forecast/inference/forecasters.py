"""Forecasters of windows: a trained model, or one of its baselines."""

from collections.abc import Callable, Sequence
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
from forecast.inference.forecast import ForecasterFacts, check_baseline
from forecast.inference.model import TrainedModel
from forecast.linear.covariate_steps import covariates_of_linear, find_covariates
from forecast.models.linear_model import LinearWeights
from forecast.models.residual import Output, take_median
from forecast.system.errors import CheckpointError
from forecast.training.create_model import covariates_of_model, past_of_model

Points = Float[Tensor, "batch steps n_targets"]


def round_up_horizon(horizon: int, pred_len: int) -> int:
    """Round the horizon up to a multiple of pred_len, the number of steps that whole passes forecast."""
    return -(-horizon // pred_len) * pred_len


@torch.inference_mode()
def forecast_recursively(
    step: Callable[[Batch], Tensor],
    point: Callable[[Tensor], Tensor],
    batch: Batch,
    pred_len: int,
    target_index: list[int],
) -> tuple[Points, Output]:
    """Scaled point forecasts of all steps of a batch, and what `step` returned for the first `pred_len` of them.

    Args:
        step: returns scaled forecasts of `pred_len` steps, or quantiles of them.
        point: takes the point forecasts from what `step` returns.
        batch: windows of a multiple of `pred_len` steps. If there are several passes, `step` reads no past of columns
            that it does not forecast: they are 0 in the later passes.
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


class PointForecaster:
    """A forecaster of the windows of a trained model: the model itself, or one of its baselines in its place.

    Attributes:
        name: `model`, or the name of the baseline.
        label: the name in words.
        is_recursive: whether the steps beyond pred_len are forecast from forecasts.
        history: rows before an origin that a forecast reads.
        quantiles: probabilities of the quantiles in the output; None: the output is a point forecast.
        is_refitted: whether it was fitted again after the test, so that its errors are those of the tested model.
    """

    def __init__(self, model: TrainedModel, baseline: Baseline | None = None) -> None:
        self.model, self.baseline = model, baseline
        self.name, self.label, self.is_recursive, self.history = MODEL, "the model", True, model.seq_len
        self.quantiles, self.is_refitted = model.quantiles, model.refitted is not None
        if baseline is not None:
            self.name, self.label = baseline.name, LABELS[baseline.name]
            self.is_recursive, self.quantiles = baseline.is_recursive, None
            self.history = max(model.seq_len, baseline.history)
            self.is_refitted &= baseline.weights is not None

    def forecast(self, windows: Windows, batch: Batch, scaler: Scaler) -> tuple[Points, Output]:
        """Compute the scaled point forecasts of all steps, and the raw output of the first pred_len steps.

        `scaler`: of the targets; it clips the point forecasts to its bounds.
        """

        def clip(output: Tensor) -> Tensor:
            return scaler.clip(take_median(output, self.quantiles), batch.series)

        model, step = self.model, self.model.output
        if self.baseline is not None and not self.is_recursive:
            point = clip(self.baseline(windows, batch))
            return point, point
        if self.baseline is not None:
            step = partial(self.baseline, windows.with_starts(windows.starts, pred_len=model.pred_len))
        return forecast_recursively(step, clip, batch, model.pred_len, model.target_index)

    def covariates_ahead(self, scaled: ScaledPanel) -> Bool[np.ndarray, " covariates"]:
        """Whether each future covariate is read after the forecast origin."""
        if self.baseline is None:
            read = covariates_of_model(self.model.network, scaled, untrained=self.model.is_untrained)
        else:
            weights = self.baseline.weights
            read = {} if weights is None else covariates_of_linear(weights, scaled)
        return np.array([read.get(i, False) for i in range(len(scaled.panel.future_covariates))], dtype=bool)

    def columns_read(self) -> set[str]:
        """The columns whose past is read, beside that of the targets, and the future covariates."""
        model, columns = self.model, set[str]()
        weights = model.network.linear_weights() if self.baseline is None else self.baseline.weights
        if self.baseline is None:
            past = past_of_model(model.network, len(model.feature_columns), untrained=model.is_untrained)
            columns = {model.feature_columns[i] for i in past}
            if weights is None or not model.is_untrained:
                return columns | set(model.data_state["future_covariates"])
        return columns if weights is None else columns | columns_of_linear(model, weights)

    def describe(self) -> list[str]:
        """Lines for the terminal on what forecasts; none for the model that was tested."""
        refit = self.model.refitted
        if self.baseline is not None:
            how = self.baseline.describe()
            return [f"baseline   {self.label} in place of the trained model: {how}"]
        return [f"model      refitted on all {refit['rows']:,} rows, to {refit['last_date']}"] if refit else []

    def tested(self) -> "PointForecaster":
        """The same forecaster before a refit on all rows."""
        return choose_forecaster(self.model.tested(), self.baseline and self.name)

    def facts(self) -> ForecasterFacts:
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


def columns_of_linear(model: TrainedModel, weights: LinearWeights) -> set[str]:
    """The columns that a linear model of the data of `model` reads, see `columns_read`."""
    features, state = model.feature_columns, model.data_state
    covariates, n_time = state["future_covariates"], state["n_time_features"]
    known = covariate_feature_names(covariates, state["known_steps"])
    n_calendar = n_time - len(known) - len(state["static_features"])
    read = find_covariates(weights, n_time, n_calendar, len(covariates))
    past = {features[position % len(features)] for position in weights.past_index.tolist()}
    return past | {covariates[covariate] for covariate in read}


def find_unread_columns(forecasters: Sequence[PointForecaster]) -> frozenset[str]:
    """The columns of a file that none of these forecasters of one model reads; none without forecasters."""
    if not forecasters:
        return frozenset()
    return forecasters[0].model.columns_beside(set().union(*(forecaster.columns_read() for forecaster in forecasters)))


def list_forecasters(model: TrainedModel) -> list[PointForecaster]:
    """The forecasters that a test measures: the model and its baselines. Empty if the run was not tested."""
    if model.baselines is None:
        return []
    return [PointForecaster(model, baseline) for baseline in (None, *model.baselines.baselines().values())]


def choose_forecaster(model: TrainedModel, baseline: object = None) -> PointForecaster:
    """Return what forecasts: the baseline of this name, or for None the model.

    Raises:
        ConfigError: there is no such baseline.
        CheckpointError: the run of the model was not tested, so it holds no baselines.
    """
    if baseline is None:
        return PointForecaster(model)
    check_baseline(baseline)
    if model.baselines is None:
        raise CheckpointError(
            f"{model.path}: its run was not tested, so it holds no baselines; give the folder of a finished run"
        )
    return PointForecaster(model, model.baselines.baselines()[str(baseline)])
