"""The simple rules that a model must beat, on the same windows: naive, seasonal-naive, and a linear map."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from forecast.data import Batch, ForecastData, Windows
from forecast.errors import ConfigError
from forecast.metrics import ErrorSums, window_errors

Baseline = Callable[[Windows, Batch], Tensor]

BATCH = 256  # windows measured at a time


class Naive:
    """Every step repeats the last value."""

    def __call__(self, windows: Windows, batch: Batch) -> Float[Tensor, "batch pred_len n_targets"]:
        last = batch.past[:, -1:, windows.target_index]
        return last.expand(-1, windows.pred_len, -1)


class SeasonalNaive:
    """Every step repeats the value of the latest season that was over at the origin; may read before the window."""

    def __init__(self, season: int) -> None:
        self.season = season

    def __call__(self, windows: Windows, batch: Batch) -> Float[Tensor, "batch pred_len n_targets"]:
        step = torch.arange(windows.pred_len, device=batch.index.device)
        back = step % self.season - self.season  # offsets from the first step forecast, (pred_len,)
        origin = windows.first_row + windows.seq_len + batch.index
        rows = origin[:, None] + back
        if int(rows.min()) < 0:
            raise ConfigError(
                f"data.season={self.season} reaches back before the first row of the table; give a shorter one"
            )
        return windows.values[rows][..., windows.target_index]


class Linear:
    """One linear map for all variables from a window less its mean to the horizon less that mean, by least squares.

    Fitted in closed form on every training window. Windows overlap, so their Gram matrix needs no window ever
    built: G[a, b] = Σᵢ x[i+a]·x[i+b] over window starts i changes from (a, b) to (a+1, b+1) by one product at
    either end. Taking the mean off each window is a projection of G.

    Args:
        ridge: added to the diagonal, as a share of its mean, so that flat data still has an answer.
    """

    def __init__(self, train: Windows, ridge: float = 1e-6) -> None:
        seq_len = train.seq_len
        width = seq_len + train.pred_len
        rows = train.rows[:, train.target_index].double()
        # Windows lose their mean anyway; a large level would eat the digits of the sums.
        gram = sliding_gram(rows - rows.mean(0), width)
        past, cross = gram[:seq_len, :seq_len], gram[:seq_len, seq_len:]
        centre = torch.eye(seq_len, dtype=gram.dtype, device=gram.device) - 1 / seq_len
        cross = centre @ (cross - past.mean(1, keepdim=True))
        past = centre @ past @ centre
        past.diagonal().add_(ridge * past.diagonal().mean() + torch.finfo(gram.dtype).tiny)
        self.weight = torch.linalg.solve(past, cross).float()  # (seq_len, pred_len)

    def __call__(self, windows: Windows, batch: Batch) -> Float[Tensor, "batch pred_len n_targets"]:
        past = batch.past[..., windows.target_index]
        mean = past.mean(1, keepdim=True)
        weight = self.weight.to(past)
        return torch.einsum("blc,lp->bpc", past - mean, weight) + mean


def sliding_gram(rows: Float[Tensor, "rows columns"], width: int) -> Float[Tensor, "width width"]:
    """Σ over windows and columns of the outer product of each window of `width` rows with itself."""
    count = len(rows) - width + 1
    head, tail = rows[: width - 1], rows[count:]  # rows that leave and that enter as the start moves on
    change = tail @ tail.T - head @ head.T
    gram = rows.new_zeros(width, width)
    for column in rows.T:  # first row: Σᵢ x[i]·x[i+b]
        gram[0] += column[:count] @ column.unfold(0, width, 1)
    gram[:, 0] = gram[0]
    for a in range(width - 1):
        gram[a + 1, 1:] = gram[a, :-1] + change[a]
    return gram


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


def baselines(data: ForecastData) -> dict[str, Baseline]:
    """The three rules, fitted on the training windows where they need it."""
    return {
        "naive": Naive(),
        "seasonal_naive": SeasonalNaive(data.season),
        "linear": Linear(data.windows["train"]),
    }


def new_errors(data: ForecastData) -> ErrorSums:
    """Empty sums in the data's units, MASE's denominator taken from the training rows."""
    train = data.windows["train"]
    targets = data.target_scaler
    naive_mae = seasonal_naive_mae(train.rows[:, train.target_index].cpu(), data.season) * targets.scale
    return ErrorSums(data.pred_len, targets.center, targets.scale, naive_mae)


def score(baseline: Baseline, data: ForecastData, split: str = "test") -> tuple[ErrorSums, Tensor]:
    """The errors of a rule over every window of a split, and MSE and MAE of each window (n_windows, 2)."""
    errors, windows = new_errors(data), data.windows[split]
    each = torch.zeros(len(windows), 2, dtype=torch.float64)
    for index in torch.arange(len(windows), device=windows.values.device).split(BATCH):
        batch = windows.gather(index)
        prediction = baseline(windows, batch)
        errors.update(prediction, batch.future)
        each[index.cpu()] = window_errors(prediction, batch.future)
    return errors, each
