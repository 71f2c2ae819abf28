"""The settings of a trained model, and the data that it reads, without its weights. Imports no torch."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from omegaconf import OmegaConf

from forecast.checkpoints.archive import read_plain
from forecast.checkpoints.contents import check_parts, data_state
from forecast.checkpoints.find import find_checkpoint, find_trained
from forecast.checkpoints.settings import check_settings
from forecast.data import DataModule, Panel
from forecast.data.categories import Categories, columns_of_indicators, encode_categories, indicator_names
from forecast.data.panel import TABLE_ID
from forecast.data.time_features import parse_frequency, season_length
from forecast.data.utc_offset import utc_offset_of
from forecast.inference.data_config import allow_absent, choose_data_config, keep_as_trained, known_columns
from forecast.system.errors import CheckpointError, ForecastError

Columns = frozenset[str]


class ModelData:
    """The data of a trained model, as its checkpoint describes them.

    Attributes:
        path: the checkpoint file.
        config: the whole configuration of the run as plain values.
        data_state: the state of the data module of training.
        feature_columns, target_columns: columns that the model reads, and those that it forecasts.
        categories: of the covariates that are text, see `forecast.data.categories`.
        has_ids: whether the series of the training data have ids; that of a table has none.
        freq: time between two rows.
        season: rows of a season.
        refitted: facts of the refit on all rows; None if the model was not refitted.
    """

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        """Raises CheckpointError if the checkpoint has another layout or names a class that is not allowed."""
        self.path = path
        try:
            self._take(content)
        except ForecastError:
            raise
        except Exception as error:  # any part of the file may be wrong
            raise CheckpointError(
                f"{path}: it does not have the layout of a checkpoint of this program"
            ) from error

    def _take(self, content: dict[str, Any]) -> None:
        path = self.path
        self.config: dict[str, Any] = content["hyper_parameters"]
        check_settings(path, self.config, None)
        check_settings(path, {key: self.config["data"][key] for key in ("_target_", "name")})
        check_parts(path, content)
        self.data_state = state = data_state(content)
        self.feature_columns: list[str] = state["feature_columns"]
        self.target_columns: list[str] = state["target_columns"]
        self.target_index = [self.feature_columns.index(name) for name in self.target_columns]
        self.categories: Categories = state.get("categories", {})
        self.has_ids: bool = state["ids"] != [TABLE_ID]
        self.freq: str = state["freq"]
        self.trained_until: str = state["trained_until"]
        self.validated_until: str | None = state.get("validated_until")
        self.holidays: str | None = self.config["data"]["holidays"]
        self.season: int = state.get("season") or season_length(self.freq)
        self.seq_len: int = self.config["seq_len"]
        self.pred_len: int = self.config["pred_len"]
        self.refitted: dict[str, Any] | None = content.get("refitted")
        if "baselines" in content:
            self.data_state = {**state, "seasonal_naive_season": content["baselines"]["season"]}

    def read_data(self, given: Mapping[str, Any]) -> DataModule:
        """Read and split the training data or other data, for `TrainedModel.data`.

        A column may be absent that some model does not read: `refuse_absent`.

        Args:
            given: settings of the data module that replace those of training; see `choose_data_config`.
        """
        data = self.open_data(given)
        with known_columns(self.path, self.data_state):
            data.read()
        self.check_freq(data.name, data.freq)
        return data

    def open_data(self, given: Mapping[str, Any]) -> DataModule:
        """Create a data module and download its files, without reading them."""
        config = self.data_config(given)
        check_settings(self.path, config)
        data: DataModule = instantiate(OmegaConf.create(config))
        data.prepare_data()
        data.load_state_dict(self.data_state)
        return allow_absent(data, self.columns_beside(()))

    def read_source(self, data: DataModule) -> Panel:
        """Read the rows of a data module, with the UTC offset and the categories of training."""
        with known_columns(self.path, self.data_state):
            panel = data.read_panel().at_utc_offset(utc_offset_of(self.data_state))
        return encode_categories(data.location, panel, self.categories)

    def refuse_absent(self, data: DataModule, unread: Columns) -> None:
        """Raise DataError for a column that the data do not have, unless it is one of `unread`."""
        if not data.source.absent <= unread:
            with known_columns(self.path, self.data_state):
                allow_absent(data, unread).source.read()

    def columns_beside(self, read: Iterable[str]) -> Columns:
        """The columns of a file that hold none of these columns, nor a target, nor a forecast of one of them."""
        categories = columns_of_indicators(self.categories)
        covariates, as_of = self.data_state["future_covariates"], self.data_state.get("as_of", {})
        columns = {categories.get(name, name) for name in (*self.feature_columns, *covariates)}
        unread = columns - {categories.get(name, name) for name in (*self.target_columns, *read)}
        return frozenset(unread | {as_of[name] for name in unread & set(as_of)})

    def data_config(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of the data module that `open_data` creates."""
        indicators = indicator_names(self.categories)
        columns = [name for name in self.feature_columns if name not in indicators]
        chosen = choose_data_config(self.path, self.config["data"], columns, given, self.data_state)
        return keep_as_trained(chosen, self.data_state)

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
                f"{self.path}: refitted on all rows, so no rows are left to score it on; give the run folder, or its "
                "best.ckpt"
            )


def read_model_data(path: str | Path, *, tested: bool = False) -> ModelData:
    """Read the settings of the model that `load` loads, or of the one that `load_tested` loads."""
    file = find_checkpoint(path) if tested else find_trained(path)
    found = ModelData(file, read_plain(file))
    if tested:
        found.refuse_refitted()
    return found
