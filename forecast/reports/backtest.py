"""Files and terminal output of a backtest: scores, errors by origin, step and variable, all forecasts, figures."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64
from rich.console import Console
from rich.table import Table

from forecast.data.panel_labels import id_columns, of_series, series_entry
from forecast.evaluation.backtest import Backtest
from forecast.evaluation.intervals import tabulate_coverage_by_step, tabulate_coverage_by_variable
from forecast.evaluation.scores import (
    LABELS,
    MODEL,
    SAME_ERROR,
    SCORES,
    explain_misses,
    name_tested,
    round_to_unit,
)
from forecast.reports import figures
from forecast.reports.backtest_figures import draw_errors, draw_forecasts
from forecast.reports.backtest_verdict import compare_with_baseline
from forecast.reports.series import tabulate_variables
from forecast.reports.terminal import describe_interval, describe_least_covered
from forecast.system.files import atomic_file, write_json
from forecast.system.formatting import format_column, plural

DIGITS = 6
HEADINGS = {name: SCORES[name].heading("{}\n{}") for name in ("mse", "mae", "rmse_raw", "mae_raw", "mase")}
"""The scores of a backtest, with their headings on the terminal."""


def tabulate_scores(backtest: Backtest) -> dict[str, dict[str, float]]:
    """Scores of the model and of each baseline, averaged over all origins, steps and variables."""
    each = {name: errors.scores() for name, errors in backtest.errors.items()}
    return {name: {score: scores[score] for score in HEADINGS} for name, scores in each.items()}


def tabulate_origins(backtest: Backtest) -> pd.DataFrame:
    """One row for each origin with a true value: its date, the last training date, scaled errors of all forecasts."""
    ids = id_columns(backtest.panel, backtest.origins.series)
    columns: dict[str, Any] = {**ids, "forecast_start": backtest.zoned_dates}
    if backtest.trainings:
        columns["trained_until"] = backtest.known_until[backtest.latest_training]
    for name in backtest.forecasts:
        errors = backtest.scaled_errors(name)
        count = np.isfinite(backtest.truth).sum((1, 2))
        measured = np.where(np.isnan(backtest.truth), 0.0, errors)
        with np.errstate(invalid="ignore"):  # an origin without true values has no error
            columns[f"{name}_mse"] = (measured**2).sum((1, 2)) / count
            columns[f"{name}_mae"] = np.abs(measured).sum((1, 2)) / count
    table = pd.DataFrame(columns)
    return table.dropna(subset=f"{MODEL}_mse").reset_index(drop=True)


def tabulate_steps(backtest: Backtest) -> pd.DataFrame:
    """One row for each step of the horizon: scaled MSE and MAE of all forecasts, coverage of the intervals."""
    columns: dict[str, Any] = {"step": np.arange(1, backtest.truth.shape[1] + 1)}
    for name, errors in backtest.errors.items():
        by_step = errors.by_step()
        columns |= {f"{name}_{score}": by_step[score].numpy() for score in ("mse", "mae")}
    return pd.DataFrame(columns | tabulate_coverage_by_step(backtest.intervals))


def tabulate_forecasts(backtest: Backtest) -> pd.DataFrame:
    """One row for each origin, step and variable, in original units."""
    n, steps, targets = backtest.truth.shape
    rows = (backtest.origins.rows[:, None] + np.arange(steps)).ravel()
    return pd.DataFrame(
        {
            **id_columns(backtest.panel, np.repeat(backtest.origins.series, steps * targets)),
            "forecast_start": backtest.zoned_dates.repeat(steps * targets),
            "date": backtest.panel.utc_offset.zoned(backtest.panel.dates(rows)).repeat(targets),
            "variable": pd.Categorical.from_codes(np.tile(np.arange(targets), n * steps), backtest.columns),
            "truth": backtest.truth.ravel(),
            **{
                name: round_to_scale(backtest, values).ravel()
                for name, values in (backtest.forecasts | backtest.bounds).items()
            },
        }
    )


def round_to_scale(
    backtest: Backtest, values: Float64[np.ndarray, "origins pred_len n_targets"]
) -> Float64[np.ndarray, "origins pred_len n_targets"]:
    """Round to `DIGITS` digits below the scale of each variable: 0 in place of −1e−9, which float32 leaves.

    A true value that equals a bound then lies within the interval.
    """
    return round_to_unit(values, backtest.scaler.error_unit.numpy()[backtest.origins.series][:, None], DIGITS)


def summarize_backtest(backtest: Backtest) -> dict[str, Any]:
    """The content of backtest.json."""
    scores, verdict = tabulate_scores(backtest), compare_with_baseline(backtest)
    return {
        "data": backtest.title,
        "attention": backtest.attention,
        "series": backtest.n_series,
        **series_entry(
            backtest.panel,
            [str(name) for name in np.delete(backtest.panel.ids, np.unique(backtest.origins.series))],
            "series_left_out",
        ),
        "origins": len(backtest.origins),
        **{f"origins_in_{rows}_rows": backtest.seen.get(rows, 0) for rows in ("training", "validation")},
        "first_origin": str(backtest.zoned_dates.min()),
        "last_origin": str(backtest.zoned_dates.max()),
        "trainings": [str(date) for date in backtest.known_until],
        "model": scores.pop(MODEL),
        "baselines": scores,
        "best_baseline": verdict.best_baseline,
        "verdict": verdict.sentence,
        "p_value": verdict.difference.adjusted_p_value,
        "intervals": {method: sums.compute() for method, sums in backtest.intervals.items()},
        "notes": backtest.notes,
    }


def save_backtest(folder: Path, backtest: Backtest) -> None:
    """Write the tables and the figures, and backtest.json last."""
    origins, steps = tabulate_origins(backtest), tabulate_steps(backtest)
    coverage = tabulate_coverage_by_variable(backtest.intervals)
    variables = tabulate_variables(backtest.columns, backtest.errors, coverage)
    tables = {"origin": origins, "step": steps, "variable": variables}
    for name, table in tables.items():
        with atomic_file(folder / f"errors_by_{name}.csv") as temporary:
            table.to_csv(temporary, index=False)
    with atomic_file(folder / "forecasts.parquet") as temporary:
        tabulate_forecasts(backtest).to_parquet(temporary, index=False)
    summary = summarize_backtest(backtest)
    title = f"{backtest.title}: {count_origins(backtest)}"
    figures.save(
        draw_errors(backtest, origins, steps, summary["best_baseline"], title), folder / "backtest.png"
    )
    figures.save(draw_forecasts(backtest), folder / "forecasts.png")
    write_json(folder / "backtest.json", summary)


def print_backtest(folder: Path, backtest: Backtest) -> None:
    """Print the scores of the model and of the baselines, the scores of the intervals, and where the files are."""
    title = f"{backtest.title}, {count_origins(backtest)}, {backtest.zoned_dates.min()} to {backtest.zoned_dates.max()}"
    table = Table(title=f"backtest: {title}")
    table.add_column("attention,\nor baseline")
    for heading in (*HEADINGS.values(), "best at"):
        table.add_column(heading, justify="right")
    origins, scores = tabulate_origins(backtest), tabulate_scores(backtest)
    errors = origins[[f"{name}_mse" for name in scores]].to_numpy()
    is_best = errors <= (1 + SAME_ERROR) * np.fmin.reduce(errors, axis=1, keepdims=True)
    columns = [
        format_column(column) for column in zip(*(row.values() for row in scores.values()), strict=True)
    ]
    tested = name_tested(backtest.attention, untrained=backtest.is_untrained)
    for number, (name, *row) in enumerate(zip(scores, *columns, strict=True)):
        wins = f"{is_best[:, number].sum()}/{len(origins)}"
        table.add_row(LABELS.get(name, tested), *row, wins, style="bold" if name == MODEL else None)
    console = Console(soft_wrap=True, highlight=False, markup=False)
    Console(markup=False).print(table)
    for line in describe_intervals(backtest):
        console.print(f"interval   {line}")
    if line := describe_least_covered(backtest.columns, tabulate_coverage_by_variable(backtest.intervals)):
        console.print(f"interval   {line}")
    for note in backtest.notes:
        console.print(f"note       {note}")
    console.print(f"verdict    {compare_with_baseline(backtest).sentence}")
    console.print(f"saved in {folder}")


def describe_intervals(backtest: Backtest) -> list[str]:
    """Describe the coverage and the width of each interval of each method in a line, and then each miss of a level."""
    intervals = {method: sums.compute() for method, sums in backtest.intervals.items()}
    lines = [
        f"{level}%, {method}, {describe_interval(score)}"
        for method, scores in intervals.items()
        for level, score in scores.items()
        if isinstance(score, dict)
    ]
    return [*lines, *explain_misses(intervals).values()]


def count_origins(backtest: Backtest) -> str:
    """The number of origins, and of series if they have ids, as text."""
    return f"{plural(len(backtest.origins), 'origin')}{of_series(backtest.panel, backtest.n_series)}"
