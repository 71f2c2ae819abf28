"""Sample paths of a forecast: draws from its quantiles in the order of past errors.

The Schaake shuffle (Clark et al. 2004; Schefzik et al. 2013) draws each step of each target and series from its own
quantiles, and sample path i takes the draw whose rank is that of the error of one past forecast, an error trajectory,
at that step. The sample paths are thus spread at each step as its intervals say, and hang together over steps and
targets as real errors do. With more sample paths than trajectories, each trajectory is used several times, and random
numbers order the draws of equal rank.
"""

from collections.abc import Sequence

import pandas as pd
import torch
from jaxtyping import Float, Float64, Int64, UInt8
from torch import Tensor

from forecast.data.time_features import choose_evenly_spaced
from forecast.evaluation.scores import FEW_HORIZONS

MAX_TRAJECTORIES, MIN_TRAJECTORIES = 200, 20  # error trajectories; the fewest, however many values they have
MAX_RANKS = 1 << 20  # of a forecaster (1 MiB), beyond which there are fewer than `MAX_TRAJECTORIES`
OUTERMOST = 1e-6  # the smallest probability that is drawn, and the distance of the largest one from 1

Ranks = UInt8[Tensor, "trajectories ranked steps n_targets"]


def rank_trajectories(
    errors: Float[Tensor, "windows steps n_targets"],
    horizons: int | float,
    joint: Int64[Tensor, "series dates"] | None = None,
) -> Ranks:
    """Rank the errors of each step over evenly spaced windows; equal errors have the same rank.

    A trajectory has the errors of one date in all series (`ranked`) if the common dates hold enough horizons, else
    those of one window of any series. Missing errors are completed along the steps, relative to the size of the errors
    of each step. Dates on which a series has no error of a target do not count, unless none has one.

    Args:
        errors: NaN where the truth is missing.
        horizons: number of horizons that the rows of the windows hold.
        joint: the numbers of the windows of each series on the dates that all have (`Windows.align`).
    """
    known = ~errors.isnan().all((0, 1))

    def drop_incomplete(windows: Tensor) -> Tensor:
        return windows[~(windows.isnan().all(2) & known).any((1, 2))]

    windows = drop_incomplete(errors[:, None])
    if joint is not None and MIN_TRAJECTORIES * errors[0].numel() * len(joint) <= MAX_RANKS:
        on_common = drop_incomplete(errors[joint].transpose(0, 1))
        if horizons * len(on_common) / len(errors) >= FEW_HORIZONS:
            windows = on_common
    most = min(max(MAX_RANKS // windows[0].numel(), MIN_TRAJECTORIES), MAX_TRAJECTORIES)
    relative = windows[choose_evenly_spaced(len(windows), most)] / errors.square().nanmean(0).sqrt()
    if relative.isnan().any():
        by_step = relative.movedim(2, 0)
        table = pd.DataFrame(by_step.flatten(1).numpy()).interpolate(limit_direction="both")
        relative = torch.tensor(table.to_numpy()).view_as(by_step).movedim(0, 2).nan_to_num(0.0)
    values = relative.movedim(0, -1).contiguous()
    return torch.searchsorted(values.sort().values, values).movedim(-1, 0).byte()


def draw_sample_paths(
    quantiles: Float[Tensor, "series steps n_targets quantiles"],
    at: Sequence[float],
    ranks: Ranks,
    n_paths: int,
    seed: int,
) -> Float64[Tensor, "series steps n_targets paths"]:
    """Draw sample paths that have the given quantiles, in the order of error trajectories.

    Args:
        at: probabilities of the quantiles, of which one is 0.5.
        ranks: of the error trajectories of each series, which are then drawn jointly, or of one (`ranked` is 1) for
            series that are drawn independently.
    """
    generator, series = torch.Generator().manual_seed(int(seed)), torch.arange(len(quantiles))[:, None]
    rounds = -(-n_paths // len(ranks))
    chosen = torch.cat([torch.randperm(len(ranks), generator=generator) for _ in range(rounds)])[:n_paths]
    if ranks.shape[1] == 1:
        chosen, series = chosen[torch.rand(len(series), n_paths, generator=generator).argsort()], 0 * series
    order = ranks[chosen, series].movedim(1, -1)  # (series, steps, n_targets, paths)
    places = (order + torch.rand(order.shape, generator=generator)).argsort().argsort()
    drawn = (places + torch.rand(order.shape, generator=generator)).double() / n_paths
    return interpolate_quantiles(quantiles, at, drawn)


def interpolate_quantiles(
    quantiles: Float[Tensor, "*shape quantiles"],
    at: Sequence[float],
    probability: Float64[Tensor, "*shape probabilities"],
) -> Float64[Tensor, "*shape probabilities"]:
    """Quantiles at other probabilities, which increase with them.

    A quantile is linear in the quantile of the standard normal distribution between two that are known. Beyond the
    outermost ones, it continues on the line from the median through them.
    """
    known, z = quantiles.double().sort().values, torch.special.ndtri(torch.tensor(at, dtype=torch.float64))
    wanted = torch.special.ndtri(probability.clamp(OUTERMOST, 1 - OUTERMOST))
    end = -torch.special.ndtri(torch.tensor([OUTERMOST], dtype=torch.float64))
    median = known[..., [at.index(0.5)]]
    outer = median + (known[..., [0, -1]] - median) * end / z[[0, -1]].abs()
    known, z = torch.cat([outer[..., :1], known, outer[..., 1:]], dim=-1), torch.cat([-end, z, end])
    right = torch.searchsorted(z, wanted.contiguous()).clamp(1, len(z) - 1)
    low, high = known.gather(-1, right - 1), known.gather(-1, right)
    return torch.lerp(low, high, (wanted - z[right - 1]) / (z[right] - z[right - 1]))
