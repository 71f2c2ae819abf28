"""Future covariates after the end of a store, from a file of their own.

The values of a store stay on disk, so rows cannot be appended to them. The file is a panel of its own, from which the
copy of the rows that a forecast needs takes them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from forecast.data import Panel
from forecast.data.categories import columns_of_indicators, encode_categories
from forecast.data.files.align import align
from forecast.data.files.cells import date_name
from forecast.data.files.column_roles import ColumnRoles
from forecast.data.files.grid import Spacing
from forecast.data.files.read import read_file
from forecast.data.files.read_options import ReadOptions
from forecast.data.sources import STORE
from forecast.data.utc_offset import utc_offset_of
from forecast.inference.data_config import known_columns
from forecast.inference.model import TrainedModel
from forecast.system.location import locate


def is_of_store(model: TrainedModel, given: Mapping[str, Any]) -> bool:
    """Whether the data of a model with these settings are a store."""
    return model.data_config(given)["_target_"] == STORE


def read_ahead(model: TrainedModel, path: str, given: Mapping[str, Any]) -> Panel:
    """Read the future covariates of a model from a file, as they are known in advance, at the UTC offset of training.

    Args:
        model: the trained model.
        path: the file.
        given: the settings of the data, of which those of `ReadOptions` and `date_column` apply.

    Returns:
        A panel without targets, with categories as indicators.
    """
    options = {key: given[key] for key in ReadOptions.option_names() if given.get(key) is not None}
    date_column = given.get("date_column") or "date"
    state, columns = model.data_state, columns_of_indicators(model.categories)
    as_of = state.get("as_of", {})
    names = dict.fromkeys(str(columns.get(name, name)) for name in state["future_covariates"])
    roles = ColumnRoles(
        None, date_name(date_column), (), future=(*names, *as_of.values()), as_of=as_of
    ).of_future_rows()
    with known_columns(model.path, state):
        rows = read_file(locate(path), roles, date_column, ReadOptions(**options))
        spacing = Spacing(options.get("freq") or model.freq)
        panel = align(rows, spacing, sort=False, is_part=True).at_utc_offset(utc_offset_of(state))
    return encode_categories(path, panel, model.categories)


def take_future_from(excerpt: Panel, ahead: Panel) -> Panel:
    """The panel of one series in memory, with the future covariates after its rows from a panel `ahead`."""
    rows = np.arange(excerpt.ends[0], excerpt.stops[0])
    places = ahead.grid.get_indexer(excerpt.dates(rows))
    is_there = places >= 0
    future, cells = np.array(excerpt.future), np.ix_(rows[is_there], excerpt.ahead_index)
    columns = [ahead.future_columns.index(excerpt.future_columns[column]) for column in excerpt.ahead_index]
    given, known = np.asarray(ahead.future)[places[is_there]][:, columns], future[cells]
    future[cells] = np.where(np.isnan(known), given, known)
    return replace(excerpt, future=future)
