"""Point forecasts of windows: by the model, or by a baseline in its place."""

from functools import partial

import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor

from forecast.data import Batch, Windows
from forecast.data.scaled_panel import ScaledPanel
from forecast.data.scaler import Scaler
from forecast.evaluation.baselines import Linear
from forecast.evaluation.names import LABELS
from forecast.inference.model import TrainedModel
from forecast.inference.roll import roll
from forecast.system.errors import CheckpointError, ConfigError
from forecast.training.inputs_used import covariates_of_linear, covariates_of_model


def check_baseline(model: TrainedModel, baseline: object) -> None:
    """Raise ConfigError for an unknown baseline, and CheckpointError if the run holds none."""
    if baseline is None:
        return
    if not isinstance(baseline, str) or baseline not in LABELS:
        raise ConfigError(f"baseline={baseline} is not one of {', '.join(LABELS)}; null: the model")
    if model.baselines is None:
        raise CheckpointError(
            f"{model.path}: its run was not tested, so it holds no baselines; give the folder of a finished run"
        )


def reads_own_forecasts(baseline: str | None) -> bool:
    """Whether steps beyond pred_len are forecast from forecasts: by the model, and by the linear baseline."""
    return baseline in (None, "linear")


def covariates_ahead(
    model: TrainedModel, baseline: str | None, scaled: ScaledPanel
) -> Bool[np.ndarray, " covariates"]:
    """Whether the model, or the baseline in its place, reads each future covariate after the forecast origin."""
    if baseline is None:
        read = covariates_of_model(model.network, scaled, untrained=model.is_untrained)
    elif baseline == "linear":
        assert model.baselines is not None, "see check_baseline"
        read = covariates_of_linear(model.baselines.linear, scaled)
    else:
        read = {}
    return np.array(
        [read.get(covariate, False) for covariate in range(len(scaled.panel.future_covariates))], dtype=bool
    )


def forecast_model(
    model: TrainedModel, scaler: Scaler, batch: Batch
) -> tuple[Float[Tensor, "batch steps n_targets"], Float[Tensor, "batch pred_len n_targets ..."]]:
    """Scaled point forecasts of windows of a multiple of pred_len steps, and the output of the first pass.

    `scaler` is that of the targets. It clips the point forecasts to its bounds.
    """
    return roll(
        lambda part: model.forecast(part.past, part.past_time, part.future_time),
        lambda output: scaler.clip(model.point(output), batch.series),
        batch,
        model.pred_len,
    )


def forecast_points(
    model: TrainedModel, baseline: str | None, scaler: Scaler, windows: Windows, batch: Batch
) -> Float[Tensor, "batch steps n_targets"]:
    """Scaled point forecasts of windows of a multiple of pred_len steps; `baseline` None: of the model."""
    if baseline is None:
        return forecast_model(model, scaler, batch)[0]
    assert model.baselines is not None, "see check_baseline"
    chosen = model.baselines.baselines()[baseline]
    clip = partial(scaler.clip, series=batch.series)
    if not isinstance(chosen, Linear):  # repeats values for any number of steps
        return clip(chosen(windows, batch))
    short = windows.over(windows.starts, pred_len=model.pred_len)
    return roll(lambda part: chosen(short, part), clip, batch, model.pred_len)[0]
