"""The Python interface: `fit` a model to a DataFrame or `load` one, then `predict` and `evaluate`."""

import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

import pandas as pd
from omegaconf import DictConfig, OmegaConf

from forecast.cli import safety
from forecast.cli.compose import compose_command, compose_config
from forecast.cli.overrides import quote
from forecast.data import DataModule, frame_data
from forecast.data.files.columns import list_id_columns, split_ids
from forecast.data.files.sources import Frame, to_library_of
from forecast.data.module import MODULE_OPTIONS, option_names
from forecast.evaluation.scores import Level
from forecast.inference.forecasters import choose_forecaster, find_unread_columns, list_forecasters
from forecast.inference.model import TrainedModel, read_checkpoint
from forecast.inference.model import evaluate as evaluate_model
from forecast.inference.model_data import FRAME, name_keys
from forecast.inference.origins import note_on_windows
from forecast.inference.predict import predict as predict_panel
from forecast.runs.folder import write_config
from forecast.system.errors import ConfigError, check_count
from forecast.system.formatting import write_value
from forecast.system.keys import key_of_override
from forecast.train import train


class Model(TrainedModel):
    """A trained model that forecasts DataFrames."""

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
        baseline: str | None = None,
    ) -> Any:
        """Forecast the steps after the end of `frame`, or from `start`, in original units.

        Args:
            frame: rows with a DatetimeIndex and at least the columns `feature_columns`; for a model of many series,
                one row for each series and date. A frame of Polars or PyArrow has the dates in the column of training.
                None: the training data.
            future: rows of the future covariates after the end of `frame`, laid out as `frame`. None: rows of `frame`
                whose targets are missing.
            horizon: number of steps; beyond `pred_len` the model reads its own forecasts. None: `pred_len`.
            start: date of the first step. None: the first date after the end of the data.
            levels: levels of the intervals, in percent.
            intervals: method of the intervals: auto, conformal, quantile or adaptive.
            samples: number of sample paths to return in place of the forecast. None: the forecast.
            seed: determines the sample paths.
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
        if frame is None and future is not None:
            raise ConfigError("future holds the rows that follow a DataFrame: give the DataFrame too")
        if samples is not None:
            check_count("samples", samples)
        forecaster = choose_forecaster(self, baseline)
        panel = self.read_panel(self._open(frame, future), find_unread_columns([forecaster]))
        found = predict_panel(
            forecaster,
            panel,
            horizon=horizon,
            start=start,
            levels=levels,
            method=intervals,
            samples=samples or 0,
            seed=seed,
        )
        table = found.frame() if samples is None else found.sample_frame()
        ids = name_keys(self.config["data"], self.data_state)["id_column"]
        return to_library_of(frame, split_ids(table, list_id_columns(ids)))

    def _open(self, frame: Frame | None, future: Frame | None = None) -> DataModule:
        """Open a frame of any library, and the rows of the future that follow it; None: the training data."""
        return self.open_data({}) if frame is None else self.open_frame(frame, future)

    def evaluate(self, frame: Frame | None = None, split: str = "test") -> dict[str, Any]:
        """Score every window of `frame`, or of a split of the file of training.

        A model trained on a DataFrame needs a frame. All its windows are scored, with a warning of those that forecast
        rows of training or validation.

        Returns:
            The scores in the layout of metrics.json.

        Raises:
            CheckpointError: the model was refitted on all rows, so no rows are left to score it on.
        """
        self.refuse_refitted()
        data = self.data(self._open(frame), find_unread_columns(list_forecasters(self)))
        if frame is not None and (note := note_on_windows(self, data)):
            warnings.warn(f"{note}; give later rows", stacklevel=2)
        content, _ = evaluate_model(self, data, split, progress=False)
        return content


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
    date_column: str = "ds",
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
        target: the column to forecast, from all columns unless `features` says otherwise. None: all columns.
        id_column: the column that names the series, or several columns. None: a table of one series.
        date_column: the column of the dates; in a frame of pandas without `id_column`, `ds` stands for any name.
        past_covariates: columns that are read and not forecast.
        future_covariates: columns that are known over the horizon too; `predict` needs them there.
        as_of: by future covariate, the column of its forecasts: windows read it over the horizon.
        static_covariates: columns that are constant within a series.
        attention: attention type, a file of conf/attention. None: the suggested one, or probsparse.
        suggest: whether to take the settings that `forecast.check` suggests for the frame, except for those given here.
        overrides: any other settings as on the command line, such as `["trainer.max_epochs=3", "logger=[]"]`.
        settings: keys of the command's top level, such as `pred_len=48, features="MS", refit="full"`.

    Returns:
        The trained model, as `forecast.load` reads it from the run folder.

    Raises:
        ConfigError: a wrong setting; like DataError, it is a ValueError with the message of the command.
        DataError: a DataFrame that cannot be used.
    """
    settings |= {} if attention is None else {"attention": attention}
    given = write_overrides(settings, overrides, target, id_column is None)
    roles: dict[str, Any] = {
        "past_covariates": [*past_covariates],
        "future_covariates": [*future_covariates],
        "static_covariates": [*static_covariates],
        "as_of": None if as_of is None else dict(as_of),
    }
    if target is not None:
        roles["target"] = target
    if id_column is not None:
        roles["id_column"] = [*list_id_columns(id_column)]
    if id_column is not None or date_column != "ds":
        roles["date_column"] = date_column
    return load(train_on_frame(frame, given, roles, suggest=suggest))


def train_on_frame(frame: Frame, given: Sequence[str], roles: Mapping[str, Any], *, suggest: bool) -> Path:
    """Train on a DataFrame and test, in a new run folder, which is returned.

    Args:
        frame: see `forecast.fit`.
        given: overrides.
        roles: the options of `frame_data` that name columns.
        suggest: whether to take the settings that `forecast.check` suggests and that `given` leaves out.
    """
    layout = "data=long" if "id_column" in roles else "data=csv"
    compose_command("train", [layout, *given])
    check_data_overrides(given)
    if suggest:
        suggested = suggest_for(frame, roles, given)
        # the suggested roles contain those that are given
        settled = {key_of_override(text) for text in suggested}
        roles = {role: names for role, names in roles.items() if f"data.{role}" not in settled}
        given = [*suggested, *given]
    config = compose_run([layout, *given])
    config.data.update(roles)
    settings: dict[str, Any] = OmegaConf.to_container(config.data, resolve=True)  # type: ignore[assignment]
    data = frame_data(frame, **{key: settings[key] for key in option_names(frame_data) if key in settings})
    data.setup()
    write_config(Path(config.output_dir), config, given)
    train(config, data)
    return Path(config.output_dir)


def write_overrides(
    settings: Mapping[str, Any], overrides: Sequence[str], target: str | None, is_table: bool
) -> list[str]:
    """The arguments of `fit` as overrides of the command line. The target of a table is forecast from all columns."""
    typed = [*(f"{key}={write_value(value)}" for key, value in settings.items()), *overrides]
    if target is not None:
        if is_table and not any(text.startswith("features=") for text in typed):
            typed.append("features=MS")
        typed.append(f"data.target={target}")
    return [quote(text, sweep=False) for text in typed]


def suggest_for(frame: Frame, roles: Mapping[str, Any], given: Sequence[str]) -> list[str]:
    """The settings that `forecast.check` suggests for a DataFrame, without those that are given."""
    from forecast.tools.check.diagnosis import suggest_overrides

    typed = {key_of_override(text) for text in given}
    config = compose_command("train", given)
    chosen = {key: config[key] for key in ("seq_len", "label_len", "pred_len", "features") if key in typed}
    return suggest_overrides(frame, {role: names for role, names in roles.items() if names}, chosen, typed)


def check_data_overrides(given: Sequence[str]) -> None:
    """Raise ConfigError for a setting that applies only to data files."""
    allowed = MODULE_OPTIONS.keys() - {"name"} | {"drop", "freq", "stamp", "steps", "calendar"}
    for text in given:
        group, _, key = text.split("=")[0].partition(".")
        if text.startswith("suggest="):
            raise ConfigError(f"{text}: give fit the argument suggest")
        if group == "data" and key not in allowed:
            raise ConfigError(
                f"{text}: this setting is for data files; change the DataFrame instead (columns, dates, gaps)"
            )


def compose_run(given: Sequence[str]) -> DictConfig:
    """Compose and check the configuration of a run on a DataFrame, with a new run folder."""
    config = compose_config(*given, f"data.name={FRAME}", "run_name=''")
    config.run_name = f"{config.model.attention.name}-{FRAME}-{config.pred_len}-s{config.seed}"
    folder = f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{config.run_name}_{token_hex(3)}"
    config.output_dir = str(Path(config.output_root) / folder)
    OmegaConf.resolve(config)
    safety.check(config)
    return config
