"""The Python interface: `fit` a model to a DataFrame or `load` one; then forecast, draw, score and save."""

import shutil
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from itertools import chain
from pathlib import Path
from secrets import token_hex
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from forecast.backtest import merge_settings
from forecast.cli import safety
from forecast.cli.compose import compose_command, compose_config
from forecast.cli.overrides import quote
from forecast.data import DataModule, frame_data
from forecast.data.calendars import utc_offset_of
from forecast.data.files.columns import list_id_columns, split_ids
from forecast.data.files.sources import Frame, find_roles, to_library_of
from forecast.data.module import MODULE_OPTIONS, option_names
from forecast.data.time_features import describe_frequency
from forecast.evaluation.measurement import Backtest
from forecast.evaluation.scores import MODEL, Level, name_tested
from forecast.inference.forecast import Forecast, check_backtest, compare_forecasters
from forecast.inference.forecasters import choose_forecaster, find_unread_columns, list_forecasters
from forecast.inference.hierarchy import predict_sums
from forecast.inference.model import TrainedModel, read_checkpoint
from forecast.inference.model import evaluate as evaluate_model
from forecast.inference.model_data import FRAME, name_keys
from forecast.inference.origins import note_on_windows
from forecast.reports.backtest import tabulate_scores, tabulate_windows
from forecast.reports.figures import prediction_figure
from forecast.runs.folder import write_config
from forecast.system.errors import CheckpointError, ConfigError, ForecastError, check_count, user_path
from forecast.system.files import atomic_folder
from forecast.system.formatting import plural, shorten, write_value
from forecast.system.keys import key_of_override
from forecast.tools.explain.explanation import study_inputs, tabulate_importance
from forecast.train import train

FRAME_OPTIONS = MODULE_OPTIONS.keys() - {"name"} | {"drop", "freq", "stamp", "steps", "calendar"}
"""Settings of the data that apply to a DataFrame too."""


class Model(TrainedModel):
    """A trained model that forecasts DataFrames. After a refit on all rows, scores are those of the tested model."""

    def predict(
        self,
        frame: Frame | None = None,
        *,
        future: Frame | None = None,
        horizon: int | None = None,
        start: str | pd.Timestamp | None = None,
        levels: Sequence[Level] = (),
        intervals: str = "auto",
        samples: int | None = None,
        seed: int = 0,
        hierarchy: str | Sequence[str] | None = None,
        baseline: str | None = None,
    ) -> Any:
        """Forecast the steps after the end of `frame`, or from `start`, in original units.

        Args:
            frame: rows with a DatetimeIndex and at least the columns `feature_columns`; for a model of many series,
                one row for each series and date. A frame of Polars or PyArrow has the dates in the column of training.
                None: the training data; after `fit`, its frame.
            future: rows of the future covariates after the end of `frame`, laid out as `frame`. None: rows of `frame`
                whose targets are missing.
            horizon: number of steps; beyond `pred_len` the model reads its own forecasts. None: `pred_len`.
            start: date of the first step. None: the first date after the end of the data.
            levels: levels of the intervals, in percent.
            intervals: method of the intervals: auto, conformal, quantile or adaptive.
            samples: number of sample paths to return in place of the forecast. None: the forecast.
            seed: determines the sample paths.
            hierarchy: static covariates or id columns, from the top down, whose sums over series are added: the total,
                one for each value of the first name, and so on. `[]`: the total alone. None: no sums.
            baseline: naive, seasonal_naive or linear, which then forecasts in place of the model. None: the model.

        Returns:
            A frame of the library of `frame`, with one row for each date (and series). Each target has a column of
            forecasts, columns `-lo-80` and `-hi-80` for each level, and columns `-true` and `-error` where `start` lies
            within the data. The index of pandas is the date, or the id, with one level for each id column. With
            `samples`, it has one row for each date of each path (and series), the number of the path in the column
            `sample`, and one column for each target.

        Raises:
            ConfigError: an option that this model does not support. Like DataError, it is a ValueError.
            DataError: missing columns, history or future covariates.
        """
        _, found = self._forecast(
            frame,
            future,
            baseline,
            horizon=horizon,
            start=start,
            levels=levels,
            intervals=intervals,
            samples=samples,
            seed=seed,
            hierarchy=hierarchy,
        )
        table = found.frame() if samples is None else found.sample_frame()
        ids = name_keys(self.config["data"], self.data_state)["id_column"]
        table = split_ids(table, list_id_columns(ids))
        return to_library_of(self.frame if frame is None else frame, table)

    def plot(self, frame: Frame | None = None, **options: Any) -> Figure:
        """Draw a forecast beside recent history, by the arguments of `predict`; its levels are those of training."""
        if options.get("samples") is not None:
            raise ConfigError(f"samples={options['samples']}: a plot has no sample paths: leave samples out")
        data, found = self._forecast(frame, **{"levels": self.config["levels"], **options})
        return prediction_figure(found.plots(), found.title(data.title))

    def _forecast(
        self, frame: Frame | None, future: Frame | None = None, baseline: str | None = None, **options: Any
    ) -> tuple[DataModule, Forecast]:
        """The data and their forecast, see `predict`."""
        forecaster, data = choose_forecaster(self, baseline), self.open_frame(frame, future)
        panel = self.read_panel(data, find_unread_columns([forecaster]))
        return data, predict_sums(forecaster, panel, **options)

    def _scored(self, frame: Frame | None) -> tuple[TrainedModel, DataModule]:
        """The tested model, and the data that it is scored on."""
        tested = self.tested()
        return tested, tested.data(tested.open_frame(frame), find_unread_columns(list_forecasters(tested)))

    def scores(self) -> pd.DataFrame:
        """The scores of the run's test, one row for each forecaster. Raises CheckpointError if it was not tested."""
        if self.test is None:
            raise CheckpointError(f"{self.path}: it has no scores of a test; give the folder of a finished run")
        return pd.DataFrame({MODEL: self.results["test"], **self.results["baselines"]}).T

    def evaluate(self, frame: Frame | None = None, split: str = "test") -> dict[str, Any]:
        """Score every window of `frame`, or of a split of the training data; return scores laid out as metrics.json.

        Of the windows of a frame, a warning tells how many forecast rows of training or validation.

        Raises:
            CheckpointError: the training data are a DataFrame of another process, or the tested model is gone.
        """
        model, data = self._scored(frame)
        if frame is not None and (note := note_on_windows(model, data)):
            warnings.warn(f"{note}; give later rows", stacklevel=2)
        return evaluate_model(model, data, split, progress=False)[0]

    def backtest(
        self,
        frame: Frame | None = None,
        *,
        steps: int | None = None,
        stride: int | None = None,
        baselines: Sequence[str] = (),
    ) -> pd.DataFrame:
        """Score forecasts from many origins, without training again, in a table as that of `scores`.

        Args:
            frame: see `predict`.
            steps: number of last rows of each series that are forecast. None: its test rows.
            stride: rows between two origins. None: `pred_len`.
            baselines: other libraries beside the model: `lightgbm`, `chronos`, or functions as `module.function`.
        """
        found = self._backtest(frame, steps=steps, stride=stride, baselines=[*baselines])
        return pd.DataFrame(tabulate_scores(found)).T

    def cross_validation(
        self, h: int, n_windows: int = 1, step_size: int = 1, *, frame: Frame | None = None
    ) -> pd.DataFrame:
        """Forecast from the last origins of each series, in a table as that of Nixtla's `cross_validation`.

        Nothing is trained between the windows. The weights saw the rows of training: errors in them, of which a warning
        tells, say little about those of new dates.

        Args:
            h: number of steps, the first ones of the `pred_len` that a window forecasts.
            n_windows: number of windows of each series; the last one's `pred_len` steps end with the series.
            step_size: rows between two windows.
            frame: see `predict`.

        Returns:
            One row for each series, cutoff (the last date before a window) and date: columns `unique_id`, `ds`,
            `cutoff`, `y`, `model`, and one for each baseline. Ids are text, those of several columns joined by `/`; the
            id of a target of a table is its name. A frame of pandas, whatever the library of `frame`.
        """
        for name, value in {"h": h, "n_windows": n_windows, "step_size": step_size}.items():
            check_count(name, value)
        if h > self.pred_len:
            raise ConfigError(f"h={h} is beyond pred_len={self.pred_len}: train with pred_len={h}")
        steps = self.pred_len + step_size * (n_windows - 1)
        try:
            found = self._backtest(frame, steps=steps, stride=step_size)
        except ForecastError as error:
            raise type(error)(f"n_windows={n_windows}, step_size={step_size}: {error}") from None
        return tabulate_windows(found, h)

    def _backtest(self, frame: Frame | None, **asked: Any) -> Backtest:
        """A backtest with these settings of `forecast.backtest`; its notes are warnings."""
        from forecast.inference.backtest import backtest_model  # imports Lightning

        model, data = self._scored(frame)
        config = compose_config(config_name="backtest")
        config.update(asked, checkpoint=str(model.path))
        check_backtest(config)
        found = backtest_model(model, data, merge_settings(model, config, ()))
        for note in found.notes:
            warnings.warn(note, stacklevel=3)
        return found

    def explain(self, frame: Frame | None = None) -> pd.DataFrame:
        """Measure which inputs the forecasts depend on: importance.csv of `forecast.explain`, largest first."""
        _, found = study_inputs(compose_config(config_name="explain"), *self._scored(frame))
        return tabulate_importance(found).sort_values("mse", ascending=False, ignore_index=True)

    def save(self, path: str | Path) -> None:
        """Save the model in a new folder, from which `load` and all commands but training read it as from a run.

        Raises ConfigError if the folder exists.
        """
        folder = user_path(path)
        if folder.exists():
            raise ConfigError(f"{folder}: already exists: give another folder")
        with atomic_folder(folder) as temporary:
            (temporary / "checkpoints").mkdir()
            shutil.copy(self.tested().path, temporary / "checkpoints" / "best.ckpt")
            if self.refitted:
                shutil.copy(self.path, temporary / "checkpoints" / "refit.ckpt")

    def __repr__(self) -> str:
        """What the model forecasts, how it was trained, and how well it forecast in the test."""
        state, attention = self.data_state, self.config["model"]["attention"]["name"]
        step = "row" if state["calendar"] else describe_frequency(self.freq)
        of_series = f" of {plural(len(state['ids']), 'series')}" if self.has_ids else ""
        lines = [
            f"forecast   {shorten(self.target_columns)}{of_series}: {self.pred_len} steps, one every {step}",
            f"input      {self.seq_len} steps of {shorten(self.name_columns(self.feature_columns))}",
            f"attention  {name_tested(attention, untrained=self.is_untrained)}",
            f"trained    on rows to {utc_offset_of(state).describe(self.trained_until, with_offset=False)}",
            *choose_forecaster(self).describe(),
        ]
        if self.test is not None:
            lines.append(f"test       {compare_forecasters(self.test, MODEL, self.test.best_baseline)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The lines of `repr`, and the scores of the test beside those of the best baseline."""
        html = f'<pre style="white-space: pre-wrap">{escape(repr(self))}</pre>'
        shown = [] if self.test is None else [MODEL, self.test.best_baseline]
        return html + (self.scores().loc[shown].to_html(float_format="{:.4g}".format) if shown else "")


def load(path: str | Path) -> Model:
    """Load the model of a run folder or checkpoint file. If a folder has a model refitted on all rows, load that one.

    Raises:
        CheckpointError: there is no checkpoint, it is damaged, another program wrote it, or it names a class that is
            not allowed.
    """
    return Model(*read_checkpoint(path))


def fit(
    frame: Frame,
    *,
    target: str | None = None,
    id_column: str | Sequence[str] | None = None,
    date_column: str | None = None,
    past_covariates: Sequence[str] = (),
    future_covariates: Sequence[str] = (),
    as_of: Mapping[str, str] | None = None,
    static_covariates: Sequence[str] = (),
    attention: str | None = None,
    suggest: bool = False,
    overrides: Sequence[str] = (),
    **settings: Any,
) -> Model:
    """Train on a DataFrame, test, save a run folder below `runs`, and return the model.

    Args:
        frame: columns of numbers with a DatetimeIndex or a column of dates; with `id_column`, one row for each series
            and date. It may be a frame of Polars or PyArrow.
        target: the column to forecast, from all columns unless `features` says otherwise. None: all columns, or in a
            frame of many series the only column of numbers, or `y`.
        id_column: the column that names the series, or several columns. None: those that tell rows of one date apart,
            such as `unique_id`; without any, a table of one series.
        date_column: the column of the dates. None: the index or the column that holds dates.
        past_covariates: columns that are read and not forecast.
        future_covariates: columns that are known over the horizon too; `predict` needs them there.
        as_of: by future covariate, the column of its forecasts: windows read it over the horizon.
        static_covariates: columns that are constant within a series.
        attention: attention type, a file of conf/attention. None: the suggested one, or probsparse.
        suggest: whether to take the settings that `forecast.check` suggests for the frame, except for those given here.
        overrides: any other settings as on the command line, such as `["data.batch_size=64"]`, or
            `["+trainer.max_time=00:00:10:00"]` for ten minutes of training.
        settings: keys of the command's top level, such as `pred_len=48, features="MS", refit="full", logger=[]`; also
            `max_epochs`, `lr`, and the keys of `data` that a DataFrame needs, such as `drop`, `season` and `lower`.

    Returns:
        The trained model, as `forecast.load` reads it from the run folder.

    Raises:
        ConfigError: a wrong setting; like DataError, it is a ValueError with the message of the command.
        DataError: a DataFrame that cannot be used.
    """
    columns = {
        "past_covariates": [*past_covariates],
        "future_covariates": [*future_covariates],
        "static_covariates": [*static_covariates],
    }
    others = {*chain(*columns.values()), *(as_of or {}).values()}
    named, why = find_roles(frame, list_id_columns(id_column), date_column, target, others)
    if why:
        shown = ", ".join(f"{role}={name!r}" for role, name in named.items() if name is not None)
        print(f"taken:     {shown}  ({why})")
    settings |= {} if attention is None else {"attention": attention}
    given = write_overrides(settings, overrides, named["target"], named["id_column"] is None)
    roles = {**named, **columns, "as_of": None if as_of is None else dict(as_of)}
    roles = {role: names for role, names in roles.items() if names is not None}
    return train_on_frame(frame, given, roles, suggest=suggest)


def train_on_frame(frame: Frame, given: Sequence[str], roles: Mapping[str, Any], *, suggest: bool) -> Model:
    """Train on a DataFrame and test, in a new run folder, and return the model.

    Args:
        frame: see `forecast.fit`.
        given: overrides.
        roles: the options of `frame_data` that name columns.
        suggest: whether to take the settings that `forecast.check` suggests and that `given` leaves out.
    """
    layout = "data=long" if "id_column" in roles else "data=csv"
    composed = compose_command("train", [layout, *given])
    check_data_overrides(given)
    if suggest:
        from forecast.tools.check.diagnosis import suggest_overrides

        typed, sizes = {*map(key_of_override, given)}, ("seq_len", "label_len", "pred_len", "features")
        chosen = {key: composed[key] for key in sizes if key in typed}
        named = {role: names for role, names in roles.items() if names}
        suggested = suggest_overrides(frame, named, chosen, typed)
        # the suggested roles contain those that are given
        settled = {key_of_override(text) for text in suggested}
        roles = {role: names for role, names in roles.items() if f"data.{role}" not in settled}
        given = [*suggested, *given]
    config = compose_config(layout, *given, f"data.name={FRAME}")
    name = f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{config.run_name}_{token_hex(3)}"
    config.output_dir = str(Path(config.output_root) / name)
    OmegaConf.resolve(config)
    safety.check(config)
    config.data.update(roles)
    settings: dict[str, Any] = OmegaConf.to_container(config.data, resolve=True)  # type: ignore[assignment]
    data = frame_data(frame, **{key: settings[key] for key in option_names(frame_data) if key in settings})
    data.setup()
    write_config(Path(config.output_dir), config, given)
    train(config, data)
    model = load(config.output_dir)
    model.frame = frame
    return model


def write_overrides(
    settings: Mapping[str, Any], overrides: Sequence[str], target: str | None, is_table: bool
) -> list[str]:
    """The arguments of `fit` as overrides of the command line. The target of a table is forecast from all columns."""
    keys = {"max_epochs": "trainer.max_epochs", "lr": "optimizer.lr"}
    of_command = {"features", "pred_len", "seed", "seq_len", "windows_per_epoch"}
    keys |= {key: f"data.{key}" for key in FRAME_OPTIONS - of_command}
    typed = [f"{keys.get(key, key)}={write_value(value)}" for key, value in settings.items()]
    typed += overrides
    if target is not None:
        if is_table and not any(text.startswith("features=") for text in typed):
            typed.append("features=MS")
        typed.append(f"data.target={target}")
    return [quote(text, sweep=False) for text in typed]


def check_data_overrides(given: Sequence[str]) -> None:
    """Raise ConfigError for a setting that applies only to data files."""
    for text in given:
        group, _, key = text.split("=")[0].partition(".")
        if text.startswith("suggest="):
            raise ConfigError(f"{text}: give fit the argument suggest")
        if group == "data" and key not in FRAME_OPTIONS:
            raise ConfigError(
                f"{text}: this setting is for data files; change the DataFrame instead (columns, dates, gaps)"
            )
