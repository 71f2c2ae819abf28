"""The comparison page: one HTML file with tables, charts and the chart library, which needs no network."""

import base64
import gzip
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from forecast import __version__
from forecast.reports.colours import DARK, LIGHT, colour_number
from forecast.reports.compare.factors import Factor
from forecast.reports.compare.findings import describe_results, describe_test
from forecast.reports.compare.number_format import find_date_format
from forecast.reports.compare.run_folders import ExcludedRun
from forecast.reports.compare.tables import (
    make_cost_table,
    make_disagreement_table,
    make_factor_table,
    make_interval_table,
    make_overview_table,
    make_score_table,
    make_settings_table,
)
from forecast.reports.compare.task import COSTS, Entry, Task, is_comparable
from forecast.system.formatting import plural

HERE = Path(__file__).parent
SCRIPTS = ("charts.js", "page.js")


def render_page(
    title: str, tasks: Sequence[Task], excluded: Sequence[ExcludedRun], factor: Factor | None = None
) -> str:
    """Return the page. Jinja escapes names and settings, in the HTML and in the embedded JSON."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )  # fmt: skip
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment.get_template("page.html").render(
        title=title,
        nonce=secrets.token_urlsafe(16),  # the browser runs only scripts with this nonce
        style=(HERE / "page.css").read_text(),
        script="\n".join((HERE / name).read_text() for name in SCRIPTS),
        plotly=pack_plotly(),
        loader=(HERE / "loader.js").read_text(),
        colours={"light": LIGHT, "dark": DARK},
        data=[make_chart_data(task, len(tasks)) | {"scaling": make_scaling_charts(task)} for task in tasks],
        tasks=[make_section(task) for task in tasks],
        factor=factor,
        factor_data=make_factor_data(factor),
        factor_table=make_factor_table(factor) if factor else None,
        overview=make_overview_table(tasks),
        max_variables=MAX_VARIABLES,
        runs=plural(sum(len(entry.runs) for task in tasks for entry in task.unmerged_variants), "run"),
        excluded=excluded,
        version=__version__,
        date=date.today().isoformat(),
    )


def pack_plotly() -> str:
    """The chart library, compressed and written in base 85, which `loader.js` decodes."""
    packed = base64.b85encode(gzip.compress(get_plotlyjs().encode(), compresslevel=9, mtime=0)).decode()
    assert "<!--" not in packed, "it would hide the end of its element"
    return packed


def make_section(task: Task) -> dict[str, Any]:
    """Return the texts and tables of one task."""
    starts = pd.DatetimeIndex(task.first_run.windows["forecast_start"])
    first, last = starts.sort_values()[[0, -1]].strftime(find_date_format(starts.to_numpy()))
    folders = [
        (entry.name, run.metrics["seed"], run.folder.name)
        for entry in task.unmerged_variants
        for run in entry.runs
    ]
    tables = (make_score_table(task), make_cost_table(task), make_interval_table(task))
    return {
        "title": task.title,
        "facts": f"{plural(len(starts), 'test window')}, forecast starts from {first} to {last}; "
        f"{plural(len(task.unmerged_variants), 'variant')}, {plural(len(folders), 'run')}.",
        "results": describe_results(task),
        "tables": [table for table in tables if table],
        "disagreement": make_disagreement_table(task),
        "settings": make_settings_table(task) if len(task.unmerged_variants) > 1 else None,
        "shared": task.shared,
        "runs": folders,
        "test": describe_test(task),
        "crossovers": describe_crossovers(measure_scaling(task, "ms_per_window")),
        "knows_seeds": task.knows_seeds,
    }


DIGITS = 4  # significant digits of a value
MAX_CURVE_POINTS, MAX_STEP_POINTS, MAX_DATE_POINTS, MAX_WINDOW_POINTS = 100, 120, 200, 300
"""Points of one line at most."""
MAX_VARIABLES = 24  # in the chart of errors by variable
MAX_FORECAST_VALUES = 300_000  # values of all forecast charts together, about 6 bytes each

Values = list[float | None]


def make_chart_data(task: Task, n_tasks: int) -> dict[str, Any]:
    """Return the data of all charts of one of `n_tasks` tasks. Variants and baselines are numbered as in `entries`."""
    drawn = [*task.variants, *task.baselines]
    colours = number_colours(task.variants)
    steps = subsample(task.pred_len, MAX_STEP_POINTS)
    variables = find_largest_errors(task)
    return {
        "title": task.title,
        "score": task.score_label,
        "reference": "the best variant" if task.reference is task.best else task.reference.name,
        "entries": [
            {
                "name": entry.name,
                "baseline": entry.is_baseline,
                "colour": colours.get(entry.name),
                "seeds": [run.metrics["seed"] for run in entry.runs],
                "errors": round_values(entry.values(entry.score)),
                "difference": make_difference(task, entry),
                "cumulative": make_cumulative(task, entry),
                "steps": round_values(entry.by_step[steps]),
                "variables": round_values(entry.by_variable[variables]),
                "curves": [] if entry.is_baseline else [make_curves(run.curves) for run in entry.runs],
            }
            for entry in drawn
        ],
        "steps": [i + 1 for i in steps],
        "variables": [str(task.first_run.variables["variable"][i]) for i in variables],
        "dates": find_dates(task),
        "costs": [cost for column in COSTS[:4] if (cost := make_cost(task, column.key, column.heading))],
        "windows": make_forecasts(task, drawn, MAX_FORECAST_VALUES // n_tasks),
    }


def number_colours(variants: Sequence[Entry]) -> dict[str, int]:
    """Return the index of each variant's colour: that of its attention type, or its rank if there is one type only."""
    types = [str(entry.runs[0].metrics["attention"]) for entry in variants]
    if len(set(types)) == 1:
        return {entry.name: rank % len(LIGHT) for rank, entry in enumerate(variants)}
    return {entry.name: colour_number(name, types) for entry, name in zip(variants, types, strict=True)}


def make_factor_data(factor: Factor | None) -> dict[str, Any] | None:
    """Return the data of the charts of a factor: differences from the best value, and average ranks."""
    if factor is None:
        return None
    entries = []
    for number, level in enumerate(factor.levels):
        difference, rank = factor.differences.get(level), factor.average_rank(level)
        percent = (
            [100 * v for v in (difference.mean, *difference.relative_interval())]
            if difference
            else [math.nan]
        )
        is_attention = factor.name == "attention"
        entries.append(
            {
                "name": level,
                "baseline": False,
                "colour": colour_number(level, factor.levels) if is_attention else number % len(LIGHT),
                "difference": None if any(map(math.isnan, percent)) else round_values(percent),
                "rank": make_rank(rank, factor.critical_difference),
            }
        )
    return {"score": factor.tasks[0].score_label, "entries": entries}


def make_rank(rank: float, critical_difference: float) -> Values | None:
    """Return an average rank, and half the critical difference to each side; None if there are too few tasks."""
    half = critical_difference / 2
    return None if math.isnan(half) else round_values([rank, rank - half, rank + half])


def make_difference(task: Task, entry: Entry) -> Values | None:
    """Return the error minus the reference's and its 95% interval, in percent of the latter; None if it is unknown."""
    if entry is task.reference:
        return None
    numbers = [task.relative_difference(entry), *task.relative_interval(entry)]
    return None if any(map(math.isnan, numbers)) else round_values([100 * number for number in numbers])


def make_cumulative(task: Task, entry: Entry) -> Values | None:
    """Return the sum of the loss differences from the reference up to each date, in percent of the reference's error.

    The last value is the relative difference of the errors (Goyal and Welch 2008, A Comprehensive Look at the Empirical
    Performance of Equity Premium Prediction, figure 1).
    """
    losses, reference = entry.tested_losses, task.reference.tested_losses
    if entry is task.reference or not task.reference.error > 0:
        return None
    sums = np.cumsum(losses - reference) / (len(losses) * task.reference.error)
    return round_values(100 * sums[subsample(len(losses), MAX_DATE_POINTS)])


def find_dates(task: Task) -> list[str]:
    """Return the first forecast dates of the losses in `make_cumulative`."""
    shown = task.dates[subsample(len(task.dates), MAX_DATE_POINTS)]
    return pd.DatetimeIndex(shown).strftime(find_date_format(task.dates)).tolist()


def make_cost(task: Task, key: str, heading: str) -> dict[str, Any] | None:
    """Return the mean cost of each variant, with the Pareto front if it can be compared; None if a cost is unknown."""
    means = [entry.mean(key) for entry in task.variants]
    if not all(map(math.isfinite, means)):
        return None
    errors = [entry.error for entry in task.variants]
    front = find_pareto_front(means, errors) if is_comparable(task, key) else []
    return {"key": key, "heading": heading, "values": round_values(means), "front": front}


def find_pareto_front(costs: Sequence[float], errors: Sequence[float]) -> list[int]:
    """Return the indices of the points that no other point dominates, in ascending order of cost.

    Of equal points, one is returned.
    """
    front: list[int] = []
    for i in sorted(range(len(costs)), key=lambda i: (costs[i], errors[i])):
        if not front or errors[i] < errors[front[-1]]:
            front.append(i)
    return front


def make_curves(table: pd.DataFrame) -> dict[str, Any]:
    """Return the training curves of a run, from its metrics.csv."""
    rows = table.iloc[subsample(len(table), MAX_CURVE_POINTS)]
    return {
        "epoch": [int(epoch) + 1 for epoch in rows["epoch"]],
        **{name: round_values(rows[name]) for name in ("val/mse", "train/loss") if name in rows},
    }


def find_largest_errors(task: Task) -> list[int]:
    """Return the indices of the variables with the best variant's largest errors, in the order of the data."""
    return sorted(np.argsort(-task.best.by_variable)[:MAX_VARIABLES].tolist())


def make_forecasts(task: Task, drawn: list[Entry], budget: int) -> dict[str, Any] | None:
    """Return forecasts of the same test windows, by the first run of each entry that saved any.

    Returns None if no run saved its forecasts. If all variables need more than `budget` values, only the last
    variables are returned.
    """
    runs = [next((run for run in entry.runs if run.has_forecasts), None) for entry in drawn]
    tables = [run and run.forecasts for run in runs]
    known = [table for table in tables if table is not None]
    if not known:
        return None
    longest = max(known, key=len)  # runs with a longer seq_len save more history
    starts = pd.DatetimeIndex(longest.drop_duplicates("window")["forecast_start"])
    variables = list(dict.fromkeys(longest["variable"]))
    length = len(longest) // (len(starts) * len(variables))
    steps = [task.pred_len - length + 1 + i for i in subsample(length, MAX_WINDOW_POINTS)]
    future_steps = [step for step in steps if step > 0]
    truth, dates = select_steps(longest, "truth", steps), select_steps(longest, "date", steps)
    forecasts = [
        None if table is None else select_steps(table, entry.column, future_steps)
        for entry, table in zip(drawn, tables, strict=True)
    ]
    n_fitting = max(1, budget // (len(starts) * min(task.pred_len, MAX_WINDOW_POINTS) * len(known)))
    shown = list(enumerate(variables))[-n_fitting:]
    date_format = find_date_format(longest["date"].to_numpy())
    windows = []
    for number, start in enumerate(starts):
        first = number * len(variables)  # row of the window's first variable
        by_variable = {
            name: {
                "truth": round_values(truth[first + i]),
                "forecasts": [None if rows is None else round_values(rows[first + i]) for rows in forecasts],
            }
            for i, name in shown
        }
        windows.append(
            {
                "start": start.strftime(date_format),
                "dates": pd.DatetimeIndex(dates[first]).strftime(date_format).tolist(),
                "history": len(steps) - len(future_steps),
                "variables": by_variable,
            }
        )
    return {
        "variables": [name for _, name in shown],
        "every": math.ceil(length / MAX_WINDOW_POINTS),
        "windows": windows,
        "missing": [entry.name for entry, table in zip(drawn, tables, strict=True) if table is None],
    }


def select_steps(table: pd.DataFrame, column: str, steps: list[int]) -> np.ndarray:
    """Return a column of a forecasts table at the given steps (n_windows * n_variables, n_steps)."""
    return table[column].to_numpy()[np.isin(table["step"].to_numpy(), steps)].reshape(-1, len(steps))


def subsample(length: int, most: int) -> list[int]:
    """Return at most `most` equally spaced indices of `length` positions, among them the last."""
    every = max(1, math.ceil(length / most))
    return sorted(range(length - 1, -1, -every))


def round_values(values: Any) -> Values:
    """Return values with few digits as floats, None for values that are not finite."""
    return [float(f"{v:.{DIGITS}g}") if math.isfinite(v) else None for v in np.asarray(values, dtype=float)]


MEASURES = {
    "ms_per_window": "inference time per window (ms)",
    "peak_memory_mb": "peak memory (MiB)",
    "seconds": "run time (s)",
}
"""Quantities that are drawn beside the error, by key in metrics.json."""

SOFTMAX = "full"


@dataclass(frozen=True)
class Point:
    """One attention type at one number of tokens: the mean, lowest and highest value over seeds and other settings."""

    tokens: int
    mean: float
    low: float
    high: float


def count_tokens(entry: Entry) -> int | None:
    """Return the tokens that the encoder attends to; None for a model without attention layers."""
    slots = entry.runs[0].metrics.get("attention_slots") or {}
    return int(slots["encoder"]["keys"]) if "encoder" in slots else None


def measure_scaling(task: Task, key: str) -> dict[str, list[Point]]:
    """Return a score or cost by attention type and number of tokens, for the types that were run at several.

    Times that were measured while another compared run ran are left out.
    """
    found: dict[str, dict[int, list[float]]] = {}
    for entry in task.unmerged_variants:
        tokens = count_tokens(entry)
        values = [
            value
            for run, value in zip(entry.runs, entry.values(key), strict=True)
            if math.isfinite(value) and key not in run.disturbed
        ]
        if tokens and values:
            of_type = found.setdefault(str(entry.runs[0].metrics["attention"]), {})
            of_type.setdefault(tokens, []).extend(values)
    return {
        name: [Point(n, float(np.mean(v)), min(v), max(v)) for n, v in sorted(by_tokens.items())]
        for name, by_tokens in found.items()
        if len(by_tokens) > 1
    }


def make_scaling_charts(task: Task) -> list[dict[str, Any]]:
    """Return the data of the charts of cost and error against the tokens; empty without runs at several lengths."""
    headings = {**MEASURES, task.best.score: f"{task.score_label} (scaled)"}
    found = {key: measure_scaling(task, key) for key in headings}
    return [
        {"heading": headings[key], "is_cost": key in MEASURES, "lines": make_lines(lines)}
        for key, lines in found.items()
        if lines
    ]


def make_lines(lines: dict[str, list[Point]]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "colour": colour_number(name, list(lines)),
            "tokens": [point.tokens for point in points],
            "mean": round_values([point.mean for point in points]),
            "low": round_values([point.low for point in points]),
            "high": round_values([point.high for point in points]),
        }
        for name, points in lines.items()
    ]


def describe_crossovers(lines: dict[str, list[Point]]) -> list[str]:
    """Return from how many tokens on each attention type is faster than softmax; empty without softmax."""
    softmax = {point.tokens: point for point in lines.get(SOFTMAX, ())}
    sentences = []
    for name in sorted(lines.keys() - {SOFTMAX}):
        pairs = [(point, softmax[point.tokens]) for point in lines[name] if point.tokens in softmax]
        if pairs:
            sentences.append(f"{name}: {describe_crossover(pairs)}.")
    return sentences


def describe_crossover(pairs: Sequence[tuple[Point, Point]]) -> str:
    """Return from how many tokens on a cost is below that of softmax.

    Args:
        pairs: the cost of the attention type and that of softmax at each length, the shortest first. A cost is lower if
            its highest value is below the lowest value of the other.
    """
    longest = f"{pairs[-1][0].tokens:,}"
    faster = [point.high < softmax.low for point, softmax in pairs]
    if not faster[-1]:
        point, softmax = pairs[-1]
        is_slower = point.low > softmax.high
        return f"{'slower than' if is_slower else 'no clear difference from'} {SOFTMAX} at {longest} tokens"
    if len(faster) == 1:
        return f"faster than {SOFTMAX} at {longest} tokens"
    if all(faster):
        return f"faster than {SOFTMAX} from {pairs[0][0].tokens:,} tokens on"
    last = len(faster) - 1 - faster[::-1].index(False)
    (before, softmax), (after, _) = pairs[last], pairs[last + 1]
    if before.low > softmax.high:
        tokens = interpolate_crossover(*pairs[last : last + 2])
        bounds = f"slower at {before.tokens:,}, faster at {after.tokens:,}"
        return f"faster than {SOFTMAX} from about {tokens:,.0f} tokens on ({bounds})"
    return f"faster than {SOFTMAX} from {after.tokens:,} tokens on; no clear difference at {before.tokens:,}"


def interpolate_crossover(before: tuple[Point, Point], after: tuple[Point, Point]) -> float:
    """Return the tokens at which two mean costs are equal: their logarithms are linear in that of the tokens."""
    above, below = (math.log(point.mean / softmax.mean) for point, softmax in (before, after))
    n, m = before[0].tokens, after[0].tokens
    return n * (m / n) ** (above / (above - below))
