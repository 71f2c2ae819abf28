"""The tables of a comparison: as `Table` for people, and as rows of a CSV file."""

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Any

import pandas as pd
from rich.console import Console

from forecast import __version__
from forecast.evaluation.scores import LINEAR_ALONE, explain_misses
from forecast.evaluation.significance import LossDifference
from forecast.reports.compare.factors import Factor
from forecast.reports.compare.findings import describe_factor, describe_task, describe_test, describe_times
from forecast.reports.compare.run_folders import ExcludedRun
from forecast.reports.compare.task import COSTS, NO_DIFFERENCE, SCORE_COLUMNS, Entry, Task
from forecast.reports.tables import (
    MISSING,
    Cell,
    Column,
    Table,
    format_interval,
    format_p_value,
    format_percent,
    print_lines,
    print_table,
)
from forecast.runs.summary import mean_and_std
from forecast.system.formatting import format_tokens, plural, shorten

NAME = Column("name", "variant", "settings in which the variants differ; baselines are in italics")
NOTE = "Mean and standard deviation over seeds. Bold: best variant of the column. Italics: baselines."
VERDICT_STYLES = {"best": "leads", "worse": "bad", "better": "good"}
TEST = ("change", "interval", "p")
SHORT = {
    "name", "seeds", "mse", "mae", "skill", *TEST, "ms_per_window", "peak_memory_mb", "n_parameters", "verdict",
}  # fmt: skip
"""Columns of the terminal, of papers and of READMEs, beside the tested score."""
LEFT_OUT = (
    "n_parameters", "peak_memory_mb", "rank", "p", "mse", "mae", "skill", "ms_per_window", "cost", "seeds",
)  # fmt: skip
"""Columns that a narrow terminal leaves out, in this order, but for the tested score."""


def print_tables(
    tasks: Sequence[Task], excluded: Sequence[ExcludedRun], factor: Factor | None = None
) -> None:
    """Print the findings, the tables and the excluded runs."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 200  # keep rows on one line in a file
    for table in [*map(make_short_table, tasks), *([make_factor_table(factor)] if factor else [])]:
        print_lines(console, table.sentences)
        print_table(table, console, LEFT_OUT)
    print_lines(console, [f"excluded: {run.folder.name}: {run.reason}" for run in excluded])


def make_task_table(task: Task) -> Table:
    """Return the scores, the test and the costs of the variants and baselines, the tested score first."""
    tested, *others = sorted(SCORE_COLUMNS, key=lambda column: column.key != task.best.score)
    columns = [
        NAME,
        Column("verdict", "verdict", "result of the test at the 5 % significance level"),
        Column("seeds", "seeds", "number of runs that differ only in the seed"),
        tested,
        Column(
            "change",
            f"vs {'best' if task.reference is task.best else task.reference.name}",
            f"{task.score_label} relative to that of {task.reference.name}",
        ),
        Column("interval", "95 % interval", "of that difference in percent, corrected for all tests"),
        Column("p", "p", "adjusted p-value of the test"),
        *others,
        *COSTS,
        Column("tokens", "tokens", "tokens of the attention in each slot; cross: queries × keys"),
    ]
    best = {column.key: task.find_best_mean(column) for column in (*SCORE_COLUMNS, *COSTS)}
    rows = [(row_style(task, entry), make_cells(task, entry, columns, best)) for entry in task.entries]
    count = plural(len(task.best.losses), "test window")
    note = " ".join(filter(None, [NOTE, describe_test(task)]))
    return Table(f"{task.title}: {count}", columns, rows, describe_task(task), note, task.best.score)


def make_short_table(task: Task) -> Table:
    """Return the main scores, the test and the costs, for the terminal, papers and READMEs."""
    return make_task_table(task).only(SHORT | {task.best.score})


def row_style(task: Task, entry: Entry) -> str:
    return "baseline" if entry.is_baseline else "best" if entry is task.best else ""


def make_cells(task: Task, entry: Entry, columns: Sequence[Column], best: dict[str, float]) -> list[Cell]:
    """Return the row of an entry. `best` has the best mean of each score and cost."""
    is_worse = task.is_worse_than_baseline(entry)
    beaten = f"; beaten by {task.best_baseline.name}" if is_worse else ""
    cells = {
        "name": Cell.from_text(entry.name),
        "verdict": make_verdict(task.get_verdict(entry), beaten),
        "seeds": Cell(MISSING) if entry.is_baseline else Cell.from_number(float(len(entry.runs))),
        "tokens": Cell(describe_tokens(entry)),
        **dict.fromkeys(TEST, Cell(MISSING)),
    }
    if entry is not task.reference:
        cells |= make_test_cells(task.differences[entry.name], task.relative_difference(entry))
    for column in columns:
        if column.key not in cells:
            mean, deviation = mean_and_std(task.get_values(entry, column))
            is_best = not entry.is_baseline and mean == best[column.key] and len(task.variants) > 1
            style = "leads" if is_best else "bad" if column.key == "skill" and is_worse else ""
            cells[column.key] = Cell.from_number(mean, deviation, style)
    return [cells[column.key] for column in columns]


def make_verdict(verdict: str, more: str = "") -> Cell:
    return Cell.from_text(verdict + more, VERDICT_STYLES.get(verdict, "tied"))


def make_test_cells(difference: LossDifference, change: float) -> dict[str, Cell]:
    """Return the relative difference from the reference, its interval and the adjusted p-value."""
    p_value = difference.adjusted_p_value
    return {
        "change": Cell(format_percent(change), None if math.isnan(change) else change),
        "interval": Cell(format_interval(difference)),
        "p": Cell(format_p_value(p_value), None if math.isnan(p_value) else p_value),
    }


def describe_tokens(entry: Entry) -> str:
    """Return the tokens of each attention slot, such as `encoder 14, decoder 3, cross 3 × 14`."""
    slots = {} if entry.is_baseline else entry.runs[0].metrics.get("attention_slots") or {}
    texts = (f"{k} {format_tokens(slot['role'], slot['queries'], slot['keys'])}" for k, slot in slots.items())
    return ", ".join(texts) or MISSING


def collect_interval_scores(entry: Entry) -> dict[str, dict[str, tuple[float, float]]]:
    """Return mean and standard deviation of a variant's interval scores, by method and score; empty for a baseline."""
    known = [run.metrics.get("intervals") or {} for run in entry.runs if not entry.is_baseline]
    found = {}
    for method in dict.fromkeys(name for intervals in known for name in intervals):
        flat = [flatten_levels(intervals[method]) for intervals in known if method in intervals]
        found[method] = {name: mean_and_std([scores.get(name) for scores in flat]) for name in flat[0]}
    return found


def flatten_levels(scores: dict[str, Any]) -> dict[str, float | None]:
    """Return `{"80": {"coverage": c}, "crps": s}` as `{"coverage_80": c, "crps": s}`."""
    flat = {}
    for name, value in scores.items():
        flat |= {f"{k}_{name}": v for k, v in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def make_interval_table(task: Task) -> Table | None:
    """Return the scores of prediction intervals, one row per variant and method; None if no run has any."""
    found = [
        (entry, method, scores)
        for entry in task.variants
        for method, scores in collect_interval_scores(entry).items()
    ]
    names = dict.fromkeys(name for *_, scores in found for name in scores)
    if not names:
        return None
    columns = [
        NAME,
        Column("method", "method", "method that made the intervals"),
        *(Column(name, name.replace("_", " "), "scaled, or in original units (raw)") for name in names),
        Column("misses", "misses", "why a coverage is more than ten points off"),
    ]
    rows = []
    for entry, method, scores in found:
        misses = (explain_misses(run.metrics.get("intervals") or {}).get(method) for run in entry.runs)
        texts = entry.name, method, next(filter(None, misses), MISSING)
        name, made, missed = map(Cell.from_text, texts)
        numbers = (Cell.from_number(*scores.get(each, (math.nan, math.nan))) for each in names)
        rows.append(("", [name, made, *numbers, missed]))
    return Table("Prediction intervals, mean ± standard deviation over seeds", columns, rows)


def make_settings_table(task: Task) -> Table:
    """Return the settings in which the variants differ."""
    rows = [
        (row_style(task, entry), [*map(Cell.from_text, (entry.name, *task.settings[entry.name].values()))])
        for entry in task.variants
    ]
    columns = [NAME, *(Column(name, name, name) for name in task.settings[task.best.name])]
    return Table("Settings in which the variants differ", columns, rows)


def make_overview_table(tasks: Sequence[Task]) -> Table:
    """Return one row per task: the best variant, its skill, and the errors of the variants that all tasks have."""
    by_name = [{entry.name.removesuffix(LINEAR_ALONE): entry for entry in task.variants} for task in tasks]
    shared = [name for name in by_name[0] if all(name in entries for entries in by_name)]
    rows = []
    for task, entries in zip(tasks, by_name, strict=True):
        best, baseline = task.best, task.best_baseline
        errors = {entry: mean_and_std(entry.values(entry.score)) for entry in task.entries}
        cells = [
            Cell.from_text(task.title.replace(f", {task.pred_len} steps ahead", "")),
            Cell.from_number(float(task.pred_len)),
            Cell.from_text(best.name),
            Cell.from_number(*mean_and_std(task.skill(best)), "bad" * task.is_worse_than_baseline(best)),
            *(Cell.from_number(*errors[entries[name]], "leads" * (entries[name] is best)) for name in shared),
            Cell.from_number(errors[baseline][0]),
            Cell.from_text(baseline.name),
        ]
        rows.append(("", cells))
    names = "data", "horizon", "best variant", "skill", *shared, "best baseline", "its name"
    columns = [Column(name, name) for name in names]
    return Table(f"{tasks[0].score_label} by data set and horizon", columns, rows)


def make_card_table(tasks: Sequence[Task]) -> Table:
    """Return what is needed to repeat the comparison, as far as the run folders say it."""
    runs = [run for task in tasks for entry in task.variants for run in entry.runs]
    finished = sorted(run.metrics["finished"] for run in runs if "finished" in run.metrics)
    quiet = "no two of these runs overlapped; the load by other programs is not recorded"
    facts = {
        "compared": f"{plural(len(runs), 'run')}, by forecast {__version__} on {date.today().isoformat()}",
        "commands": shorten(list(dict.fromkeys(run.command or MISSING for run in runs))),
        "seeds": ", ".join(map(str, sorted({run.metrics["seed"] for run in runs}))),
        **{f"test windows of {task.title}": f"hash {task.first_run.test_hash}" for task in tasks},
        "training ended": " to ".join(dict.fromkeys([*finished[:1], *finished[-1:]])) or MISSING,
        "precision": ", ".join(sorted({str(run.metrics.get("precision", MISSING)) for run in runs})),
        "times": " ".join(dict.fromkeys(filter(None, map(describe_times, tasks)))) or quiet,
    }
    rows = [("", [Cell.from_text(name), Cell.from_text(text)]) for name, text in facts.items()]
    return Table("Card of this comparison", [Column("fact", "fact"), Column("value", "value")], rows)


def make_factor_table(factor: Factor) -> Table:
    """Return one row per value of the factor: its error relative to the best value's, skill, cost and rank."""
    columns = [
        Column("level", factor.name, "value of the setting"),
        Column("verdict", "verdict", "result of the test against the best value at the 5 % level"),
        Column("change", "vs best", "mean relative difference of the error from the best value's"),
        Column("interval", "95 % interval", "of that difference, corrected for all tests"),
        Column("p", "p", "adjusted p-value"),
        Column("skill", "skill", "1 − geometric mean of error / error of the best baseline"),
        Column("cost", "time vs best", "inference time per window relative to the best value's"),
        Column("rank", "average rank", "over the tasks; 1: the lowest error in every task"),
    ]
    rows = []
    for level in factor.levels:
        skill, cost, rank = factor.skill(level), factor.relative_time(level), factor.average_ranks[level]
        difference = factor.differences.get(level)
        tests = (
            make_test_cells(difference, difference.mean) if difference else dict.fromkeys(TEST, Cell(MISSING))
        )
        cells = [
            Cell.from_text(level),
            make_verdict(factor.get_verdict(level)),
            *tests.values(),
            Cell.from_number(skill, style="bad" if skill < 0 else ""),
            Cell(MISSING) if math.isnan(cost) else Cell(f"{cost:.2f} ×", cost),
            Cell(f"{rank:.2f}", rank),
        ]
        rows.append(("best" * (level == factor.best), cells))
    return Table(f"{factor.name}, {factor.extent}", columns, rows, describe_factor(factor))


def format_csv(rows: Iterable[dict[str, Any]]) -> str:
    """Return the rows of `make_rows` or `make_factor_rows` as CSV."""
    return pd.DataFrame(rows).map(escape_formula).to_csv(index=False)


def escape_formula(value: Any) -> Any:
    """Quote text that a spreadsheet would run as a formula, because names may come from other people's files."""
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if is_formula else value


def make_test_row(difference: LossDifference, interval: tuple[float, float]) -> dict[str, float]:
    """Return the entries of a row that describe a test."""
    low, high = interval
    return {
        "difference": difference.mean,
        "difference_low": low,
        "difference_high": high,
        "p_adjusted": difference.adjusted_p_value,
    }


def make_rows(tasks: Iterable[Task]) -> Iterator[dict[str, Any]]:
    """Yield the scores, costs, test result and settings of each variant and baseline of the tasks."""
    for task in tasks:
        metrics = task.first_run.metrics
        for entry in task.entries:
            row: dict[str, Any] = {
                "task": task.title, "data": metrics["data"], "features": metrics["features"],
                "pred_len": task.pred_len, "test_windows": len(task.best.losses), "name": entry.name,
                "kind": "baseline" if entry.is_baseline else "variant", "seeds": len(entry.runs),
            }  # fmt: skip
            for column in (*SCORE_COLUMNS, *COSTS):
                mean, deviation = mean_and_std(task.get_values(entry, column))
                row |= {column.key: mean, f"{column.key}_dev": deviation}
            difference = task.differences.get(entry.name, NO_DIFFERENCE)
            row |= {
                "tested_score": entry.score,
                "reference": task.reference.name,
                **make_test_row(difference, difference.interval()),
                "p_value": difference.p_value,
                "verdict": task.get_verdict(entry),
                "worse_than_best_baseline": task.is_worse_than_baseline(entry),
            }
            for method, scores in collect_interval_scores(entry).items():
                row |= {f"{method}_{name}": value for name, (value, _) in scores.items()}
            yield row | task.settings.get(entry.name, {})


def make_factor_rows(factor: Factor) -> Iterator[dict[str, Any]]:
    """Yield each value of the factor: its error relative to the best value's, skill, cost and rank."""
    for level in factor.levels:
        difference = factor.differences.get(level, NO_DIFFERENCE)
        yield {
            factor.name: level,
            "verdict": factor.get_verdict(level),
            "comparisons": len(factor.groups),
            "tasks": len(factor.tasks),
            **make_test_row(difference, difference.relative_interval()),
            "skill": factor.skill(level),
            "relative_time": factor.relative_time(level),
            "average_rank": factor.average_ranks[level],
        }
