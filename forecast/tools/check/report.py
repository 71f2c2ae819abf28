"""Findings as lines and a table in the terminal."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from forecast.system.arguments import quote_for_shell, write_mapping, write_value
from forecast.tools.check.columns import Column
from forecast.tools.check.diagnosis import Diagnosis
from forecast.tools.check.lines import (
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


def print_report(found: Diagnosis, typed: Mapping[str, Any]) -> None:
    console = Console(markup=False, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 140
    console.print(describe_data(found))
    print_section(console, "not read", describe_not_read(found))
    if found.counts_series:
        print_section(console, "series", describe_series(found))
    print_section(console, "gaps", describe_gaps(found))
    if codes := [setting for setting in found.settings if setting.key == "data.na_values"]:
        print_section(console, "", [f"repeat the check: {write_command(typed, codes, 'check')}"])
    print_section(console, "errors", describe_gross_errors(found))
    print_section(console, "copies", describe_copies(found))
    console.print(tabulate_columns(found))
    print_section(console, "seasons", describe_seasons(found))
    print_section(console, "split", describe_split(found))
    print_section(
        console, "drift", ["test mean minus training mean, in standard deviations of the training rows"]
    )
    print_section(console, "baselines", describe_baselines(found))
    if not found.settings:
        console.print("\nsuggested  none: too few rows for any window: give more rows, or another data.split")
        return
    console.print("\nsuggested settings, to begin with")
    for setting in found.settings:
        console.print(f"  {setting.key}={write_value(setting.value)}".ljust(27) + f"  {setting.why}")
    for line in describe_options(found, typed):
        console.print(line)
    console.print(f"\n{write_command(typed, found.settings)}\n")


def describe_options(found: Diagnosis, typed: Mapping[str, Any]) -> list[str]:
    """Settings that depend on what the numbers are, which the suggested command leaves out."""
    lines = []
    if any(season.name == "a week" for season in found.seasons) and "data.holidays" not in typed:
        lines.append(
            "if public holidays matter: data.holidays=COUNTRY, such as US, DE or DE-BY (extra holidays)"
        )
    positive = [
        column.name for column in found.columns if column.name in found.targets and column.minimum >= 0
    ]
    if positive and "data.lower" not in typed:
        if len(positive) == len(found.targets):
            lines.append(
                "no target is ever negative: if none can be, data.lower=0 keeps forecasts at or above 0"
            )
        else:
            named = ", ".join(positive[:8]) + (", ..." if len(positive) > 8 else "")
            example = quote_for_shell(f"data.lower={write_mapping(positive[0], 0)}")
            lines.append(f"never negative: {named}; for one that cannot be: {example}")
    return lines


def print_section(console: Console, name: str, lines: list[str]) -> None:
    for number, line in enumerate(lines):
        console.print(f"{name if number == 0 else '':<10}{line}")


def tabulate_columns(found: Diagnosis) -> Grid:
    """Return a table with one row per column: the `MAX_COLUMNS` numbers with the most notes, then the texts."""
    notes = {column.name: column.list_notes(found.series.longest) for column in found.columns}
    shown = found.columns
    if len(shown) > MAX_COLUMNS:
        shown = sorted(shown, key=lambda column: -rank_column(column, notes[column.name]))[:MAX_COLUMNS]
    main = max(found.seasons, key=lambda season: season.strength, default=None)
    grid = Grid(title=None, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column("column", overflow="fold", max_width=24, min_width=12)
    for heading in ("min", "mean", "max", "zeros", "longest run", "drift"):
        grid.add_column(heading, justify="right", no_wrap=True)
    if main:
        grid.add_column(f"season {main.rows}", justify="right", no_wrap=True)
    grid.add_column("notes", overflow="fold")
    for column in shown:
        strength = [format_strength(main, found, column.name)] if main else []
        grid.add_row(
            column.name,
            *(format_number(value) for value in (column.minimum, column.mean, column.maximum)),
            f"{column.zeros:.1%}" if column.zeros else "0",
            f"{column.longest_run:,}",
            "" if math.isnan(column.drift) else f"{column.drift:+.2f}",
            *strength,
            "; ".join(notes[column.name]),
        )
    for category in found.categories:
        grid.add_row(category.name, *[""] * (len(grid.columns) - 2), category.note)
    if len(found.columns) > MAX_COLUMNS:
        rest = [notes[column.name] for column in found.columns if column not in shown]
        noted = sum(map(bool, rest))
        grid.add_row(
            f"... and {len(rest):,} more", *[""] * (len(grid.columns) - 2), f"{noted:,} of them with notes"
        )
    return grid


def rank_column(column: Column, notes: Sequence[str]) -> float:
    """Return a number that is higher for more notes, and with equal notes for more drift."""
    return 10 * len(notes) + min(9.0, 0.0 if math.isnan(column.drift) else abs(column.drift))


def format_strength(season: Season, found: Diagnosis, name: str) -> str:
    """Return the strength of a season in a column; empty if the column is not a target."""
    if name not in found.targets:
        return ""
    strength = season.by_target(len(found.targets))[found.targets.index(name)]
    return "" if math.isnan(strength) else f"{strength:.2f}"


def format_number(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
