"""The examination of a panel before training."""

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64

from forecast.data import DataModule, Panel, frame_data
from forecast.data.calendars import MIN_MATCH, Calendar, UtcOffset, find_calendar
from forecast.data.row_ranges import ranges
from forecast.data.sets import GeneratedSource
from forecast.data.split import spread_stride
from forecast.data.store import check_fits_memory
from forecast.data.time_features import parse_frequency, rows_in
from forecast.system.errors import DataError, TextColumns
from forecast.system.formatting import quote_for_shell, shorten, write_mapping
from forecast.tools.check import advice, facts
from forecast.tools.check.advice import HORIZON, PAST, Choices, Setting
from forecast.tools.check.relations import Copy, Sum, find_copies, find_sums
from forecast.tools.check.seasons import Season, calendar_periods, find_seasons

if TYPE_CHECKING:
    from forecast.evaluation.baselines import FittedBaselines

MakeData = Callable[..., DataModule]
"""Creates the data module that the user chose, with other values of the options given by keyword."""
SAMPLED = 8  # number of series, the longest, in which seasons are searched
CELLS = 8_000_000
"""Largest number of values (windows × steps × columns) on which the baselines are scored, to limit the time."""
KEYS = {  # the settings that are suggested for a DataFrame
    "seq_len", "label_len", "pred_len", "attention", "model", "model.patch_len", "data.batch_size", "data.drop",
    "data.past_covariates", "data.future_covariates", "data.season", "data.transform", "data.steps",
    "trainer.max_epochs",
}  # fmt: skip
SPLIT = (0.7, 0.1, 0.2)
DAYS = ("D", "B")
CONTINUOUS = 0.9  # share of a week's steps from which rows come at all hours
LONG_PASTS = (720, 1_440, 2_880)  # longer pasts that are tried, in rows: a month, two and four of hours
MIN_FACTOR = 1.5  # smallest ratio of a longer past and the suggested one
LONGER_GAIN = 0.03  # smallest decrease of the validation error for which a longer past is suggested
MIN_WINDOWS_OF_LONG_PAST = 7  # windows of training, of all series, for each row of a longer past
MAX_PRODUCTS = 2**25
"""Largest number of products of two steps of the past, of all series, so that a check takes seconds."""


class Reading(NamedTuple):
    """The panel of a data module."""

    data: DataModule
    panel: Panel
    texts: Sequence[str]  # columns of text without another role, which are read as past covariates
    settings: list[Setting]  # the covariates that are no targets, and `data.steps=rows` if gaps follow a calendar


def read(make: MakeData, choices: Choices) -> Reading:
    """Read the data; again with text and forecasts as covariates, or with rows as steps, where the data suggest it.

    Raises DataError, ConfigError: as training does; DataError also for a store that memory cannot hold.
    """
    data = make()
    try:
        reading = Reading(data, _read_panel(data), texts=(), settings=[])
    except TextColumns as error:
        if choices.columns is not None or data.options.target in error.names:
            raise
        reading = _read_again(make, choices, error.names, [])
    offered = _read_unnamed(make, choices, reading)
    if covariates := advice.suggest_covariates(offered, choices):
        reading = _read_again(make, choices, reading.texts, covariates)
    if (choices.steps, choices.freq) == ("dates", None):
        calendar = find_calendar_of_gaps(reading.panel)
        if calendar is not None:
            why = f"the rows are {calendar.describe()}: dates between them are not missing"
            rows = Setting("data.steps", "rows", why)
            reading = _read_again(make, choices, reading.texts, [*reading.settings, rows])
    return reading


def _read_unnamed(make: MakeData, choices: Choices, reading: Reading) -> Panel:
    """The panel of a reading; with many series, also the columns without a role whose names say one, as targets."""
    named = [name for name in reading.data.source.without_role if advice.is_named_like_covariate(name)]
    while named and choices.columns is None:
        columns = [Setting("data.columns", [*reading.panel.targets, *named], "")]
        try:
            return _read_again(make, choices, reading.texts, columns).panel
        except TextColumns as error:  # their reader has to say what they are
            named = [name for name in named if name not in error.names]
        except DataError:
            break
    return reading.panel


def _read_again(make: MakeData, choices: Choices, texts: Sequence[str], settings: Sequence[Setting]) -> Reading:
    """Read the data with these columns of text as covariates, and with these settings."""
    chosen = {each.key.removeprefix("data."): each.value for each in settings}
    past = chosen.get("past_covariates", choices.past_covariates)
    data = make(**{**chosen, "past_covariates": [*past, *texts]})
    with warnings.catch_warnings(action="ignore"):  # the first reading gave them
        panel = _read_panel(data)
    return Reading(data, panel, texts, [*settings])


def _read_panel(data: DataModule) -> Panel:
    """The panel of `data` in memory. Raises DataError for a store that memory cannot hold."""
    data.prepare_data()
    panel = data.source.read()
    check_fits_memory(panel)
    future = None if panel.future is None else np.asarray(panel.future)
    panel = replace(panel, values=np.asarray(panel.values), future=future)
    # rows of a store before and after the targets are left out of `starts` and `stops` alone
    return panel.take_rows(np.arange(len(panel)), panel.starts, panel.stops, panel.ends)


def find_calendar_of_gaps(panel: Panel) -> Calendar | None:
    """The calendar that the rows of a panel follow; None if they have no gaps, or gaps that follow no calendar.

    A gap that is longer than a week of the calendar's dates is missing data, and no holidays.
    """
    offset = parse_frequency(panel.freq)
    if not (isinstance(offset, pd.offsets.Tick) or panel.freq in DAYS):
        return None
    history = ranges(panel.starts, panel.ends)
    filled = np.isfinite(facts.number_columns(panel)[1][history]).any(axis=1)
    places = np.repeat(panel.grid_starts - panel.starts, panel.lengths) + history
    dates = panel.utc_offset.local(pd.DatetimeIndex(panel.grid[np.unique(places[filled])]))
    span = int((panel.grid_starts + panel.lengths).max() - panel.grid_starts.min())
    if len(dates) == span:
        return None
    try:
        calendar = find_calendar("", dates, None)
    except DataError:
        return None
    of_week = 7 if panel.freq in DAYS else rows_in(days=7, freq=panel.freq)
    if not 0 < len(calendar.slots) <= CONTINUOUS * of_week:
        return None
    expected = calendar.between(dates)
    lacking = ~expected.isin(dates)
    _, lengths = facts.runs(lacking)
    fits = dates.isin(expected).mean() >= MIN_MATCH and lacking.mean() <= 1 - MIN_MATCH
    return calendar if fits and max(lengths, default=0) <= len(calendar.slots) else None


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


@dataclass(frozen=True)
class BaselineScores:
    """Scores of the baselines, best first, on `windows` test windows (every `every`-th of them)."""

    scores: dict[str, dict[str, float]]
    windows: int
    every: int
    season: int


@dataclass(frozen=True)
class Diagnosis:
    """The findings about a panel.

    `copies`, `sums`: columns that repeat another one, and targets that are sums of others, in the longest series.
    """

    data: DataModule
    file: Panel
    panel: Panel  # the panel that the suggested training reads, without useless columns
    gaps: facts.Gaps
    columns: list[facts.Column]
    categories: list[facts.CategoryColumn]
    copies: list[Copy]
    sums: list[Sum]
    choices: Choices
    targets: tuple[str, ...]
    seasons: list[Season]  # seasons of the targets, measured on the longest series
    parts: list[facts.SplitPart]
    settings: list[Setting]  # empty if the panel is too short for any windows; `baselines` is None then
    baselines: BaselineScores | None

    @property
    def suggested(self) -> dict[str, Any]:
        return {setting.key: setting.value for setting in self.settings}

    @property
    def name(self) -> str:
        path = self.data.source.path
        return f"{self.data.name} (synthetic)" if path is None else str(path)

    @property
    def lengths(self) -> tuple[int, int]:
        """seq_len and pred_len that were given, else suggested, else training's defaults."""
        return (
            self.choices.seq_len or self.suggested.get("seq_len", PAST),
            self.choices.pred_len or self.suggested.get("pred_len", HORIZON),
        )

    @property
    def season(self) -> int:
        """The rows that the seasonal-naive baseline repeats by default."""
        return self.choices.season or self.panel.season

    def describe_options(self, typed: Collection[str]) -> list[str]:
        """Settings that depend on what the numbers are, and are not suggested; `typed`: the keys that are set."""
        lines = []
        if self.panel.utc_offset == UtcOffset(0, "UTC"):
            lines.append("the dates are in UTC: for a local calendar add data.timezone=Europe/Berlin or the like")
        if any(season.name == "a week" for season in self.seasons) and "data.holidays" not in typed:
            lines.append("if public holidays matter: data.holidays=COUNTRY, such as US, DE or DE-BY (extra holidays)")
        positive = [one.name for one in self.columns if one.name in self.targets and one.minimum >= 0]
        if positive and "data.lower" not in typed:
            is_each = len(positive) == len(self.targets)
            example = "data.lower=0" if is_each else f"data.lower={write_mapping(positive[0], 0)}"
            lines.append(f"never negative: {shorten(positive)}; if it cannot be: {quote_for_shell(example)}")
        return lines


def diagnose(make: MakeData, choices: Choices) -> Diagnosis:
    """Read and examine the panel of `make()`, whose window lengths and `features` do not matter.

    Raises DataError, ConfigError: as training does, except for splits that are too short.
    """
    reading = read(make, choices)
    data, file = reading.data, reading.panel
    parts = facts.split_parts(file, data.options.split, data.options.scale_by)
    columns, categories = facts.measure_columns(file, parts), facts.measure_categories(file, parts[0])
    features, longest = advice.suggest_features(file, choices), choose_longest(file)
    (newest,) = interpolate(file, longest[:1], file.columns)
    copies = find_copies(newest, file.columns, choices.target)
    offered = [each for each in columns if each.name in file.targets]
    texts = [each for each in categories if each.name in reading.texts]
    past = {each.key: each.value for each in reading.settings}.get("data.past_covariates", choices.past_covariates)
    useful = advice.suggest_columns(offered, copies, texts, replace(choices, past_covariates=past))
    panel = choose_columns(file, useful)
    targets = panel.targets if features.value == "M" else (choices.target or panel.targets[0],)
    values = interpolate(panel, longest, targets)
    newest = np.hstack([rows[-min(map(len, values)) :] for rows in values])
    seasons = find_seasons(newest, panel.freq, panel.calendar)
    lengths = advice.suggest_lengths(parts, seasons, panel.season, rows_in(1, panel.freq), choices)
    baselines, settings = None, []
    if lengths:
        first, stop = (rows[longest] - panel.starts[longest] for rows in (parts[0].first, parts[0].stop))
        ends = zip(values, first.tolist(), stop.tolist(), strict=True)
        train = [rows[begin:end] for rows, begin, end in ends if end > begin]
        settings = [
            *reading.settings,
            *advice.suggest_na_values(columns, choices),
            *useful,
            features,
            *lengths,
            *advice.suggest_season(train, seasons, panel.season, choices),
            *advice.suggest_transform(train, targets, data),
            *advice.suggest_model(panel, features.value),
        ]
        settings = [*{setting.key: setting for setting in settings}.values()]
        settings, windows, fitted = lengthen_past(panel, data, settings, choices, parts[0])
        baselines, n_windows = score_baselines(windows, fitted), windows.n_windows["train"]
        settings += advice.suggest_training(n_windows, settings, choices, bool(panel.future_covariates))
    return Diagnosis(
        data=data,
        file=file,
        panel=panel,
        gaps=facts.find_gaps(file),
        columns=columns,
        categories=categories,
        copies=copies,
        sums=find_sums(values[0], targets),
        choices=choices,
        targets=tuple(targets),
        seasons=seasons,
        parts=parts,
        settings=settings,
        baselines=baselines,
    )


def choose_columns(file: Panel, settings: Sequence[Setting]) -> Panel:
    values = {setting.key: setting.value for setting in settings}
    left_out = values.get("data.drop", ())
    kept = [name for name in (*file.targets, *file.past_covariates) if name not in left_out]
    panel = file.select_columns(kept)
    return replace(panel, texts={name: t for name, t in panel.texts.items() if name not in left_out})


def choose_longest(panel: Panel) -> Int64[np.ndarray, " chosen"]:
    """The numbers of the longest series, at most `SAMPLED`; none is shorter than half of the longest."""
    longest = np.argsort(-panel.lengths, kind="stable")[:SAMPLED]
    return longest[2 * panel.lengths[longest] >= panel.lengths.max()]


def interpolate(
    panel: Panel, series: Int64[np.ndarray, " chosen"], columns: Sequence[str]
) -> list[Float64[np.ndarray, "_ columns"]]:
    """These columns of each of these series, with lines across gaps; zeros where there is no value at all."""
    index = [panel.columns.index(name) for name in columns]
    values = np.asarray(panel.values)
    return [
        pd.DataFrame(values[start:end, index]).interpolate(limit_direction="both").fillna(0.0).to_numpy()
        for start, end in zip(panel.starts[series], panel.ends[series], strict=True)
    ]


def lengthen_past(
    panel: Panel, data: DataModule, settings: list[Setting], choices: Choices, train: facts.SplitPart
) -> tuple[list[Setting], DataModule, "FittedBaselines"]:
    """The settings with the longest past on which the linear baseline validates better than on shorter ones.

    With them, the windows that training reads, and the baselines that are fitted to these.

    The periods of the calendar, such as 52 weeks, and the `LONG_PASTS` are tried in turn, until one of the latter does
    not lower the MSE on validation windows by `LONGER_GAIN`. With covariates, which are left out for that, only the
    periods are. None is tried if `seq_len` was given, for steps below an hour, and where windows are too few, or series
    too many or too short.
    """
    values = {setting.key: setting.value for setting in settings}
    past, horizon, n_series = values["seq_len"], values["pred_len"], len(panel.starts)
    has_covariates = bool(panel.past_covariates or panel.future_covariates)
    is_open = choices.seq_len is None and rows_in(1, panel.freq) <= 24
    periods = [rows for rows in calendar_periods(panel.freq, panel.calendar) if rows > past]
    long = [rows for rows in LONG_PASTS if rows >= MIN_FACTOR * past and not has_covariates]
    usable = [
        longer
        for longer in sorted({*periods, *long})
        if train.typical >= longer + horizon
        and train.n_rows - n_series * (longer + horizon - 1) >= MIN_WINDOWS_OF_LONG_PAST * longer
        and n_series * longer**2 <= MAX_PRODUCTS
    ]
    from forecast.evaluation.baselines import FittedBaselines  # imports PyTorch
    from forecast.linear.fit import validate_least_squares

    without = {"future_covariates": (), "as_of": {}, "future": None, "texts": {}, "indicators": {}}
    bare = replace(panel.select_columns(panel.targets), **without)

    @cache  # without covariates, the past that is taken is fitted once
    def fit(seq_len: int, *, is_bare: bool) -> tuple[DataModule, FittedBaselines]:
        read = bare if is_bare else panel
        chosen = make_windows(read, data, {**values, "seq_len": seq_len}, choices)
        return chosen, FittedBaselines.fit(chosen, thorough=False)

    def validate(seq_len: int) -> float:
        windows, fitted = fit(seq_len, is_bare=has_covariates)
        assert fitted.gram is not None  # as of all that are fitted to windows
        return validate_least_squares(fitted.gram, windows)

    if is_open and usable:
        first = error = validate(past)
        for longer in usable:
            found = validate(longer)
            if found < (1 - LONGER_GAIN) * error:
                past, error = longer, found
            elif longer not in periods:
                break
        if past != values["seq_len"]:
            less = f"{1 - error / first:.0%} less MSE on validation rows"
            why = f"a linear model has {less} than with {values['seq_len']}"
            settings = [Setting("seq_len", past, why) if each.key == "seq_len" else each for each in settings]
    return settings, *fit(past, is_bare=False)


def make_windows(panel: Panel, data: DataModule, values: Mapping[str, Any], choices: Choices) -> DataModule:
    options = {
        **vars(data.options),
        **{key: values[key] for key in ("seq_len", "pred_len", "features")},
        "target": choices.target,
        "season": values.get("data.season", choices.season),
        "eval_stride": choices.eval_stride,
    }
    chosen = DataModule(GeneratedSource(lambda: panel), **options)
    with warnings.catch_warnings(action="ignore"):  # of constant columns and short series, which are reported
        chosen.setup()
    return chosen


def score_baselines(chosen: DataModule, fitted: "FittedBaselines") -> BaselineScores:
    """MSE and MAE (scaled) and MASE of each baseline on the test windows, as training with these windows reports them.

    With so many covariates that their choice takes long in training, the settings of the linear baseline may differ.
    """
    from forecast.evaluation.measurement import score_windows  # imports PyTorch

    windows = chosen.windows["test"]
    every = spread_stride(len(windows), max(1, CELLS // (chosen.pred_len * chosen.n_targets)), chosen.season)
    forecasters = {name: partial(baseline, windows) for name, baseline in fitted.baselines().items()}
    found = score_windows(forecasters, chosen, fitted, "test", stride=every)
    scores = {name: {score: each[score] for score in ("mse", "mae", "mase")} for name, each in found.items()}
    ranked = dict(sorted(scores.items(), key=lambda item: item[1]["mse"]))
    count, season = -(-len(windows) // every), fitted.seasonal_naive_season
    return BaselineScores(ranked, count, every * windows.stride, season)


def suggest_overrides(
    frame: Any, columns: Mapping[str, Any], chosen: Mapping[str, Any], typed: Collection[str]
) -> list[str]:
    """Print the settings that suit a DataFrame, and return them as overrides of the command line.

    Args:
        chosen: seq_len, label_len, pred_len and features, if the caller sets them.
        typed: the keys that the caller sets, which are left out.

    Raises DataError: a DataFrame that cannot be used.
    """
    fixed = {"name": "frame", "split": SPLIT, "steps": "dates", "seq_len": 1}
    options = {**fixed, "pred_len": chosen.get("pred_len", 1), **columns}
    named = ("target", "past_covariates", "future_covariates")
    names = {key: columns[key] for key in named if key in columns}
    choices = Choices(steps="dates", na_values=(), **chosen, **names)
    with warnings_only_with_errors():
        found = diagnose(lambda **changed: frame_data(frame, **options | changed), choices)
    for each in found.settings:
        if each.key == "data.na_values":
            warnings.warn(f"{each.why}: replace them by NaN in the DataFrame", stacklevel=2)
    settings = [each for each in advice.leave_out_typed(found.settings, typed) if each.key in KEYS]
    return advice.print_suggested(settings, found.describe_options(typed))
