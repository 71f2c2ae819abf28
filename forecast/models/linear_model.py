"""The linear model that every `ResidualModel` corrects. The linear baseline has the same layout."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

Past = Float[Tensor, "batch seq_len n_features"]
PastTime = Float[Tensor, "batch seq_len n_time_features"]
FutureTime = Float[Tensor, "batch pred_len n_time_features"]
Horizon = Float[Tensor, "batch pred_len n_features"]
Outputs = Float[Tensor, "batch pred_len outputs"]
Targets = Float[Tensor, "batch pred_len n_targets"]


@dataclass(frozen=True)
class LinearWeights:
    """Weights of a linear model: for each target, ŷ = m + (x − m) W + z C.

    x is the past of the target, m its mean, and z are the covariates that the model reads (`read_covariates`). W is the
    same for every target, C is not.

    Attributes:
        covariates: C (n_targets, n_read, pred_len); n_read is 0 where the model reads no covariates.
        past_index, time_index: the positions of the covariates, see `read_covariates`.
    """

    past_weight: Float[Tensor, "seq_len pred_len"]  # W (seq_len, pred_len)
    covariates: Float[Tensor, "n_targets n_read pred_len"]
    past_index: Int64[Tensor, " n_past"]
    time_index: Int64[Tensor, " n_time"]

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint, by name: those of the covariates only where some are read."""
        read = {"covariates": self.covariates, "past_index": self.past_index, "time_index": self.time_index}
        return {"past_weight": self.past_weight, **(read if self.covariates.shape[1] else {})}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "LinearWeights":
        return cls(**{**without_covariates(tensors["past_weight"]).__dict__, **tensors})

    def to(self, device: torch.device) -> "LinearWeights":
        return LinearWeights(**{name: tensor.to(device) for name, tensor in vars(self).items()})

    def time_features(self, n_time_features: int) -> dict[int, bool]:
        """The numbers of the time features that are read, and whether each is read after the forecast origin."""
        found: dict[int, bool] = {}
        for position in self.time_index.tolist():
            step, feature = divmod(position, n_time_features)
            found[feature] = found.get(feature, False) or step >= len(self.past_weight)
        return found

    def of_covariates(self, centred: Past, past_time: PastTime, future_time: FutureTime) -> Targets:
        """Compute what the covariates add to the forecast of each target: z C."""
        read = read_covariates(centred, past_time, future_time, self.past_index, self.time_index)
        return torch.einsum("br,trp->bpt", read, self.covariates.to(read))


def without_covariates(past_weight: Float[Tensor, "seq_len pred_len"]) -> LinearWeights:
    """Weights of a linear model that reads the past of the target alone."""
    none = torch.zeros(0, dtype=torch.int64)
    return LinearWeights(past_weight, past_weight.new_zeros(1, 0, past_weight.shape[1]), none, none)


def read_covariates(
    centred: Past,
    past_time: PastTime,
    future_time: FutureTime,
    past_index: Int64[Tensor, " n_past"],
    time_index: Int64[Tensor, " n_time"],
) -> Float[Tensor, "batch n_past+n_time"]:
    """The covariates that a linear model reads: values of past covariates and of future covariates.

    Each is relative to the mean of its column over the past of the window.

    Args:
        centred: past of all columns, each minus its mean.
        past_time, future_time: time features of the window.
        past_index: positions step · n_features + column in the past.
        time_index: positions step · n_time_features + column in the past and the horizon together.
    """
    time = torch.cat([past_time, future_time], dim=1) - past_time.mean(1, keepdim=True)
    parts = centred.flatten(1).index_select(1, past_index), time.flatten(1).index_select(1, time_index)
    return torch.cat(parts, dim=1)


class LinearModel(nn.Module):
    """The linear model of `LinearWeights`. Training does not change it.

    The weights are buffers: W is zero until it is set to a weight fitted in closed form, the others are None as long as
    no covariates are read. Cost: seq_len · pred_len for each variable and n_read · pred_len for each target.
    """

    weight: Tensor
    covariates: Tensor | None
    past_index: Tensor | None
    time_index: Tensor | None

    def __init__(self, seq_len: int, pred_len: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(seq_len, pred_len))
        self._make_covariates({})
        self.register_load_state_dict_pre_hook(_make_saved_covariates)

    def _make_covariates(self, shapes: Mapping[str, torch.Size]) -> None:
        """Create the buffers of covariates with these shapes; None where there is no shape."""
        for name, dtype in (("covariates", None), ("past_index", torch.int64), ("time_index", torch.int64)):
            shape = shapes.get(name)
            self.register_buffer(name, None if shape is None else self.weight.new_zeros(shape, dtype=dtype))

    def set_weights(self, weights: LinearWeights) -> None:
        tensors = weights.tensors()
        self.weight.copy_(tensors.pop("past_weight"))
        self._make_covariates({name: tensor.shape for name, tensor in tensors.items()})
        for name, tensor in tensors.items():
            self.get_buffer(name).copy_(tensor)

    @property
    def weights(self) -> LinearWeights:
        if self.covariates is None or self.past_index is None or self.time_index is None:
            return without_covariates(self.weight)
        return LinearWeights(self.weight, self.covariates, self.past_index, self.time_index)

    def forward(
        self, centred: Past, past_time: PastTime, future_time: FutureTime, target_index: Int64[Tensor, " n_targets"]
    ) -> Horizon:
        """Forecast windows relative to their mean: input and output lack m.

        Every column is forecast from its own past; the covariates are added to the columns of the targets.
        """
        # W was fitted in float64, and bfloat16 would lose most of its digits
        with torch.autocast(centred.device.type, enabled=False):
            forecast = (centred.mT @ self.weight).mT
            if self.covariates is None:
                return forecast
            added = self.weights.of_covariates(centred, past_time, future_time)
            columns = torch.arange(forecast.shape[2], device=forecast.device)
            return forecast + added @ (target_index[:, None] == columns).to(added)


def _make_saved_covariates(model: LinearModel, state: Mapping[str, Tensor], prefix: str, *_: Any) -> None:
    """Before weights are loaded, create the buffers that they have: which covariates are read depends on the data."""
    names = ("covariates", "past_index", "time_index")
    model._make_covariates({n: state[prefix + n].shape for n in names if prefix + n in state})
