"""How far an exported file's forecasts lie from PyTorch's, on real windows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float64, Int64
from torch import Tensor, nn

from forecast.attention import ProbSparseAttention
from forecast.data import Batch, ForecastData, Windows
from forecast.data.calendar import time_features
from forecast.data.series_scaler import of_one_table
from forecast.data.store import StoredTable
from forecast.errors import ConfigError, DataError
from forecast.quantiles import arrange
from forecast.trained import TrainedModel

INPUTS = ("past", "past_time", "future_time")
FLIPS = 1_000  # with ProbSparse, one window in so many may lie beyond the tolerance

Run = Callable[[dict[str, Tensor]], dict[str, Tensor]]
"""How an exported file is called: from inputs by name to outputs by name, all float64 (`ForecastGraph`)."""


@dataclass(frozen=True)
class Difference:
    """Largest differences and largest forecasts of each target column, over all windows, steps and outputs.

    NaN where one was not a number.
    """

    windows: int
    beyond: int  # windows that differ by more than the tolerance
    scaled: Float64[Tensor, " n_targets"]
    in_units: Float64[Tensor, " n_targets"]
    largest_scaled: Float64[Tensor, " n_targets"]
    largest_in_units: Float64[Tensor, " n_targets"]


@torch.no_grad()
def compare(
    run: Run,
    trained: TrainedModel,
    data: ForecastData,
    chosen: Int64[Tensor, " windows"],
    tolerance: float,
    shown: Callable[[Sequence[Tensor]], Iterable[Tensor]] = list,
) -> Difference:
    """The exported file on raw values beside PyTorch's network on scaled ones, on `chosen` windows of the test split.

    The first window runs alone, the others in batches. `tolerance` is in scaled units.
    """
    windows = data.windows["test"]
    raw = raw_windows(data)
    scaler = of_one_table(trained.target_scaler)
    center, scale = scaler.center, scaler.scale
    largest, beyond = torch.zeros(4, len(scale), dtype=torch.float64), 0
    batches = [chosen[:1], *chosen[1:].split(data.eval_batch_size)] if len(chosen) > 1 else [chosen]
    for index in shown(batches):
        given, batch = raw.gather(index), windows.gather(index)
        got = by_column(run({name: getattr(given, name) for name in INPUTS}))
        expected = by_column(forecasts(trained, batch))
        difference = (got - expected).abs()
        beyond += int((~(difference / scale <= tolerance)).flatten(1).any(1).sum())  # NaN is beyond
        sizes = (difference / scale, difference, ((expected - center) / scale).abs(), expected.abs())
        largest = torch.maximum(largest, torch.stack([size.flatten(0, -2).amax(0) for size in sizes]))
    return Difference(len(chosen), beyond, *largest)


def test_data(trained: TrainedModel, given: Mapping[str, Any]) -> ForecastData:
    """What to compare on: the data trained on, or what is given in its place.

    Raises DataError or ConfigError where there are no test windows.
    """
    try:
        data = trained.data(given)
    except (DataError, OSError) as error:
        if given["path"] is not None:
            raise
        raise DataError(
            f"{error}: before it is written, the file is compared with PyTorch on test windows: "
            "name the data with data.path=FILE"
        ) from None
    if "test" not in data.windows:
        raise ConfigError(f"data.split={given['split']}: there are no test windows to compare on")
    return data


def raw_windows(data: ForecastData) -> Windows:
    """The test windows in data units, their time features taken from the dates, all in float64: what a user has."""
    table = data.table.whole() if isinstance(data.table, StoredTable) else data.table
    columns = [table.columns.index(name) for name in data.feature_columns]
    values = torch.from_numpy(table.values[:, columns]).double()
    return data.windows["test"].over(
        values, torch.from_numpy(time_features(table.dates, data.freq, data.holidays))
    )


def forecasts(trained: TrainedModel, batch: Batch) -> dict[str, Tensor]:
    """PyTorch's own, in data units: the network on scaled windows, its outputs unscaled."""
    raw = trained.network(batch.past, batch.past_time, batch.future_time)
    inverse = of_one_table(trained.target_scaler).inverse
    if trained.quantiles is not None:
        quantiles = arrange(raw, len(trained.target_columns))
        median = quantiles[..., trained.quantiles.index(0.5)]
        return {"forecast": inverse(median), "quantiles": inverse(quantiles.mT).mT}
    if trained.calibration is None:
        return {"forecast": inverse(raw)}
    return {"forecast": inverse(raw), "quantiles": inverse(trained.calibration.around(raw).mT).mT}


def by_column(outputs: dict[str, Tensor]) -> Float64[Tensor, "batch pred_len outputs n_targets"]:
    """The forecast and its quantiles side by side."""
    parts = [outputs["forecast"][..., None, :]]
    parts += [outputs["quantiles"].mT] if "quantiles" in outputs else []
    return torch.cat(parts, dim=2)


def allowed_beyond(network: nn.Module, windows: int) -> int:
    """Windows that may lie beyond the tolerance. ProbSparse keeps the queries that rank highest: a discrete choice,
    which rounding can flip where two rank almost alike. Nothing else jumps.
    """
    ranks = any(isinstance(module, ProbSparseAttention) for module in network.modules())
    return windows // FLIPS if ranks else 0
