"""Importance of inputs by permutation, and their contributions to one forecast.

Importance of a group of inputs: the increase of the test error when each window reads this group from another window
(Breiman 2001; Fisher, Rudin and Dominici 2019). Contribution to one forecast: the forecast minus its mean over windows
whose group is read instead. Both need only the forecasts of a model, so they hold for any model.

Permuted inputs may form windows that never occur, and inputs that carry the same information share their importance
(Hooker, Mentch and Zhou 2021).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from forecast.data import Batch, DataModule, Windows
from forecast.inference.model import BATCH_SIZE
from forecast.system.progress import track
from forecast.tools.explain.inputs import (
    MAX_COLUMNS,
    InputGroup,
    InputKind,
    list_inputs,
    list_lags,
    name_together,
)

LAGGED_COLUMNS = 3
"""Number of columns, those with the most important history, whose lag blocks are measured one by one."""

PAST = (InputKind.HISTORY, InputKind.LEVEL, InputKind.LAGS)
"""The kinds of groups of the past of columns."""

Forecast = Callable[[Batch], Float[Tensor, "batch pred_len n_targets"]]
"""Scaled point forecasts of a batch."""


@dataclass(frozen=True)
class Score:
    """Errors over windows: MSE of scaled values, and MAE in original units, mean over the targets."""

    mse: float
    mae: float


@dataclass(frozen=True)
class Importance:
    """The increase of the errors when a group is permuted: mean and standard deviation over the repeats."""

    group: InputGroup
    mse: float
    mse_std: float
    mae: float
    mae_std: float


class WindowSample:
    """Windows of one split, and as many others whose inputs replace theirs.

    The windows are evenly spaced, with a random offset each, so that they meet every phase of the season. The others
    are drawn in the same way from all steps of the split, also those that data.eval_stride leaves out.

    Args:
        windows: the windows that are scored.
        every: the windows at all steps of the split.
        most: number of windows at most.
        seed: seed of the offsets and of the permutations.
    """

    def __init__(
        self, data: DataModule, windows: Windows, every: Windows, *, most: int, seed: int = 0
    ) -> None:
        self.data = data
        self.random = np.random.default_rng(seed)
        index = choose_windows(len(windows), most, self.random)
        self.batch = windows.gather(torch.from_numpy(index))
        if len(every) > len(windows):
            index = choose_windows(len(every), len(index), self.random)
        self.others = every.gather(torch.from_numpy(index))

    def __len__(self) -> int:
        return len(self.batch.index)

    def permute(self) -> Batch:
        """The other windows in a new random order, in which no window stays at its place."""
        order = self.random.permutation(len(self))
        donor = np.empty_like(order)
        donor[order] = np.roll(order, 1)
        return take(self.others, torch.from_numpy(donor))

    def score(self, forecast: Forecast, batch: Batch) -> Score:
        """Score the forecasts of a batch that differs from the sample in its inputs."""
        scaler, series = self.data.target_scaler, batch.series
        found = scaler.clip(torch.cat([forecast(part) for part in split(batch)]), series)
        scaled = scaler.error_values(found, series) - scaler.error_values(batch.future, series)
        in_units = scaler.inverse(found, series) - scaler.inverse(batch.future, series)
        by_target = in_units.abs().nanmean((0, 1))
        return Score(float(scaled.square().nanmean()), float(by_target.nanmean()))


def choose_windows(count: int, most: int, random: np.random.Generator) -> Int64[np.ndarray, " chosen"]:
    """One of the numbers 0 … count − 1 from each of `most` equal parts; all numbers if there are not more."""
    if count <= most:
        return np.arange(count)
    edges = np.linspace(0, count, most + 1).round().astype(np.int64)
    return random.integers(edges[:-1], edges[1:])


def measure_importance(forecast: Forecast, sample: WindowSample, repeats: int) -> list[Importance]:
    """Measure the importance of all groups.

    Lag blocks are measured for all columns together, then for each of the `LAGGED_COLUMNS` whose history matters most.
    If the forecasts depend on one of several columns, all columns together are left out: they would repeat this column.
    All groups are permuted in the same way in each repeat.
    """
    donors = [sample.permute() for _ in range(repeats)]
    unchanged = sample.score(forecast, sample.batch)

    def measure(groups: Sequence[InputGroup], what: str) -> Iterator[Importance]:
        for group in track(groups, what):
            scores = [sample.score(forecast, group.replace(sample.batch, others)) for others in donors]
            mse = np.array([score.mse for score in scores]) - unchanged.mse
            mae = np.array([score.mae for score in scores]) - unchanged.mae
            yield Importance(
                group, float(mse.mean()), float(mse.std(ddof=1)), float(mae.mean()), float(mae.std(ddof=1))
            )

    data = sample.data
    together = name_together(data)
    found = list(measure(list_inputs(data), "Permuting inputs"))
    singles = [one for one in found if one.group.kind in PAST and one.group.name != together]
    read = {one.group.name for one in singles if one.mse or one.mse_std}
    if len(read) == 1 and len(data.feature_columns) <= MAX_COLUMNS:
        found = [one for one in found if one.group.name != together or one.group.kind not in PAST]
    lagged = [one for one in singles if one.group.kind == InputKind.HISTORY and one.group.name in read]
    lagged.sort(key=lambda one: -one.mse)
    groups = [one.group for one in lagged[:LAGGED_COLUMNS]]
    blocks = [lags for group in groups for lags in list_lags(group.name, group.columns, data)]
    found += measure(blocks, "Permuting lags")
    return found


def contributions(
    forecast: Forecast, window: Batch, sample: WindowSample, groups: Sequence[InputGroup]
) -> Float64[np.ndarray, "groups pred_len n_targets"]:
    """The contribution of each group to the forecast of one window, in original units.

    Contributions do not add up to the forecast where inputs interact.
    """
    repeated = take(window, torch.zeros(len(sample), dtype=torch.int64))

    def in_units(batch: Batch) -> Float64[Tensor, "batch pred_len n_targets"]:
        found = torch.cat([forecast(part) for part in split(batch)])
        return sample.data.unscale_targets(found, batch.series)

    own = in_units(window)[0]
    changed = [group.replace(repeated, sample.others) for group in groups]
    return torch.stack(
        [own - in_units(batch).mean(0) for batch in track(changed, "Replacing inputs")]
    ).numpy()


def take(batch: Batch, index: Int64[Tensor, " chosen"]) -> Batch:
    """The windows of a batch with these positions."""
    return Batch(*(part[index] for part in batch))


def split(batch: Batch) -> Iterator[Batch]:
    """Batches of at most `BATCH_SIZE` windows."""
    for index in torch.arange(len(batch.index)).split(BATCH_SIZE):
        yield take(batch, index)
