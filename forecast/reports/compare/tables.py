"""Tables of a comparison: columns with a heading, an explanation and the cell of each row, for every format."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from forecast.evaluation.scores import explain_misses
from forecast.evaluation.significance import SIGNIFICANCE_LEVEL
from forecast.reports.compare.factors import Factor, describe_extent, describe_factor
from forecast.reports.compare.findings import answer
from forecast.reports.compare.number_format import (
    MISSING,
    find_date_format,
    format_interval,
    format_number,
    format_p_value,
    format_percent,
)
from forecast.reports.compare.task import (
    COSTS,
    SCORE_COLUMNS,
    Column,
    Entry,
    Task,
    find_best_mean,
    get_values,
    get_verdict,
    is_not_significant,
    is_worse_than_baseline,
)
from forecast.runs.summary import mean_and_std
from forecast.system.formatting import format_tokens

NAME = Column("name", "variant", "settings in which the variants differ; baselines are in italics")
UNKNOWN = (math.nan, math.nan)
VERDICT_STYLES = {"best": "leads", "worse": "bad", "better": "good"}
MARK = "†"
NOTE = (
    f"Mean and standard deviation over seeds. Bold: best variant of the column. {MARK}: no significant difference from "
    f"{{reference}} at the {100 * SIGNIFICANCE_LEVEL:.0f} % level (Diebold-Mariano test on {{score}} "
    "for overlapping windows with the variance over seeds, p-values and intervals with Bonferroni correction; no test "
    "between variants of one seed). Italics: baselines."
)
MAX_WINDOWS = 3  # in the table of windows on which the variants disagree


@dataclass(frozen=True)
class Cell:
    """A table cell.

    text: what it shows.
    value: what it is sorted by; None: sorted last. Text is aligned to the left.
    style: its CSS class; `leads` is the best of its column.
    is_marked: whether `MARK` follows the text in a table with a note.
    """

    text: str
    value: float | str | None = None
    style: str = ""
    is_marked: bool = False

    @classmethod
    def from_number(cls, mean: float, deviation: float = math.nan, style: str = "") -> "Cell":
        return cls(format_number(mean, deviation), known(mean), style)

    @classmethod
    def from_text(cls, text: str, style: str = "") -> "Cell":
        return cls(text, text, style)

    @classmethod
    def from_verdict(cls, verdict: str) -> "Cell":
        return cls.from_text(verdict, VERDICT_STYLES.get(verdict, "tied"))


Field = tuple[Column, Callable[[Entry], Cell]]
"""A column of a table of entries, and the function that returns its cell."""


@dataclass(frozen=True)
class Table:
    """A table in every format. Each row is its CSS class, such as `best`, and its cells; the first one names the row.

    sentences: findings on the table.
    note: explanation of the cells that lead and are marked. Without it, the name of the best row is emphasized instead.
    sorted_by: key of the column that the rows are sorted by.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[tuple[str, list[Cell]]]
    sentences: Sequence[str] = ()
    note: str = ""
    sorted_by: str | None = None

    @cached_property
    def text_columns(self) -> set[int]:
        """Indices of the columns that contain text."""
        return {i for _, cells in self.rows for i, cell in enumerate(cells) if isinstance(cell.value, str)}

    def without(self, keys: Sequence[str]) -> "Table":
        """Return the table without the columns of these keys."""
        kept = [i for i, column in enumerate(self.columns) if column.key not in keys]
        rows = [(style, [cells[i] for i in kept]) for style, cells in self.rows]
        return replace(self, columns=[self.columns[i] for i in kept], rows=rows)


def make_table(
    task: Task, title: str, fields: Sequence[Field], entries: Iterable[Entry], **more: Any
) -> Table:
    """Return a table with a row for each entry of a task and a column for each field."""
    rows = [(row_style(task, entry), [make_cell(entry) for _, make_cell in fields]) for entry in entries]
    return Table(title, [column for column, _ in fields], rows, **more)


def known(value: float) -> float | None:
    """Return a value to sort by; None if it is NaN."""
    return None if math.isnan(value) else value


def row_style(task: Task, entry: Entry) -> str:
    return "baseline" if entry.is_baseline else "best" if entry is task.best else ""


def make_seeds(entry: Entry) -> Cell:
    return Cell(MISSING) if entry.is_baseline else Cell.from_number(float(len(entry.runs)))


NAME_FIELD: Field = NAME, lambda entry: Cell.from_text(entry.name)
SEEDS_FIELD: Field = Column("seeds", "seeds", "number of runs that differ only in the seed"), make_seeds


def make_score_field(task: Task, column: Column, *, has_deviation: bool = True) -> Field:
    """Return the mean of a score or cost, with the standard deviation over seeds unless that is left out."""
    best = find_best_mean(task, column)

    def make_cell(entry: Entry) -> Cell:
        mean, deviation = mean_and_std(get_values(task, entry, column))
        is_best = not entry.is_baseline and mean == best and len(task.variants) > 1
        is_bad = column.key == "skill" and is_worse_than_baseline(task, entry)
        style = "leads" if is_best else "bad" if is_bad else ""
        return Cell.from_number(mean, deviation if has_deviation else math.nan, style)

    return column, make_cell


def make_test_fields(task: Task) -> list[Field]:
    """Return the relative difference from the reference, its interval and the adjusted p-value."""
    name = "best" if task.reference is task.best else task.reference.name

    def make_change(entry: Entry) -> Cell:
        if entry is task.reference:
            return Cell(MISSING, 0.0)
        change = task.relative_difference(entry)
        return Cell(format_percent(change), known(change))

    def make_interval(entry: Entry) -> Cell:
        return Cell(MISSING if entry is task.reference else format_interval(task.differences[entry.name]))

    def make_p_value(entry: Entry) -> Cell:
        if entry is task.reference:
            return Cell(MISSING)
        p_value = task.differences[entry.name].adjusted_p_value
        return Cell(format_p_value(p_value), known(p_value))

    relative = f"{task.score_label} relative to that of {task.reference.name}"
    meaning = "of that difference, in percent; the intervals have simultaneous coverage"
    return [
        (Column("change", f"vs {name}", relative), make_change),
        (Column("interval", "95 % interval", meaning), make_interval),
        (Column("p", "p", "adjusted p-value of the test"), make_p_value),
    ]


def make_score_table(task: Task) -> Table:
    """Return the test scores; the verdict stands beside the name, and the test beside the score that is tested."""
    verdict = Column("verdict", "verdict", "result of the test at the 5 % significance level")
    scores = sorted(SCORE_COLUMNS, key=lambda column: column.key != task.best.score)
    tested, *others = (make_score_field(task, column) for column in scores)
    return make_table(
        task,
        "Test scores, mean ± standard deviation over seeds",
        [
            NAME_FIELD,
            (verdict, lambda entry: Cell.from_verdict(get_verdict(task, entry))),
            SEEDS_FIELD,
            tested,
            *make_test_fields(task),
            *others,
        ],
        task.entries,
        sorted_by=task.best.score,
    )


def make_short_table(task: Task) -> Table:
    """Return the main scores, the test and the costs, for the terminal, papers and READMEs."""
    shown = [column for column in SCORE_COLUMNS if column.key in ("mse", "mae", "skill", task.best.score)]
    (first, make_first), *scores = (make_score_field(task, column) for column in shown)
    (change, make_change), (_, make_interval), (p, make_p_value) = make_test_fields(task)

    def make_marked(entry: Entry) -> Cell:
        return replace(make_first(entry), is_marked=is_not_significant(task, entry))

    def make_difference(entry: Entry) -> Cell:
        text = make_change(entry).text
        return Cell(text if text == MISSING else f"{text} {make_interval(entry).text}")

    def make_verdict(entry: Entry) -> Cell:
        beaten = f"; beaten by {task.best_baseline.name}" if is_worse_than_baseline(task, entry) else ""
        return Cell.from_text(get_verdict(task, entry) + beaten)

    reference = "the best variant" if task.reference is task.best else task.reference.name
    sentence = answer(task)
    return make_table(
        task,
        task.title,
        [
            NAME_FIELD,
            SEEDS_FIELD,
            (first, make_marked),
            *scores,
            (replace(change, heading=f"{change.heading} (95 % interval)"), make_difference),
            (replace(p, heading=f"p ({change.heading})"), make_p_value),
            *(make_score_field(task, column, has_deviation=False) for column in COSTS[:3]),
            (Column("verdict", "verdict"), make_verdict),
        ],
        task.entries,
        sentences=[sentence] if sentence else [],
        note=NOTE.format(reference=reference, score=task.score_label),
        sorted_by=task.best.score,
    )


def make_cost_table(task: Task) -> Table:
    """Return the cost of each variant."""
    tokens = Column("tokens", "tokens", "tokens of the attention in each slot; cross: queries × keys")
    return make_table(
        task,
        "Cost, mean ± standard deviation over seeds",
        [
            NAME_FIELD,
            SEEDS_FIELD,
            *(make_score_field(task, column) for column in COSTS),
            (tokens, lambda entry: Cell(describe_tokens(entry))),
        ],
        task.unmerged_variants,
    )


def describe_tokens(entry: Entry) -> str:
    """Return the tokens of each attention slot, such as `encoder 14, decoder 3, cross 3 × 14`."""
    slots = entry.runs[0].metrics.get("attention_slots") or {}
    texts = [
        f"{name} {format_tokens(slot['role'], slot['queries'], slot['keys'])}" for name, slot in slots.items()
    ]
    return ", ".join(texts) or MISSING


def collect_interval_scores(task: Task) -> dict[str, dict[str, dict[str, tuple[float, float]]]]:
    """Return mean and standard deviation of the interval scores, by variant, method and score."""
    found: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    for entry in task.variants:
        known = [run.metrics.get("intervals") or {} for run in entry.runs]
        for method in dict.fromkeys(name for intervals in known for name in intervals):
            flat = [flatten_levels(intervals[method]) for intervals in known if method in intervals]
            found.setdefault(entry.name, {})[method] = {
                name: mean_and_std([scores.get(name) for scores in flat]) for name in flat[0]
            }
    return found


def flatten_levels(scores: dict[str, Any]) -> dict[str, float | None]:
    """Return `{"80": {"coverage": c}, "crps": s}` as `{"coverage_80": c, "crps": s}`."""
    flat = {}
    for name, value in scores.items():
        flat |= {f"{k}_{name}": v for k, v in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def make_interval_table(task: Task) -> Table | None:
    """Return the scores of prediction intervals, one row per variant and method; None if no run has any."""
    found = collect_interval_scores(task)
    rows = [(entry, method) for entry in task.variants for method in found.get(entry.name, {})]
    names = dict.fromkeys(name for entry, method in rows for name in found[entry.name][method])
    if not names:
        return None
    why = {(entry, method): explain_first_miss(entry, method) or MISSING for entry, method in rows}
    columns = [NAME, Column("method", "method", "method that made the intervals")]
    columns += [Column(name, *explain_interval_score(name)) for name in names]
    has_misses = set(why.values()) != {MISSING}
    if has_misses:
        columns.append(Column("misses", "misses", "why a coverage is more than ten points off"))
    cells = [
        [
            *map(Cell.from_text, (entry.name, method)),
            *(Cell.from_number(*found[entry.name][method].get(name, UNKNOWN)) for name in names),
            *([Cell.from_text(why[entry, method])] if has_misses else []),
        ]
        for entry, method in rows
    ]
    title = "Prediction intervals, mean ± standard deviation over seeds"
    return Table(title, columns, [("", row) for row in cells])


def explain_first_miss(entry: Entry, method: str) -> str:
    """Return why intervals of a variant miss a level, of its first run that misses one; empty if none does."""
    runs = (explain_misses(run.metrics.get("intervals") or {}).get(method, "") for run in entry.runs)
    return next(filter(None, runs), "")


def explain_interval_score(name: str) -> tuple[str, str]:
    """Return the heading and the explanation of a score: for `width_raw_80`, `80 % width (units)` and its meaning."""
    score, level = map(str, re.findall(r"^(.+?)(?:_([\d.]+))?$", name)[0])
    heading, meaning = {
        "coverage": ("coverage", f"fraction of true values within the interval; nominal value {level} %"),
        "above": ("above", "fraction of true values above the interval"),
        "below": ("below", "fraction of true values below the interval"),
        "error_ratio": (
            "error ratio",
            "mean absolute error of the median, relative to that on the validation windows",
        ),
        "horizons": ("validation horizons", "number of horizons that the validation rows hold"),
        "width": ("width", "mean width, scaled"),
        "width_raw": ("width (units)", "mean width in original units"),
        "score": ("score", "interval score, scaled; lower is better"),
        "pinball": ("pinball", "mean pinball loss, scaled; lower is better"),
        "crps": ("CRPS", "continuous ranked probability score, scaled; lower is better"),
    }.get(score, (score, score))
    return f"{level} % {heading}" if level else heading, meaning


def make_settings_table(task: Task) -> Table:
    """Return the settings in which the variants differ."""

    rows = []
    for entry in task.unmerged_variants:
        values = [Cell(value, parse_number(value)) for value in task.settings[entry.name].values()]
        rows.append((row_style(task, entry), [Cell.from_text(entry.name), *values]))
    columns = [NAME, *(Column(name, name, name) for name in task.setting_names)]
    return Table("Settings in which the variants differ", columns, rows)


def parse_number(text: str) -> float | str:
    """Return the number that a text stands for, or the text itself."""
    try:
        return float(text)
    except ValueError:
        return text


OVERVIEW = {
    "task": "data, horizon and features", "windows": "number of test windows", "variants": "number of variants",
    "best variant": "variant with the lowest error", "error": "its error, scaled",
    "skill": "1 − error / error of the best baseline", "best baseline": "baseline with the lowest error",
}  # fmt: skip


def make_overview_table(tasks: Sequence[Task]) -> Table:
    """Return one row per task: the best variant, and its skill against the best baseline."""

    rows = []
    for task in tasks:
        is_bad = is_worse_than_baseline(task, task.best)
        cells = [
            Cell.from_text(task.title),
            Cell.from_number(float(len(task.best.losses))),
            Cell.from_number(float(len(task.variants))),
            Cell.from_text(task.best.name),
            Cell.from_number(*task.best.mean_and_std(task.best.score)),
            Cell.from_number(*mean_and_std(task.skill(task.best)), "bad" if is_bad else ""),
            Cell.from_text(task.best_baseline.name),
        ]
        rows.append(("", cells))
    return Table("Tasks", [Column(name, name, meaning) for name, meaning in OVERVIEW.items()], rows)


def find_disagreements(task: Task) -> list[int]:
    """Return the numbers of the test windows with the largest ranges of the variants' losses, at most `MAX_WINDOWS`.

    Windows of which one has steps in common with a chosen one are left out, in every series.
    """
    losses = np.array([entry.losses for entry in task.variants])
    ranges = np.ptp(losses, axis=0)
    places = np.searchsorted(task.dates, task.first_run.windows["forecast_start"].to_numpy())
    chosen: list[int] = []
    is_free = ranges > 0
    while is_free.any() and len(chosen) < MAX_WINDOWS:
        window = int(np.where(is_free, ranges, -1).argmax())
        chosen.append(window)
        is_free &= np.abs(places - places[window]) >= task.overlap
    return chosen


def make_disagreement_table(task: Task) -> Table | None:
    """Return the windows on which the variants disagree most; None if their errors are the same in every window."""
    table, error, is_of_series = task.first_run.windows, task.score_label, bool(task.first_run.ids)
    columns = [
        Column("window", "window", "number of the window in the test split"),
        Column("start", "forecast from", "date of the first forecast step"),
        *([Column("series", "series", "id of the series")] if is_of_series else []),
        Column("lowest", "lowest error", f"variant with the lowest {error} in this window"),
        Column("highest", "highest error", f"variant with the highest {error} in this window"),
        Column("baseline", task.best_baseline.name, f"{error} of the best baseline"),
    ]
    rows = []
    for window in find_disagreements(task):
        start = pd.Timestamp(table["forecast_start"].iloc[window])
        low, *_, high = sorted((float(entry.losses[window]), i) for i, entry in enumerate(task.variants))
        cells = [
            Cell(str(window), float(window)),
            Cell.from_text(start.strftime(find_date_format(task.dates))),
            *([Cell.from_text(str(table["unique_id"].iloc[window]))] if is_of_series else []),
            *(Cell(f"{task.variants[i].name}: {format_number(loss)}", loss) for loss, i in (low, high)),
            Cell.from_number(float(task.best_baseline.losses[window])),
        ]
        rows.append(("", cells))
    return (
        Table(f"Windows on which the {error} of the variants differs most", columns, rows) if rows else None
    )


def make_factor_table(factor: Factor) -> Table:
    """Return one row per value of the factor: its error relative to the best value's, skill, ranks and cost."""
    rows = [("best" * (level == factor.best), make_factor_cells(factor, level)) for level in factor.levels]
    columns = [Column(factor.name, factor.name, "value of the setting"), *FACTOR_COLUMNS]
    title = f"{factor.name}, {describe_extent(factor)}"
    return Table(title, columns, rows, sentences=describe_factor(factor))


FACTOR_COLUMNS = (
    Column("verdict", "verdict", "result of the test against the best value at the 5 % level"),
    Column("change", "vs best", "mean relative difference of the error from the best value's"),
    Column("interval", "95 % interval", "of that difference; the intervals have simultaneous coverage"),
    Column("p", "p", "adjusted p-value"),
    Column("skill", "skill", "1 − geometric mean of error / error of the best baseline"),
    Column("spread", "skill (95 %)", "its 95 % interval over seeds: stratified bootstrap"),
    Column("cost", "time vs best", "inference time per window relative to the best value's"),
    Column("wins", "win rate", "share of all pairs with another value that this one wins"),
    Column("rank", "average rank", "over the tasks; 1: the lowest error in every task"),
)


def make_factor_cells(factor: Factor, level: str) -> list[Cell]:
    skill, low, high = factor.skill(level)
    tests = [Cell(MISSING, 0.0), Cell(MISSING), Cell(MISSING)]
    if difference := factor.differences.get(level):
        tests = [
            Cell(format_percent(difference.mean), difference.mean),
            Cell(format_interval(difference)),
            Cell(format_p_value(difference.adjusted_p_value)),
        ]
    wins, rank, cost = factor.win_rate(level), factor.average_rank(level), factor.relative_cost(level)
    return [
        Cell.from_text(level),
        Cell.from_verdict(factor.verdict(level)),
        *tests,
        Cell.from_number(skill, style="bad" if skill < 0 else ""),
        Cell(MISSING if math.isnan(low) else f"[{format_number(low)}, {format_number(high)}]"),
        Cell(MISSING if math.isnan(cost) else f"{cost:.2f} ×", known(cost)),
        Cell(f"{wins:.0%}", wins),
        Cell(f"{rank:.2f}", rank),
    ]
