"""Tables of the comparison page: headings with explanations, and cells that can be sorted."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from forecast.reports.compare.entry import Entry
from forecast.reports.compare.number_format import MISSING, format_number
from forecast.reports.compare.scores import (
    COSTS,
    SCORE_COLUMNS,
    SKILL,
    Column,
    collect_interval_scores,
    explain_misses_of,
    find_best_mean,
    format_test,
    get_values,
    get_verdict,
    is_best_of_column,
    is_worse_than_baseline,
    name_reference,
)
from forecast.reports.compare.task import Task
from forecast.runs.summary import mean_and_std
from forecast.system.formatting import format_tokens

VARIANT = Column(
    "name", "variant", "settings in which the variants differ; baselines are in italics", "neither"
)
TOKENS = Column("tokens", "tokens", "tokens of the attention in each slot; cross: queries × keys", "neither")
SEEDS = Column("seeds", "seeds", "number of runs that differ only in the seed", "neither")
TEST_RESULTS = (
    Column(
        "interval",
        "95 % interval",
        "of that difference, in percent; the intervals have simultaneous coverage",
        "neither",
    ),
    Column("p", "p", "adjusted p-value of the test", "neither"),
)
VERDICT = Column("verdict", "verdict", "result of the test at the 5 % significance level", "neither")
UNKNOWN = (math.nan, math.nan)
VERDICT_STYLES = {"best": "leads", "worse": "bad", "better": "good"}


@dataclass(frozen=True)
class Cell:
    """A table cell: its text, the value it is sorted by (None: sorted last), and its CSS class."""

    text: str
    value: float | str | None = None
    style: str = ""

    @classmethod
    def from_number(cls, mean: float, deviation: float = math.nan, style: str = "") -> "Cell":
        return cls(format_number(mean, deviation), known(mean), style)

    @classmethod
    def from_text(cls, text: str, style: str = "") -> "Cell":
        return cls(text, text, style)


@dataclass(frozen=True)
class HtmlTable:
    """A table of the page. Each row is its CSS class and its cells; the first cell names the row."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[tuple[str, list[Cell]]]
    sorted_by: str | None = None

    @cached_property
    def text_columns(self) -> set[int]:
        """Indices of the columns that contain text."""
        return {i for _, cells in self.rows for i, cell in enumerate(cells) if isinstance(cell.value, str)}


def make_score_table(task: Task) -> HtmlTable:
    """Return the test scores; the verdict stands beside the name, and the test beside the score that is tested."""
    meaning = f"{task.score_label} relative to that of {task.reference.name}"
    change = Column("change", name_reference(task), meaning, "neither")
    tested, *rest = scores = sorted(SCORE_COLUMNS, key=lambda column: column.key != task.best.score)
    columns = [VARIANT, VERDICT, SEEDS, tested, change, *TEST_RESULTS, *rest]
    best = [find_best_mean(task, column) for column in scores]
    rows = []
    for entry in task.entries:
        score, *others = (make_score_cell(task, entry, *pair) for pair in zip(scores, best, strict=True))
        name, seeds = make_name_cells(entry)
        verdict = make_verdict_cell(task, entry)
        cells = [name, verdict, seeds, score, *make_test_cells(task, entry), *others]
        rows.append((get_row_style(task, entry), cells))
    return HtmlTable("Test scores, mean ± standard deviation over seeds", columns, rows, tested.key)


def make_cost_table(task: Task) -> HtmlTable:
    """Return the cost of each variant."""
    best = [find_best_mean(task, column) for column in COSTS]
    rows = []
    for entry in task.unmerged_variants:
        cells = (make_score_cell(task, entry, *pair) for pair in zip(COSTS, best, strict=True))
        tokens = Cell(describe_tokens(entry))
        rows.append((get_row_style(task, entry), [*make_name_cells(entry), *cells, tokens]))
    return HtmlTable("Cost, mean ± standard deviation over seeds", [VARIANT, SEEDS, *COSTS, TOKENS], rows)


def describe_tokens(entry: Entry) -> str:
    """Return the tokens of each attention slot, such as `encoder 14, decoder 3, cross 3 × 14`."""
    slots = entry.runs[0].metrics.get("attention_slots") or {}
    texts = [
        f"{name} {format_tokens(slot['role'], slot['queries'], slot['keys'])}" for name, slot in slots.items()
    ]
    return ", ".join(texts) or MISSING


def make_name_cells(entry: Entry) -> list[Cell]:
    seeds = Cell(MISSING) if entry.is_baseline else Cell.from_number(float(len(entry.runs)))
    return [Cell.from_text(entry.name), seeds]


def make_score_cell(task: Task, entry: Entry, column: Column, best: float) -> Cell:
    mean, deviation = mean_and_std(get_values(task, entry, column))
    is_bad = column.key == "skill" and is_worse_than_baseline(task, entry)
    style = "leads" if is_best_of_column(task, entry, mean, best) else "bad" if is_bad else ""
    return Cell.from_number(mean, deviation, style)


def make_test_cells(task: Task, entry: Entry) -> Iterator[Cell]:
    """Yield the relative difference to the reference, its interval and the p-value."""
    change, interval, p_value = format_test(task, entry)
    is_reference = entry is task.reference
    yield Cell(change, 0.0 if is_reference else known(task.relative_difference(entry)))
    yield Cell(interval)
    yield Cell(p_value, None if is_reference else known(task.differences[entry.name].adjusted_p_value))


def make_verdict_cell(task: Task, entry: Entry) -> Cell:
    verdict = get_verdict(task, entry)
    return Cell.from_text(verdict, VERDICT_STYLES.get(verdict, "tied"))


def known(value: float) -> float | None:
    """Return a value to sort by; None if it is NaN."""
    return None if math.isnan(value) else value


def get_row_style(task: Task, entry: Entry) -> str:
    return "baseline" if entry.is_baseline else "best" if entry is task.best else ""


def make_interval_table(task: Task) -> HtmlTable | None:
    """Return the scores of prediction intervals, one row per variant and method; None if no run has any."""
    found = collect_interval_scores(task)
    names = dict.fromkeys(
        name for methods in found.values() for scores in methods.values() for name in scores
    )
    if not names:
        return None
    columns = [VARIANT, Column("method", "method", "method that made the intervals", "neither")]
    columns += [Column(name, *explain_interval_score(name), "neither") for name in names]
    misses = {
        (entry.name, method): explain_misses_of(entry, method)
        for entry in task.variants
        for method in found.get(entry.name, {})
    }
    if any(misses.values()):
        columns.append(Column("misses", "misses", "why a coverage is more than ten points off", "neither"))
    rows = []
    for variant, methods in found.items():
        for method, scores in methods.items():
            values = [Cell.from_number(*scores.get(name, UNKNOWN)) for name in names]
            if any(misses.values()):
                values.append(Cell.from_text(misses[variant, method] or MISSING))
            rows.append(("", [Cell.from_text(variant), Cell.from_text(method), *values]))
    return HtmlTable("Prediction intervals, mean ± standard deviation over seeds", columns, rows)


def explain_interval_score(name: str) -> tuple[str, str]:
    """Return the heading and the explanation of a score: for `width_raw_80`, `80 % width (units)` and its meaning."""
    score, level = map(str, re.findall(r"^(.+?)(?:_([\d.]+))?$", name)[0])
    meanings: dict[str, str] = {
        "coverage": f"fraction of true values within the interval; nominal value {level} %",
        "above": "fraction of true values above the interval",
        "below": "fraction of true values below the interval",
        "error_ratio": "mean absolute error of the median, relative to that on the validation windows",
        "horizons": "number of horizons that the validation rows hold",
        "width": "mean width, scaled",
        "width_raw": "mean width in original units",
        "score": "interval score, scaled; lower is better",
        "pinball": "mean pinball loss, scaled; lower is better",
        "crps": "continuous ranked probability score, scaled; lower is better",
    }
    heading = {
        "crps": "CRPS", "width_raw": "width (units)", "error_ratio": "error ratio", "horizons": "validation horizons",
    }.get(score, score)  # fmt: skip
    return f"{level} % {heading}" if level else heading, meanings.get(score, score)


def make_settings_table(task: Task) -> HtmlTable:
    """Return the settings in which the variants differ."""
    names = list(task.settings[task.unmerged_variants[0].name])
    rows = []
    for entry in task.unmerged_variants:
        cells = [Cell(value, parse_number(value)) for value in task.settings[entry.name].values()]
        rows.append((get_row_style(task, entry), [Cell.from_text(entry.name), *cells]))
    columns = [VARIANT, *(Column(name, name, name, "neither") for name in names)]
    return HtmlTable("Settings in which the variants differ", columns, rows)


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


def make_overview_table(tasks: Sequence[Task]) -> HtmlTable:
    """Return one row per task: the best variant, and its skill against the best baseline."""
    rows = []
    for task in tasks:
        cells = [
            Cell.from_text(task.title), Cell.from_number(float(len(task.best.losses))),
            Cell.from_number(float(len(task.variants))), Cell.from_text(task.best.name),
            Cell.from_number(*task.best.mean_and_std(task.best.score)),
            make_score_cell(task, task.best, SKILL, math.nan), Cell.from_text(task.best_baseline.name),
        ]  # fmt: skip
        rows.append(("", cells))
    columns = [Column(name, name, meaning, "neither") for name, meaning in OVERVIEW.items()]
    return HtmlTable("Tasks", columns, rows)
