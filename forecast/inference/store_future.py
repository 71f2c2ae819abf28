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
from forecast.data.files.column_roles import ColumnRoles
from forecast.data.files.date_columns import date_name
from forecast.data.files.grid import Spacing
from forecast.data.files.read import read_file
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.series_ids import list_id_columns
from forecast.data.row_ranges import ranges
from forecast.data.sources import STORE
from forecast.data.utc_offset import utc_offset_of
from forecast.inference.data_config import known_columns, name_keys
from forecast.inference.model_data import ModelData
from forecast.system.location import locate


def add_future(model: ModelData, path: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], Panel | None]:
    """The settings of the data with a file of future covariates; of a store, the panel of that file instead."""
    if model.data_config(given)["_target_"] == STORE:
        return dict(given), read_future(model, path, given)
    return {**given, "future_path": path}, None


def read_future(model: ModelData, path: str, given: Mapping[str, Any]) -> Panel:
    """Read the future covariates of a model from a file, as they are known in advance, at the UTC offset of training.

    Args:
        model: the trained model.
        path: the file.
        given: the settings of the data, of which those of `ReadOptions` and `date_column` apply.

    Returns:
        A panel without targets, with categories as indicators.
    """
    state: Mapping[str, Any] = model.data_state
    columns, keys = columns_of_indicators(model.categories), name_keys(model.config["data"], state)
    options = {"stamp": keys["stamp"], "freq": model.freq, "day_first": state.get("day_first")}
    options |= {key: given[key] for key in ReadOptions.option_names() if given.get(key) is not None}
    id_column = given.get("id_column") or keys["id_column"]
    date_column = given.get("date_column") or keys["date_column"] or "date"
    as_of = state.get("as_of", {})
    names = dict.fromkeys(str(columns.get(name, name)) for name in state["future_covariates"])
    roles = ColumnRoles(
        list_id_columns(id_column), date_name(date_column), (), future=(*names, *as_of.values()), as_of=as_of
    ).of_future_rows()
    with known_columns(model.path, state):
        rows = read_file(locate(path), roles, date_column, ReadOptions(**options))
        spacing = Spacing(options["freq"])
        panel = align(rows, spacing, sort=id_column is not None, is_part=True).at_utc_offset(
            utc_offset_of(state)
        )
    return encode_categories(path, panel, model.categories)


def take_future_from(excerpt: Panel, ahead: Panel) -> Panel:
    """The panel in memory, with the future covariates after the ends of its series from a panel `ahead`."""
    rows = ranges(excerpt.ends, excerpt.stops)
    series = ahead.ids.get_indexer(excerpt.ids)[excerpt.series_of(rows)]
    on_grid = ahead.grid.get_indexer(excerpt.dates(rows))
    places = on_grid - ahead.grid_starts[series] + ahead.starts[series]
    is_there = (
        (series >= 0) & (on_grid >= 0) & (places >= ahead.starts[series]) & (places < ahead.stops[series])
    )
    future, cells = np.array(excerpt.future), np.ix_(rows[is_there], np.array(excerpt.ahead_index))
    columns = [ahead.future_columns.index(excerpt.future_columns[column]) for column in excerpt.ahead_index]
    given, known = np.asarray(ahead.future)[places[is_there]][:, columns], future[cells]
    future[cells] = np.where(np.isnan(known), given, known)
    return replace(excerpt, future=future)
