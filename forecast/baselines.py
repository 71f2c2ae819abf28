"""The simple rules that a model must beat, on the same windows: naive, seasonal-naive, and a linear map."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from forecast.data import Batch, ForecastData, SeriesData, Windows
from forecast.data.series_windows import SeriesWindows
from forecast.data.stored import StoredWindows
from forecast.errors import ConfigError
from forecast.linear_map import solve, window_gram
from forecast.metrics import ErrorSums, window_errors
from forecast.series_baselines import seasonal_naive_mae_by_series
from forecast.series_errors import SeriesErrorSums

Baseline = Callable[[Windows, Batch], Tensor]

BATCH = 256  # windows measured at a time


class Naive:
    """Every step repeats the last value."""

    def __call__(self, windows: Windows, batch: Batch) -> Float[Tensor, "batch pred_len n_targets"]:
        last = batch.past[:, -1:, windows.target_index]
        return last.expand(-1, windows.pred_len, -1)


class SeasonalNaive:
    """Every step repeats the value of the latest season that was over at the origin; may read before the window.

    Of many series, one that has no whole season before the origin repeats its last value.
    """

    def __init__(self, season: int) -> None:
        self.season = season

    def __call__(self, windows: Windows, batch: Batch) -> Float[Tensor, "batch pred_len n_targets"]:
        step = torch.arange(windows.pred_len, device=batch.index.device)
        back = step % self.season - self.season  # offsets from the first step forecast, (pred_len,)
        rows = windows.origins(batch.index)[:, None] + back
        if isinstance(windows, SeriesWindows):
            last = windows.origins(batch.index)[:, None] - 1
            rows = torch.where(rows < windows.begins(batch.index)[:, None], last, rows)
        if int(rows.min()) < 0:
            raise ConfigError(
                f"data.season={self.season} reaches back before the first row of the table; give a shorter one"
            )
        return windows.values[rows][..., windows.target_index]


class Linear:
    """One linear map for all variables from a window less its mean to the horizon less that mean, by least squares.

    Fitted in closed form on every training window; of many series and of stores on a sample of them
    (`forecast.linear_map`).

    Args:
        weight: (seq_len, pred_len).
    """

    def __init__(self, weight: Float[Tensor, "seq_len pred_len"]) -> None:
        self.weight = weight

    @classmethod
    def fit(cls, train: Windows, ridge: float = 1e-6) -> "Linear":
        """`ridge` is added to the diagonal, as a share of its mean, so that flat data still has an answer."""
        return cls(solve(window_gram(train), train.seq_len, ridge).float())

    def __call__(self, windows: Windows, batch: Batch) -> Float[Tensor, "batch pred_len n_targets"]:
        past = batch.past[..., windows.target_index]
        mean = past.mean(1, keepdim=True)
        weight = self.weight.to(past)
        return torch.einsum("blc,lp->bpc", past - mean, weight) + mean


def seasonal_naive_mae(
    train_rows: Float[Tensor, "rows n_targets"], season: int
) -> Float[Tensor, " n_targets"]:
    """MASE's denominator: mean |y(t) − y(t − season)| over the training rows (Hyndman and Koehler 2006)."""
    if season >= len(train_rows):
        raise ConfigError(
            f"data.season={season} needs more training rows than the {len(train_rows)} there are"
        )
    rows = train_rows.double()
    return (rows[season:] - rows[:-season]).abs().mean(0)


def seasonal_naive_mae_in_parts(train: StoredWindows, season: int) -> Float[Tensor, " n_targets"]:
    """The same of the rows that training windows cover, a part in memory at a time."""
    total, count = torch.zeros(len(train.target_index), dtype=torch.float64), 0
    for part in train.parts(overlap=season):
        rows = part[:, train.target_index].double()
        total += (rows[season:] - rows[:-season]).abs().sum(0)
        count += max(0, len(rows) - season)
    return total / count


@dataclass(frozen=True)
class FittedBaselines:
    """What the rules and MASE take from the training rows; kept in checkpoints, so that every later score uses it.

    linear: the linear map's weight (seq_len, pred_len); naive_mae: seasonal-naive MAE of the training rows in data
    units, one a target (n_targets,), or of many series (series, n_targets), whose names are `ids`; season: rows.
    """

    linear: Float[Tensor, "seq_len pred_len"]
    naive_mae: Float[Tensor, "*series n_targets"]
    season: int
    ids: Sequence[str] | None = None

    @classmethod
    def fit(cls, data: ForecastData) -> "FittedBaselines":
        """From the training windows and rows of `data`."""
        train = data.windows["train"]
        if isinstance(data, SeriesData):
            targets = train.values[:, train.target_index]
            naive_mae = seasonal_naive_mae_by_series(targets, *data.series_rows["train"], data.season)
            naive_mae = naive_mae * data.target_scaler.scale
            return cls(Linear.fit(train).weight.cpu(), naive_mae, data.season, data.panel.ids.tolist())
        if isinstance(train, StoredWindows):
            naive_mae = seasonal_naive_mae_in_parts(train, data.season)
            return cls(Linear.fit(train).weight, naive_mae * data.target_scaler.scale, data.season)
        (rows,) = train.covered()
        naive_mae = seasonal_naive_mae(rows[:, train.target_index].cpu(), data.season)
        return cls(Linear.fit(train).weight.cpu(), naive_mae * data.target_scaler.scale, data.season)

    def rules(self) -> dict[str, Baseline]:
        return {"naive": Naive(), "seasonal_naive": SeasonalNaive(self.season), "linear": Linear(self.linear)}

    def new_errors(self, data: ForecastData) -> ErrorSums:
        """Empty sums of errors in the data's units."""
        targets = data.target_scaler
        if isinstance(data, SeriesData):
            assert self.ids is not None
            naive_mae = data.by_name(self.naive_mae, self.ids)
            return SeriesErrorSums(data.pred_len, targets.center, targets.scale, naive_mae)
        return ErrorSums(data.pred_len, targets.center, targets.scale, self.naive_mae)

    def state_dict(self) -> dict[str, Tensor | int]:
        """All but the names, which the data's state holds."""
        return {"linear": self.linear, "naive_mae": self.naive_mae, "season": self.season}


def score(
    baseline: Baseline, data: ForecastData, errors: ErrorSums, split: str = "test"
) -> tuple[ErrorSums, Tensor]:
    """The errors of a rule over every window of a split, added to `errors`, and MSE and MAE of each window."""
    windows = data.windows[split]
    each = torch.zeros(len(windows), 2, dtype=torch.float64)
    for index in torch.arange(len(windows), device=windows.values.device).split(BATCH):
        batch = windows.gather(index)
        prediction = baseline(windows, batch)
        errors.update(prediction, batch.future, windows.series(index))
        each[index.cpu()] = window_errors(prediction, batch.future)
    return errors, each
