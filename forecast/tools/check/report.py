"""The report of a panel: findings for the terminal and the JSON file, and the figure of its curves and splits."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from rich.console import Console
from rich.table import Table as Grid

from forecast.data.calendars import format_date
from forecast.data.panel import describe_size
from forecast.data.time_features import choose_evenly_spaced
from forecast.evaluation.scores import LABELS, windows_needed
from forecast.system.formatting import format_amount, plural, shorten, write_setting, write_value
from forecast.tools.check.advice import write_command
from forecast.tools.check.diagnosis import Diagnosis
from forecast.tools.check.facts import runs

MAX_COPIES = 5  # largest number of columns that are named as copies
MAX_NAMED = 4  # largest number of series named in a line
LEVEL = 80  # level of the intervals, in percent, for which validation should have enough windows
MAX_COLUMNS = 16  # largest number of columns in the table
MAX_CURVES, POINTS = 8, 1_500
"""Largest number of curves in the figure, and of stretches of a curve, each drawn by its lowest and highest value."""
PARTS = {"train": "#dfe7ec", "val": "#f3e3b8", "test": "#cfe6d0"}
MISSING = "#d62728"


class Finding(NamedTuple):
    """One row of the report: the section that it belongs to, what was found, and a setting that mends it, if any."""

    section: str
    says: str
    setting: str = ""

    def __str__(self) -> str:
        return f"{self.says} ({self.setting})" if self.setting else self.says


def list_findings(diagnosis: Diagnosis) -> list[Finding]:
    """All findings but those on single columns, which are notes in the table of columns."""
    found: list[Finding] = []
    if diagnosis.data.source.without_role:
        roles = "name them in data.columns, data.past_covariates or data.future_covariates"
        found.append(Finding("not read", shorten(diagnosis.data.source.without_role), roles))
    parts = (
        _find_series,
        _find_gaps,
        _find_errors,
        _find_copies,
        _find_sums,
        _find_seasons,
        _find_split,
        _find_baselines,
    )
    return [*found, *(finding for part in parts for finding in part(diagnosis))]


def describe_data(diagnosis: Diagnosis) -> str:
    """Describe rows, columns, frequency and dates in one line."""
    panel, columns = diagnosis.file, plural(len(diagnosis.columns) + len(diagnosis.categories), "column")
    size = describe_size(panel, f"{panel.n_rows:,} rows × {columns}")
    return (
        f"{diagnosis.name}: {size}, {panel.describe_step()}, "
        f"{format_date(panel.first_date)} to {format_date(panel.last_date)}"
    )


def measure_series(diagnosis: Diagnosis) -> dict[str, Any]:
    """The number of series of a file with ids, and their rows; empty for a table.

    `without_windows` has the number and the first names of those that are too short for a window of a split.
    """
    panel = diagnosis.file
    if not panel.has_ids:
        return {}
    rows = np.sort(panel.lengths)
    short = {part.name: np.flatnonzero(part.windows(*diagnosis.lengths) == 0) for part in diagnosis.parts}
    return {
        "count": len(panel),
        "shortest": rows[0],
        "median": rows[(len(rows) - 1) // 2],
        "longest": rows[-1],
        "without_windows": {
            name: (len(numbers), [str(panel.ids[number]) for number in numbers[:MAX_NAMED]])
            for name, numbers in short.items()
        },
    }


def _find_series(diagnosis: Diagnosis) -> Iterator[Finding]:
    if facts := measure_series(diagnosis):
        length = f"{facts['longest']:,} rows each"
        if facts["shortest"] < facts["longest"]:
            length = f"{facts['shortest']:,} to {length} (median {facts['median']:,})"
        yield Finding("series", length)


def _find_gaps(diagnosis: Diagnosis) -> Iterator[Finding]:
    gaps = diagnosis.gaps
    codes = [f"{one.sentinel:g} in {one.name}" for one in diagnosis.columns if one.sentinel is not None]
    if codes:
        what = f"probable codes for missing values, which are read as numbers: {shorten(codes, 4)}"
        yield Finding("gaps", what, "data.na_values" if "data.na_values" in diagnosis.suggested else "")
    if gaps.missing_rows:
        fraction = gaps.missing_rows / diagnosis.file.n_rows
        named = ", ".join(map(str, gaps.longest)) + ", ..." * (gaps.stretches > len(gaps.longest))
        what = f"{gaps.missing_rows:,} rows are missing or empty in all columns ({fraction:.1%})"
        yield Finding("gaps", f"{what}, in {plural(gaps.stretches, 'place')}: {named}")
    if gaps.missing_numbers:
        yield Finding("gaps", f"{gaps.missing_numbers:,} numbers are missing in other rows")
    if not (codes or gaps.missing_rows or gaps.missing_numbers):
        yield Finding("gaps", "none: no date and no number is missing")


def _find_errors(diagnosis: Diagnosis) -> Iterator[Finding]:
    for column in diagnosis.columns:
        for error in column.gross_errors:
            place = " ".join(filter(None, (error.series, column.name)))
            others = f"all others from {error.low:.6g} to {error.high:.6g}"
            value = f"{error.value:,.12g} in {place} at {format_date(error.date)}"
            yield Finding("errors", f"{value}, and {others}: correct it")


def _find_copies(diagnosis: Diagnosis) -> Iterator[Finding]:
    """The columns that repeat another one: they add nothing to it, or hold what is not known yet."""
    for copy in diagnosis.copies[:MAX_COPIES]:
        why = "if it is not known in advance, leave it out" if copy.shift < 0 else "it adds nothing"
        is_target = (copy.name,) == diagnosis.targets
        remedy = "" if is_target else write_setting("data.drop", [copy.name])
        yield Finding("copies", f"{copy.name} {copy.relation}: {why}", remedy)


def _find_sums(diagnosis: Diagnosis) -> Iterator[Finding]:
    for one in diagnosis.sums[:MAX_COPIES]:
        why = "scores of all of them count it twice; forecast either it or the others"
        yield Finding("sums", f"{one.relation}: {why}", write_setting("data.drop", [one.name]))


def _find_seasons(diagnosis: Diagnosis) -> Iterator[Finding]:
    for season in diagnosis.seasons:
        rows = f"{season.rows:,} rows" + (f" ({season.name})" if season.name else "")
        explains = f"explains {season.strength:.0%} of the variance about the moving mean"
        yield Finding("seasons", f"{rows}: {season.word}, {explains}")
    if not diagnosis.seasons:
        none = "none found among the periods of the calendar and of the autocorrelation"
        yield Finding("seasons", none)
    season = diagnosis.season if diagnosis.baselines is None else diagnosis.baselines.season
    suggested = diagnosis.suggested.get("data.season")
    setting = "" if suggested is None else f"data.season={suggested}"
    repeats = f"the seasonal-naive baseline repeats {plural(season, 'row')}"
    if season != diagnosis.season:
        repeats += f", selected on validation windows; the default season has {diagnosis.season:,}"
    yield Finding("seasons", repeats, setting)


def _find_split(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Dates, rows and windows of each split, and the longest windows that fit."""
    seq_len, pred_len = diagnosis.lengths
    short = measure_series(diagnosis).get("without_windows", {})
    for part in diagnosis.parts:
        count = int(part.windows(seq_len, pred_len).sum())
        windows = f"TOO SHORT for {seq_len} → {pred_len}"
        if count:
            windows = f"{plural(count, 'window')} of {seq_len} → {pred_len}"
            missing, names = short.get(part.name, (0, []))
            if missing:
                named = ", ".join(names) + ", ..." * (missing > len(names))
                windows += f"; too short for one: {missing:,} of {len(diagnosis.file):,} series ({named})"
        dates = f"{format_date(part.begins)} to {format_date(part.ends)}"
        yield Finding("split", f"{part.name:<5} {dates}: {plural(part.n_rows, 'row')}, {windows}")
    count, needed = int(diagnosis.parts[1].windows(seq_len, pred_len).sum()), windows_needed(LEVEL, pred_len)
    if 0 < count < needed:
        few = f"{plural(count, 'validation window')}: too few to select an epoch, and {LEVEL}% intervals need"
        yield Finding("split", f"{few} {needed}; a larger validation part has more", "data.split")
    unused = int((diagnosis.file.ends - diagnosis.parts[-1].stop).sum())
    if unused:
        yield Finding("split", f"the {unused:,} rows after it are not used")


def _find_baselines(diagnosis: Diagnosis) -> Iterator[Finding]:
    baselines, suggested = diagnosis.baselines, diagnosis.suggested
    if baselines is None:
        yield Finding("baselines", "nothing to measure: no window fits")
        return
    some = f" (one in {baselines.every})" if baselines.every > 1 else ""
    which = f"{suggested['seq_len']} → {suggested['pred_len']}, {plural(baselines.windows, 'test window')}{some}"
    scores = [
        f"{LABELS[name]} MSE {score['mse']:.3f}, MASE {score['mase']:.2f}" for name, score in baselines.scores.items()
    ]
    yield Finding("baselines", f"{which}: {'; '.join(scores)}")


def print_report(diagnosis: Diagnosis, typed: Mapping[str, Any]) -> None:
    """Print the findings, the columns, and the suggested settings; `typed`: the data keys that the user typed."""
    console = Console(markup=False, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 140
    console.print(describe_data(diagnosis))
    section = ""
    for finding in list_findings(diagnosis):
        console.print(f"{finding.section if finding.section != section else '':<10}{finding}")
        section = finding.section
    console.print(tabulate_columns(diagnosis))
    console.print("drift: test mean minus training mean, in standard deviations of the training rows")
    if not diagnosis.settings:
        console.print("\nsuggested  none: too few rows for any window: give more rows, or another data.split")
        return
    console.print("\nsuggested settings, to begin with")
    for setting in diagnosis.settings:
        console.print(f"  {setting.key}={write_value(setting.value)}".ljust(27) + f"  {setting.why}")
    for line in diagnosis.describe_options(typed):
        console.print(line)
    if codes := [setting for setting in diagnosis.settings if setting.key == "data.na_values"]:
        console.print(f"repeat the check: {write_command(typed, codes, 'check')}")
    console.print(f"\n{write_command(typed, diagnosis.settings)}\n")


def tabulate_columns(diagnosis: Diagnosis) -> Grid:
    """Return a table with one row per column: the `MAX_COLUMNS` numbers with the most notes, then the texts."""
    headings = ("column", "min", "mean", "max", "drift", "notes")
    grid = Grid(title=None, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        is_text = heading in ("column", "notes")
        grid.add_column(heading, justify="left" if is_text else "right", no_wrap=not is_text, overflow="fold")
    noted = sorted(diagnosis.columns, key=lambda one: (-len(one.notes), -np.nan_to_num(abs(one.drift))))
    columns = noted[:MAX_COLUMNS] if len(noted) > MAX_COLUMNS else diagnosis.columns
    for column in columns:
        grid.add_row(
            column.name,
            *(format_amount(value) for value in (column.minimum, column.mean, column.maximum)),
            "" if math.isnan(column.drift) else f"{column.drift:+.2f}",
            "; ".join(column.notes),
        )
    empty = [""] * (len(headings) - 2)
    for category in diagnosis.categories:
        grid.add_row(category.name, *empty, category.note)
    if rest := noted[len(columns) :]:
        with_notes = sum(bool(column.notes) for column in rest)
        grid.add_row(f"... and {len(rest):,} more", *empty, f"{with_notes:,} of them with notes")
    return grid


def collect_findings(diagnosis: Diagnosis, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the findings to plain values. The key `series` is present only if the source has ids."""
    panel, series = diagnosis.file, measure_series(diagnosis)
    return to_plain({
        "name": diagnosis.name,
        "rows": panel.n_rows,
        "freq": panel.freq,
        "first": panel.first_date,
        "last": panel.last_date,
        **({"series": series} if series else {}),
        "findings": [finding._asdict() for finding in list_findings(diagnosis)],
        "gaps": diagnosis.gaps,
        "columns": [asdict(column) | {"notes": column.notes} for column in diagnosis.columns],
        "categories": diagnosis.categories,
        "copies": diagnosis.copies,
        "sums": diagnosis.sums,
        "seasons": [season._asdict() for season in diagnosis.seasons],
        "seq_len": diagnosis.lengths[0],
        "pred_len": diagnosis.lengths[1],
        "split": {
            part.name: {
                "first": part.begins,
                "last": part.ends,
                "rows": part.n_rows,
                "windows": part.windows(*diagnosis.lengths).sum(),
            }
            for part in diagnosis.parts
        },
        "baselines": diagnosis.baselines,
        "suggested": diagnosis.suggested,
        "why": {setting.key: setting.why for setting in diagnosis.settings},
        "command": write_command(typed, diagnosis.settings) if diagnosis.settings else None,
    })  # fmt: skip


def to_plain(value: Any) -> Any:
    """Convert dates to ISO 8601, dataclasses to dictionaries and NumPy numbers to Python numbers.

    The empty id of the single series of a table is left out.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return to_plain(asdict(value))
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items() if (key, item) != ("series", "")}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    return value.item() if isinstance(value, np.generic) else value


def save_figure(diagnosis: Diagnosis, path: Path) -> None:
    """Draw the curves of some columns over their splits, with gaps in red."""
    from forecast.reports.figures import TRUTH_COLOUR, format_dates, label_values, save, style_axis, subplots

    panel, targets = diagnosis.panel, diagnosis.targets
    total = len(panel) * len(targets)
    curves = choose_evenly_spaced(total, MAX_CURVES).tolist()
    figure, axes = subplots(len(curves), figsize=(11, 2.2 * len(curves) + 1.2), squeeze=False)
    for axis, (series, target) in zip(axes[:, 0], (divmod(curve, len(targets)) for curve in curves), strict=True):
        start, end = int(panel.starts[series]), int(panel.ends[series])
        values = np.asarray(panel.values)[start:end, panel.columns.index(targets[target])]
        dates = panel.local_dates(np.arange(start, end))
        for part in diagnosis.parts:
            first, stop = int(part.first[series]) - start, int(part.stop[series]) - start
            if stop > first:
                axis.axvspan(dates[first], dates[min(stop, len(dates) - 1)], color=PARTS[part.name], linewidth=0)
        for first, length in zip(*runs(np.isnan(values)), strict=True):
            stop = min(first + length, len(dates) - 1)
            axis.axvspan(dates[max(0, first - 1)], dates[stop], color=MISSING, alpha=0.5, linewidth=0.8)
        shown = envelope(values)
        axis.plot(dates[shown], values[shown], color=TRUTH_COLOUR, linewidth=0.7)
        format_dates(axis, 3, 9)
        name = targets[target] if len(targets) > 1 or not panel.has_ids else ""
        label_values(axis, f"{panel.ids[series]} {name}".strip())
        style_axis(axis)
    for number, part in enumerate(diagnosis.parts):
        axes[0, 0].annotate(
            f"{part.name} {part.n_rows:,}", (0.01 + 0.14 * number, 1.03), xycoords="axes fraction", fontsize=9,
            bbox={"facecolor": PARTS[part.name], "edgecolor": "none", "pad": 2},
        )  # fmt: skip
    drawn = "" if len(curves) == total else f"; {len(curves)} of {plural(total, 'curve')}"
    axes[0, 0].set_title(f"{describe_data(diagnosis)}{drawn}", fontsize=11, pad=24, parse_math=False)
    figure.tight_layout()
    save(figure, path)


def envelope(values: Float[np.ndarray, " rows"]) -> Int[np.ndarray, " shown"]:
    """The rows of the lowest and the highest value of each of `POINTS` stretches."""
    width = -(-len(values) // POINTS)
    whole = np.pad(values, (0, -len(values) % width), constant_values=np.nan).reshape(-1, width)
    extremes = (np.where(np.isnan(whole), np.inf, sign * whole).argmin(1) for sign in (1, -1))
    return np.unique([first + np.arange(len(whole)) * width for first in extremes])
