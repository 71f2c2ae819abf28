"""Files, figures and terminal output of a backtest, and of the policies of one that trains again."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64
from matplotlib.axes import Axes
from matplotlib.dates import date2num
from matplotlib.figure import Figure
from rich.console import Console

from forecast.data.calendars import format_date
from forecast.data.files.columns import SEPARATOR
from forecast.data.panel import ID_COLUMN, id_columns, of_series, series_entry
from forecast.evaluation.intervals import tabulate_coverage
from forecast.evaluation.measurement import Backtest, Origins, name_bounds
from forecast.evaluation.scores import (
    INTERVAL_METHODS,
    LABELS,
    MODEL,
    QUANTILE,
    SAME_ERROR,
    SCORES,
    Level,
    describe_change,
    labels,
    name_tested,
    round_to_unit,
)
from forecast.evaluation.significance import SIGNIFICANCE_LEVEL, LossDifference, diebold_mariano, sum_losses
from forecast.reports import figures
from forecast.reports.plots import Plot, attention_colour, choose_plots, describe_plots, name_step_ahead
from forecast.reports.scores import HEADINGS, describe_intervals, tabulate_steps, tabulate_variables
from forecast.reports.tables import Table, print_lines, print_table, tabulate
from forecast.system.files import atomic_file, write_json
from forecast.system.formatting import format_duration, plural


class Verdict(NamedTuple):
    """The comparison of a forecaster with another one."""

    sentence: str
    change: float  # MSE of the first relative to that of the other, minus 1; NaN if the other has no error
    p_value: float  # of the Diebold-Mariano test of the two, corrected for the number of tests


def describe_verdict(subject: str, other: str, change: float, difference: LossDifference) -> str:
    p_value = difference.adjusted_p_value
    if math.isnan(change):
        return f"{other} had no error"
    if abs(change) < SAME_ERROR:
        return f"{subject} and {other} had the same MSE"
    found = f"{subject} had {describe_change(change)} than {other}"
    if math.isnan(p_value):
        return f"{found}; there are too few origins to test whether that is significant"
    is_not = "" if p_value < SIGNIFICANCE_LEVEL else " not"
    test = f"Diebold-Mariano test, p = {p_value:.2g}, corrected for {plural(int(difference.comparisons), 'test')}"
    return f"{found}; the difference is{is_not} significant ({test})"


def compare(
    backtest: Backtest, name: str, other: Backtest, other_name: str, labels: tuple[str, str], tests: int
) -> Verdict:
    """Compare a forecaster of a backtest with one of this or another backtest of the same origins.

    The loss of an origin is its sum of squared errors, divided by the mean number of true values of an origin, so that
    the mean of the losses is the MSE. Origins of several series on the same date count as one observation.
    """
    mse, least = backtest.errors[name].scores()["mse"], other.errors[other_name].scores()["mse"]
    change = mse / least - 1 if least > 0 else math.nan
    overlap = backtest.origins.overlap(backtest.truth.shape[1])
    losses = sum_errors(backtest, name), sum_errors(other, other_name)
    difference = diebold_mariano(*losses, overlap, comparisons=tests)
    return Verdict(describe_verdict(*labels, change, difference), change, difference.adjusted_p_value)


def compare_with_baseline(backtest: Backtest) -> Verdict:
    """Compare the model of a backtest with the baseline of the lowest MSE, chosen among all."""
    best = backtest.best_baseline
    labels = "the model", f"{LABELS.get(best, best)} (the best baseline by scaled MSE)"
    return compare(backtest, MODEL, backtest, best, labels, len(backtest.baselines))


def sum_errors(backtest: Backtest, name: str) -> Float64[np.ndarray, " observations"]:
    """The losses of a forecaster in chronological order."""
    counts = np.isfinite(backtest.truth).sum((1, 2))
    squares = np.where(np.isfinite(backtest.truth), backtest.scaled_errors(name), 0.0) ** 2
    has_truth = counts > 0
    losses = (squares.sum((1, 2)) / counts[has_truth].mean())[has_truth]
    return sum_losses(losses, backtest.origins.positions[has_truth])


DIGITS = 6
PRINTED = {name: heading for name, heading in HEADINGS.items() if SCORES[name].unit or name == "mase"}
"""Headings of the scores that fit beside those of a backtest on a terminal; backtest.json has all."""


def tabulate_scores(backtest: Backtest) -> dict[str, dict[str, float]]:
    """Scores of the model and of each baseline, averaged over all origins, steps and variables."""
    each = ((name, errors.scores()) for name, errors in backtest.errors.items())
    return {name: {score: scores[score] for score in HEADINGS} for name, scores in each}


def tabulate_origins(backtest: Backtest) -> pd.DataFrame:
    """One row for each origin with a true value: its date, the last training date, scaled errors of all forecasts."""
    ids = id_columns(backtest.panel, backtest.origins.series)
    columns: dict[str, Any] = {**ids, "forecast_start": backtest.zoned_dates}
    if backtest.trainings:
        latest = np.searchsorted(backtest.trainings, backtest.origins.positions, side="right") - 1
        columns["trained_until"] = backtest.known_until[latest]
    count = np.isfinite(backtest.truth).sum((1, 2))
    for name in backtest.forecasts:
        measured = np.where(np.isnan(backtest.truth), 0.0, backtest.scaled_errors(name))
        with np.errstate(invalid="ignore"):  # an origin without true values has no error
            columns[f"{name}_mse"] = (measured**2).sum((1, 2)) / count
            columns[f"{name}_mae"] = np.abs(measured).sum((1, 2)) / count
    return pd.DataFrame(columns).dropna(subset=f"{MODEL}_mse").reset_index(drop=True)


def tabulate_forecasts(backtest: Backtest) -> pd.DataFrame:
    """One row for each origin, step and variable, in original units.

    Forecasts and bounds have `DIGITS` digits below the scale of each variable: 0 in place of −1e−9, which float32
    leaves. A true value that equals a bound then lies within the interval.
    """
    n, steps, targets = backtest.truth.shape
    rows = (backtest.origins.rows[:, None] + np.arange(steps)).ravel()
    unit = backtest.scaler.error_unit.numpy()[backtest.origins.series][:, None]
    forecasts = (backtest.forecasts | backtest.bounds).items()
    return pd.DataFrame(
        {
            **id_columns(backtest.panel, np.repeat(backtest.origins.series, steps * targets)),
            "forecast_start": backtest.zoned_dates.repeat(steps * targets),
            "date": backtest.panel.utc_offset.zoned(backtest.panel.dates(rows)).repeat(targets),
            "variable": pd.Categorical.from_codes(np.tile(np.arange(targets), n * steps), backtest.columns),
            "truth": backtest.truth.ravel(),
            **{name: round_to_unit(values, unit, DIGITS).ravel() for name, values in forecasts},
        }
    )


def tabulate_windows(backtest: Backtest, h: int) -> pd.DataFrame:
    """The first `h` steps of each forecast, see `forecast.Model.cross_validation`."""
    n, steps, targets = backtest.truth.shape
    found, panel = tabulate_forecasts(backtest), backtest.panel
    ids = found["variable"].astype(str)
    if panel.has_ids:
        ids = found[ID_COLUMN].astype(str) + (SEPARATOR + ids if targets > 1 else "")
    cutoffs = panel.utc_offset.zoned(panel.dates(backtest.origins.rows - 1)).repeat(steps * targets)
    columns = {ID_COLUMN: ids, "ds": found["date"], "cutoff": cutoffs, "y": found["truth"]}
    table = pd.DataFrame({**columns, **found[[*backtest.forecasts]]})
    is_shown = np.tile(np.arange(steps).repeat(targets) < h, n)
    return table.loc[is_shown].sort_values(by=[ID_COLUMN, "cutoff", "ds"], ignore_index=True)


def summarize_backtest(backtest: Backtest) -> dict[str, Any]:
    scores, verdict = tabulate_scores(backtest), compare_with_baseline(backtest)
    left_out = np.delete(backtest.panel.ids, np.unique(backtest.origins.series))
    return {
        "data": backtest.title,
        "attention": backtest.attention,
        "series": backtest.n_series,
        **series_entry(backtest.panel, list(map(str, left_out)), "series_left_out"),
        "origins": len(backtest.origins),
        **{f"origins_in_{rows}_rows": backtest.seen.get(rows, 0) for rows in ("training", "validation")},
        "first_origin": str(backtest.zoned_dates.min()),
        "last_origin": str(backtest.zoned_dates.max()),
        "trainings": [str(date) for date in backtest.known_until],
        "model": scores.pop(MODEL),
        "baselines": scores,
        "best_baseline": backtest.best_baseline,
        "verdict": verdict.sentence,
        "p_value": verdict.p_value,
        "intervals": backtest.interval_scores,
        "notes": backtest.notes,
    }


def save_backtest(folder: Path, backtest: Backtest) -> None:
    """Write the tables and the figures, and backtest.json last."""
    origins, intervals = tabulate_origins(backtest), backtest.intervals
    steps = tabulate_steps(backtest.errors, tabulate_coverage(intervals, "step"))
    coverage = tabulate_coverage(intervals, "variable")
    variables = tabulate_variables(backtest.columns, backtest.errors, coverage)
    for name, table in {"origin": origins, "step": steps, "variable": variables}.items():
        with atomic_file(folder / f"errors_by_{name}.csv") as temporary:
            table.to_csv(temporary, index=False)
    with atomic_file(folder / "forecasts.parquet") as temporary:
        tabulate_forecasts(backtest).to_parquet(temporary, index=False)
    figures.save(draw_errors(backtest, origins, steps), folder / "backtest.png")
    figures.save(draw_forecasts(backtest), folder / "forecasts.png")
    write_json(folder / "backtest.json", summarize_backtest(backtest))


def print_backtest(folder: Path, backtest: Backtest) -> None:
    """Print the scores of the model and of the baselines, the scores of the intervals, and where the files are."""
    origins, scores = tabulate_origins(backtest), tabulate_scores(backtest)
    errors = origins[[f"{name}_mse" for name in scores]].to_numpy()
    is_best = errors <= (1 + SAME_ERROR) * np.fmin.reduce(errors, axis=1, keepdims=True)
    wins = [f"{count}/{len(origins)}" for count in is_best.sum(0)]
    tested = name_tested(backtest.attention, untrained=backtest.is_untrained)
    names = labels(backtest.attention, backtest.baselines) | {MODEL: tested}
    named = {names[name]: row for name, row in scores.items()}
    table = tabulate(describe(backtest), "attention,\nor baseline", PRINTED, named, {"best at": wins}, tested)
    verdict = compare_with_baseline(backtest).sentence
    print_report(table, describe_intervals(backtest.interval_scores), backtest.notes, [verdict], folder)


def describe(backtest: Backtest) -> str:
    """The title of a table: the data and the origins."""
    dates = " to ".join(map(format_date, backtest.zoned_dates.sort_values()[[0, -1]]))
    return f"backtest: {backtest.title}, {count_origins(backtest)}, {dates}"


def print_report(
    table: Table, intervals: Iterable[str], notes: Iterable[str], verdicts: Iterable[str], folder: Path
) -> None:
    console = Console(highlight=False, markup=False)
    print_table(table, console)
    for name, lines in (("interval", intervals), ("note", notes), ("verdict", verdicts)):
        print_lines(console, [f"{name:<10} {line}" for line in lines])
    print_lines(console, [f"saved in {folder}"])


def count_origins(backtest: Backtest) -> str:
    """The number of origins, and of series if they have ids, as text."""
    return f"{plural(len(backtest.origins), 'origin')}{of_series(backtest.panel, backtest.n_series)}"


MAX_STEPS, MIN_ORIGINS = 400, 3  # steps in the figure of forecasts; it has more for `MIN_ORIGINS` origins
LIBRARY_COLOURS = ("#8c6d4f", "#b59a3f", "#7a4b6d")  # those of attention types are others


def draw_forecasts(backtest: Backtest) -> Figure:
    """Draw forecasts of successive origins beside the truth, with one interval, in original units.

    See `choose_plots` for the series and variables.
    """
    series = np.unique(backtest.origins.series)
    plots, intervals = choose_plots(backtest.panel, series, backtest.columns), backtest.intervals
    # the method of `predict` and its lowest level
    methods = [name for name in INTERVAL_METHODS if name in intervals and intervals[name].levels]
    methods.sort(key=lambda name: name != QUANTILE)
    interval = (methods[0], min(intervals[methods[0]].levels)) if methods else None
    size, is_shared = (9, 1.9 * len(plots) + 1.2), len({plot.series for plot in plots}) == 1
    figure, axes = figures.subplots(len(plots), 1, figsize=size, sharex=is_shared, squeeze=False)
    for axis, plot in zip(axes[:, 0], plots, strict=True):
        draw_successive(axis, backtest, plot, interval)
        figures.style_axis(axis)
        figures.label_values(axis, plot.label)
        figures.format_dates(axis, 3, 10)
    of_method = f", {methods[0]} intervals" if methods else ""
    left_out = describe_plots(backtest.panel, len(series), len(backtest.columns))
    title = f"{backtest.title}: the last forecasts without overlap{of_method}; dotted: an origin"
    figures.add_legend(figure, axes[0, 0], title + (f"; {left_out}" if left_out else ""))
    return figure


def draw_successive(axis: Axes, backtest: Backtest, plot: Plot, interval: tuple[str, Level] | None) -> None:
    """Draw the forecasts of a variable of a series beside the truth."""
    pred_len, v = backtest.truth.shape[1], plot.variable
    chosen = select_successive(backtest.origins, plot.series, pred_len)
    windows = backtest.origins.rows[chosen][:, None] + np.arange(pred_len)
    rows = np.arange(windows[0, 0], windows[-1, -1] + 1)
    dates, windows = backtest.panel.utc_offset.shown(backtest.panel.dates(rows)), windows - rows[0]
    truth = np.full(len(rows), np.nan)
    truth[windows] = backtest.truth[chosen, :, v]
    axis.plot(dates, truth, color=figures.TRUTH_COLOUR, linewidth=1.1, label="measured", zorder=3)
    colour = attention_colour(backtest.attention)
    for origin, window in zip(chosen, windows, strict=True):
        when, values = dates[window], backtest.forecasts[MODEL][origin, :, v]
        axis.plot(when, values, color=colour, linewidth=1.6, label="forecast")
        if interval is not None:
            method, level = interval
            low, high = (backtest.bounds[name][origin, :, v] for name in name_bounds(method, [level]))
            figures.fill_band(axis, when, low, high, level, colour)
        axis.axvline(float(date2num(when[0])), **figures.MARK)


def select_successive(origins: Origins, series: int, pred_len: int) -> Int64[np.ndarray, " chosen"]:
    """Return the last origins of a series whose horizons do not overlap, in the order of time."""
    rows, of_series = origins.rows, np.flatnonzero(origins.series == series)
    chosen = [of_series[-1]]
    for origin in of_series[::-1]:
        if rows[origin] + pred_len <= rows[chosen[-1]]:
            chosen.append(origin)
    return np.array(chosen[: max(MIN_ORIGINS, MAX_STEPS // pred_len)][::-1], dtype=np.int64)


def draw_errors(backtest: Backtest, origins: pd.DataFrame, steps: pd.DataFrame) -> Figure:
    """Draw the scaled MSE by origin, in local time, in the upper axes, and by step of the horizon in the lower axes.

    `origins` and `steps` are the tables of `save_backtest`. The errors of a date are averaged over its series.
    """
    names = labels(backtest.attention, backtest.baselines)
    columns = [f"{name}_mse" for name in names]
    by_date = origins.pivot_table(values=columns, index="forecast_start").reset_index()
    by_date["forecast_start"] = by_date["forecast_start"].dt.tz_localize(None)
    styles = {name: figures.style_line(label, backtest.attention) for name, label in names.items()}
    styles |= {
        name: {"color": LIBRARY_COLOURS[number % len(LIBRARY_COLOURS)], "linestyle": "--"}
        for number, name in enumerate(backtest.of_libraries)
    }
    figure, (above, below) = figures.subplots(2, 1, figsize=(9, 6.6))
    for axis, table, x in ((above, by_date, "forecast_start"), (below, steps, "step")):
        drawn = {name: table[f"{name}_mse"].to_numpy() for name in names}
        for name, label in names.items():
            axis.plot(
                table[x], drawn[name], **styles[name], label=label,
                linewidth=2 if name == MODEL else 1.2, marker="o" if len(table) < 40 else None, markersize=3,
            )  # fmt: skip
        figures.limit_errors(axis, drawn[MODEL], drawn.values())
        figures.label_units(axis, backtest.scaler, backtest.columns)
        figures.style_axis(axis)
    trainings = backtest.panel.grid[np.array(backtest.trainings[1:], dtype=np.int64)]
    for date in backtest.panel.utc_offset.shown(trainings):
        above.axvline(date, **figures.MARK)
    figures.format_dates(above, 3, 10)
    marked = "; dotted: trained again" if len(trainings) else ""
    above.set_title(f"by origin, the first date forecast{marked}", fontsize=10)
    below.set_title("by step of the horizon, over all origins", fontsize=10)
    figures.label_steps(below, len(steps), backtest.panel.season, name_step_ahead(backtest.panel))
    figures.add_legend(figure, above, f"{backtest.title}: {count_origins(backtest)}")
    return figure


def report_policies(folder: Path, policies: Mapping[str, Backtest]) -> None:
    """Write retraining.json, and print the same: each policy of `retrain`, and what training again brings.

    The other policies are compared with the first one, with a correction for their number.
    """
    first, *others = policies
    content, findings = {}, []
    for name, each in policies.items():
        content[name] = {
            **tabulate_scores(each)[MODEL],
            "trainings": len(each.trainings),
            "training_seconds": sum(each.training_seconds),
            "intervals": each.interval_scores,
        }
        if name != first:
            verdict = compare(each, MODEL, policies[first], MODEL, (name, first), len(others))
            content[name] |= {"change": verdict.change, "p_value": verdict.p_value}
            more = content[name]["training_seconds"] - content[first]["training_seconds"]
            cost = f"{format_duration(abs(more))} {'more' if more >= 0 else 'less'} training"
            findings.append(f"{verdict.sentence}; {cost}")
    write_json(folder / "retraining.json", {"policies": content, "findings": findings})
    columns = {
        "trainings": [str(one["trainings"]) for one in content.values()],
        "training\nseconds": [f"{one['training_seconds']:.1f}" for one in content.values()],
    }
    printed = tabulate(describe(policies[first]), "retrain", PRINTED, content, columns)
    lines = [f"{name}: {line}" for name, each in policies.items() for line in describe_intervals(each.interval_scores)]
    notes = dict.fromkeys(note for each in policies.values() for note in each.notes)
    print_report(printed, lines, notes, findings, folder)
