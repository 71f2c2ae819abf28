"""The inputs of a forecast in groups, and the replacement of a group by the values of other windows.

The past of a column is m + (x − m), m the mean of the window. A group replaces either the level m or the values x − m
around it, of all steps or of a block of lags, so that a change of level does not hide what the course of the values
contributes. Known inputs (covariates, calendar features, static features) are replaced as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from forecast.data import Batch, DataModule
from forecast.data.even_spacing import choose_evenly_spaced
from forecast.data.static_features import static_feature_names
from forecast.data.time_features import time_feature_names

MAX_COLUMNS = 32
"""Largest number of columns whose groups are listed one by one; of more columns, these are evenly spaced."""

SINGLE_SEASONS = 7
"""Number of lag blocks of one season each; older blocks are as long as all blocks after them together."""


class InputKind(StrEnum):
    """The inputs that a group replaces."""

    HISTORY = "history"
    LEVEL = "level"
    LAGS = "lags"
    COVARIATE = "future covariate"
    CALENDAR = "calendar"
    STATIC = "static"


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
        if self.kind not in (InputKind.HISTORY, InputKind.LEVEL, InputKind.LAGS):
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
