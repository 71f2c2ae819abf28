"""Findings as lines, tables and JSON."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table as Grid

from forecast.data.domain import FILLS
from forecast.data.panel import describe_size, series_entry
from forecast.evaluation.levels import windows_needed
from forecast.evaluation.scores import LABELS
from forecast.system.formatting import plural, shorten, write_setting, write_value
from forecast.tools.check.columns import Column, format_date
from forecast.tools.check.diagnosis import Diagnosis
from forecast.tools.check.gaps import Gaps, Place, SplitPart, Stretch
from forecast.tools.check.options import describe_options
from forecast.tools.check.seasons import CYCLES, Season, calendar_periods
from forecast.tools.check.settings import write_command

MAX_COPIES = 5
"""Largest number of columns that are named as copies."""
LEVEL = 80
"""Level of the intervals, in percent, for which validation should have enough windows."""


def describe_data(diagnosis: Diagnosis) -> str:
    """Describe rows, columns, frequency and dates in one line."""
    panel, columns = diagnosis.file, plural(len(diagnosis.columns) + len(diagnosis.categories), "column")
    size = describe_size(panel, f"{panel.n_rows:,} rows × {columns}")
    return (
        f"{diagnosis.name}: {size}, {panel.describe_step()}, "
        f"{format_date(panel.first_date)} to {format_date(panel.last_date)}"
    )


def describe_not_read(diagnosis: Diagnosis) -> list[str]:
    """Name the columns of the file that no option names."""
    if not diagnosis.not_read:
        return []
    return [
        f"{shorten(diagnosis.not_read)} (name them in data.columns, data.past_covariates or data.future_covariates)"
    ]


def describe_series(diagnosis: Diagnosis) -> list[str]:
    """Describe the lengths of the series, and count those with gaps or constant columns."""
    facts = diagnosis.series
    lines = [f"{facts.shortest:,} to {facts.longest:,} rows each (median {facts.median:,})"]
    if facts.with_gaps:
        worst = ", ".join(f"{name} ({count:,})" for name, count in facts.most_gaps)
        lines.append(
            f"{facts.with_gaps:,} of {facts.count:,} have gaps; most missing rows and numbers: "
            f"{abbreviate(worst, facts.with_gaps, len(facts.most_gaps))}"
        )
    for what, (count, names) in {
        "a constant column": facts.constant,
        "a column that is constant in training": facts.constant_in_training,
    }.items():
        if count:
            lines.append(
                f"{count:,} of {facts.count:,} have {what}: {abbreviate(', '.join(names), count, len(names))}"
            )
    return lines


def abbreviate(text: str, count: int, shown: int) -> str:
    """Add an ellipsis if the text names only `shown` of `count` items."""
    return f"{text}, ..." if count > shown else text


def describe_gaps(diagnosis: Diagnosis) -> list[str]:
    gaps, lines = diagnosis.gaps, []
    codes = [
        f"{column.sentinel:g} in {column.name}" for column in diagnosis.columns if column.sentinel is not None
    ]
    if codes:
        lines.append(
            f"probable codes for missing values, which are read as numbers: {shorten(codes, 4)}"
            + (" (data.na_values)" if diagnosis.has_file_options else "")
        )
    if not gaps:
        return lines or ["none: no date and no number is missing"]
    if gaps.missing_rows and gaps.longest:
        fraction = gaps.missing_rows / diagnosis.file.n_rows
        named = abbreviate(
            ", ".join(map(describe_stretch, gaps.first_stretches)), gaps.stretches, len(gaps.first_stretches)
        )
        lines.append(
            f"{gaps.missing_rows:,} rows are missing or empty in all columns ({fraction:.1%}), in "
            f"{plural(gaps.stretches, 'place')}: {named}"
        )
        if gaps.stretches > 1:
            lines.append(f"the longest: {describe_stretch(gaps.longest)}")
        lines.append("the notes on columns do not count these rows")
        if not diagnosis.has_file_options:
            lines.append(
                "whether these rows follow a calendar, such as weekends, is not examined for a store: check the file "
                "that it was converted from"
            )
    if gaps.missing_numbers:
        places = ", ".join(map(describe_place, gaps.places))
        places = abbreviate(places, gaps.missing_numbers, len(gaps.places))
        lines.append(f"{gaps.missing_numbers:,} numbers are missing: {places}")
    lines.append(
        f"missing values are never scored; in the past of a window they are completed (data.fill={FILLS[0]})"
    )
    return lines


def describe_copies(diagnosis: Diagnosis) -> list[str]:
    """Name the columns that repeat another one: they add nothing to it, or hold what is not known yet."""
    lines = []
    for copy in diagnosis.copies[:MAX_COPIES]:
        why = "if it is not known in advance, leave it out" if copy.shift < 0 else "it adds nothing"
        if copy.is_sum:
            why = "the parts and the sum say the same"
        if copy.is_function:
            why = f"if it is computed from {copy.source}, leave it out"
        is_target = (copy.name,) == diagnosis.targets
        remedy = "" if is_target else f" ({write_setting('data.drop', [copy.name])})"
        lines.append(f"{copy.name} {copy.relation}: {why}{remedy}")
    return lines


def describe_gross_errors(diagnosis: Diagnosis) -> list[str]:
    """Describe the numbers that are probably errors; data.na_values is named if it removes these numbers alone."""

    def is_elsewhere(value: float, column: Column) -> bool:
        others = [each for each in diagnosis.columns if each is not column]
        return any(each.minimum <= value <= each.maximum for each in others) or (
            value == 0 and diagnosis.counts_series
        )

    return [
        f"{error.value:,.12g} in {' '.join(filter(None, (error.series, column.name)))} at "
        f"{format_date(error.date)}, and all others from {error.low:.6g} to {error.high:.6g}: correct it"
        + (
            f", or set data.na_values=[{error.value:.12g}]"
            if diagnosis.has_file_options and not is_elsewhere(error.value, column)
            else ""
        )
        for column in diagnosis.columns
        for error in column.gross_errors
    ]


def describe_stretch(gap: Stretch) -> str:
    series = f"{gap.series} " if gap.series else ""
    if gap.rows == 1:
        return series + format_date(gap.first)
    return f"{series}{format_date(gap.first)} to {format_date(gap.last)} ({gap.rows:,} rows)"


def describe_place(place: Place) -> str:
    return " ".join(filter(None, (place.series, place.column, format_date(place.date))))


def describe_seasons(diagnosis: Diagnosis) -> list[str]:
    lines = []
    for number, season in enumerate(diagnosis.seasons):
        spread = ""
        shorter = [other.rows for other in diagnosis.seasons[:number]]
        parts = [rows for rows in shorter if season.rows % rows == 0]
        others = [rows for rows in shorter if season.rows % rows]
        beside = f", including that of {list_rows(parts)}" if parts else ""
        beside += f", without that of {list_rows(others)}" if others else ""
        known = season.by_column[~np.isnan(season.by_column)]
        if len(known) > 1:
            spread = f" ({known.min():.0%} to {known.max():.0%})"
        lines.append(
            f"{name_season(season)}: {season.word}, explains {season.strength:.0%} of the variance about the moving "
            f"mean{spread}{beside}"
        )
    if not lines:
        lines.append("none found among the periods of the calendar and of the autocorrelation")
    rows = diagnosis.season_rows
    lines += [
        f"{length:,} rows ({name}): cannot be recognised in {rows / length:.1f} cycles; {CYCLES} are needed"
        for length, name in calendar_periods(diagnosis.panel.freq, diagnosis.panel.calendar).items()
        if length <= rows < CYCLES * length
    ]
    sampled = len(diagnosis.seasons[0].by_column) // len(diagnosis.targets) if diagnosis.seasons else 1
    if sampled > 1:
        lines.append(f"measured on the last {rows:,} rows of the {sampled} longest series")
    suggested = diagnosis.suggestion("data.season")
    season = diagnosis.season if diagnosis.baselines is None else diagnosis.baselines.season
    repeats = f"the seasonal-naive baseline repeats {plural(season, 'row')}"
    return [*lines, repeats if suggested is None else f"{repeats} (data.season={suggested})"]


def list_rows(lengths: list[int]) -> str:
    return " and ".join(f"{rows:,}" for rows in lengths) + " rows"


def name_season(season: Season) -> str:
    return f"{season.rows:,} rows" + (f" ({season.name})" if season.name else "")


def describe_split(diagnosis: Diagnosis) -> list[str]:
    """Describe dates, rows and windows of each split, and the longest windows that fit."""
    seq_len, pred_len = diagnosis.lengths
    lines = []
    for part in diagnosis.parts:
        count = int(part.windows(seq_len, pred_len).sum())
        windows = (
            f"{plural(count, 'window')} of {seq_len} → {pred_len}"
            if count
            else f"TOO SHORT for {seq_len} → {pred_len}"
        )
        short, names = diagnosis.series.without_windows[part.name]
        if count and short:
            named = abbreviate(", ".join(names), short, len(names))
            windows += f"; too short for one: {short:,} of {diagnosis.series.count:,} series ({named})"
        dates = f"{format_date(part.begins)} to {format_date(part.ends)}"
        lines.append(f"{part.name:<5} {dates}: {plural(part.n_rows, 'row')}, {windows}")
    train, *others = diagnosis.parts
    horizon = min(part.longest for part in others)
    of_series = " in the longest series" if diagnosis.series.count > 1 else ""
    lines.append(
        f"at most pred_len={horizon:,}, and seq_len + pred_len={train.longest:,}, fit into this split{of_series}"
    )
    validation, needed = int(others[0].windows(seq_len, pred_len).sum()), windows_needed(LEVEL, pred_len)
    if 0 < validation < needed:
        lines.append(
            f"{plural(validation, 'validation window')}: too few to select an epoch, and {LEVEL}% intervals need "
            f"{needed}; a larger validation part (data.split) has more"
        )
    unused = int((diagnosis.file.ends - diagnosis.parts[-1].stop).sum())
    return lines + ([f"the {unused:,} rows after it are not used"] if unused else [])


def describe_baselines(diagnosis: Diagnosis) -> list[str]:
    if diagnosis.baselines is None:
        return ["nothing to measure: no window fits"]
    baselines = diagnosis.baselines
    which = plural(baselines.windows, "test window") + (
        f" (one in {baselines.every})" if baselines.every > 1 else ""
    )
    scores = "; ".join(
        f"{LABELS[name]} MSE {score['mse']:.3f}, MASE {score['mase']:.2f}"
        for name, score in baselines.scores.items()
    )
    return [f"{diagnosis.suggestion('seq_len')} → {diagnosis.suggestion('pred_len')}, {which}: {scores}"]


MAX_COLUMNS = 16
"""Largest number of columns in the table."""


def print_report(diagnosis: Diagnosis, typed: Mapping[str, Any]) -> None:
    console = Console(markup=False, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 140
    console.print(describe_data(diagnosis))
    print_section(console, "not read", describe_not_read(diagnosis))
    if diagnosis.counts_series:
        print_section(console, "series", describe_series(diagnosis))
    print_section(console, "gaps", describe_gaps(diagnosis))
    if codes := [setting for setting in diagnosis.settings if setting.key == "data.na_values"]:
        print_section(console, "", [f"repeat the check: {write_command(typed, codes, 'check')}"])
    print_section(console, "errors", describe_gross_errors(diagnosis))
    print_section(console, "copies", describe_copies(diagnosis))
    console.print(tabulate_columns(diagnosis))
    print_section(console, "seasons", describe_seasons(diagnosis))
    print_section(console, "split", describe_split(diagnosis))
    print_section(
        console, "drift", ["test mean minus training mean, in standard deviations of the training rows"]
    )
    print_section(console, "baselines", describe_baselines(diagnosis))
    if not diagnosis.settings:
        console.print("\nsuggested  none: too few rows for any window: give more rows, or another data.split")
        return
    console.print("\nsuggested settings, to begin with")
    for setting in diagnosis.settings:
        console.print(f"  {setting.key}={write_value(setting.value)}".ljust(27) + f"  {setting.why}")
    for line in describe_options(diagnosis, typed):
        console.print(line)
    console.print(f"\n{write_command(typed, diagnosis.settings)}\n")


def print_section(console: Console, name: str, lines: list[str]) -> None:
    for number, line in enumerate(lines):
        console.print(f"{name if number == 0 else '':<10}{line}")


def tabulate_columns(diagnosis: Diagnosis) -> Grid:
    """Return a table with one row per column: the `MAX_COLUMNS` numbers with the most notes, then the texts."""
    notes = {column.name: column.list_notes(diagnosis.series.longest) for column in diagnosis.columns}
    shown = diagnosis.columns
    if len(shown) > MAX_COLUMNS:
        shown = sorted(shown, key=lambda column: -rank_column(column, notes[column.name]))[:MAX_COLUMNS]
    main = max(diagnosis.seasons, key=lambda season: season.strength, default=None)
    grid = Grid(title=None, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column("column", overflow="fold", max_width=24, min_width=12)
    for heading in ("min", "mean", "max", "zeros", "longest run", "drift"):
        grid.add_column(heading, justify="right", no_wrap=True)
    if main:
        grid.add_column(f"season {main.rows}", justify="right", no_wrap=True)
    grid.add_column("notes", overflow="fold")
    for column in shown:
        strength = [format_strength(main, diagnosis, column.name)] if main else []
        grid.add_row(
            column.name,
            *(format_number(value) for value in (column.minimum, column.mean, column.maximum)),
            f"{column.zeros:.1%}" if column.zeros else "0",
            f"{column.longest_run:,}",
            "" if math.isnan(column.drift) else f"{column.drift:+.2f}",
            *strength,
            "; ".join(notes[column.name]),
        )
    for category in diagnosis.categories:
        grid.add_row(category.name, *[""] * (len(grid.columns) - 2), category.note)
    if len(diagnosis.columns) > MAX_COLUMNS:
        rest = [notes[column.name] for column in diagnosis.columns if column not in shown]
        noted = sum(map(bool, rest))
        grid.add_row(
            f"... and {len(rest):,} more", *[""] * (len(grid.columns) - 2), f"{noted:,} of them with notes"
        )
    return grid


def rank_column(column: Column, notes: Sequence[str]) -> float:
    """Return a number that is higher for more notes, and with equal notes for more drift."""
    return 10 * len(notes) + min(9.0, 0.0 if math.isnan(column.drift) else abs(column.drift))


def format_strength(season: Season, diagnosis: Diagnosis, name: str) -> str:
    """Return the strength of a season in a column; empty if the column is not a target."""
    if name not in diagnosis.targets:
        return ""
    strength = season.by_target(len(diagnosis.targets))[diagnosis.targets.index(name)]
    return "" if math.isnan(strength) else f"{strength:.2f}"


def format_number(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def collect_findings(diagnosis: Diagnosis, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the findings to plain values. The key `series` is present only if the source has ids."""
    panel = diagnosis.file
    longest = diagnosis.series.longest
    return to_plain(
        {
            "name": diagnosis.name,
            "rows": panel.n_rows,
            "freq": panel.freq,
            "first": panel.first_date,
            "last": panel.last_date,
            **series_entry(panel, diagnosis.series),
            "gaps": gaps_to_dict(diagnosis.gaps),
            "not_read": diagnosis.not_read,
            "columns": [
                to_dict(column) | {"notes": column.list_notes(longest)} for column in diagnosis.columns
            ],
            "categories": diagnosis.categories,
            "copies": diagnosis.copies,
            "seasons": [
                {
                    "rows": season.rows,
                    "name": season.name,
                    "strength": season.strength,
                    "word": season.word,
                    "by_column": dict(
                        zip(diagnosis.targets, season.by_target(len(diagnosis.targets)), strict=True)
                    ),
                }
                for season in diagnosis.seasons
            ],
            "baseline_season": diagnosis.season,
            "seq_len": diagnosis.lengths[0],
            "pred_len": diagnosis.lengths[1],
            "split": {part.name: part_to_dict(part, *diagnosis.lengths) for part in diagnosis.parts},
            "baselines": diagnosis.baselines,
            "suggested": {setting.key: setting.value for setting in diagnosis.settings},
            "why": {setting.key: setting.why for setting in diagnosis.settings},
            "command": write_command(typed, diagnosis.settings) if diagnosis.settings else None,
        }
    )


def gaps_to_dict(gaps: Gaps) -> dict[str, Any]:
    places = [[place.series, place.column, place.date] for place in gaps.places]
    content = to_dict(gaps)
    del content["by_series"]
    return content | {"places": [[part for part in place if part] for place in places]}


def part_to_dict(part: SplitPart, seq_len: int, pred_len: int) -> dict[str, Any]:
    return {
        "first": part.begins,
        "last": part.ends,
        "rows": part.n_rows,
        "windows": part.windows(seq_len, pred_len).sum(),
    }


def to_dict(value: Any) -> dict[str, Any]:
    """Convert a dataclass to a dictionary. The empty id of the single series of a table is left out."""
    return asdict(value, dict_factory=lambda items: {k: v for k, v in items if (k, v) != ("series", "")})


def to_plain(value: Any) -> Any:
    """Convert dates to ISO 8601, dataclasses to dictionaries and NumPy numbers to Python numbers."""
    if is_dataclass(value) and not isinstance(value, type):
        return to_plain(to_dict(value))
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    return value.item() if isinstance(value, np.generic) else value
