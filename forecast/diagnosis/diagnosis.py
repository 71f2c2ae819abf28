"""Everything that is found about one table."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from forecast.data import CsvData, ForecastData, SampleData, Table
from forecast.data.calendar import season_length
from forecast.data.frame import FrameData
from forecast.data.split import split_rows
from forecast.data.store import StoredTable
from forecast.data.table import UnfilledTable
from forecast.diagnosis import advice
from forecast.diagnosis.advice import Asked, Setting
from forecast.diagnosis.columns import Column, describe_columns
from forecast.diagnosis.gaps import Gaps, fill_that_works, filled, find_gaps
from forecast.diagnosis.seasons import Season, find_seasons
from forecast.diagnosis.windows import Part, Rules, measure_rules
from forecast.errors import ConfigError

STAGES = ("reading", "columns", "seasons", "simple rules", "picture")


@dataclass(frozen=True)
class Diagnosis:
    """`unfilled` is the file's table, `table` the suggested training's: gaps filled, useless columns left out."""

    name: str
    unfilled: UnfilledTable
    table: Table
    gaps: Gaps
    fill: str | None  # how `table` was filled; None: there are no gaps
    refused: bool  # by training with the settings as they are
    unfillable: list[
        Column
    ]  # begin with missing numbers, and no setting mends it; left out of `table` if it can be
    columns: list[Column]  # of the file
    targets: tuple[str, ...]
    seasons: list[Season]  # of the targets
    season: int  # rows that the seasonal-naive rule repeats, unless the settings say otherwise
    parts: list[Part]
    lengths: tuple[int, int]  # seq_len and pred_len: asked for, else suggested, else training's own
    settings: list[Setting]  # none where the table is too short for any windows
    rules: Rules | None


def diagnose(data: ForecastData, asked: Asked, stage: Callable[[str], object]) -> Diagnosis:
    """Read and examine the table of `data`, whose own window lengths and features do not matter.

    `stage` is told what is about to be done, one of STAGES.

    Raises DataError and ConfigError as training would, but for gaps, missing numbers and parts too short.
    """
    stage("reading")
    unfilled = read_unfilled(data)
    stage("columns")
    rows = split_rows(unfilled.dates, unfilled.freq, data.split)
    if set(rows) != {"train", "val", "test"}:
        raise ConfigError(f"data.split={data.split} is one part: leave it out, or give all three")
    parts = [Part.of(name, part, unfilled.dates) for name, part in rows.items()]
    columns = describe_columns(unfilled, rows["train"], rows["test"])
    features = advice.suggest_features(unfilled.columns, asked)
    useful = advice.suggest_columns(columns, asked)

    names = useful[0].value if useful else list(unfilled.columns)
    unfillable = advice.without_beginning([column for column in columns if column.name in names], asked)
    open_names = {column.name for column in unfillable}
    if asked.target not in open_names:
        names = [name for name in names if name not in open_names] or names
    kept = choose(unfilled, names)
    gaps = find_gaps(unfilled)
    fill = fill_that_works(kept, asked.fill) if find_gaps(kept) else None
    table = filled(kept, fill)
    targets = table.columns if features.value == "M" else (asked.target or table.columns[0],)
    values = table.values[:, [table.columns.index(name) for name in targets]]
    stage("seasons")
    seasons = find_seasons(values, table.freq)

    settings, rules = [*useful, *advice.suggest_fill(fill, asked), features], None
    lengths = advice.suggest_lengths(parts, seasons, table.freq, asked)
    given = {"seq_len": asked.seq_len or advice.PAST, "pred_len": asked.pred_len or 24}
    if lengths:
        fitting = {setting.key: setting.value for setting in lengths}
        given = {key: getattr(asked, key) or fitting[key] for key in given}
        season = advice.suggest_season(values[: rows["train"].stop], seasons, table.freq, asked)
        n_windows = parts[0].windows(fitting["seq_len"], fitting["pred_len"])
        settings += [*lengths, *season, *advice.suggest_training(n_windows, lengths, asked)]
        stage("simple rules")
        rules = measure_rules(
            windows_over(
                table,
                data,
                seq_len=fitting["seq_len"],
                pred_len=fitting["pred_len"],
                features=features.value,
                target=asked.target,
                season=season[0].value if season else asked.season,
            )
        )
    return Diagnosis(
        name=name_of(data),
        unfilled=unfilled,
        table=table,
        gaps=gaps,
        fill=fill,
        refused=bool(gaps) and asked.fill != fill_that_works(unfilled, asked.fill),
        unfillable=unfillable,
        columns=columns,
        targets=tuple(targets),
        seasons=seasons,
        season=asked.season or season_length(table.freq),
        parts=parts,
        lengths=(given["seq_len"], given["pred_len"]),
        settings=settings if lengths else [],
        rules=rules,
    )


def name_of(data: ForecastData) -> str:
    if isinstance(data, CsvData):
        return str(data.path)
    return f"{data.name} (synthetic)" if isinstance(data, SampleData) else str(data.name)


def read_unfilled(data: ForecastData) -> UnfilledTable:
    data.prepare_data()
    if isinstance(data, CsvData):
        return data.read_unfilled()
    table = data.read()
    if isinstance(table, StoredTable):
        table = table.whole()
    there = np.ones(len(table.dates), dtype=bool)
    return UnfilledTable(table.dates, table.values, table.columns, table.freq, there)


def choose(table: UnfilledTable, names: list[str]) -> UnfilledTable:
    """Some of the columns."""
    values = table.values[:, [table.columns.index(name) for name in names]]
    return replace(table, values=values, columns=tuple(names))


def windows_over(table: Table, data: ForecastData, **options: Any) -> ForecastData:
    """The table's windows, split and scaled as `data` says."""
    frame = pd.DataFrame(table.values, index=table.dates, columns=list(table.columns))
    made = FrameData(
        frame, freq=table.freq, name=data.name, split=data.split, scaler=data.scaler_kind, **options
    )
    with warnings.catch_warnings(action="ignore"):  # of constant columns: they have their note
        made.setup()
    return made
