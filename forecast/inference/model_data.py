"""The settings of a trained model, and the data that it reads, without its weights. Imports no torch."""

import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import get_method, instantiate
from omegaconf import DictConfig, OmegaConf

from forecast.checkpoints import contents
from forecast.data import DataModule, Panel, frame_data
from forecast.data.calendars import choose_days, utc_offset_of
from forecast.data.covariates import Categories, columns_of_indicators, encode_categories
from forecast.data.files.cells import date_name
from forecast.data.files.columns import ColumnRoles, list_id_columns
from forecast.data.files.grid import align
from forecast.data.files.header import DEFAULT_NAMES
from forecast.data.files.read import read_file
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.sources import Frame, as_frame
from forecast.data.files.text import quote
from forecast.data.module import STORE, option_names, settings_of_file
from forecast.data.panel import TABLE_ID
from forecast.data.row_ranges import ranges
from forecast.data.time_features import parse_frequency
from forecast.system.errors import CheckpointError, ConfigError, DataError, ForecastError
from forecast.system.keys import AS_TRAINED, DATA_KEYS
from forecast.system.location import locate

ONE_FILE = tuple(row.name.removeprefix("data.") for row in DATA_KEYS if row.one_file)
"""Settings that do not apply to another file than that of training."""

FRAME = "DataFrame"  # name of the data of a DataFrame, which have no file


def choose_data_config(
    checkpoint: Path,
    saved: dict[str, Any],
    feature_columns: Sequence[str],
    given: Mapping[str, Any],
    state: Mapping[str, Any],
) -> dict[str, Any]:
    """Choose the settings of the data module for a trained model.

    `given`: settings that replace those of training, except null ones. If `path` is another file than in training, all
    its rows are the split `test` unless `split` is given too.

    Raises:
        CheckpointError: no data are given for a model of a DataFrame.
        ConfigError: settings that do not apply to the training data.
    """
    if isinstance(given, DictConfig):
        given = OmegaConf.to_container(given)  # type: ignore[assignment]
    chosen = {key: value for key, value in given.items() if value is not None}
    if "_target_" in chosen:  # another data set of conf/data, with the settings that belong to the model
        own = {key: value for key, value in chosen.items() if not str(value).startswith("${")}
        kept = {key: saved[key] for key in AS_TRAINED}
        return {"windows_per_epoch": saved["windows_per_epoch"], **own, **kept}
    if "url" in saved:  # nothing is downloaded at the word of a checkpoint
        saved = {**saved, "url": None, "by_hand": "the file itself, or its folder as data.root=FOLDER"}
    if "path" in chosen:
        chosen = _with_full_path(chosen)
        if saved.get("path") and is_same_file(chosen["path"], _with_full_path(saved)["path"]):
            chosen = _without(chosen, ("path",))
        else:
            saved = settings_for_other_file(saved, chosen["path"], feature_columns, name_keys(saved, state))
    elif saved["name"] == FRAME:
        raise CheckpointError(f"{checkpoint}: it was trained on a DataFrame: give one, or a file (data.path)")
    elif "root" in chosen and "root" not in saved:
        raise ConfigError(
            f"data.root={chosen['root']}: {checkpoint} was trained on a file of its own: give another by data.path"
        )
    return {**saved, **chosen}


def name_keys(saved: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """The values of `id_column`, `date_column` and `stamp` that read the training data; an id of None: one series."""
    id_column = saved.get("id_column")  # of several columns, the state has the joined names
    return {
        "id_column": id_column if isinstance(id_column, list) else state["id_column"],
        "date_column": state["date_column"],
        "stamp": "end" if state["stamp"] else "start",
    }


def _with_full_path(chosen: dict[str, Any]) -> dict[str, Any]:
    """The settings with `root` joined to the path of a local file."""
    root, path = chosen.get("root", ""), chosen["path"]
    path = str(Path(root) / path) if isinstance(locate(path), Path) else path
    return {**_without(chosen, ("root",)), "path": path}


def settings_for_other_file(
    saved: dict[str, Any], path: str, feature_columns: Sequence[str], keys: Mapping[str, Any]
) -> dict[str, Any]:
    """Change the settings of training to those of another file, all of whose rows are the split `test`."""
    past = saved.get("past_covariates") or ()
    file = {
        **settings_of_file(path, saved["_target_"], keys),
        "name": locate(path).name,
        "split": "test",
        "columns": [name for name in feature_columns if name not in past],  # the file may have others
    }
    options = option_names(get_method(file["_target_"]))
    kept = {key: value for key, value in saved.items() if key in options or key.startswith("_")}
    return {**_without(kept, ONE_FILE), **file}


def _without(settings: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in keys}


def keep_date_order(chosen: dict[str, Any], day_first: bool | None) -> dict[str, Any]:
    """Read dates such as 01/02/2024 as those of training (`UtcOffset.day_first`), unless `data.day_first` says how."""
    if "day_first" not in chosen or chosen["day_first"] is not None:
        return chosen
    return {**chosen, "day_first": day_first}


@contextmanager
def known_columns(checkpoint: Path, state: Mapping[str, Any]) -> Iterator[None]:
    """Read data for a trained model, whose columns are known.

    There is no warning that a column looks like dates where training read the dates from a column of that name. A
    DataError advises columns that the model was trained on, and no settings that choose other columns.
    """
    with warnings.catch_warnings():
        if name := state.get("date_column"):
            warnings.filterwarnings("ignore", f".*: {re.escape(quote(name))} looks like dates and is used")
        try:
            yield
        except DataError as error:
            if not error.is_for_training:
                raise
            raise DataError(f"{error.problem}; give the columns that {checkpoint} was trained on") from None


def is_same_file(path: str | Path, other: str | Path) -> bool:
    one, two = locate(path), locate(other)
    if isinstance(one, Path) and isinstance(two, Path):
        return one.resolve() == two.resolve()
    return one == two


class ModelData:
    """The data of a trained model, as its checkpoint describes them.

    Attributes:
        config: the whole configuration of the run as plain values.
        data_state: the state of the data module of training.
        feature_columns, target_columns: columns that the model reads, and those that it forecasts.
        categories: of the covariates that are text, see `forecast.data.covariates`.
        has_ids: whether the series of the training data have ids; that of a table has none.
        refitted: facts of the refit on all rows; None if the model was not refitted.
        frame: the DataFrame of training, in the process that trained; else None.
    """

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        """Raises CheckpointError if the checkpoint has another layout or names a class that is not allowed."""
        self.path = path
        self.frame: Frame | None = None
        try:
            self._take(content)
        except ForecastError:
            raise
        except Exception as error:  # any part of the file may be wrong
            raise CheckpointError(
                f"{path}: it does not have the layout of a checkpoint of this version; train again"
            ) from error

    def _take(self, content: dict[str, Any]) -> None:
        path = self.path
        config = content["hyper_parameters"]
        self.config: dict[str, Any] = {**config, "data": contents.resolve_paths(config["data"], content)}
        contents.check_stored_settings(path, self.config, None)
        contents.check_stored_settings(path, {key: self.config["data"][key] for key in ("_target_", "name")})
        self.data_state = state = contents.data_state(content)
        self.feature_columns: list[str] = state["feature_columns"]
        self.target_columns: list[str] = state["target_columns"]
        self.target_index = [self.feature_columns.index(name) for name in self.target_columns]
        self.categories: Categories = state["categories"]
        self.has_ids: bool = state["ids"] != [TABLE_ID]
        self.freq: str = state["freq"]
        self.trained_until: str = state["trained_until"]
        self.validated_until: str | None = state["validated_until"]
        self.holidays: str | None = self.config["data"]["holidays"]
        self.season: int = state["season"]
        self.seq_len: int = self.config["seq_len"]
        self.pred_len: int = self.config["pred_len"]
        self.refitted: dict[str, Any] | None = content.get("refitted")
        if "baselines" in content:
            self.data_state = {**state, "seasonal_naive_season": content["baselines"]["season"]}

    @property
    def date_column(self) -> str:
        return self.data_state["date_column"] or "date"

    def key_columns(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of the ids and the dates: those of the given settings of the data, else those of training."""
        return {key: given.get(key) or self.config["data"].get(key) for key in ("id_column", "date_column")}

    def read_data(self, given: Mapping[str, Any]) -> DataModule:
        """Read and split the training data or other data, for `TrainedModel.data`; see `open_data`."""
        data = self.open_data(given)
        with known_columns(self.path, self.data_state):
            data.read()
        self.check_freq(data.name, data.freq)
        return data

    def open_data(self, given: Mapping[str, Any]) -> DataModule:
        """Create a data module and download its files, without reading them.

        A column may be absent that some model does not read: `refuse_absent`.
        """
        if self.frame is not None and not given:
            return self.open_frame(None)
        config = self.data_config(given)
        contents.check_stored_settings(self.path, config)
        data: DataModule = instantiate(OmegaConf.create(config))
        data.prepare_data()
        return self._like_training(data)

    def open_frame(self, frame: Frame | None, future: Frame | None = None) -> DataModule:
        """Create the data module of a DataFrame with the layout of the training data; see `open_data`.

        Args:
            frame: rows with a DatetimeIndex; for a model of many series, one row for each series and date. None: the
                training data, in their split.
            future: rows of the future covariates after the end of `frame`, laid out as `frame`.
        """
        if frame is None and self.frame is None:
            if future is not None:
                raise ConfigError("future holds the rows that follow a DataFrame: give the DataFrame too")
            return self.open_data({})
        config = self.config["data"] if frame is None else self.data_config({"path": FRAME})
        frame = self.frame if frame is None else frame
        options = {key: config[key] for key in option_names(frame_data) if key in config}
        options["eval_stride"] = options["eval_stride"] or 1  # null: the stride of a store
        if not self.has_ids and options["date_column"] not in map(str, as_frame(frame).columns):
            options["date_column"] = DEFAULT_NAMES[0]  # the dates may be an index of another name
        return self._like_training(frame_data(frame, future=future, **options))

    def _like_training(self, data: DataModule) -> DataModule:
        """The module with the state of training, in which columns may be absent that some model does not read."""
        return data.with_state(self.data_state).with_optional(self.columns_beside(()))

    def read_source(self, data: DataModule) -> Panel:
        """Read the rows of a data module, with the UTC offset and the categories of training."""
        with known_columns(self.path, self.data_state):
            panel = data.source_panel.at_utc_offset(utc_offset_of(self.data_state))
        return encode_categories(data.location, panel, self.categories)

    def refuse_absent(self, data: DataModule, unread: Collection[str]) -> None:
        """Raise DataError for a column that the data do not have, unless it is one of `unread`."""
        if not data.source.absent <= set(unread):
            with known_columns(self.path, self.data_state):
                data.source.with_optional(frozenset(unread)).read()

    def name_columns(self, names: Iterable[str]) -> list[str]:
        """These columns of the model, with the column of each category instead of its indicators."""
        column_of = columns_of_indicators(self.categories)
        return list(dict.fromkeys(column_of.get(name, name) for name in names))

    def columns_beside(self, read: Iterable[str]) -> frozenset[str]:
        """The columns of a file that hold none of these columns, nor a target, nor a forecast of one of them."""
        covariates, as_of = self.data_state["future_covariates"], self.data_state["as_of"]
        columns = {*self.name_columns((*self.feature_columns, *covariates))}
        unread = columns.difference(self.name_columns((*self.target_columns, *read)))
        return frozenset(unread | {as_of[name] for name in unread & set(as_of)})

    def data_config(self, given: Mapping[str, Any]) -> dict[str, Any]:
        indicators = columns_of_indicators(self.categories)
        columns = [name for name in self.feature_columns if name not in indicators]
        state = self.data_state
        chosen = choose_data_config(self.path, self.config["data"], columns, given, state)
        chosen = keep_date_order(chosen, state["day_first"])
        if state["calendar"] is not None and chosen.get("steps") == "rows":  # few rows may not show it
            chosen["calendar"] = choose_days(state["calendar"], chosen.get("calendar"))
        return chosen

    def check_freq(self, name: str, freq: str) -> None:
        """Raise CheckpointError if the time between rows is not that of training."""
        if parse_frequency(freq) != parse_frequency(self.freq):
            raise CheckpointError(
                f"{name}: one row every {freq}, but {self.path} was trained on one every {self.freq}: give such data"
            )

    def refuse_refitted(self) -> None:
        """Raise CheckpointError for a model refitted on all rows."""
        if self.refitted is not None:
            raise CheckpointError(
                f"{self.path}: refitted on all rows, so no rows are left to score it on; give checkpoints/best.ckpt "
                "of the run"
            )


def read_model_data(path: str | Path, *, tested: bool = False) -> ModelData:
    """Read the settings of the model that `load` loads, or of the one that `load_tested` loads."""
    file = contents.find_checkpoint(path) if tested else contents.find_trained(path)
    found = ModelData(file, contents.read_plain(file))
    if tested:
        found.refuse_refitted()
    return found


def add_future(model: ModelData, path: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], Panel | None]:
    """The settings of the data with a file of future covariates; of a store, the panel of that file instead.

    The values of a store stay on disk, so rows cannot be appended to them. The copy of the rows that a forecast needs
    takes them from the panel.
    """
    if model.data_config(given)["_target_"] == STORE:
        return dict(given), read_future(model, path, given)
    return {**given, "future_path": path}, None


def read_future(model: ModelData, path: str, given: Mapping[str, Any]) -> Panel:
    """Read the future covariates of a model from a file: a panel without targets, with categories as indicators.

    Of the settings of the data that are given, those of `ReadOptions` and `date_column` apply.
    """
    state: Mapping[str, Any] = model.data_state
    columns, keys = columns_of_indicators(model.categories), name_keys(model.config["data"], state)
    options = {"stamp": keys["stamp"], "freq": model.freq, "day_first": state["day_first"]}
    options |= {key: given[key] for key in ReadOptions.option_names() if given.get(key) is not None}
    id_column = given.get("id_column") or keys["id_column"]
    date_column = given.get("date_column") or keys["date_column"] or "date"
    as_of = state["as_of"]
    names = dict.fromkeys(str(columns.get(name, name)) for name in state["future_covariates"])
    roles = ColumnRoles(
        list_id_columns(id_column), date_name(date_column), (), future=(*names, *as_of.values()), as_of=as_of
    ).of_future_rows()
    with known_columns(model.path, state):
        rows = read_file(locate(path), roles, date_column, ReadOptions(**options))
        panel = align(rows, options["freq"], sort=id_column is not None, is_part=True)
        panel = panel.at_utc_offset(utc_offset_of(state))
    return encode_categories(path, panel, model.categories)


def take_future_from(excerpt: Panel, ahead: Panel) -> Panel:
    """The panel in memory, with the future covariates after the ends of its series from a panel `ahead`."""
    rows = ranges(excerpt.ends, excerpt.stops)
    series = ahead.ids.get_indexer(excerpt.ids)[excerpt.series_of(rows)]
    on_grid = ahead.grid.get_indexer(excerpt.dates(rows))
    places = on_grid - ahead.grid_starts[series] + ahead.starts[series]
    is_there = (series >= 0) & (on_grid >= 0) & (places >= ahead.starts[series]) & (places < ahead.stops[series])
    future, cells = np.array(excerpt.future), np.ix_(rows[is_there], np.array(excerpt.ahead_index))
    columns = [ahead.future_columns.index(excerpt.future_columns[column]) for column in excerpt.ahead_index]
    given, known = np.asarray(ahead.future)[places[is_there]][:, columns], future[cells]
    future[cells] = np.where(np.isnan(known), given, known)
    return replace(excerpt, future=future)
