"""Importance of inputs by permutation.

Importance of a group of inputs: the increase of the test error when each window reads this group from another window
(Breiman 2001; Fisher, Rudin and Dominici 2019). It needs only the forecasts of a model, so it holds for any model.

The past of a column is m + (x − m), m the mean of the window. A group replaces either the level m or the values x − m
around it, of all steps or of a block of lags, so that a change of level does not hide what the course of the values
contributes. Known inputs (covariates, calendar features, static features) are replaced as they are.

Permuted inputs may form windows that never occur, and inputs that carry the same information share their importance
(Hooker, Mentch and Zhou 2021).
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from forecast.data import Batch, DataModule, Windows
from forecast.data.covariates import static_feature_names
from forecast.data.time_features import choose_evenly_spaced, time_feature_names
from forecast.inference.model import BATCH_SIZE
from forecast.system.progress import track

MAX_COLUMNS = 32  # whose groups are listed one by one; of more columns, these are evenly spaced
SINGLE_SEASONS = 7  # lag blocks of a season; older ones are as long as all blocks after them together

Forecast = Callable[[Batch], Float[Tensor, "batch pred_len n_targets"]]  # scaled


class InputKind(StrEnum):
    """The inputs that a group replaces."""

    HISTORY = "history"
    LEVEL = "level"
    LAGS = "lags"
    COVARIATE = "future covariate"
    CALENDAR = "calendar"
    STATIC = "static"


PAST = (InputKind.HISTORY, InputKind.LEVEL, InputKind.LAGS)


class InputGroup(NamedTuple):
    """Inputs that are replaced together.

    They are the values around the mean of the past (history, or lags for a block of steps), the mean (level), or time
    features (a future covariate, calendar features or a static feature).
    """

    kind: InputKind
    name: str  # of the column, the covariate or the calendar feature
    columns: tuple[int, ...]  # numbers of columns of `Batch.past` (history, lags, level) or of time features
    lags: tuple[int, int] | None = None  # first and last, back from the origin; None: the whole past

    @property
    def label(self) -> str:
        """The name, and the lags or the kind."""
        if self.lags is None:
            return f"{self.name}, {self.kind}"
        first, last = self.lags
        return f"{self.name}, lags {first}–{last}" if first < last else f"{self.name}, lag {first}"

    def replace(self, batch: Batch, donors: Batch) -> Batch:
        columns = list(self.columns)
        if self.kind not in PAST:
            time = {name: getattr(batch, name).clone() for name in ("past_time", "future_time")}
            for name, features in time.items():
                features[..., columns] = getattr(donors, name)[..., columns]
            return batch._replace(**time)
        past, own, other = batch.past.clone(), batch.past[..., columns], donors.past[..., columns]
        mean, other_mean = own.mean(1, keepdim=True), other.mean(1, keepdim=True)
        if self.kind == InputKind.LEVEL:
            past[..., columns] = own - mean + other_mean
        else:
            first, last = self.lags or (1, past.shape[1])
            steps = slice(past.shape[1] - last, past.shape[1] - first + 1)
            past[:, steps, columns] = (mean + other - other_mean)[:, steps]
        return batch._replace(past=past)


def list_inputs(data: DataModule) -> list[InputGroup]:
    """List the groups of a data module: history and level of each column, lag blocks of all, known inputs."""
    columns = columns_of(data.feature_columns, data)
    every, shown = tuple(range(data.n_features)), choose_evenly_spaced(len(columns), MAX_COLUMNS).tolist()
    groups = dict([*columns.items()][place] for place in shown)
    together = next(iter(columns)) if len(columns) == 1 else f"all {len(columns)} columns"
    groups[together] = every
    return [
        *(InputGroup(kind, *group) for kind in PAST[:2] for group in groups.items()),
        *(InputGroup(PAST[2], together, every, lags) for lags in lag_blocks(data.seq_len, data.season)),
        *list_known_inputs(data),
    ]


def columns_of(names: Sequence[str], data: DataModule) -> dict[str, tuple[int, ...]]:
    """The places of each column among `names`; the indicators of a category are one column."""
    found: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        found.setdefault(data.panel.indicators.get(name, name), []).append(place)
    return {name: tuple(places) for name, places in found.items()}


def lag_blocks(seq_len: int, season: int) -> list[tuple[int, int]]:
    """The first and last lag of each block: the last seven seasons, then blocks of doubling length.

    A past shorter than two seasons is divided into eighths.
    """
    size = season if seq_len >= 2 * season else max(1, -(-seq_len // 8))
    blocks: list[tuple[int, int]] = []
    last = 0
    while last < seq_len:
        first = last + 1
        last = min(last + (size if len(blocks) < SINGLE_SEASONS else last), seq_len)
        blocks.append((first, last))
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
    first = n_calendar + len(covariates)
    # the features of a column of texts are one group
    for name, encoding in data.scaled.scales.static.items():
        last = first + len(static_feature_names({name: encoding}))
        groups.append(InputGroup(InputKind.STATIC, name, tuple(range(first, last))))
        first = last
    return groups


class Importance(NamedTuple):
    """The increase of the MSE of scaled values when a group is permuted: mean and deviation over the repeats."""

    group: InputGroup
    mse: float
    mse_std: float


class WindowSample:
    """Windows of one split, and as many others whose inputs replace theirs.

    The windows are evenly spaced, with a random offset each, so that they meet every phase of the season. The others
    are drawn in the same way from the windows at all steps of the split (`every`), also those that data.eval_stride
    leaves out.
    """

    def __init__(self, data: DataModule, windows: Windows, every: Windows, *, most: int) -> None:
        self.data = data
        self.random = np.random.default_rng(0)  # of the offsets and of the permutations
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

    def score(self, forecast: Forecast, batch: Batch) -> float:
        """The MSE of scaled values of the forecasts of a batch that differs from the sample in its inputs."""
        scaler, series = self.data.target_scaler, batch.series
        parts = torch.arange(len(batch.index)).split(BATCH_SIZE)
        found = scaler.clip(torch.cat([forecast(take(batch, part)) for part in parts]), series)
        errors = scaler.error_values(found, series) - scaler.error_values(batch.future, series)
        return float(errors.square().nanmean())


def choose_windows(count: int, most: int, random: np.random.Generator) -> Int64[np.ndarray, " chosen"]:
    """One of the numbers 0 … count − 1 from each of `most` equal parts; all numbers if there are not more."""
    if count <= most:
        return np.arange(count)
    edges = np.linspace(0, count, most + 1).round().astype(np.int64)
    return random.integers(edges[:-1], edges[1:])


def measure_importance(forecast: Forecast, sample: WindowSample, repeats: int) -> list[Importance]:
    """Measure the importance of all groups, which are permuted in the same way in each repeat."""
    donors = [sample.permute() for _ in range(repeats)]
    unchanged = sample.score(forecast, sample.batch)
    found = []
    for group in track(list_inputs(sample.data), "Permuting inputs"):
        scores = [sample.score(forecast, group.replace(sample.batch, others)) for others in donors]
        increase = np.array(scores) - unchanged
        found.append(Importance(group, float(increase.mean()), float(increase.std(ddof=1))))
    return found


def tabulate_importance(found: Sequence[Importance]) -> pd.DataFrame:
    """One row for each group: its kind, its name, the lags of a block of lags, and its importance."""
    rows = [
        (one.group.kind.value, one.group.name, *(one.group.lags or (None, None)), one.mse, one.mse_std) for one in found
    ]
    table = pd.DataFrame(rows, columns=["part", "input", "first_lag", "last_lag", "mse", "mse_std"])
    return table.astype({"first_lag": "Int64", "last_lag": "Int64"})


def take(batch: Batch, index: Int64[Tensor, " chosen"]) -> Batch:
    """The windows of a batch with these positions."""
    return Batch(*(part[index] for part in batch))
