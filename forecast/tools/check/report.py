"""Findings as lines and a table in the terminal."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from forecast.system.arguments import write_value
from forecast.tools.check.columns import Column
from forecast.tools.check.diagnosis import Diagnosis
from forecast.tools.check.options import describe_options
from forecast.tools.check.report_lines import (
    describe_baselines,
    describe_copies,
    describe_data,
    describe_gaps,
    describe_gross_errors,
    describe_not_read,
    describe_seasons,
    describe_series,
    describe_split,
)
from forecast.tools.check.seasons import Season
from forecast.tools.check.settings import write_command

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
