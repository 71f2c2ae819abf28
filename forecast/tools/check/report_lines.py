"""Lines of the report, by section."""

import numpy as np

from forecast.data.missing import FILLS
from forecast.data.panel_labels import describe_size
from forecast.evaluation.levels import windows_needed
from forecast.evaluation.scores import LABELS
from forecast.system.arguments import write_setting
from forecast.system.formatting import plural, shorten
from forecast.tools.check.columns import Column, format_date
from forecast.tools.check.diagnosis import Diagnosis
from forecast.tools.check.gaps import Place, Stretch
from forecast.tools.check.seasons import CYCLES, Season, calendar_periods

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
