"""The page's tables: headings that explain themselves, and cells that know how to be sorted."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from forecast.comparison.naming import MISSING
from forecast.comparison.tables import (
    COSTS,
    SCORES,
    TIED,
    UNTOLD,
    Column,
    best_of,
    entries,
    interval_scores,
    leads,
    loses,
    number,
    probability,
    values,
    verdict,
)
from forecast.comparison.tasks import Entry, Task
from forecast.sweep import mean_and_deviation

VARIANT = Column("name", "variant", "the settings that tell the variants apart; in italics: baselines", 0)
SEEDS = Column("seeds", "seeds", "runs that differ in the seed alone", 0)
TESTED = (
    Column("more", "vs best", "MSE beyond the best variant's", 0),
    Column("p", "p", "of the difference to the best variant: Diebold-Mariano test, adjusted", 0),
    Column("verdict", "verdict", "what the test says at the 5 % level", 0),
)
UNKNOWN = (math.nan, math.nan)


@dataclass(frozen=True)
class Cell:
    """What is shown, what it is sorted by, and how it looks."""

    text: str
    value: float | str | None = None  # None: nothing to sort by
    look: str = ""

    @classmethod
    def of(cls, mean: float, deviation: float = math.nan, look: str = "") -> "Cell":
        return cls(number(mean, deviation), None if math.isnan(mean) else mean, look)

    @classmethod
    def label(cls, text: str, look: str = "") -> "Cell":
        return cls(text, text, look)


@dataclass(frozen=True)
class Sheet:
    """A table of the page; `rows` pairs a row's look with its cells, the first of which names it."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[tuple[str, list[Cell]]]
    sorted_by: str | None = None

    @cached_property
    def text_columns(self) -> set[int]:
        """Numbers of the columns whose cells are words."""
        return {i for _, cells in self.rows for i, cell in enumerate(cells) if isinstance(cell.value, str)}


def scores(task: Task) -> Sheet:
    """Scores, and the test against the best variant."""
    columns = [VARIANT, SEEDS, SCORES[0], *TESTED, *SCORES[1:]]
    best = [best_of(task, column) for column in SCORES]
    rows = []
    for entry in entries(task):
        first, *others = (score_cell(task, entry, *pair) for pair in zip(SCORES, best, strict=True))
        rows.append((row_look(task, entry), [*named(entry), first, *tested(task, entry), *others]))
    return Sheet("Test scores, mean ± deviation over seeds", columns, rows, sorted_by="mse")


def costs(task: Task) -> Sheet:
    """What each variant costs."""
    best = [best_of(task, column) for column in COSTS]
    rows = []
    for entry in task.variants:
        cells = (score_cell(task, entry, *pair) for pair in zip(COSTS, best, strict=True))
        rows.append((row_look(task, entry), [*named(entry), *cells]))
    return Sheet("Cost, mean ± deviation over seeds", [VARIANT, SEEDS, *COSTS], rows)


def named(entry: Entry) -> list[Cell]:
    seeds = Cell(MISSING) if entry.is_baseline else Cell.of(float(len(entry.runs)))
    return [Cell.label(entry.name), seeds]


def score_cell(task: Task, entry: Entry, column: Column, best: float) -> Cell:
    mean, deviation = mean_and_deviation(values(task, entry, column))
    bad = "bad" if column.key == "skill" and loses(task, entry) else ""
    look = "leads" if leads(task, entry, mean, best) else bad
    return Cell.of(mean, deviation, look)


def tested(task: Task, entry: Entry) -> Iterator[Cell]:
    if entry is task.best:
        yield from (Cell(MISSING, 0.0), Cell(MISSING), Cell.label("best", "leads"))
        return
    best = task.best.mean("mse")
    more = entry.mean("mse") / best - 1 if best > 0 else math.nan
    p = task.differences[entry.name].adjusted
    what = verdict(task, entry)
    looks = {"worse": "bad", "better": "good", TIED: "tied", UNTOLD: "tied"}
    yield Cell(f"{100 * more:+,.1f} %".replace("-", "−"), more) if best > 0 else Cell(MISSING)
    yield Cell(probability(p), None if math.isnan(p) else p)
    yield Cell.label(what, looks.get(what, ""))


def row_look(task: Task, entry: Entry) -> str:
    return "baseline" if entry.is_baseline else "best" if entry is task.best else ""


def intervals(task: Task) -> Sheet | None:
    """Coverage and width of prediction intervals, where runs have any: a row a variant and method."""
    found = interval_scores(task)
    names = dict.fromkeys(
        name for methods in found.values() for scores in methods.values() for name in scores
    )
    if not names:
        return None
    columns = [VARIANT, Column("method", "method", "how the intervals were made", 0)]
    columns += [Column(name, *interval_heading(name), 0) for name in names]
    rows = [
        ("", [Cell.label(variant), Cell.label(method), *(Cell.of(*scores.get(name, UNKNOWN)) for name in names)])
        for variant, methods in found.items()
        for method, scores in methods.items()
    ]  # fmt: skip
    return Sheet("Prediction intervals, mean ± deviation over seeds", columns, rows)


def interval_heading(name: str) -> tuple[str, str]:
    """`width_raw_80` as `width, units 80 %`, and what it is."""
    score, level = map(str, re.findall(r"^(.+?)(?:_([\d.]+))?$", name)[0])
    meanings: dict[str, str] = {
        "coverage": f"share of true values in the interval; it should be {level} %",
        "width": "mean width, scaled",
        "width_raw": "mean width in the data's units",
        "pinball": "mean pinball loss, scaled; lower is better",
        "crps": "continuous ranked probability score, scaled; lower is better",
    }
    text = {"crps": "CRPS", "width_raw": "width, units"}.get(score, score)
    return f"{text} {level} %" if level else text, meanings.get(score, score)


def settings(task: Task) -> Sheet:
    """What differed in the configurations."""
    names = list(task.settings[task.best.name])
    rows = [
        (row_look(task, e), [Cell.label(e.name), *(Cell(v, sortable(v)) for v in task.settings[e.name].values())])
        for e in task.variants
    ]  # fmt: skip
    return Sheet(
        "Settings in which the variants differ", [VARIANT, *(Column(n, n, n, 0) for n in names)], rows
    )


def sortable(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def overview(tasks: Sequence[Task]) -> Sheet:
    """One row a task: the best variant, and how it stands to the best baseline."""
    headings = {
        "task": "data, horizon and columns", "windows": "test windows", "variants": "variants compared",
        "best": "variant with the lowest MSE", "MSE": "its MSE, scaled", "skill": "1 − MSE / the best baseline's",
        "best baseline": "simple rule with the lowest MSE",
    }  # fmt: skip
    rows = []
    for task in tasks:
        skill = mean_and_deviation(task.skill(task.best))
        cells = [
            Cell.label(task.title), Cell.of(float(len(task.best.losses))), Cell.of(float(len(task.variants))),
            Cell.label(task.best.name), Cell.of(*task.best.spread("mse")),
            Cell.of(*skill, look="bad" if skill[0] < 0 else "good"), Cell.label(task.best_baseline.name),
        ]  # fmt: skip
        rows.append(("", cells))
    return Sheet("The tasks compared", [Column(k, k, v, 0) for k, v in headings.items()], rows)
