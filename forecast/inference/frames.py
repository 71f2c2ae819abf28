"""DataFrames with the layout of the training data of a model."""

import pandas as pd

from forecast.data import DataModule, Panel, frame_data
from forecast.data.files.find_date_column import DEFAULT_NAMES
from forecast.data.files.frame_source import as_frame
from forecast.data.sources import option_names
from forecast.inference.data_config import FRAME, allow_absent, known_columns
from forecast.inference.forecasters import PointForecaster, find_unread_columns, list_forecasters
from forecast.inference.model import TrainedModel


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
