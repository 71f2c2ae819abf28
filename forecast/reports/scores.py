"""Scores of a test: tables of each series, variable and window, and lines for the terminal."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64
from rich.console import Console
from torch import Tensor

from forecast.data import DataModule
from forecast.data.panel import ID_COLUMN, id_columns
from forecast.evaluation.errors import Errors, average
from forecast.evaluation.measurement import Results
from forecast.evaluation.scores import LABELS, MODEL, SAME_ERROR, SCALED_SCORES, SCORES, explain_misses
from forecast.evaluation.significance import SIGNIFICANCE_LEVEL, diebold_mariano, sum_losses
from forecast.reports.tables import format_interval, print_lines, print_table, tabulate
from forecast.system.formatting import format_amount

MAX_NAMED = 5  # series with the highest MASE that the terminal names

HEADINGS = {name: score.heading("{}\n{}") for name, score in SCORES.items() if name != "crps"}
"""Headings of the scores in tables of tests and backtests; the CRPS is in the line of the intervals."""


def which_windows(data: DataModule, split: str) -> str:
    count, stride = f"{data.n_windows[split]:,} windows", data.eval_stride
    return f"{count}, stride 1" if stride == 1 or split == "train" else f"{count}, one in {stride}"


def describe_skill(skill: float, baseline: str) -> str:
    """Explain a skill relative to `baseline`, the best one. The skill is NaN if that baseline makes no error."""
    if math.isnan(skill):
        return f"no skill can be given: {baseline}, the best baseline, makes no error here; use {baseline}"
    percent = f"{100 * abs(skill):.1f}%"
    if abs(skill) < SAME_ERROR:
        return f"skill 0.000: equal to {baseline}, the best baseline"
    if skill > 0:
        return f"skill {skill:.3f}: {percent} less squared error than {baseline}, the best baseline"
    return f"skill {skill:.3f}: WORSE than {baseline} by {percent} in squared error; use {baseline}"


def describe_significance(results: Results, data: DataModule) -> str:
    """The interval of the difference in squared error from the best baseline; empty if they are equal.

    The Diebold-Mariano test, corrected for the number of baselines, holds for this run: other seeds may differ by more.
    """
    baseline, windows = results.best_baseline, data.windows[data.tested_split]
    table = tabulate_windows(data, results)
    model, other = (
        sum_losses(table[f"{name}_mse"].to_numpy(), table["forecast_start"].to_numpy()) for name in (MODEL, baseline)
    )
    difference = diebold_mariano(model, other, windows.overlap, comparisons=len(results.baselines))
    if not difference.base or abs(results.skill) < SAME_ERROR:
        return ""
    is_tested = bool(difference.degrees_of_freedom)
    doubt = ": not significant" if is_tested and difference.adjusted_p_value >= SIGNIFICANCE_LEVEL else ""
    return (
        "95% interval of the difference, for this run, in percent of that squared error: "
        f"{format_interval(difference)}{doubt}"
    )


def print_scores(title: str, attention: str, results: Results, data: DataModule) -> None:
    scores = {LABELS.get(name, attention): row for name, row in results.scores.items()}
    console = Console(markup=False, highlight=False)
    print_table(tabulate(title, "attention,\nor baseline", HEADINGS, scores, best=attention), console)
    skill = describe_skill(results.skill, LABELS[results.best_baseline])
    lines = [skill, describe_significance(results, data)]
    lines += [f"intervals, {line}" for line in describe_intervals(results.intervals)]
    print_lines(console, filter(None, lines))


def describe_intervals(intervals: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The coverage, the widths and the CRPS of each method in a line, from `IntervalSums.compute`; then each miss."""
    lines = []
    for method, found in intervals.items():
        levels = [f"{level}% {describe_interval(of)}" for level, of in found.items() if isinstance(of, Mapping)]
        crps = "" if math.isnan(found["crps"]) else f"; CRPS {found['crps']:.3f} scaled"
        lines.append(f"{method}: {'; '.join(levels) or 'none'}{crps}")
    return [*lines, *explain_misses(intervals).values()]


def describe_interval(score: Mapping[str, float]) -> str:
    """The coverage and the mean width of an interval, from `IntervalSums.compute`."""
    if math.isnan(score["coverage"]):
        return "was not scored: no true value is known"
    width = f"{score['width']:.3f} scaled, {format_amount(score['width_raw'])} in original units"
    return f"covers {100 * score['coverage']:.1f}%, width {width}"


def tabulate_series(data: DataModule, results: Results) -> pd.DataFrame | None:
    """One row for each tested series: its number of windows, and columns such as `model_mse` of each score.

    None if the data have no ids.
    """
    if not data.panel.has_ids:  # the one series of a table has the scores of the test
        return None
    windows = [len(starts) for starts in data.windows[data.tested_split].starts]
    table: dict[str, object] = {ID_COLUMN: data.panel.ids, "windows": windows}
    for name, errors in results.errors.items():
        scores, counts = errors.by_series(), errors.series_counts
        table |= {f"{name}_{score}": average(score, scores[score], counts).numpy() for score in SCORES}
    frame = pd.DataFrame(table)
    return frame.dropna(subset=f"{MODEL}_mse").reset_index(drop=True)


def tabulate_variables(
    columns: Sequence[str], errors: Mapping[str, Errors], coverage: Mapping[str, Float64[np.ndarray, " n_targets"]]
) -> pd.DataFrame:
    by_variable = {name: each.by_variable() for name, each in errors.items()}
    return _tabulate_errors({"variable": columns}, by_variable, SCORES, coverage)


def tabulate_steps(
    errors: Mapping[str, Errors], coverage: Mapping[str, Float64[np.ndarray, " pred_len"]]
) -> pd.DataFrame:
    """Return one row for each step of the horizon: the scaled scores by forecaster, and the coverage."""
    by_step = {name: each.by_step() for name, each in errors.items()}
    steps = np.arange(1, len(by_step[MODEL]["mse"]) + 1)
    return _tabulate_errors({"step": steps}, by_step, SCALED_SCORES, coverage)


def _tabulate_errors(
    rows: Mapping[str, Any],
    errors: Mapping[str, Mapping[str, Tensor]],
    scores: Iterable[str],
    coverage: Mapping[str, np.ndarray],
) -> pd.DataFrame:
    """Return the scores of each forecaster; a score that none has (CRPS in a backtest) gets no columns."""
    measured = [score for score in scores if not all(each[score].isnan().all() for each in errors.values())]
    columns = {f"{name}_{score}": each[score].numpy() for name, each in errors.items() for score in measured}
    return pd.DataFrame({**rows, **columns, **coverage})


def tabulate_windows(data: DataModule, results: Results) -> pd.DataFrame:
    """One row for each test window: its series if there are ids, `forecast_start`, and its scores.

    Scores have columns such as `model_mse`, the coverage of intervals columns such as `conformal_coverage_80`.
    """
    starts, series = data.windows[data.tested_split].locate(data.panel)
    errors = {
        f"{name}_{score}": values[:, i].numpy()
        for name, values in results.windows.items()
        for i, score in enumerate(SCALED_SCORES)
    }
    facts = {**id_columns(data.panel, series), "forecast_start": starts}
    return pd.DataFrame({**facts, **errors, **results.coverage_by_window})


def describe_series(table: pd.DataFrame, baseline: str) -> list[str]:
    """Compare the model with a baseline in a table of `tabulate_series`, and name the series with the highest MASE."""
    model, other = table[f"{MODEL}_mse"].to_numpy(), table[f"{baseline}_mse"].to_numpy()
    better, worse = (int((a < (1 - SAME_ERROR) * b).sum()) for a, b in ((model, other), (other, model)))
    lines = [
        f"series     {len(table):,} tested; the model has less squared error than {LABELS[baseline]} in {better:,} "
        f"({100 * better / len(table):.0f}%), more in {worse:,}"
    ]
    mase = table.set_index(ID_COLUMN).pop(f"{MODEL}_mase").dropna()
    if len(mase):
        named = ", ".join(f"{name} {value:.2f}" for name, value in mase.nlargest(MAX_NAMED).items())
        lines.append(f"           MASE median {mase.median():.3f}; worst {named}")
    return lines
