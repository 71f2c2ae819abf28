"""A multilayer perceptron that corrects the forecast of a linear model: a baseline without attention."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.attention.base import check_choice
from forecast.attention.dropout import Dropout
from forecast.models.informer import check_sizes
from forecast.models.patches import StepHead
from forecast.models.residual import ResidualModel
from forecast.models.time_embedding import TimeEmbedding


class ResidualMLP(ResidualModel):
    """Forecast = linear model + shrinkage · correction by a multilayer perceptron; see `ResidualModel`.

    The first layer reads all steps of the past, the linear model's forecast, and all steps of the covariates relative
    to their mean and standard deviation over the past. The head adds the time embedding of each step of the horizon.

    Args:
        n_features, n_targets, n_time_features, n_quantiles, seq_len, pred_len: see `Informer`.
        tokens: `mixed` reads all columns together; `independent` reads each target alone, with the same weights.
        normalize, linear: see `ResidualModel`.
        d_hidden: width of the hidden layers.
        hidden_layers: number of hidden layers.
        d_calendar: width of the time embedding of a step.
        dropout: after each hidden layer.
        label_len, attention: not used; every model of the configuration gets them.

    Raises:
        ValueError: a size is out of range, or `tokens` is none of these.
    """

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
        d_hidden: int = 256,
        hidden_layers: int = 2,
        d_calendar: int = 32,
        dropout: float = 0.3,
    ) -> None:
        check_sizes(seq_len=seq_len, pred_len=pred_len, d_hidden=d_hidden, hidden_layers=hidden_layers)
        check_sizes(d_calendar=d_calendar)
        check_choice("tokens", tokens, ("mixed", "independent"))
        super().__init__(
            n_targets=n_targets, n_quantiles=n_quantiles, seq_len=seq_len, pred_len=pred_len,
            shares_outputs=tokens == "independent", normalize=normalize, linear=linear,
        )  # fmt: skip
        self.tokens = tokens
        columns = n_features if tokens == "mixed" else 1
        width = (seq_len + pred_len) * (columns + n_time_features)
        layers: list[nn.Module] = []
        for _ in range(hidden_layers):
            layers += [nn.Linear(width, d_hidden), nn.GELU(), Dropout(dropout)]
            width = d_hidden
        self.layers = nn.Sequential(*layers)
        self.time_embedding = TimeEmbedding(n_time_features, d_calendar, dropout)
        self.head = StepHead(d_hidden, d_calendar, self.n_outputs, patch_len=pred_len)

    def correct(
        self,
        past: Float[Tensor, "batch seq_len n_features"],
        linear: Float[Tensor, "batch pred_len n_features"],
        past_time: Float[Tensor, "batch seq_len n_time_features"],
        future_time: Float[Tensor, "batch pred_len n_time_features"],
    ) -> Float[Tensor, "batch pred_len outputs"]:
        values = torch.cat([past, linear], dim=1)
        mixed = self.tokens == "mixed"
        channels = values.flatten(1)[:, None] if mixed else values[..., self.target_index].mT
        # the head reads the calendar
        covariates = self.time_embedding.relative_covariates(past_time, future_time).flatten(1)[:, None]
        read = torch.cat([channels, covariates.expand(-1, channels.shape[1], -1)], dim=2)
        steps = self.head(self.layers(read)[:, :, None], self.time_embedding(future_time)[:, None])
        return steps.movedim(1, 2).flatten(2)
