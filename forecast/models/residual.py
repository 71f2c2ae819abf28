"""Residual models: the head of quantiles, and what a network is added to.

The raw outputs of a quantile model: one median and the gaps between neighbouring quantiles.

Each target has an odd number of outputs, one for each quantile. The middle output is the median. Every other output r
stands for a gap, softplus(r − 1), between its quantile and the neighbour nearer to the median; quantiles therefore
cannot cross. An output of 0 is a gap of 0.31, about the distance between the deciles of a standard normal distribution.
"""

import inspect
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from forecast.attention.base import check_choice, check_sizes
from forecast.models.base import ForecastModel, PointAndScale, WarmStart
from forecast.models.embedding import StepHead, TimeEmbedding
from forecast.models.linear_model import (
    FutureTime,
    Horizon,
    LinearModel,
    LinearWeights,
    Outputs,
    Past,
    PastTime,
    Targets,
)

EPS = 1e-5  # added to the variance of a window of scaled values
POSITION_SCALE = 0.3  # factor of the sinusoidal positions of tokens, which have a standard deviation of about 1
MIN_GAP = 1e-6  # smallest gap between two quantiles, in scaled values

Output = Float[Tensor, "batch pred_len n_targets ..."]  # point forecasts, or quantiles on one more axis


def arrange_quantiles(raw: Outputs, n_targets: int) -> Float[Tensor, "batch pred_len n_targets quantiles"]:
    """Turn raw outputs into increasing quantiles, in float32 or wider: half precision could make neighbours equal."""
    raw = raw.to(torch.promote_types(raw.dtype, torch.float32)).unflatten(-1, (n_targets, -1))
    middle = raw.shape[-1] // 2
    median = raw[..., middle : middle + 1]
    below = raw_to_gap(raw[..., :middle]).flip(-1).cumsum(-1).flip(-1)
    above = raw_to_gap(raw[..., middle + 1 :]).cumsum(-1)
    return torch.cat([median - below, median, median + above], dim=-1)


def take_median(forecast: Output, quantiles: Sequence[float] | None) -> Targets:
    """Return the point forecast: the median along the last axis, or the forecast itself without `quantiles`."""
    return forecast if quantiles is None else forecast[..., len(quantiles) // 2]


def raw_to_gap(raw: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Turn raw outputs into positive gaps between quantiles."""
    return F.softplus(raw - 1)


def gap_to_raw(gap: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Turn positive gaps into raw outputs, the inverse of `raw_to_gap`."""
    return gap + (-torch.expm1(-gap)).log() + 1


class ResidualModel(ForecastModel):
    """Forecast = linear model + shrinkage · correction. A subclass computes the correction.

    ŷ = m + (x − m) W + z C + λ · s · f((x − m) / s), m and s the mean and standard deviation of the window (RevIN), z
    the covariates, λ the shrinkage weight: 1 in training, then chosen on validation windows. f is zero at the start.

    A subclass sets `time_embedding` and `head`, whose last layer is that of f. Its constructor takes the
    arguments of this class beside its own.

    Args:
        n_features, n_targets, n_time_features, n_quantiles, seq_len, pred_len: see `Informer`.
        label_len, attention: for subclasses that use them; every model of the configuration gets them.
        tokens: channel handling, one of `layouts`; see `forecast.models.layers.ChannelLayout`.
        normalize: divide each window by its standard deviation, and multiply the forecast by it (Kim et al. 2022).
        linear: add to a linear model; otherwise the correction is added to the window's mean.
        d_calendar: width of the time embedding of a step.

    Raises ValueError: a length or size is out of range, or `tokens` is none of `layouts`.
    """

    layouts: ClassVar[tuple[str, ...]]
    target_index: Tensor
    shrinkage: Tensor
    time_embedding: TimeEmbedding
    head: StepHead

    def __init_subclass__(cls) -> None:
        own, common = (inspect.signature(each.__init__).parameters for each in (cls, ResidualModel))
        named = [each for name, each in {**common, **own}.items() if name not in ("self", "common")]
        cls.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]

    def __init__(
        self,
        *,
        n_features: int,
        n_targets: int,
        n_time_features: int,
        n_quantiles: int = 1,
        seq_len: int,
        pred_len: int,
        label_len: int = 0,
        attention: object = None,
        tokens: str = "mixed",
        normalize: bool = True,
        linear: bool = True,
        d_calendar: int = 32,
    ) -> None:
        check_sizes(seq_len=seq_len, pred_len=pred_len, d_calendar=d_calendar)
        check_choice("tokens", tokens, self.layouts)
        super().__init__()
        self.seq_len, self.pred_len, self.n_quantiles = seq_len, pred_len, n_quantiles
        self.n_features, self.n_time_features, self.d_calendar = n_features, n_time_features, d_calendar
        self.tokens, self.normalize = tokens, normalize
        self.shares_outputs = tokens != "mixed"  # all targets share the outputs of `out`
        self.n_outputs = n_quantiles * (1 if self.shares_outputs else n_targets)
        self.register_buffer("target_index", torch.tensor(range(n_targets)))
        self.register_buffer("shrinkage", torch.ones(()))
        self.linear = LinearModel(seq_len, pred_len) if linear else None

    @property
    def out(self) -> nn.Linear:
        """The last layer of the correction, whose weights are zero at the start."""
        return self.head.out

    @abstractmethod
    def correct(self, past: Past, linear: Horizon, past_time: PastTime, future_time: FutureTime) -> Outputs:
        """Compute the correction of windows of mean 0 and standard deviation 1, with the linear model's forecast."""

    @property
    def warm_start_name(self) -> str | None:
        return None if self.linear is None else "linear model"

    def forecast_untrained(self, past: Past, past_time: PastTime, future_time: FutureTime) -> Targets:
        """Forecasts of the linear model: the correction is zero before training, and is not computed."""
        point, _ = self.forecast_linear(past, past_time, future_time)
        return point[..., self.target_index]

    def linear_weights(self) -> LinearWeights | None:
        return None if self.linear is None else self.linear.weights

    def warm_start(self, start: WarmStart) -> None:
        """Set the linear model, the target columns, the calendar features and the gaps between quantiles.

        A target without measured values, whose quantiles are NaN, gets the mean gaps of the others.
        """
        self.target_index.copy_(torch.tensor(start.target_index))
        self.time_embedding.set_calendar_features(start.time_feature_names)
        if self.linear is not None:
            assert start.linear is not None
            self.linear.set_weights(start.linear)
        if self.n_quantiles == 1:
            return
        # in standard deviations of a window
        gaps = start.error_quantiles(self.forecast_linear).diff(dim=1).float()
        gaps = torch.where(gaps.isnan(), gaps.nanmean(0), gaps).nan_to_num(0.0).clamp(min=MIN_GAP)
        raw = gap_to_raw(gaps.mean(0, keepdim=True) if self.shares_outputs else gaps)
        bias, middle = self.out.bias.data.unflatten(0, (len(raw), self.n_quantiles)), self.n_quantiles // 2
        bias[:, :middle], bias[:, middle + 1 :] = raw[:, :middle], raw[:, middle:]

    def keep_median(self) -> None:
        layer, median = self.out, slice(self.n_quantiles // 2, None, self.n_quantiles)
        layer.weight, layer.bias = nn.Parameter(layer.weight[median]), nn.Parameter(layer.bias[median])
        layer.out_features = len(layer.bias)
        self.n_quantiles = 1

    def forecast_linear(self, past: Tensor, past_time: Tensor, future_time: Tensor) -> PointAndScale:
        """Return the forecast of the linear model alone, and the standard deviation of each window."""
        mean = past.mean(1, keepdim=True)
        return mean + self._linear(past - mean, past_time, future_time), self.window_std(past - mean)

    def _linear(self, centred: Tensor, past_time: Tensor, future_time: Tensor) -> Tensor:
        if self.linear is None:
            return centred.new_zeros(centred.shape[0], self.pred_len, centred.shape[2])
        return self.linear(centred, past_time, future_time, self.target_index)

    def window_std(self, centred: Past) -> Float[Tensor, "batch 1 n_features"]:
        """Compute the standard deviation of windows without their mean; 1 where windows are not normalised."""
        if not self.normalize:
            return torch.ones_like(centred[:, :1])
        return torch.sqrt(centred.square().mean(1, keepdim=True) + EPS)

    def forward(self, past: Past, past_time: PastTime, future_time: FutureTime) -> Outputs:
        mean = past.mean(1, keepdim=True)
        centred = past - mean
        scale, linear = self.window_std(centred), self._linear(centred, past_time, future_time)
        correction = self.correct(centred / scale, linear / scale, past_time, future_time)
        correction = correction.unflatten(2, (-1, self.n_quantiles))
        scale, point = (  # faster than indexing
            values.index_select(2, self.target_index)[..., None] for values in (scale, mean + linear)
        )
        median = point + self.shrinkage * scale * correction
        if self.n_quantiles == 1:
            return median.flatten(2)
        # The middle output of a target is its median, the others are gaps between quantiles.
        gaps = (scale * raw_to_gap(correction)).clamp(min=MIN_GAP)
        is_median = torch.arange(self.n_quantiles, device=past.device) == self.n_quantiles // 2
        return torch.where(is_median, median, gap_to_raw(gaps)).flatten(2)
