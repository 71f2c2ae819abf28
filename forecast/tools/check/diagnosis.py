"""The examination of a panel before training."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from forecast.data import DataModule, Panel
from forecast.data.files.table_source import TableSource
from forecast.data.store.format import check_fits_memory
from forecast.system.errors import TextColumns
from forecast.tools.check import advice
from forecast.tools.check.calendar_gaps import find_calendar_of_gaps
from forecast.tools.check.categories import CategoryColumn, measure_categories
from forecast.tools.check.columns import Column, measure_columns
from forecast.tools.check.copies import Copy, find_copies
from forecast.tools.check.gaps import Gaps, find_gaps, interpolate
from forecast.tools.check.lengths import HORIZON, PAST, suggest_lengths
from forecast.tools.check.seasons import Season, find_seasons
from forecast.tools.check.series import (
    SeriesFacts,
    choose_longest,
    last_rows,
    measure_series,
    training_rows,
)
from forecast.tools.check.settings import Choices, Setting
from forecast.tools.check.windows import BaselineScores, SplitPart, cut_windows, score_baselines, split_parts

STAGES = ("reading", "columns", "seasons", "baselines")


@dataclass(frozen=True)
class Diagnosis:
    """The findings about a panel.

    Attributes:
        file: the panel of the file.
        panel: the panel that the suggested training reads, without useless columns.
        interpolated: `panel` with lines across its gaps.
        seeks_calendar: whether a calendar is sought that the gaps follow, which is not done for a store.
        columns: facts about the columns of numbers of the file.
        categories: facts about its columns of text.
        copies: columns that repeat another one, in the longest series.
        seasons: seasons of the targets, measured on the longest series; `by_column` holds the targets of one series
            after another.
        season_rows: number of rows in which seasons were searched.
        season: rows that the seasonal-naive baseline repeats by default.
        lengths: seq_len and pred_len that were given, else suggested, else training's defaults.
        settings: empty if the panel is too short for any windows; `baselines` is None then.
    """

    name: str
    file: Panel
    panel: Panel
    interpolated: Panel
    gaps: Gaps
    seeks_calendar: bool
    columns: list[Column]
    categories: list[CategoryColumn]
    copies: list[Copy]
    series: SeriesFacts
    targets: tuple[str, ...]
    seasons: list[Season]
    season_rows: int
    season: int
    parts: list[SplitPart]
    lengths: tuple[int, int]
    settings: list[Setting]
    baselines: BaselineScores | None

    @property
    def counts_series(self) -> bool:
        """Whether the series have ids, so that the report describes series, and not only the columns of a table."""
        return self.file.has_ids

    def suggestion(self, key: str) -> object:
        """The suggested value of a key; None if there is none."""
        return {setting.key: setting.value for setting in self.settings}.get(key)


def diagnose(data: DataModule, choices: Choices, stage: Callable[[str], object]) -> Diagnosis:
    """Read and examine the panel of `data`, whose window lengths and `features` do not matter.

    `stage` is called with each of STAGES as it begins.

    Raises:
        DataError, ConfigError: as training does, except for splits that are too short.
    """
    stage("reading")
    file, texts = read_with_texts(data)
    file, steps = choose_steps(data, file)
    stage("columns")
    parts = split_parts(file, data.options.split, data.options.scale_by)
    columns, by_series = measure_columns(file, parts)
    gaps = find_gaps(file)
    features = advice.suggest_features(file, choices)
    categories = measure_categories(file)
    useful = [
        *advice.suggest_texts([c for c in categories if c.name in texts], data.source, choices),
        *advice.suggest_columns([c for c in columns if c.name in file.targets], choices),
    ]
    panel = choose_columns(file, useful)
    interpolated = interpolate(panel)
    targets = panel.targets if features.value == "M" else (choices.target or panel.targets[0],)
    stage("seasons")
    index, longest = [panel.columns.index(name) for name in targets], choose_longest(panel)
    values = last_rows(interpolated, longest, index)
    seasons = find_seasons(values, panel.freq, panel.calendar)
    lengths = suggest_lengths(parts, seasons, panel.season, choices)
    baselines, settings = None, []
    if lengths:
        season = advice.suggest_season(
            training_rows(interpolated, longest, index, parts[0]), seasons, panel.season, choices
        )
        settings = [*steps, *advice.suggest_na_values(columns, choices), *useful, features, *lengths, *season]
        stage("baselines")
        baselines, n_windows = measure(panel, data, settings, choices)
        settings += advice.suggest_training(n_windows, lengths, choices, bool(panel.future_covariates))
    chosen = choose_lengths(lengths, choices)
    return Diagnosis(
        name=name_source(data),
        file=file,
        panel=panel,
        interpolated=interpolated,
        gaps=gaps,
        seeks_calendar=isinstance(data.source, TableSource),
        columns=columns,
        categories=categories,
        copies=find_copies(last_rows(interpolated, longest[:1], range(len(panel.columns))), panel.columns),
        series=measure_series(file, gaps, by_series, parts, chosen),
        targets=tuple(targets),
        seasons=seasons,
        season_rows=len(values),
        season=choices.season or panel.season,
        parts=parts,
        lengths=chosen,
        settings=settings,
        baselines=baselines,
    )


def read_with_texts(data: DataModule) -> tuple[Panel, Sequence[str]]:
    """The panel of `data`, and its columns of text without another role, which are read as past covariates."""
    try:
        return read_panel(data), ()
    except TextColumns as error:
        source, is_chosen = data.source, data.options.target in error.names
        if not isinstance(source, TableSource) or source.roles.targets is not None or is_chosen:
            raise
        data.source = source.with_past_covariates(error.names)
        return read_panel(data), error.names


def choose_columns(file: Panel, settings: Sequence[Setting]) -> Panel:
    """The columns of the file that a training with these settings reads."""
    values = {setting.key: setting.value for setting in settings}
    left_out = values.get("data.drop", ())
    past = [name for name in file.past_covariates if name not in left_out]
    panel = file.select_columns([*values.get("data.columns", file.targets), *past])
    return replace(panel, texts={name: t for name, t in panel.texts.items() if name not in left_out})


def choose_steps(data: DataModule, panel: Panel) -> tuple[Panel, list[Setting]]:
    """The panel as `data` reads it; with `data.steps=rows` and this setting where gaps follow a calendar."""
    source = data.source
    if not isinstance(source, TableSource) or (source.steps, source.freq) != ("dates", None):
        return panel, []
    calendar = find_calendar_of_gaps(panel)
    if calendar is None:
        return panel, []
    data.source = source.with_steps("rows")
    with warnings.catch_warnings(action="ignore"):  # the first reading gave them
        panel = read_panel(data)
    why = f"the rows are {calendar.describe()}: dates between them are not missing"
    return panel, [Setting("data.steps", "rows", why)]


def measure(
    panel: Panel, data: DataModule, settings: list[Setting], choices: Choices
) -> tuple[BaselineScores, int]:
    """Score the baselines with these settings; also the number of training windows."""
    values = {setting.key: setting.value for setting in settings}
    options = {
        **{key: values[key] for key in ("seq_len", "pred_len", "features")},
        "target": choices.target,
        "season": values.get("data.season", choices.season),
        "eval_stride": choices.eval_stride,
    }
    windows = cut_windows(panel, data, options)
    return score_baselines(windows), windows.n_windows["train"]


def choose_lengths(lengths: list[Setting], choices: Choices) -> tuple[int, int]:
    """seq_len and pred_len that were given, else suggested, else the defaults of training."""
    suggested = {setting.key: setting.value for setting in lengths}
    default = {"seq_len": PAST, "pred_len": HORIZON}
    chosen = {key: getattr(choices, key) or suggested.get(key, default[key]) for key in default}
    return chosen["seq_len"], chosen["pred_len"]


def name_source(data: DataModule) -> str:
    return f"{data.name} (synthetic)" if data.source.path is None else str(data.source.path)


def read_panel(data: DataModule) -> Panel:
    """The panel of `data` in memory. Raises DataError for a store that memory cannot hold."""
    data.prepare_data()
    panel = data.source.read()
    check_fits_memory(panel)
    future = None if panel.future is None else np.asarray(panel.future)
    return replace(panel, values=np.asarray(panel.values), future=future)
