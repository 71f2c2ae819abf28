"""Files, figures and terminal output of a backtest, and of the policies of one that trains again."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64
from matplotlib.axes import Axes
from matplotlib.dates import date2num
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from forecast.data.panel import id_columns, of_series, series_entry
from forecast.evaluation.intervals import tabulate_coverage_by_step, tabulate_coverage_by_variable
from forecast.evaluation.levels import QUANTILE, Level
from forecast.evaluation.measurement import Backtest, Origins, name_bounds
from forecast.evaluation.scores import (
    LABELS,
    MODEL,
    SAME_ERROR,
    SCORES,
    describe_change,
    explain_misses,
    labels,
    name_tested,
    round_to_unit,
)
from forecast.evaluation.significance import (
    SIGNIFICANCE_LEVEL,
    LossDifference,
    diebold_mariano,
    sum_losses_by_date,
)
from forecast.reports import figures
from forecast.reports.colours import LIGHT, attention_colour
from forecast.reports.plotted_forecast import Plot, choose_plots, describe_plots
from forecast.reports.scores import describe_interval, describe_least_covered, tabulate_variables
from forecast.system.files import atomic_file, write_json
from forecast.system.formatting import format_column, format_duration, plural


@dataclass(frozen=True)
class Verdict:
    """The comparison of the model with the best baseline.

    Attributes:
        best_baseline: the baseline with the lowest MSE.
        change: MSE of the model relative to that of the best baseline, minus 1; NaN if the baseline has no error.
        difference: the Diebold-Mariano test of the two, corrected for the choice among the baselines.
    """

    best_baseline: str
    change: float
    difference: LossDifference

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        baseline, p_value = LABELS[self.best_baseline], self.difference.adjusted_p_value
        if math.isnan(self.change):
            return f"{baseline} had no error"
        if abs(self.change) < SAME_ERROR:
            return f"the model and {baseline}, the best baseline, had the same MSE"
        found = (
            f"the model had {describe_change(self.change)} than {baseline}, the best baseline by scaled MSE"
        )
        if math.isnan(p_value):
            return f"{found}; there are too few origins to test whether that is significant"
        is_not = "" if p_value < SIGNIFICANCE_LEVEL else " not"
        test = (
            f"Diebold-Mariano test, p = {p_value:.2g}, corrected for the choice among {len(LABELS)} baselines"
        )
        return f"{found}; the difference is{is_not} significant ({test})"


def compare_with_baseline(backtest: Backtest) -> Verdict:
    """Compare the model of a backtest with the baseline of the lowest MSE.

    The loss of an origin is its sum of squared errors, divided by the mean number of true values of an origin, so that
    the mean of the losses is the MSE. Origins of several series on the same date count as one observation.
    """
    mse = {name: errors.scores()["mse"] for name, errors in backtest.errors.items()}
    best = min(LABELS, key=lambda name: mse[name])
    change = mse[MODEL] / mse[best] - 1 if mse[best] > 0 else math.nan
    overlap = backtest.origins.overlap(backtest.truth.shape[1])
    model, baseline = sum_errors(backtest, MODEL), sum_errors(backtest, best)
    return Verdict(best, change, diebold_mariano(model, baseline, overlap, comparisons=len(LABELS)))


def sum_errors(backtest: Backtest, name: str) -> Float64[np.ndarray, " observations"]:
    """The losses of a forecaster in chronological order."""
    counts = np.isfinite(backtest.truth).sum((1, 2))
    squares = np.where(np.isfinite(backtest.truth), backtest.scaled_errors(name), 0.0) ** 2
    has_truth = counts > 0
    losses = (squares.sum((1, 2)) / counts[has_truth].mean())[has_truth]
    return sum_losses_by_date(losses, backtest.origins.positions[has_truth])


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


MAX_STEPS, MIN_ORIGINS = 400, 3
"""Largest number of steps in the figure of forecasts; it has more steps for `MIN_ORIGINS` origins."""
HEADROOM = 2
"""Axes of errors end at this multiple of the largest error of the model and the best baseline."""


def draw_forecasts(backtest: Backtest) -> Figure:
    """Draw forecasts of successive origins beside the truth, with one interval, in original units.

    See `choose_plots` for the series and variables.
    """
    series = np.unique(backtest.origins.series)
    plots, interval = choose_plots(backtest.panel, series, backtest.columns), select_interval(backtest)
    size, is_shared = (9, 1.9 * len(plots) + 1.2), len({plot.series for plot in plots}) == 1
    figure, axes = figures.subplots(len(plots), 1, figsize=size, sharex=is_shared, squeeze=False)
    for axis, plot in zip(axes[:, 0], plots, strict=True):
        draw_successive(axis, backtest, plot, interval)
        figures.style_axis(axis)
        figures.label_values(axis, plot.label)
        figures.format_dates(axis, 3, 10)
    of_method = "" if interval is None else f", {interval[0]} intervals"
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
    axis.plot(dates, truth, color=figures.TRUTH_COLOUR, linewidth=1.1, label="truth", zorder=3)
    colour = attention_colour(backtest.attention)
    for origin, window in zip(chosen, windows, strict=True):
        when, values = dates[window], backtest.forecasts[MODEL][origin, :, v]
        axis.plot(when, values, color=colour, linewidth=1.6, label="forecast")
        if interval is not None:
            method, level = interval
            low, high = (backtest.bounds[name][origin, :, v] for name in name_bounds(method, [level]))
            figures.fill_band(axis, when, low, high, level, colour)
        axis.axvline(float(date2num(when[0])), color="#999999", linewidth=0.6, linestyle=":")


def select_successive(origins: Origins, series: int, pred_len: int) -> Int64[np.ndarray, " chosen"]:
    """Return the last origins of a series whose horizons do not overlap, in the order of time."""
    rows, of_series = origins.rows, np.flatnonzero(origins.series == series)
    chosen = [of_series[-1]]
    for origin in of_series[::-1]:
        if len(chosen) >= MIN_ORIGINS and rows[chosen[0]] + pred_len - rows[origin] > MAX_STEPS:
            break
        if rows[origin] + pred_len <= rows[chosen[-1]]:
            chosen.append(origin)
    return np.array(chosen[::-1], dtype=np.int64)


def select_interval(backtest: Backtest) -> tuple[str, Level] | None:
    """Return the method of `predict` and its lowest level; None without intervals."""
    methods = [method for method, sums in backtest.intervals.items() if sums.levels]
    if not methods:
        return None
    method = QUANTILE if QUANTILE in methods else methods[0]
    return method, min(backtest.intervals[method].levels)


def draw_errors(
    backtest: Backtest, origins: pd.DataFrame, steps: pd.DataFrame, best_baseline: str, title: str
) -> Figure:
    """Draw the scaled MSE by origin, in local time, in the upper axes, and by step of the horizon in the lower axes.

    Args:
        origins: one row for each origin, with `forecast_start` and a column `<name>_mse` for each forecaster. The
            errors of a date are averaged over its series.
        steps: one row for each `step`, with the same columns.
        best_baseline: name of the baseline that sets the limits of the axes, with the model.
        title: title of the figure.
    """
    names = labels(backtest.attention)
    by_date = origins.pivot_table(
        values=[f"{name}_mse" for name in names], index="forecast_start"
    ).reset_index()
    by_date["forecast_start"] = by_date["forecast_start"].dt.tz_localize(None)
    figure, (above, below) = figures.subplots(2, 1, figsize=(9, 6.6))
    for axis, table, x in ((above, by_date, "forecast_start"), (below, steps, "step")):
        for name, label in names.items():
            axis.plot(
                table[x], table[f"{name}_mse"], **figures.style_line(label, backtest.attention), label=label,
                linewidth=2 if name == MODEL else 1.2, marker="o" if len(table) < 40 else None, markersize=3,
            )  # fmt: skip
        limit_errors(axis, table, [MODEL, best_baseline])
        axis.set_ylabel("MSE (scaled)")
        figures.style_axis(axis)
    trainings = backtest.panel.utc_offset.shown(backtest.training_dates[1:])
    for date in trainings:
        above.axvline(date, color="#999999", linewidth=0.8, linestyle=":")
    figures.format_dates(above, 3, 10)
    marked = "; dotted: trained again" if len(trainings) else ""
    above.set_title(f"by origin, the first date forecast{marked}", fontsize=10)
    below.set_title("by step of the horizon, over all origins", fontsize=10)
    below.set_xlabel("step of the horizon")
    figures.add_legend(figure, above, title)
    return figure


def limit_errors(axis: Axes, table: pd.DataFrame, names: Sequence[str]) -> None:
    """Begin the axis at 0, end it where the errors of these forecasters can be read, and name lines that leave it."""
    largest = float(np.nanmax(table[[f"{name}_mse" for name in names]].to_numpy()))
    top = min(axis.get_ylim()[1], HEADROOM * largest)
    axis.set_ylim(bottom=0, top=top if top > 0 else None)
    leaving = [
        line for line in axis.get_lines() if np.nanmax(np.asarray(line.get_ydata())) > axis.get_ylim()[1]
    ]
    if leaving:
        text = f"beyond the axis: {', '.join(str(line.get_label()) for line in leaving)}"
        axis.text(
            0.995, 0.97, text, ha="right", va="top", fontsize=8, transform=axis.transAxes, parse_math=False
        )


PolicyBacktests = Mapping[str, Backtest]
"""The backtest of each policy of `retrain`."""


def save_policies(folder: Path, policies: PolicyBacktests) -> None:
    """Write retraining.png and retraining.csv, and retraining.json last."""
    figures.save(draw_policies(policies), folder / "retraining.png")
    content = {name: summarize_policy(policies, name) for name in policies}
    table = pd.DataFrame.from_dict(content, orient="index").rename_axis("policy")
    with atomic_file(folder / "retraining.csv") as temporary:
        table.drop(columns="intervals").to_csv(temporary)
    write_json(folder / "retraining.json", {"policies": content, "findings": describe_policies(policies)})


def summarize_policy(policies: PolicyBacktests, name: str) -> dict[str, Any]:
    """Scores, seconds and the difference from the first policy, in values that JSON can hold."""
    each = policies[name]
    content = {
        **tabulate_scores(each)[MODEL],
        "trainings": len(each.trainings),
        "training_seconds": sum(each.training_seconds),
        "intervals": {method: sums.compute() for method, sums in each.intervals.items()},
    }
    if name != next(iter(policies)):
        content |= {
            "change": change_of(policies, name),
            "p_value": compare_to_first(policies, name).adjusted_p_value,
        }
    return content


def compare_to_first(policies: PolicyBacktests, name: str) -> LossDifference:
    """The Diebold-Mariano test of a policy against the first one, corrected for the number of policies."""
    first = next(iter(policies.values()))
    losses = sum_errors(policies[name], MODEL), sum_errors(first, MODEL)
    overlap = first.origins.overlap(first.truth.shape[1])
    return diebold_mariano(*losses, overlap, comparisons=len(policies) - 1)


def change_of(policies: PolicyBacktests, name: str) -> float:
    """The MSE of a policy relative to that of the first one, minus 1; NaN if that has no error."""
    mse, first = (
        tabulate_scores(each)[MODEL]["mse"] for each in (policies[name], next(iter(policies.values())))
    )
    return mse / first - 1 if first > 0 else math.nan


def describe_policies(policies: PolicyBacktests) -> list[str]:
    """Describe the difference of each policy from the first one, and what it costs, in sentences."""
    first, *others = policies
    return [describe_policy(policies, name, first) for name in others]


def describe_policy(policies: PolicyBacktests, name: str, first: str) -> str:
    change = change_of(policies, name)
    more = sum(policies[name].training_seconds) - sum(policies[first].training_seconds)
    cost = f"{format_duration(abs(more))} {'more' if more >= 0 else 'less'} training"
    if math.isnan(change):
        return f"{name}: {first} had no error; {cost}"
    if abs(change) < SAME_ERROR:
        return f"{name}: the same MSE as {first}; {cost}"
    p_value = compare_to_first(policies, name).adjusted_p_value
    test = f"p = {p_value:.2g}, {'' if p_value < SIGNIFICANCE_LEVEL else 'not '}significant"
    if math.isnan(p_value):
        test = "too few origins for a test"
    return f"{name}: {describe_change(change)} than {first} ({test}); {cost}"


def print_policies(folder: Path, policies: PolicyBacktests) -> None:
    """Print a row for each policy, its intervals, and what training again brings."""
    first = next(iter(policies.values()))
    title = f"{first.title}, {count_origins(first)}, {first.zoned_dates.min()} to {first.zoned_dates.max()}"
    table = Table(title=f"backtest: {title}")
    table.add_column("retrain")
    for heading in (*HEADINGS.values(), "trainings", "training\nseconds"):
        table.add_column(heading, justify="right")
    scores = [tabulate_scores(each)[MODEL] for each in policies.values()]
    columns = [format_column(row[score] for row in scores) for score in HEADINGS]
    for (name, each), *row in zip(policies.items(), *columns, strict=True):
        table.add_row(name, *row, str(len(each.trainings)), f"{sum(each.training_seconds):.1f}")
    console = Console(soft_wrap=True, highlight=False, markup=False)
    Console(markup=False).print(table)
    for name, each in policies.items():
        for line in describe_intervals(each):
            console.print(f"interval   {name}: {line}")
    for note in dict.fromkeys(note for each in policies.values() for note in each.notes):
        console.print(f"note       {note}")
    for sentence in describe_policies(policies):
        console.print(f"verdict    {sentence}")
    console.print(f"saved in {folder}")


def draw_policies(policies: PolicyBacktests) -> figures.Figure:
    """Draw the cumulative difference of the squared errors of each policy from the first one; below 0 is better."""
    (first, reference), *others = policies.items()
    figure, axis = figures.subplots(1, 1, figsize=(9, 3.8))
    dates = reference.panel.utc_offset.shown(reference.panel.grid)
    has_truth = np.isfinite(reference.truth).any((1, 2))
    positions = np.unique(reference.origins.positions[has_truth])
    for number, (name, each) in enumerate(others):
        difference = sum_errors(each, MODEL) - sum_errors(reference, MODEL)
        axis.plot(dates[positions], difference.cumsum(), color=LIGHT[number], label=f"{name} − {first}")
    for cut in max((each.trainings for each in policies.values()), key=len)[1:]:
        axis.axvline(dates[cut], color="#999999", linewidth=0.8, linestyle=":")
    axis.axhline(0, color="#3d4854", linewidth=0.8)
    axis.set_ylabel("cumulative difference of the MSE")
    axis.set_title(f"{reference.title}: below 0: better than {first}; dotted: trained again", fontsize=10)
    figures.style_axis(axis)
    figures.format_dates(axis, 3, 10)
    axis.legend(frameon=False)
    figure.tight_layout()
    return figure
