"""A trained model back from its checkpoint: `load("runs/...")`, with the data and the scaler that belong to it."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from hydra.utils import instantiate
from jaxtyping import Float
from omegaconf import OmegaConf
from torch import Tensor, nn

from forecast.checkpoints.contents import is_untrained
from forecast.checkpoints.file import find_checkpoint, load_checkpoint
from forecast.checkpoints.settings import check_settings
from forecast.data import DataModule, Panel, frame_data, long_frame_data
from forecast.data.scaling import Scaler
from forecast.data.time_features import parse_frequency
from forecast.evaluation.baselines import FittedBaselines
from forecast.evaluation.conformal import Calibration
from forecast.inference.data_config import FRAME, LONG, OF_A_FRAME, choose_data_config
from forecast.models import ForecastModel
from forecast.models.quantile_head import arrange_quantiles
from forecast.system.errors import CheckpointError, DataError, ForecastError
from forecast.training.create_model import create_model, model_class
from forecast.training.module import trained_quantiles

MOST_BYTES = 1 << 32
"""Of a network's tables, such as its positions', at most."""


class TrainedModel:
    """What a checkpoint holds: the network, and how its numbers relate to a table's.

    path: the checkpoint file; config: the run's whole configuration, plain values; network: in evaluation mode, on
    the CPU, float32, `network(past, past_time, future_time)` on scaled values; quantiles: the probabilities of its
    outputs where loss=quantile trained them, and not its linear model alone was kept; scaler, target_scaler: of
    `feature_columns` and `target_columns`; freq: the step between rows; calibration, baselines: from the run's test,
    None where it was not tested.
    """

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        """Raises CheckpointError for a checkpoint of another version, or one that names what it may not."""
        self.path = path
        try:
            self._take(content)
        except ForecastError:
            raise
        except Exception as error:  # a file that someone wrote can be wrong anywhere
            raise CheckpointError(f"{path}: it is not laid out as a checkpoint of ours") from error

    def _take(self, content: dict[str, Any]) -> None:
        path = self.path
        self.config: dict[str, Any] = content["hyper_parameters"]
        check_settings(path, self.config, None)
        check_settings(path, {key: self.config["data"][key] for key in ("_target_", "name")})
        state = next((s for s in content.values() if isinstance(s, dict) and "feature_columns" in s), None)
        if state is None:
            raise CheckpointError(f"{path}: it holds no scaler; train again")
        for key in ("freq", "trained_until", "n_time_features"):
            if key not in state:
                raise CheckpointError(f"{path}: written by an older version ({key} is missing); train again")
        self.data_state = state
        self.feature_columns: list[str] = state["feature_columns"]
        self.target_columns: list[str] = state["target_columns"]
        self.freq: str = state["freq"]
        self.trained_until: str = state["trained_until"]
        self.scaler = Scaler.from_state_dict(state["scaler"])
        self.target_index = [self.feature_columns.index(name) for name in self.target_columns]
        self.target_scaler = self.scaler.select_columns(self.target_index)
        self.holidays: str | None = self.config["data"]["holidays"]
        self.seq_len: int = self.config["seq_len"]
        self.pred_len: int = self.config["pred_len"]
        self.loss: str = self.config["loss"]
        self.quantiles = trained_quantiles(self.loss, self.config.get("levels", ()))
        state_dict = content["state_dict"]
        self.is_untrained = is_untrained(content)
        self.calibration = (
            Calibration.from_state_dict(content["calibration"]) if "calibration" in content else None
        )
        self.baselines = None
        if "baselines" in content:
            self.baselines = FittedBaselines(**content["baselines"], ids=state["ids"])
        self.refitted: dict[str, Any] | None = content.get("refitted")
        self.network = self._network(state_dict)
        if self.quantiles and self.is_untrained:
            self.network.keep_median()
            self.loss, self.quantiles = "mae", None

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
            n_quantiles=len(self.quantiles or "1"),
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
        """Scaled point forecasts; of a model trained with loss=quantile its quantiles, one more axis."""
        raw = self.network(past, past_time, future_time)
        return raw if self.quantiles is None else arrange_quantiles(raw, len(self.target_columns))

    def point(self, forecast: Tensor) -> Tensor:
        """The point forecast (batch, pred_len, n_targets): the median of quantiles."""
        return forecast if self.quantiles is None else forecast[..., len(self.quantiles) // 2]

    def note_on(self, dates: pd.DatetimeIndex) -> str:
        """A caution where any of these dates was trained on, else nothing."""
        if not (dates <= pd.Timestamp(self.trained_until)).any():
            return ""
        return f"dates to {self.trained_until} were trained on: their errors say little about new ones"

    def panel_of(self, frame: pd.DataFrame | pd.Series) -> Panel:
        """The panel of a DataFrame laid out as in training, with its dates at the UTC offset of training."""
        return self._at_utc_offset(self._frame_module(frame).source.read())

    def data_of_frame(self, frame: pd.DataFrame | pd.Series) -> DataModule:
        """The data module of a DataFrame laid out as in training, with the scaler from training."""
        data = self._frame_module(frame)
        data.load_state_dict(self.data_state)
        data.setup()
        self.check_freq(FRAME, data.freq)
        return data

    def _frame_module(self, frame: pd.DataFrame | pd.Series) -> DataModule:
        config = self.data_config({"path": FRAME})
        if self.config["data"]["_target_"] == LONG:
            left_out = ("_target_", "_convert_", "path")
            return long_frame_data(
                frame, **{key: value for key, value in config.items() if key not in left_out}
            )
        options = {key: config[key] for key in OF_A_FRAME}
        options["eval_stride"] = options["eval_stride"] or 1  # null: a store's own
        return frame_data(frame, columns=self.feature_columns, name=FRAME, **options)

    def tested(self) -> "TrainedModel":
        """This model, or where it was refitted on all rows, the one that was tested before."""
        if self.refitted is None:
            return self
        best = self.path.with_name("best.ckpt")
        if self.path.name != "refit.ckpt" or not best.is_file():
            raise CheckpointError(
                f"{self.path}: refitted on all rows; the model that was tested is not beside it"
            )
        return load_tested(best)

    def select_columns(self, panel: Panel) -> Panel:
        """The panel with the columns that the network reads. Raises DataError for one that is missing."""
        self.check_freq("the data", panel.freq)
        for name in self.feature_columns:
            if name not in panel.columns:
                raise DataError(
                    f"no column {name!r}, which {self.path} was trained on; there are {', '.join(panel.columns[:20])}"
                )
        return panel.select_columns(self.feature_columns)

    def data(self, given: Mapping[str, Any] | None = None) -> DataModule:
        """The data it was trained on, or what is given in its place, with the scaler from training.

        `given` holds settings of a data module, of which null ones mean: as in training. Of another file than the one
        trained on (`path`), all rows are the split `test`, unless `split` says otherwise.
        """
        config = self.data_config(given or {})
        check_settings(self.path, config)
        data = instantiate(OmegaConf.create(config))
        data.prepare_data()
        data.load_state_dict(self.data_state)
        data.setup()
        self.check_freq(data.name, data.freq)
        return data

    def read_panel(self, given: Mapping[str, Any] | None = None) -> Panel:
        """The panel that it was trained on, or what is given in its place (see `data`), unscaled."""
        config = self.data_config(given or {})
        check_settings(self.path, config)
        module = instantiate(OmegaConf.create(config))
        module.prepare_data()
        return self._at_utc_offset(module.source.read())

    def _at_utc_offset(self, panel: Panel) -> Panel:
        return panel.with_utc_offset(self.data_state.get("utc_offset"))

    def data_config(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of the data module that `data` makes."""
        return choose_data_config(self.path, self.config["data"], self.feature_columns, given)

    def check_freq(self, name: str, freq: str) -> None:
        """Raises CheckpointError where rows are not as far apart as in training."""
        if parse_frequency(freq) != parse_frequency(self.freq):
            raise CheckpointError(
                f"{name}: a row every {freq}, where {self.path} was trained on one every {self.freq}: give such data"
            )


def fits(make: Callable[[], nn.Module], weights: Mapping[str, torch.Tensor]) -> bool:
    """Whether a network has these weights, and tables of its own that memory can hold; nothing of it is allocated."""
    with torch.device("meta"):
        network = make()
    tables = sum(buffer.nbytes for buffer in network.buffers())
    shapes = {name: value.shape for name, value in network.state_dict().items()}
    return tables < MOST_BYTES and shapes == {name: value.shape for name, value in weights.items()}


def load_tested(path: str | Path) -> TrainedModel:
    """The model that a run tested. Raises CheckpointError for one refitted on all rows, which has no test."""
    file = find_checkpoint(path)
    model = TrainedModel(file, load_checkpoint(file))
    if model.refitted is not None:
        raise CheckpointError(
            f"{file}: refitted on all rows, so no rows are left to score it on; give the run folder, or its best.ckpt"
        )
    return model


def load(path: str | Path) -> TrainedModel:
    """The model of a run folder or checkpoint file; see `read_checkpoint`."""
    return TrainedModel(*read_checkpoint(path))


def read_checkpoint(path: str | Path) -> tuple[Path, dict[str, Any]]:
    """The checkpoint of a run folder, of the model refitted on all rows if there is one, or a checkpoint file.

    Raises:
        CheckpointError: there is none, or it is damaged or not ours.
    """
    found = Path(path).expanduser()
    refit = found / "checkpoints" / "refit.ckpt"
    file = refit if refit.is_file() else find_checkpoint(found)
    return file, load_checkpoint(file)
