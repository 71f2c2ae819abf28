"""Future covariates after the end of a store, from a file of their own.

The values of a store stay on disk, so rows cannot be appended to them. The file is a panel of its own, whose values are
taken into the copy of the rows that a forecast needs.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from forecast.data import Panel, read_table
from forecast.data.files.read_options import ReadOptions
from forecast.data.sources import STORE
from forecast.data.utc_offset import utc_offset_of
from forecast.inference.data_config import known_columns
from forecast.inference.model import TrainedModel


def is_of_store(model: TrainedModel, given: Mapping[str, Any]) -> bool:
    """Whether the data of a model with these settings are a store."""
    return model.data_config(given)["_target_"] == STORE


def read_ahead(model: TrainedModel, path: str, given: Mapping[str, Any]) -> Panel:
    """Read the future covariates of a model from a file, as the targets of a panel at the UTC offset of training.

    Args:
        model: the trained model.
        path: the file.
        given: the settings of the data, of which those of `ReadOptions` and `date_column` apply.
    """
    keys = (*ReadOptions.option_names(), "date_column")
    options = {key: given[key] for key in keys if given.get(key) is not None}
    as_of = model.data_state.get("as_of", {})
    columns = [as_of.get(name, name) for name in model.data_state["future_covariates"]]
    with known_columns(model.path, model.data_state):
        panel = read_table(path, **{"freq": model.freq, **options, "columns": columns})
    return panel.at_utc_offset(utc_offset_of(model.data_state))


def take_future_from(excerpt: Panel, ahead: Panel) -> Panel:
    """The panel of one series in memory, with the future covariates after its rows from a panel `ahead`."""
    rows = np.arange(excerpt.ends[0], excerpt.stops[0])
    places = ahead.grid.get_indexer(excerpt.dates(rows))
    is_there = places >= 0
    future, cells = np.array(excerpt.future), np.ix_(rows[is_there], excerpt.ahead_index)
    columns = [ahead.columns.index(excerpt.future_columns[column]) for column in excerpt.ahead_index]
    given, known = np.asarray(ahead.values)[places[is_there]][:, columns], future[cells]
    future[cells] = np.where(np.isnan(known), given, known)
    return replace(excerpt, future=future)
