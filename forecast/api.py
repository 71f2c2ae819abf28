"""The Python interface: `fit` a model to a DataFrame or `load` one, then `predict` and `evaluate`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from forecast.commands.train_frame import train_on_frame, write_overrides
from forecast.data import DataModule, Panel, frame_data
from forecast.data.files.columns import list_id_columns, split_ids
from forecast.data.files.header import DEFAULT_NAMES
from forecast.data.files.sources import as_frame
from forecast.data.frames import Frame, to_library_of, to_pandas
from forecast.data.sources import option_names
from forecast.evaluation.levels import Level
from forecast.inference.evaluate import evaluate as evaluate_model
from forecast.inference.forecasters import (
    PointForecaster,
    choose_forecaster,
    find_unread_columns,
    list_forecasters,
)
from forecast.inference.model import TrainedModel, read_checkpoint
from forecast.inference.model_data import FRAME, allow_absent, known_columns, name_keys
from forecast.inference.origins import warn_of_seen_windows
from forecast.inference.predict import predict as predict_panel
from forecast.system.errors import CheckpointError, ConfigError


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
            baseline: naive, seasonal_naive or linear, which then forecasts in place of the model. None: the model.

        Returns:
            A frame of the library of `frame`, with one row for each date (and series). Each target has a column of
            forecasts, columns `-lo-80` and `-hi-80` for each level, and columns `-true` and `-error` where `start` lies
            within the data. The index of pandas is the date, or the id, with one level for each id column.

        Raises:
            ConfigError: an option that this model does not support. Like DataError, it is a ValueError.
            DataError: missing columns, history or future covariates.
        """
        if frame is None and future is not None:
            raise ConfigError("future holds the rows that follow a DataFrame: give the DataFrame too")
        forecaster = choose_forecaster(self, baseline)
        panel = self.read_panel() if frame is None else self._read_frame(forecaster, frame, future)
        found = predict_panel(
            forecaster, panel, horizon=horizon, start=start, levels=levels, method=intervals
        )
        ids = name_keys(self.config["data"], self.data_state)["id_column"]
        return to_library_of(frame, split_ids(found.frame(), list_id_columns(ids)))

    def _read_frame(self, forecaster: PointForecaster, frame: Frame, future: Frame | None) -> Panel:
        """Read a frame of any library, and the rows of the future that follow it."""
        given = to_pandas(frame, self._index)
        return panel_of_frame(forecaster, given, None if future is None else to_pandas(future, self._index))

    @property
    def _index(self) -> str | None:
        """The column of dates of a table; None for many series, whose dates are a column in pandas too."""
        return None if self.has_ids else str(self.data_state.get("date_column") or "date")

    def evaluate(self, frame: Frame | None = None, split: str = "test") -> dict[str, Any]:
        """Score every window of `frame`, or of a split of the file of training.

        A model trained on a DataFrame needs a frame. All its windows are scored, with a warning of those that forecast
        rows of training or validation.

        Returns:
            The scores in the layout of metrics.json.

        Raises:
            CheckpointError: the model was refitted on all rows, so no rows are left to score it on.
        """
        if self.refitted is not None:
            raise CheckpointError(
                f"{self.path}: refitted on all rows, so none are left to score it on: load checkpoints/best.ckpt of "
                "the run"
            )
        data = self.data() if frame is None else self.data_of_frame(frame)
        if frame is not None:
            warn_of_seen_windows(self, data)
        content, _ = evaluate_model(self, data, split, progress=False)
        return content

    def data_of_frame(self, frame: Frame) -> DataModule:
        """Set up the data module of a DataFrame with the layout of the training data, with the scaler from training."""
        return scored_module(self, to_pandas(frame, self._index))


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
    frame = to_pandas(frame, date_column if id_column is None else None)
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


def frame_module(
    model: TrainedModel, frame: pd.DataFrame | pd.Series, future: pd.DataFrame | None = None
) -> DataModule:
    """Create the data module of a DataFrame, with the settings of the training data."""
    config = model.data_config({"path": FRAME})
    options = {key: config[key] for key in option_names(frame_data) if key in config}
    options["eval_stride"] = options["eval_stride"] or 1  # null: the stride of a store
    if not model.has_ids and options["date_column"] not in map(str, as_frame(frame).columns):
        options["date_column"] = DEFAULT_NAMES[0]  # the dates may be an index of another name
    return frame_data(frame, future=future, **options)


def scored_module(model: TrainedModel, frame: pd.DataFrame | pd.Series) -> DataModule:
    """Set up the data module of a DataFrame, with the scaler of a trained model; columns may be absent that none reads.

    Raises:
        CheckpointError: the time between rows is not that of training.
        DataError: a column is missing, a value or a date cannot be read, or there are too few rows.
    """
    data = allow_absent(frame_module(model, frame), find_unread_columns(list_forecasters(model)))
    data.load_state_dict(model.data_state)
    with known_columns(model.path, model.data_state):
        data.setup()
    model.check_freq(FRAME, data.freq)
    return data


def panel_of_frame(
    forecaster: PointForecaster, frame: pd.DataFrame | pd.Series, future: pd.DataFrame | None = None
) -> Panel:
    """Read a DataFrame with the layout of the training data, with its dates at the UTC offset of training.

    Args:
        forecaster: a trained model or a baseline; columns that it does not read may be absent.
        frame: rows with a DatetimeIndex; for a model of many series, one row for each series and date.
        future: rows of the future covariates after the end of `frame`, laid out as `frame`.

    Raises:
        DataError: a column is missing, or a value or a date cannot be read.
    """
    data = frame_module(forecaster.model, frame, future)
    return forecaster.model.read_source(allow_absent(data, find_unread_columns([forecaster])))
