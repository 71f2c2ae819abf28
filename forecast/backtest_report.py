"""What a backtest leaves behind: scores, errors by origin and by step, every forecast, a picture."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from forecast import plots
from forecast.backtesting import Backtest
from forecast.files import whole_file, write_json
from forecast.rounding import alike
from forecast.scores import LABELS, MODEL, ROWS, labels


def scores(found: Backtest) -> dict[str, dict[str, float]]:
    """MSE and MAE of scaled values, RMSE and MAE in data units and MASE, averaged over the variables."""
    table = {}
    for name, forecasts in found.forecasts.items():
        scaled, error = found.scaled_errors(name), forecasts - found.truth
        mae = np.abs(error).mean((0, 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            mase = np.where(found.naive_mae == 0, np.nan, mae / found.naive_mae)
        table[name] = {
            "mse": float((scaled**2).mean()),
            "mae": float(np.abs(scaled).mean()),
            "rmse_raw": float(np.sqrt((error**2).mean((0, 1))).mean()),
            "mae_raw": float(mae.mean()),
            "mase": float(np.nanmean(mase)) if np.isfinite(mase).any() else float("nan"),
        }
    return table


def by_origin(found: Backtest) -> pd.DataFrame:
    """A row an origin: first date forecast, last date trained on, scaled MSE and MAE of every forecaster."""
    columns: dict[str, Any] = {"forecast_start": found.dates[found.origins]}
    if found.trainings:
        latest = np.searchsorted(found.trainings, found.origins, side="right") - 1
        columns["trained_until"] = found.dates[np.array(found.trainings)[latest] - 1]
    for name in found.forecasts:
        errors = found.scaled_errors(name)
        columns |= {f"{name}_mse": (errors**2).mean((1, 2)), f"{name}_mae": np.abs(errors).mean((1, 2))}
    return pd.DataFrame(columns)


def by_step(found: Backtest) -> pd.DataFrame:
    """A row a step of the horizon: scaled MSE and MAE of every forecaster."""
    columns: dict[str, Any] = {"step": np.arange(1, found.truth.shape[1] + 1)}
    for name in found.forecasts:
        errors = found.scaled_errors(name)
        columns |= {f"{name}_mse": (errors**2).mean((0, 2)), f"{name}_mae": np.abs(errors).mean((0, 2))}
    return pd.DataFrame(columns)


def every_forecast(found: Backtest) -> pd.DataFrame:
    """Long form, in data units: a row an origin, step and variable."""
    n, steps, targets = found.truth.shape
    rows = found.origins[:, None] + np.arange(steps)
    flat = {name: values.ravel() for name, values in {"truth": found.truth, **found.forecasts}.items()}
    return pd.DataFrame(
        {
            "forecast_start": np.repeat(found.dates[found.origins].to_numpy(), steps * targets),
            "date": np.repeat(found.dates.to_numpy()[rows.ravel()], targets),
            "variable": pd.Categorical.from_codes(np.tile(np.arange(targets), n * steps), found.columns),
            **flat,
        }
    )


def content(found: Backtest) -> dict[str, Any]:
    """The content of backtest.json."""
    table = scores(found)
    return {
        "data": found.title,
        "attention": found.attention,
        "origins": len(found.origins),
        "first_origin": str(found.dates[found.origins[0]]),
        "last_origin": str(found.dates[found.origins[-1]]),
        "trainings": [str(found.dates[row - 1]) for row in found.trainings],
        "model": table.pop(MODEL),
        "baselines": table,
        "intervals": {"conformal": found.intervals.scores()},
        "notes": found.notes,
    }


def save(folder: Path, found: Backtest) -> None:
    """Write the tables and the picture, and backtest.json last."""
    for name, table in {"errors_by_origin": by_origin(found), "errors_by_step": by_step(found)}.items():
        with whole_file(folder / f"{name}.csv") as temporary:
            table.to_csv(temporary, index=False)
    with whole_file(folder / "forecasts.parquet") as temporary:
        every_forecast(found).to_parquet(temporary, index=False)
    plots.save(
        plots.backtest_figure(
            by_origin(found), by_step(found), labels(found.attention),
            [*found.dates[found.trainings[1:]]], f"{found.title}: {len(found.origins)} origins",
        ),
        folder / "backtest.png",
    )  # fmt: skip
    write_json(folder / "backtest.json", content(found))


def show(folder: Path, found: Backtest) -> None:
    """Print the scores, beside the baselines', and where everything is."""
    dates = found.dates[found.origins]
    table = Table(title=f"backtest: {found.title}, {len(found.origins):,} origins, {dates[0]} to {dates[-1]}")
    table.add_column(ROWS)
    for heading in ("MSE\nscaled", "MAE\nscaled", "RMSE\nunits", "MAE\nunits", "MASE", "best at"):
        table.add_column(heading, justify="right")
    origins = by_origin(found)
    best = origins[[f"{name}_mse" for name in found.forecasts]].to_numpy().argmin(axis=1)
    found_scores = scores(found)
    columns = [alike(column) for column in zip(*(row.values() for row in found_scores.values()), strict=True)]
    for number, (name, *row) in enumerate(zip(found_scores, *columns, strict=True)):
        wins = f"{(best == number).sum()}/{len(origins)}"
        table.add_row(LABELS.get(name, found.attention), *row, wins, style="bold" if name == MODEL else None)
    console = Console(soft_wrap=True, highlight=False, markup=False)
    Console(markup=False).print(table)
    for level, score in found.intervals.scores().items():
        if isinstance(score, dict):
            coverage, width = 100 * score["coverage"], score["width"]
            console.print(f"interval   {level}%, conformal, holds {coverage:.1f}%, width {width:.3f} scaled")
    for note in found.notes:
        console.print(f"note       {note}")
    console.print(f"saved in {folder}")
