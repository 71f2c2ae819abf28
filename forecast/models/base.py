"""The base class of forecasting models: the interface that training, prediction and the tools use."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from forecast.models.attention_layers import AttentionLayer
from forecast.models.layers import DecoderLayer, EncoderLayer
from forecast.models.linear_model import LinearWeights
from forecast.models.size import ModelSize

PointAndScale = tuple[Float[Tensor, "batch pred_len n_features"], Float[Tensor, "batch 1 n_features"]]
LinearForecast = Callable[[Tensor, Tensor, Tensor], PointAndScale]

FULL_WEIGHT = 0.995
"""Shrinkage weights of at least this value are printed as 1."""


class WarmStart(ABC):
    """Statistics of the training data that a model can be fitted to before its first gradient step.

    Each method computes its result when it is called.
    """

    @property
    @abstractmethod
    def target_index(self) -> Sequence[int]:
        """Positions of the target columns among the feature columns."""

    @property
    @abstractmethod
    def time_feature_names(self) -> Sequence[str]:
        """Names of the calendar features, which come first among the time features; covariates follow them."""

    @abstractmethod
    def own_past_weight(self) -> Float[Tensor, "seq_len pred_len"]:
        """Weight W of the linear model ŷ = m + (x − m) W, m the window's mean, fitted on the training windows."""

    @abstractmethod
    def linear_weights(self) -> LinearWeights:
        """Weights of the linear model that also reads the covariates, where they lower its validation error."""

    @abstractmethod
    def error_quantiles(self, forecast: LinearForecast) -> Float[Tensor, "n_targets n_quantiles"]:
        """Quantiles of (truth − point) / scale over training windows.

        `forecast(past, past_time, future_time)` gives point and scale.
        """


class ForecastModel(nn.Module, ABC):
    """A network that maps a scaled window to a scaled forecast. A subclass needs `__init__` and `forward` only.

    The program constructs a model with the keywords of the configuration's group `model` and, from the data,
    `n_features`, `n_targets`, `n_time_features` and `n_quantiles` (1: a point forecast). The attributes and methods
    below are optional; their defaults suit a network that starts at random and has no attention layers.

    Attributes:
        shrinkage: weight in [0, 1], shape (), of the correction that training adds to the warm start's forecast. A
            model that has one registers it as a buffer. Training uses 1; the checkpoint of the best epoch holds the
            weight that the validation windows support (`forecast.training.losses`). None: the model has none.
        label_len: last steps of the past that the decoder reads again.
        patch_len: steps in a token; None: a token is one step.
        tokens: channel handling, `mixed`, `independent`, `joint` or `axes` (`forecast.models.channels`).
        further_variables: names of the variables that attention reads beside the columns.
        future_calendar: whether the model reads the time features of the horizon.
        horizon_input: description of the decoder's input at the horizon, for the pages of `forecast.explain`.
    """

    shrinkage: Tensor | None
    label_len: int = 0
    patch_len: int | None = None
    tokens: str = "mixed"
    further_variables: tuple[str, ...] = ()
    future_calendar: bool = True
    horizon_input: ClassVar[str] = "zeros"

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shrinkage", None)

    @abstractmethod
    def forward(
        self,
        past: Float[Tensor, "batch seq_len n_features"],
        past_time: Float[Tensor, "batch seq_len n_time_features"],
        future_time: Float[Tensor, "batch pred_len n_time_features"],
    ) -> Float[Tensor, "batch pred_len outputs"]:
        """Forecast `pred_len` steps; outputs are n_targets · n_quantiles (see `models.quantile_head`)."""

    @property
    def shrinkage_weight(self) -> float:
        """The shrinkage weight; 1 for a model that has none."""
        return 1.0 if self.shrinkage is None else float(self.shrinkage)

    @property
    def warm_start_name(self) -> str | None:
        """Name of the model after `warm_start`, such as `linear model`, for messages.

        The state before training can be selected as the best checkpoint. None: it cannot.
        """
        return None

    def forecast_untrained(
        self,
        past: Float[Tensor, "batch seq_len n_features"],
        past_time: Float[Tensor, "batch seq_len n_time_features"],
        future_time: Float[Tensor, "batch pred_len n_time_features"],
    ) -> Float[Tensor, "batch pred_len n_targets"] | None:
        """Point forecasts after `warm_start` and before training; None: only `forward` computes them."""
        return None

    def linear_weights(self) -> LinearWeights | None:
        """Weights of the linear model that forecasts before training; None where no linear model does."""
        return None

    def warm_start(self, start: WarmStart) -> None:
        """Fit what can be fitted in closed form, before the first gradient step."""

    def keep_median(self) -> None:
        """Reduce the outputs of each target to the median, in place.

        Called only where a model with a `warm_start_name` is used untrained: its other quantiles mean nothing.
        """
        raise NotImplementedError(f"{type(self).__name__} forecasts untrained, and has no keep_median()")

    def attention_layers(self) -> list[AttentionLayer]:
        """List the attention layers, with the steps of their tokens, in the order of the forward pass."""
        return []

    def shardable_layers(self) -> list[nn.Module]:
        """List the blocks whose parameters FSDP gathers one block at a time."""
        return [module for module in self.modules() if isinstance(module, EncoderLayer | DecoderLayer)]

    @staticmethod
    def estimate_size(settings: Mapping[str, Any], *, n_features: int, n_targets: int) -> ModelSize:
        """Estimate lower bounds of the model's size from its settings, without constructing it."""
        return ModelSize()
