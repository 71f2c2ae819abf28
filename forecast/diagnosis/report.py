"""What is found, on the screen."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as Grid

from forecast.diagnosis.columns import Column, day
from forecast.diagnosis.command import training_command
from forecast.diagnosis.diagnosis import Diagnosis
from forecast.diagnosis.gaps import Stretch, date_at
from forecast.diagnosis.seasons import CYCLES, Season, calendar_periods
from forecast.rounding import plural
from forecast.scores import LABELS

SHOWN = 16  # columns in the table
NAMED = 4  # columns in a line


def show(found: Diagnosis, typed: Mapping[str, Any]) -> None:
    """Print the findings in the order in which one asks for them."""
    console = Console(markup=False, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 140
    dates = found.unfilled.dates
    console.print(
        f"{found.name}: {len(dates):,} rows × {plural(len(found.columns), 'column')}, every {found.unfilled.freq}, "
        f"{day(date_at(dates, 0))} to {day(date_at(dates, -1))}"
    )
    say(console, "gaps", gap_lines(found))
    console.print(column_grid(found))
    say(console, "seasons", season_lines(found))
    say(console, "split", split_lines(found))
    say(console, "drift", ["test mean less training mean, in training deviations: see the columns"])
    say(console, "to beat", rule_lines(found))
    if not found.settings:
        console.print(
            "\nsuggested  none: the table is too short for any window: give more rows, or another data.split"
        )
        return
    console.print("\nsuggested settings, to begin with")
    for setting in found.settings:
        value = ",".join(setting.value) if isinstance(setting.value, list) else setting.value
        console.print(f"  {setting.key}={value}".ljust(27) + f"  {setting.why}")
    if any(season.name == "a week" for season in found.seasons) and "data.holidays" not in typed:
        console.print(
            "and, of a country whose holidays matter here, data.holidays=TR (DE, DE-BY; extra holidays)"
        )
    if found.unfillable:
        console.print(f"\nno command yet: {beginning_advice(found)}\n")
    else:
        console.print(f"\n{training_command(typed, found.settings)}\n")


def say(console: Console, what: str, lines: list[str]) -> None:
    for number, line in enumerate(lines):
        console.print(f"{what if number == 0 else '':<10}{line}")


def gap_lines(found: Diagnosis) -> list[str]:
    gaps, lines = found.gaps, []
    if not gaps:
        return ["none: every date and every number is there"]
    if gaps.missing_rows and gaps.longest:
        share = gaps.missing_rows / len(found.unfilled.dates)
        lines.append(
            f"{gaps.missing_rows:,} rows are missing ({share:.1%}), in {gaps.stretches:,} places: "
            f"{', '.join(map(stretch, gaps.first_stretches))}{', ...' if gaps.stretches > 3 else ''}"
        )
        if gaps.stretches > 1:
            lines.append(f"the longest: {stretch(gaps.longest)}")
    if gaps.missing_numbers:
        places = ", ".join(f"{column} {day(date)}" for column, date in gaps.places)
        more = ", ..." if gaps.missing_numbers > len(gaps.places) else ""
        lines.append(f"{gaps.missing_numbers:,} numbers are missing or infinite: {places}{more}")
    if found.unfillable:
        left_out = found.unfillable[0].name not in found.table.columns
        follows = "leaves them out" if left_out else "counts them as zero"
        lines.append(f"training refuses this: {beginning_advice(found)}; what follows {follows}")
    elif found.refused:
        lines.append(
            "training refuses this as it is; the suggested settings mend it, and what follows is with them"
        )
    elif found.fill:
        lines.append(f"filled, as asked (data.fill={found.fill}), in what follows")
    return lines


def beginning_advice(found: Diagnosis) -> str:
    """What to do with columns that begin with missing numbers."""
    columns = found.unfillable
    names = ", ".join(column.name for column in columns[:NAMED]) + (", ..." if len(columns) > NAMED else "")
    rows = max(column.leading_missing for column in columns)
    if rows == len(found.unfilled.dates):
        return f"{names}: no number at all, or none at first: leave the columns out (data.columns)"
    first = f"the first {rows:,} rows"
    return f"{names}: no number in {first}: cut {first}, or leave the columns out (data.columns)"


def stretch(gap: Stretch) -> str:
    return day(gap.first) if gap.rows == 1 else f"{day(gap.first)} to {day(gap.last)} ({gap.rows:,} rows)"


def column_grid(found: Diagnosis) -> Grid:
    """One row a column; of very many, those with the gravest notes."""
    rows = len(found.unfilled.dates)
    notes = {column.name: column.notes(rows) for column in found.columns}
    shown = found.columns
    if len(shown) > SHOWN:
        shown = sorted(shown, key=lambda column: -gravity(column, notes[column.name]))[:SHOWN]
    main = max(found.seasons, key=lambda season: season.strength, default=None)
    grid = Grid(title=None, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column("column", overflow="fold", max_width=24, min_width=12)
    for heading in ("min", "mean", "max", "zeros", "longest run", "drift"):
        grid.add_column(heading, justify="right", no_wrap=True)
    if main:
        grid.add_column(f"season {main.rows}", justify="right", no_wrap=True)
    grid.add_column("notes", overflow="fold")
    for column in shown:
        strength = season_of(main, found, column.name) if main else ()
        grid.add_row(
            column.name,
            *(number(value) for value in (column.minimum, column.mean, column.maximum)),
            f"{column.zeros:.1%}" if column.zeros else "0",
            f"{column.longest_run:,}",
            "" if math.isnan(column.drift) else f"{column.drift:+.2f}",
            *strength,
            "; ".join(notes[column.name]),
        )
    if len(found.columns) > SHOWN:
        rest = [notes[column.name] for column in found.columns if column not in shown]
        noted = sum(map(bool, rest))
        grid.add_row(
            f"... and {len(rest):,} more", *[""] * (len(grid.columns) - 2), f"{noted:,} of them with notes"
        )
    return grid


def gravity(column: Column, notes: list[str]) -> float:
    """What is shown first: more notes, then more drift."""
    return 10 * len(notes) + min(9.0, 0.0 if math.isnan(column.drift) else abs(column.drift))


def season_of(season: Season, found: Diagnosis, name: str) -> tuple[str]:
    if name not in found.targets:
        return ("",)
    strength = season.by_column[found.targets.index(name)]
    return ("" if math.isnan(strength) else f"{strength:.2f}",)


def number(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def season_lines(found: Diagnosis) -> list[str]:
    lines = []
    for season in found.seasons:
        spread = ""
        known = season.by_column[~np.isnan(season.by_column)]
        if len(known) > 1:
            spread = f" ({known.min():.0%} to {known.max():.0%})"
        lines.append(
            f"{named(season)}: {season.word}, explains {season.strength:.0%} of the variance about the moving mean"
            f"{spread}"
        )
    if not lines:
        lines.append("none found in the calendar's periods and the autocorrelation")
    rows = len(found.table.dates)
    lines += [
        f"{length:,} rows ({name}): not to be told from {rows / length:.1f} of them; {CYCLES} are needed"
        for length, name in calendar_periods(found.table.freq).items()
        if length <= rows < CYCLES * length
    ]
    suggested = {setting.key: setting.value for setting in found.settings}.get("data.season")
    repeats = (
        f"the seasonal-naive rule repeats {plural(found.season, 'row')} unless data.season says otherwise"
    )
    lines.append(repeats if suggested is None else f"{repeats}; {suggested} suits better")
    return lines


def named(season: Season) -> str:
    return f"{season.rows:,} rows" + (f" ({season.name})" if season.name else "")


def split_lines(found: Diagnosis) -> list[str]:
    seq_len, pred_len = found.lengths
    lines = []
    for part in found.parts:
        count = part.windows(seq_len, pred_len)
        windows = (
            f"{count:,} windows of {seq_len} → {pred_len}"
            if count
            else f"TOO SHORT for {seq_len} → {pred_len}"
        )
        lines.append(
            f"{part.name:<5} {day(part.first)} to {day(part.last)}: {len(part.rows):,} rows, {windows}"
        )
    train, *others = found.parts
    horizon = min(len(part.rows) for part in others)
    lines.append(
        f"at most pred_len={horizon:,}, and seq_len + pred_len={len(train.rows):,}, fit into this split"
    )
    unused = len(found.table.dates) - found.parts[-1].rows.stop
    return lines + ([f"the {unused:,} rows after it are not used"] if unused else [])


def rule_lines(found: Diagnosis) -> list[str]:
    if found.rules is None:
        return ["nothing to measure: no window fits"]
    rules = found.rules
    suggested = {setting.key: setting.value for setting in found.settings}
    which = f"{rules.windows:,} test windows" + (f" (one in {rules.every})" if rules.every > 1 else "")
    scores = "; ".join(
        f"{LABELS[name]} MSE {score['mse']:.3f}, MASE {score['mase']:.2f}"
        for name, score in rules.scores.items()
    )
    return [f"{suggested['seq_len']} → {suggested['pred_len']}, {which}: {scores}"]
