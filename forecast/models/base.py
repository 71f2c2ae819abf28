"""The base class of forecasting models, the description of their attention layers, and lower bounds of their sizes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor, nn

from forecast.models.layers import Decoder, DecoderLayer, Distil, Encoder, EncoderLayer
from forecast.models.linear_model import FutureTime, Horizon, LinearWeights, Outputs, Past, PastTime, Targets

Slot = Literal["encoder", "decoder", "cross", "variables"]

PointAndScale = tuple[Horizon, Float[Tensor, "batch 1 n_features"]]
LinearForecast = Callable[[Tensor, Tensor, Tensor], PointAndScale]

FULL_WEIGHT = 0.995  # shrinkage weights of at least this value are printed as 1


@dataclass(frozen=True, eq=False)
class Positions:
    """The tokens of a sequence.

    Steps number the window: 0 is the first of the past, seq_len the first of the horizon. A token of several steps
    has the step at its centre.

    `variables`: the number of the variable of each token, in a sequence that holds several variables; else None.
    """

    steps: Int[np.ndarray, " length"]  # the step of each token
    variables: Int[np.ndarray, " length"] | None = None

    @classmethod
    def of(cls, steps: Int[np.ndarray, " some"], variables: Int[np.ndarray, " n"] | None) -> "Positions":
        """These steps of the first variable, then of the second one, and so on; None: of no single variable."""
        if variables is None:
            return cls(steps)
        return cls(np.tile(steps, len(variables)), np.repeat(variables, len(steps)))

    @classmethod
    def join(cls, parts: "Sequence[Positions]") -> "Positions":
        """The tokens of sequences one after another, of which all hold several variables, or none."""
        variables = [part.variables for part in parts if part.variables is not None]
        steps = np.concatenate([part.steps for part in parts])
        return cls(steps, np.concatenate(variables) if variables else None)

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, chosen: slice) -> "Positions":
        return Positions(self.steps[chosen], None if self.variables is None else self.variables[chosen])


@dataclass(frozen=True, eq=False)
class AttentionLayer:
    """One attention layer of a model.

    `queries`, `memory`: the tokens that ask, and those that are read.
    """

    name: str  # the layer's path in the model, as in `named_modules`
    slot: Slot  # part of the model; variables: a layer of the encoder whose positions are the variables of one patch
    number: int  # position among the layers of its encoder or decoder
    queries: Positions
    memory: Positions
    encoder: int | None = None  # position of its encoder in a stack of encoders; None: the model has one encoder


def encoder_attention(
    encoder: Encoder, tokens: Positions, *, name: str = "encoder", encoder_number: int | None = None
) -> list[AttentionLayer]:
    """List the self-attention layers of an encoder that reads `tokens`.

    `name` is the encoder's path in the model, `encoder_number` its position in a stack of encoders.

    A distilling block keeps every second token: token j is the maximum over tokens 2j − 1 … 2j + 1 before the block,
    each mixed with its two neighbours, so its centre is that of token 2j.
    """
    layers = []
    for i in range(len(encoder.layers)):
        if i > 0 and isinstance(encoder.distils[i - 1], Distil):
            tokens = tokens[::2]
        path = f"{name}.layers.{i}.attention"
        layers.append(AttentionLayer(path, "encoder", i, tokens, tokens, encoder_number))
    return layers


def decoder_attention(
    decoder: Decoder, tokens: Positions, encoder_layers: Sequence[AttentionLayer], *, last: int
) -> list[AttentionLayer]:
    """List the self-attention and cross-attention layers of a decoder.

    Its memory is the concatenated outputs of all encoders, so its tokens are those of the last layer of each encoder.

    `last`: number of positions of the output. The last cross-attention answers only these if its queries are
    independent.
    """
    # a later layer replaces an earlier one
    last_layers = {layer.encoder: layer for layer in encoder_layers}.values()
    memory = Positions.join([layer.queries for layer in last_layers])
    layers = []
    for i, layer in enumerate(decoder):
        is_cut = i == len(decoder) - 1 and layer.cross.independent_queries  # type: ignore[union-attr]
        asked = tokens[len(tokens) - last :] if is_cut else tokens
        layers += [
            AttentionLayer(f"decoder.{i}.attention", "decoder", i, tokens, tokens),
            AttentionLayer(f"decoder.{i}.cross", "cross", i, asked, memory),
        ]
    return layers


class WarmStart(NamedTuple):
    """Statistics of the training data that a model can be fitted to before its first gradient step.

    Attributes:
        time_feature_names: names of the calendar features, which come first among the time features; covariates
            follow them.
        linear: weights of the linear model ŷ = m + (x − m) W, m the window's mean, fitted on the training windows; it
            also reads the covariates, where they lower its validation error. None for a model without a
            `warm_start_name`.
        error_quantiles: called with the function `forecast(past, past_time, future_time)`, which gives point and scale;
            it computes quantiles of (truth − point) / scale over training windows (n_targets, n_quantiles).
    """

    target_index: Sequence[int]  # positions of the target columns among the feature columns
    time_feature_names: Sequence[str]
    linear: LinearWeights | None
    error_quantiles: Callable[[LinearForecast], Tensor]


class ModelSize(NamedTuple):
    """Lower bounds of a model's size; 0: unknown."""

    n_layers: int = 0  # layers with parameters of their own
    width: int = 0  # width of the largest matrix products (`d_model`)
    parameters: int = 0  # trainable numbers
    activations: int = 0  # numbers that one window holds while one layer runs
    tables: int = 0  # numbers in fixed tables, such as sinusoidal positions


def estimate_informer_size(settings: Mapping[str, Any], *, n_features: int, n_targets: int) -> ModelSize:
    """Estimate the size of a model with Informer encoder layers.

    Counts the matrix products of attention and feed-forward and the activations of one layer: a run takes more.
    Settings that are not positive whole numbers give an unknown size; the model's constructor refuses them.
    """
    layers = _counts(settings, *(name for name in ("encoder_layers", "decoder_layers") if name in settings))
    sizes = _counts({"patch_len": 1, **settings}, "d_model", "d_ff", "seq_len", "pred_len", "patch_len")
    if not layers or not sizes:
        return ModelSize(n_layers=max(layers, default=0))
    width, inner, past, future, patch = sizes
    attentions = 1 if settings.get("share_layers") else sum(layers)
    tokens = (past + future) // patch
    if settings.get("tokens", "mixed") != "mixed":
        tokens *= n_features if settings["tokens"] in ("joint", "axes") else n_targets
    return ModelSize(
        n_layers=max(layers),
        width=width,
        parameters=attentions * 2 * width**2 + sum(layers) * 2 * width * inner + width * (n_features + n_targets),
        activations=tokens * (6 * width + inner),
        tables=past // patch * width,
    )


def _counts(settings: Mapping[str, Any], *names: str) -> list[int]:
    """Return the named settings; an empty list if one of them is not a positive whole number."""
    values = [settings.get(name) for name in names]
    return [value for value in values if value] if all(type(v) is int and v > 0 for v in values) else []


class ForecastModel(nn.Module, ABC):
    """A network that maps a scaled window to a scaled forecast. A subclass needs `__init__` and `forward` only.

    The program constructs a model with the keywords of the configuration's group `model` and, from the data,
    `n_features`, `n_targets`, `n_time_features` and `n_quantiles` (1: a point forecast). The attributes and methods
    below are optional; their defaults suit a network that starts at random and has no attention layers.

    Attributes:
        shrinkage: weight in [0, 1], shape (), of the correction that training adds to the warm start's forecast. A
            model that has one registers it as a buffer. Training uses 1; the checkpoint of the best epoch holds the
            weight that the validation windows support (`forecast.training.checkpointing`). None: the model has none.
        horizon_input: description of the decoder's input at the horizon, for the pages of `forecast.explain`.
    """

    shrinkage: Tensor | None
    label_len: int = 0  # last steps of the past that the decoder reads again
    patch_len: int | None = None  # steps in a token; None: a token is one step
    tokens: str = "mixed"  # channel handling, `mixed`, `independent`, `joint` or `axes` (`forecast.models.layers`)
    further_variables: tuple[str, ...] = ()  # names of the variables that attention reads beside the columns
    future_calendar: bool = True  # whether the model reads the time features of the horizon
    horizon_input: ClassVar[str] = "zeros"

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shrinkage", None)

    @abstractmethod
    def forward(self, past: Past, past_time: PastTime, future_time: FutureTime) -> Outputs:
        """Forecast `pred_len` steps; outputs are n_targets · n_quantiles (see `models.residual.arrange_quantiles`)."""

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

    def forecast_untrained(self, past: Past, past_time: PastTime, future_time: FutureTime) -> Targets | None:
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
