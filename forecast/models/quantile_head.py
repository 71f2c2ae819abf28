"""The raw outputs of a quantile model: one median and the gaps between neighbouring quantiles.

Each target has an odd number of outputs, one for each quantile. The middle output is the median. Every other output r
stands for a gap, softplus(r − 1), between its quantile and the neighbour nearer to the median; quantiles therefore
cannot cross. An output of 0 is a gap of 0.31, about the distance between the deciles of a standard normal distribution.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


def arrange_quantiles(
    raw: Float[Tensor, "batch pred_len outputs"], n_targets: int
) -> Float[Tensor, "batch pred_len n_targets quantiles"]:
    """Turn raw outputs into increasing quantiles, in float32 or wider: half precision could make neighbours equal."""
    raw = raw.to(torch.promote_types(raw.dtype, torch.float32)).unflatten(-1, (n_targets, -1))
    middle = raw.shape[-1] // 2
    median = raw[..., middle : middle + 1]
    below = raw_to_gap(raw[..., :middle]).flip(-1).cumsum(-1).flip(-1)
    above = raw_to_gap(raw[..., middle + 1 :]).cumsum(-1)
    return torch.cat([median - below, median, median + above], dim=-1)


def take_median(
    forecast: Float[Tensor, "batch pred_len n_targets ..."], quantiles: Sequence[float] | None
) -> Float[Tensor, "batch pred_len n_targets"]:
    """Return the point forecast: the median along the last axis, or the forecast itself without `quantiles`."""
    return forecast if quantiles is None else forecast[..., len(quantiles) // 2]


def raw_to_gap(raw: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Turn raw outputs into positive gaps between quantiles."""
    return F.softplus(raw - 1)


def gap_to_raw(gap: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Turn positive gaps into raw outputs, the inverse of `raw_to_gap`."""
    return gap + (-torch.expm1(-gap)).log() + 1


def set_gaps(layer: nn.Linear, gaps: Float[Tensor, "groups gaps"]) -> None:
    """Set the biases of an output layer whose weights are zero, so that its quantiles lie `gaps` apart.

    The layer has groups · (gaps + 1) outputs; a group is one target, or all targets where they share the layer.
    """
    groups, n_gaps = gaps.shape
    bias, middle = layer.bias.data.unflatten(0, (groups, n_gaps + 1)), n_gaps // 2
    raw = gap_to_raw(gaps)
    bias[:, :middle], bias[:, middle + 1 :] = raw[:, :middle], raw[:, middle:]


def keep_median_outputs(layer: nn.Linear, n_quantiles: int) -> None:
    """Remove, in place, all outputs of a layer but the median of each group of `n_quantiles`."""
    median = slice(n_quantiles // 2, None, n_quantiles)
    layer.weight, layer.bias = nn.Parameter(layer.weight[median]), nn.Parameter(layer.bias[median])
    layer.out_features = len(layer.bias)
