"""Importance of inputs by permutation, and their contributions to one forecast.

Importance of a group of inputs: the increase of the test error when each window reads this group from another window
(Breiman 2001; Fisher, Rudin and Dominici 2019). Contribution to one forecast: the forecast minus its mean over windows
whose group is read instead. Both need only the forecasts of a model, so they hold for any model.

The past of a column is m + (x − m), m the mean of the window. A group replaces either the level m or the values x − m
around it, of all steps or of a block of lags, so that a change of level does not hide what the course of the values
contributes. Known inputs (covariates, calendar features, static features) are replaced as they are.

Permuted inputs may form windows that never occur, and inputs that carry the same information share their importance
(Hooker, Mentch and Zhou 2021).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from forecast.data import Batch, DataModule, Windows
from forecast.data.covariates import static_feature_names
from forecast.data.time_features import choose_evenly_spaced, time_feature_names
from forecast.inference.model import BATCH_SIZE
from forecast.system.progress import track

MAX_COLUMNS = 32
"""Largest number of columns whose groups are listed one by one; of more columns, these are evenly spaced."""

SINGLE_SEASONS = 7
"""Number of lag blocks of one season each; older blocks are as long as all blocks after them together."""

LAGGED_COLUMNS = 3
"""Number of columns, those with the most important history, whose lag blocks are measured one by one."""

Forecast = Callable[[Batch], Float[Tensor, "batch pred_len n_targets"]]
"""Scaled point forecasts of a batch."""


class InputKind(StrEnum):
    """The inputs that a group replaces."""

    HISTORY = "history"
    LEVEL = "level"
    LAGS = "lags"
    COVARIATE = "future covariate"
    CALENDAR = "calendar"
    STATIC = "static"


PAST = (InputKind.HISTORY, InputKind.LEVEL, InputKind.LAGS)
"""The kinds of groups of the past of columns."""


@dataclass(frozen=True)
class InputGroup:
    """Inputs that are replaced together.

    Attributes:
        kind: the values around the mean of the past (history, or lags for a block of steps), the mean (level), or
            time features (a future covariate, calendar features or a static feature).
        name: name of the column, the covariate or the calendar feature.
        columns: numbers of the columns of `Batch.past` (history, lags, level) or of the time features.
        lags: first and last step of the block, counted back from the first forecast step; None: the whole past.
    """

    kind: InputKind
    name: str
    columns: tuple[int, ...]
    lags: tuple[int, int] | None = None

    @property
    def label(self) -> str:
        """The name, and the lags or the kind."""
        return (
            f"{self.name}, {self.kind}"
            if self.lags is None
            else f"{self.name}, lags {format_lags(self.lags)}"
        )

    def replace(self, batch: Batch, donors: Batch) -> Batch:
        """Replace the group in each window of `batch` by that of the same window of `donors`."""
        columns = list(self.columns)
        if self.kind not in PAST:
            return batch._replace(
                past_time=_replace_columns(batch.past_time, donors.past_time[..., columns], columns),
                future_time=_replace_columns(batch.future_time, donors.future_time[..., columns], columns),
            )
        own, other = batch.past[..., columns], donors.past[..., columns]
        mean, other_mean = own.mean(1, keepdim=True), other.mean(1, keepdim=True)
        if self.kind == InputKind.LEVEL:
            return batch._replace(past=_replace_columns(batch.past, own - mean + other_mean, columns))
        changed = mean + other - other_mean
        if self.lags is not None:
            first, last = self.lags
            steps = slice(own.shape[1] - last, own.shape[1] - first + 1)
            changed = torch.cat([own[:, : steps.start], changed[:, steps], own[:, steps.stop :]], dim=1)
        return batch._replace(past=_replace_columns(batch.past, changed, columns))


def format_lags(lags: tuple[int, int]) -> str:
    """The first and the last lag of a block."""
    return f"{lags[0]}–{lags[1]}" if lags[0] < lags[1] else str(lags[0])


def _replace_columns(values: Tensor, replacement: Tensor, columns: list[int]) -> Tensor:
    """A copy of (batch, steps, all columns) with other values in some of the columns."""
    changed = values.clone()
    changed[..., columns] = replacement
    return changed


def list_inputs(data: DataModule) -> list[InputGroup]:
    """List the groups of a data module: history and level of each column, lag blocks of all, known inputs."""
    columns = columns_of(data.feature_columns, data)
    groups: list[InputGroup] = []
    for kind in (InputKind.HISTORY, InputKind.LEVEL):
        shown = [list(columns.items())[i] for i in choose_evenly_spaced(len(columns), MAX_COLUMNS).tolist()]
        groups += [InputGroup(kind, name, places) for name, places in shown]
        if len(columns) > 1:
            groups.append(InputGroup(kind, name_together(data), tuple(range(data.n_features))))
    together = list_lags(name_together(data), tuple(range(data.n_features)), data)
    return [*groups, *together, *list_known_inputs(data)]


def name_together(data: DataModule) -> str:
    """The name of all columns together; the name of the column if there is one."""
    names = list(columns_of(data.feature_columns, data))
    return names[0] if len(names) == 1 else f"all {len(names)} columns"


def columns_of(names: Sequence[str], data: DataModule) -> dict[str, tuple[int, ...]]:
    """The places of each column among `names`; the indicators of a category are one column."""
    found: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        found.setdefault(data.panel.indicators.get(name, name), []).append(place)
    return {name: tuple(places) for name, places in found.items()}


def list_lags(name: str, columns: tuple[int, ...], data: DataModule) -> list[InputGroup]:
    """List the lag blocks of these columns."""
    return [InputGroup(InputKind.LAGS, name, columns, lags) for lags in lag_blocks(data.seq_len, data.season)]


def lag_blocks(seq_len: int, season: int) -> list[tuple[int, int]]:
    """The first and last lag of each block: the last seven seasons, then blocks of doubling length.

    A past shorter than two seasons is divided into eighths.
    """
    size = season if seq_len >= 2 * season else max(1, -(-seq_len // 8))
    blocks: list[tuple[int, int]] = []
    first = 1
    while first <= seq_len:
        length = size if len(blocks) < SINGLE_SEASONS else first - 1
        last = min(first + length - 1, seq_len)
        blocks.append((first, last))
        first = last + 1
    return blocks


def list_known_inputs(data: DataModule) -> list[InputGroup]:
    """List calendar features, with those of holidays together, then covariates with their masks, and static columns."""
    calendar = time_feature_names(data.freq)
    n_calendar = data.scaled.time.calendar.n_columns
    groups = [InputGroup(InputKind.CALENDAR, name, (i,)) for i, name in enumerate(calendar)]
    if n_calendar > len(calendar):
        groups.append(InputGroup(InputKind.CALENDAR, "holidays", tuple(range(len(calendar), n_calendar))))
    covariates = data.panel.future_covariates
    limits = zip(covariates, data.scaled.scales.known_steps, strict=True)
    covariates = [*covariates, *(name for name, steps in limits if steps is not None)]  # with their masks
    for name, places in columns_of(covariates, data).items():
        groups.append(InputGroup(InputKind.COVARIATE, name, tuple(n_calendar + i for i in places)))
    return groups + _list_static(data, n_calendar + len(covariates))


def _list_static(data: DataModule, first: int) -> list[InputGroup]:
    """List the static columns; the features of a column of texts are one group."""
    groups = []
    for name, encoding in data.scaled.scales.static.items():
        width = len(static_feature_names({name: encoding}))
        groups.append(InputGroup(InputKind.STATIC, name, tuple(range(first, first + width))))
        first += width
    return groups


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
