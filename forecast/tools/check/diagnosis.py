"""The examination of a panel before training."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from forecast.data import DataModule, Panel
from forecast.data.store import check_fits_memory
from forecast.data.time_features import rows_in
from forecast.system.errors import TextColumns
from forecast.tools.check import advice
from forecast.tools.check.columns import Column, measure_columns
from forecast.tools.check.gaps import (
    BaselineScores,
    Gaps,
    SplitPart,
    find_calendar_of_gaps,
    find_gaps,
    interpolate,
    split_parts,
)
from forecast.tools.check.lengths import HORIZON, PAST, check_lengths, suggest_lengths
from forecast.tools.check.relations import (
    CategoryColumn,
    Copy,
    find_copies_and_functions,
    measure_categories,
    suggest_transform,
)
from forecast.tools.check.seasons import Season, find_seasons
from forecast.tools.check.series import (
    SeriesFacts,
    choose_longest,
    last_rows,
    measure_series,
    training_rows,
)
from forecast.tools.check.settings import Choices, Setting

MakeData = Callable[..., DataModule]
"""Creates the data module that the user chose, with other values of the options given by keyword."""


@dataclass(frozen=True)
class Reading:
    """The panel of a data module.

    Attributes:
        texts: columns of text without another role, which are read as past covariates.
        settings: the future covariates if names of columns say that they are forecasts, and `data.steps=rows` if gaps
            follow a calendar.
    """

    data: DataModule
    panel: Panel
    texts: Sequence[str]
    settings: list[Setting]


def read(make: MakeData, choices: Choices) -> Reading:
    """Read the data; again with text and forecasts as covariates, or with rows as steps, where the data suggest it.

    Raises:
        DataError, ConfigError: as training does; DataError also for a store that memory cannot hold.
    """
    reading = _read_with_forecasts(make, choices, _read_with_texts(make, choices))
    if (choices.steps, choices.freq) != ("dates", None):
        return reading
    calendar = find_calendar_of_gaps(reading.panel)
    if calendar is None:
        return reading
    why = f"the rows are {calendar.describe()}: dates between them are not missing"
    return _read_again(make, choices, reading, Setting("data.steps", "rows", why))


def _read_with_texts(make: MakeData, choices: Choices) -> Reading:
    """Read the data, and again where columns of text without another role would be targets."""
    data = make()
    try:
        return Reading(data, _read_panel(data), texts=(), settings=[])
    except TextColumns as error:
        if choices.columns is not None or data.options.target in error.names:
            raise
        data = make(past_covariates=[*choices.past_covariates, *error.names])
        return Reading(data, _read_panel(data), texts=error.names, settings=[])


def _read_with_forecasts(make: MakeData, choices: Choices, reading: Reading) -> Reading:
    """Read a table again where names of targets say that they are forecasts, which are known in advance."""
    targets = reading.panel.targets
    names = [name for name in targets if "forecast" in name.lower() and name != choices.target]
    is_chosen = choices.columns is not None or choices.future_covariates or choices.steps is None
    if not names or len(names) == len(targets) or is_chosen:
        return reading
    why = "their names say that they are forecasts: known for the steps to forecast"
    return _read_again(make, choices, reading, Setting("data.future_covariates", names, why))


def _read_again(make: MakeData, choices: Choices, reading: Reading, setting: Setting) -> Reading:
    """Read the data as in a reading, with one more setting."""
    settings = [*reading.settings, setting]
    chosen = {each.key.removeprefix("data."): each.value for each in settings}
    data = make(past_covariates=[*choices.past_covariates, *reading.texts], **chosen)
    with warnings.catch_warnings(action="ignore"):  # the first reading gave them
        panel = _read_panel(data)
    return replace(reading, data=data, panel=panel, settings=settings)


def _read_panel(data: DataModule) -> Panel:
    """The panel of `data` in memory. Raises DataError for a store that memory cannot hold."""
    data.prepare_data()
    panel = data.source.read()
    check_fits_memory(panel)
    future = None if panel.future is None else np.asarray(panel.future)
    return replace(panel, values=np.asarray(panel.values), future=future)


@contextmanager
def warnings_only_with_errors() -> Iterator[None]:
    """Leave out the warnings of the block, unless it raises an exception: training reads the data again and warns."""
    try:
        with warnings.catch_warnings(record=True, action="always") as caught:
            yield
    except Exception:
        for each in caught:
            warnings.warn(each.message, stacklevel=2)
        raise


STAGES = ("reading", "columns", "seasons", "baselines")


@dataclass(frozen=True)
class Diagnosis:
    """The findings about a panel.

    Attributes:
        file: the panel of the file.
        panel: the panel that the suggested training reads, without useless columns.
        interpolated: `panel` with lines across its gaps.
        has_file_options: whether data.steps and data.na_values say how the data are read; not of a store.
        not_read: columns of the file that no option names.
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
    has_file_options: bool
    not_read: tuple[str, ...]
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


def diagnose(make: MakeData, choices: Choices, stage: Callable[[str], object]) -> Diagnosis:
    """Read and examine the panel of `make()`, whose window lengths and `features` do not matter.

    `stage` is called with each of STAGES as it begins.

    Raises:
        DataError, ConfigError: as training does, except for splits that are too short, unless `choices.must_fit`.
    """
    stage("reading")
    reading = read(make, choices)
    data, file = reading.data, reading.panel
    stage("columns")
    parts = split_file(file, data, choices)
    columns, by_series = measure_columns(file, parts)
    gaps, categories = find_gaps(file), measure_categories(file)
    features, codes = advice.suggest_features(file, choices), advice.suggest_na_values(columns, choices)
    whole, longest = interpolate(file), choose_longest(file)
    newest = last_rows(whole, longest[:1], range(len(file.columns)))
    copies = find_copies_and_functions(newest, file.columns, choices.target)
    offered = [column for column in columns if column.name in file.targets]
    texts = [category for category in categories if category.name in reading.texts]
    useful = advice.suggest_columns(offered, copies, texts, choices)
    panel, interpolated = choose_columns(file, useful), choose_columns(whole, useful)
    targets = panel.targets if features.value == "M" else (choices.target or panel.targets[0],)
    stage("seasons")
    index = [panel.columns.index(name) for name in targets]
    values = last_rows(interpolated, longest, index)
    seasons = find_seasons(values, panel.freq, panel.calendar)
    lengths = suggest_lengths(parts, seasons, panel.season, rows_in(1, panel.freq), choices)
    baselines, settings = None, []
    if lengths:
        train = training_rows(interpolated, longest, index, parts[0])
        settings = [*reading.settings, *codes, *useful, features, *lengths]
        settings += advice.suggest_season(train, seasons, panel.season, choices)
        settings += [*suggest_transform(train, targets, data), *advice.suggest_model(panel, features.value)]
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
        has_file_options=choices.steps is not None,
        not_read=data.source.without_role,
        columns=columns,
        categories=categories,
        copies=copies,
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


def split_file(file: Panel, data: DataModule, choices: Choices) -> list[SplitPart]:
    """The splits of the file. Raises DataError if chosen lengths must fit, and do not."""
    parts = split_parts(file, data.options.split, data.options.scale_by)
    if choices.must_fit and (choices.seq_len or choices.pred_len):
        check_lengths(data.title, parts, choices)
    return parts


def choose_columns(file: Panel, settings: Sequence[Setting]) -> Panel:
    """The columns of the file that a training with these settings reads."""
    values = {setting.key: setting.value for setting in settings}
    left_out = values.get("data.drop", ())
    targets = values.get("data.columns", [name for name in file.targets if name not in left_out])
    past = [name for name in file.past_covariates if name not in left_out]
    panel = file.select_columns([*targets, *past])
    return replace(panel, texts={name: t for name, t in panel.texts.items() if name not in left_out})


def measure(
    panel: Panel, data: DataModule, settings: list[Setting], choices: Choices
) -> tuple[BaselineScores, int]:
    """Score the baselines with these settings; also the number of training windows."""
    from forecast.tools.check.baselines import cut_windows, score_baselines  # imports PyTorch

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
