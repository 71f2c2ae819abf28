# pyright: reportMissingImports=false
"""The Informers of neuralforecast and transformers, with the sizes of this project's Informer and on its batches."""

from typing import Any

import torch
import torch.nn.functional as F
from neuralforecast.models import Informer
from torch import Tensor
from transformers import InformerConfig, InformerForPrediction

from forecast.data.windows import Batch

from .options import Sizes

TIME_FEATURES = ["hour", "day_of_week", "day_of_month", "day_of_year"]


class NeuralforecastInformer:
    """The univariate Informer of neuralforecast: each column of a window is a separate window."""

    name = "neuralforecast"

    def __init__(self, sizes: Sizes, *, seq_len: int, label_len: int, pred_len: int, factor: int) -> None:
        self.model = Informer(
            h=pred_len,
            input_size=seq_len,
            futr_exog_list=TIME_FEATURES,
            hidden_size=sizes.d_model,
            n_head=sizes.n_heads,
            conv_hidden_size=sizes.d_ff,
            encoder_layers=2,
            decoder_layers=1,
            dropout=sizes.dropout,
            factor=factor,
        )
        # The constructor takes label_len as a fraction of input_size below 1; forward reads this attribute only.
        self.model.label_len = label_len

    def predict(self, batch: Batch) -> Tensor:
        """Forecast a batch: (batch, pred_len, columns)."""
        columns = batch.past.shape[2]
        series = batch.past.transpose(1, 2).flatten(0, 1)[..., None]  # (batch · columns, seq_len, 1)
        time = torch.cat([batch.past_time, batch.future_time], dim=1).repeat_interleave(columns, dim=0)
        forecast = self.model({"insample_y": series, "futr_exog": time})
        return forecast.view(-1, columns, forecast.shape[1]).transpose(1, 2).float()

    def loss(self, batch: Batch) -> Tensor:
        return F.mse_loss(self.predict(batch), batch.future)


class TransformersInformer:
    """The multivariate Informer of transformers. The input at each step is the values of the previous step.

    A past of seq_len rows therefore gives seq_len − 1 encoder positions, which together read all rows.
    """

    name = "transformers"

    def __init__(self, sizes: Sizes, *, columns: int, seq_len: int, pred_len: int, factor: int) -> None:
        config = InformerConfig(
            prediction_length=pred_len,
            context_length=seq_len - 1,
            input_size=columns,
            lags_sequence=[1],
            scaling=None,
            num_time_features=len(TIME_FEATURES),
            d_model=sizes.d_model,
            encoder_attention_heads=sizes.n_heads,
            decoder_attention_heads=sizes.n_heads,
            encoder_ffn_dim=sizes.d_ff,
            decoder_ffn_dim=sizes.d_ff,
            encoder_layers=2,
            decoder_layers=1,
            dropout=sizes.dropout,
            attention_dropout=sizes.dropout,
            activation_dropout=sizes.dropout,
            encoder_layerdrop=0.0,
            decoder_layerdrop=0.0,
            attention_type="prob",
            sampling_factor=factor,
            distil=True,
            num_parallel_samples=1,
        )
        self.model = MeanPath(config)
        self.model.train()

    def predict(self, batch: Batch) -> Tensor:
        """Forecast a batch step by step in evaluation mode: (batch, pred_len, columns)."""
        return self.model.generate(**inputs(batch)).sequences[:, 0]

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of the model: the negative log-likelihood of Student's t."""
        return self.model(**inputs(batch), future_values=batch.future).loss


class MeanPath(InformerForPrediction):
    """An Informer that feeds the mean of each step back in evaluation, instead of a sample: one path is enough."""

    def output_distribution(self, *args: Any, **options: Any) -> torch.distributions.Distribution:
        distribution = super().output_distribution(*args, **options)
        if not self.training:
            distribution.sample = lambda: distribution.mean
        return distribution


def inputs(batch: Batch) -> dict[str, Tensor]:
    return {
        "past_values": batch.past,
        "past_time_features": batch.past_time,
        "past_observed_mask": torch.ones_like(batch.past),
        "future_time_features": batch.future_time,
    }
