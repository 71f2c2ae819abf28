"""Trained models loaded from checkpoints, with their scalers and their data: `load("runs/...")`."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from hydra.utils import instantiate
from jaxtyping import Float
from omegaconf import OmegaConf
from torch import Tensor

from forecast.checkpoints.contents import check_parts, data_state, is_untrained
from forecast.checkpoints.file import load_checkpoint
from forecast.checkpoints.find import find_checkpoint, find_run
from forecast.checkpoints.settings import check_settings
from forecast.data import Batch, DataModule, Panel
from forecast.data.categories import Categories, encode_categories, indicator_names
from forecast.data.panel import TABLE_ID
from forecast.data.scaler import Scaler
from forecast.data.time_features import parse_frequency, season_length
from forecast.data.utc_offset import utc_offset_of
from forecast.evaluation.conformal import Calibration
from forecast.evaluation.fitted_baselines import FittedBaselines
from forecast.evaluation.names import MODEL
from forecast.evaluation.quantiles import trained_quantiles
from forecast.evaluation.results import ReportedScores
from forecast.inference.data_config import allow_absent, choose_data_config, keep_as_trained, known_columns
from forecast.models import ForecastModel
from forecast.models.quantile_head import arrange_quantiles, take_median
from forecast.system.errors import CheckpointError, DataError, ForecastError
from forecast.training.create_model import create_model, fits, model_class

BATCH_SIZE = 64
"""Number of windows that a trained model forecasts at once."""

Columns = frozenset[str]


class TrainedModel:
    """A trained network with the configuration, the scaler and the calibration of its run.

    Attributes:
        path: the checkpoint file.
        config: the whole configuration of the run as plain values.
        network: `network(past, past_time, future_time)` on scaled values, in evaluation mode, on the CPU, in float32.
        quantiles: probabilities of the network's outputs if it was trained with loss=quantile and an epoch of training
            was kept; else None.
        scaler, target_scaler: scalers of `feature_columns` and of `target_columns`.
        categories: of the covariates that are text, see `forecast.data.categories`.
        has_ids: whether the series of the training data have ids; that of a table has none.
        freq: time between two rows.
        season: rows of a season.
        calibrations: of the model and of each baseline, by name; empty if the run was not tested.
        baselines, test: results of the run's test; None if the run was not tested.
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
        self.categories: Categories = state.get("categories", {})
        self.has_ids: bool = state["ids"] != [TABLE_ID]
        self.freq: str = state["freq"]
        self.trained_until: str = state["trained_until"]
        self.validated_until: str | None = state.get("validated_until")
        self.scaler = Scaler.from_state_dict(state["scaler"])
        self.target_index = [self.feature_columns.index(name) for name in self.target_columns]
        self.target_scaler = self.scaler.select_columns(self.target_index)
        self.holidays: str | None = self.config["data"]["holidays"]
        self.season: int = state.get("season") or season_length(self.freq)
        self.seq_len: int = self.config["seq_len"]
        self.pred_len: int = self.config["pred_len"]
        self.loss: str = self.config["loss"]
        self.quantiles = trained_quantiles(self.loss, self.config.get("levels", ()))
        self.is_untrained = is_untrained(content)
        states = {MODEL: content.get("calibration"), **content.get("baseline_calibrations", {})}
        self.calibrations = {name: Calibration.from_state_dict(s) for name, s in states.items() if s}
        self.test = ReportedScores.read(content["test"]) if "test" in content else None
        self.baselines = None
        if "baselines" in content:
            self.baselines = FittedBaselines.from_state_dict(content["baselines"], state["ids"])
            self.data_state = {**state, "seasonal_naive_season": self.baselines.seasonal_naive_season}
        self.refitted: dict[str, Any] | None = content.get("refitted")
        self.network = self._network(content["state_dict"])
        if self.quantiles and self.is_untrained:
            self.network.keep_median()
            self.loss, self.quantiles = "mae", None

    @property
    def calibration(self) -> Calibration | None:
        """The calibration of the model's intervals; None if the run was not tested."""
        return self.calibrations.get(MODEL)

    def _network(self, state: dict[str, torch.Tensor]) -> ForecastModel:
        check_settings(self.path, self.config["model"])
        weights = {key.removeprefix("model."): value.float() for key, value in state.items()}
        settings = self.config["model"]
        columns = {"n_features": len(self.feature_columns), "n_targets": len(self.target_columns)}
        make = partial(
            create_model,
            settings,
            **columns,
            n_time_features=self.data_state["n_time_features"],
            n_quantiles=1 if self.quantiles is None else len(self.quantiles),
        )
        layers = model_class(settings).estimate_size(settings, **columns).n_layers
        if layers > len(weights) or not fits(make, weights):
            raise CheckpointError(f"{self.path}: its weights do not fit this version, or not its settings")
        network = make()
        network.load_state_dict(weights)
        return network.eval().requires_grad_(False)

    def forecast(
        self,
        past: Float[Tensor, "batch seq_len n_features"],
        past_time: Float[Tensor, "batch seq_len n_time_features"],
        future_time: Float[Tensor, "batch pred_len n_time_features"],
    ) -> Float[Tensor, "batch pred_len n_targets ..."]:
        """Scaled point forecasts, or scaled quantiles along one more axis if the model has `quantiles`."""
        raw = self.network(past, past_time, future_time)
        return raw if self.quantiles is None else arrange_quantiles(raw, len(self.target_columns))

    def point(self, forecast: Tensor) -> Tensor:
        """Point forecast (batch, pred_len, n_targets) of an output of `forecast`: the median of quantiles."""
        return take_median(forecast, self.quantiles)

    def forecast_batch(self, batch: Batch) -> Float[Tensor, "batch pred_len n_targets"]:
        """Scaled point forecasts of a batch of windows."""
        return self.point(self.forecast(batch.past, batch.past_time, batch.future_time))

    def tested(self) -> "TrainedModel":
        """Return the tested model: this one, or the one before the refit if this one was refitted on all rows."""
        if self.refitted is None:
            return self
        best = self.path.with_name("best.ckpt")
        if self.path.name != "refit.ckpt" or not best.is_file():
            raise CheckpointError(
                f"{self.path}: refitted on all rows; the model that was tested is not beside it"
            )
        return load_tested(best)

    def select_columns(self, panel: Panel) -> Panel:
        """Select the columns that the network reads. Raises DataError if one is missing."""
        self.check_freq("the data", panel.freq)
        for name in self.feature_columns:
            if name not in panel.columns:
                raise DataError(
                    f"no column {name!r}, which {self.path} was trained on; there are {', '.join(panel.columns[:20])}"
                )
        return panel.select_columns(self.feature_columns)

    def data(self, given: Mapping[str, Any] | None = None, unread: Columns = frozenset()) -> DataModule:
        """Create and set up the data module of the training data or of other data, with the scaler from training.

        Args:
            given: settings of the data module that replace those of training; see `choose_data_config`.
            unread: columns that may be absent, see `find_unread_columns`.
        """
        data = allow_absent(self._data_module(given or {}), unread)
        data.load_state_dict(self.data_state)
        with known_columns(self.path, self.data_state):
            data.setup()
        self.check_freq(data.name, data.freq)
        return data

    def read_panel(self, given: Mapping[str, Any] | None = None, unread: Columns = frozenset()) -> Panel:
        """Read the training data or other data (see `data`), unscaled."""
        return self.read_source(allow_absent(self._data_module(given or {}), unread))

    def _data_module(self, given: Mapping[str, Any]) -> DataModule:
        """Create a data module and download its files, without reading them."""
        config = self.data_config(given)
        check_settings(self.path, config)
        module = instantiate(OmegaConf.create(config))
        module.prepare_data()
        return module

    def read_source(self, module: DataModule) -> Panel:
        """Read the rows of a data module, with the UTC offset and the categories of training."""
        with known_columns(self.path, self.data_state):
            panel = module.source.read().at_utc_offset(utc_offset_of(self.data_state))
        return encode_categories(module.location, panel, self.categories)

    def data_config(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of the data module that `data` creates."""
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


def load_tested(path: str | Path) -> TrainedModel:
    """Load the tested model of a run. Raises CheckpointError for a model refitted on all rows."""
    file = find_checkpoint(path)
    model = TrainedModel(file, load_checkpoint(file))
    if model.refitted is not None:
        raise CheckpointError(
            f"{file}: refitted on all rows, so no rows are left to score it on; give the run folder, or its best.ckpt"
        )
    return model


def load(path: str | Path) -> TrainedModel:
    """Load the model of a run folder or checkpoint file; see `read_checkpoint`."""
    return TrainedModel(*read_checkpoint(path))


def read_checkpoint(path: str | Path) -> tuple[Path, dict[str, Any]]:
    """Read a checkpoint file, or that of a run folder (`latest`: the newest): the refitted model if there is one.

    Raises:
        CheckpointError: there is no checkpoint, it is damaged, or another program wrote it.
    """
    found = find_run(path)
    refit = found / "checkpoints" / "refit.ckpt"
    file = refit if refit.is_file() else find_checkpoint(found)
    return file, load_checkpoint(file)
