"""A trained model back from its checkpoint: `load("runs/...")`, with the data and the scaler that belong to it."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from hydra.utils import instantiate
from jaxtyping import Float, Float64
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn

from forecast.baselines import FittedBaselines
from forecast.checkpoint import find_checkpoint, is_untrained, load_checkpoint
from forecast.conformal import Calibration
from forecast.data import ForecastData, FrameData, SeriesFrame, Table, read_frame
from forecast.data.calendar import parse_frequency
from forecast.data.panel import Panel
from forecast.data.scaler import Scaler
from forecast.data.series_scaler import SeriesScaler
from forecast.data.store import is_store
from forecast.errors import CheckpointError, ConfigError, DataError, ForecastError
from forecast.forecaster import trained_quantiles
from forecast.model.residual_informer import medians_alone
from forecast.quantiles import Level, arrange
from forecast.trust import check_trusted, published

OF_THE_FILE = ("root", "url", "hash", "by_hand", "path", "name")
"""Settings of a data set that another file does not share."""

OF_THE_SERIES = ("ids", "static_path", "future_path")
"""Settings of many series that are those of one file too."""

FRAME = "DataFrame"
"""The name of data that was handed over in Python, and lies in no file."""

MOST_BYTES = 1 << 32
"""Of a network's tables, such as its positions'."""

OF_THE_MODEL = ("seq_len", "pred_len", "features", "target", "scaler", "seed", "season", "holidays")
OF_A_FRAME = (*OF_THE_MODEL, "batch_size", "eval_batch_size", "split", "windows_per_epoch", "eval_stride")


class TrainedModel:
    """What a checkpoint holds: the network, and how its numbers relate to a table's.

    path: the checkpoint file; config: the run's whole configuration, plain values; network: in evaluation mode, on
    the CPU, float32, `network(past, past_time, future_time)` on scaled values; quantiles: the probabilities of its
    outputs where loss=quantile trained them, and not its linear map alone was kept; scaler, target_scaler: of
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
        check_trusted(path, self.config, None)
        check_trusted(path, {key: self.config["data"][key] for key in ("_target_", "name")})
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
        self.has_series = "ids" in state  # many, each on its own scale
        self.scaler = (SeriesScaler if self.has_series else Scaler).from_state_dict(state["scaler"])
        self.target_index = [self.feature_columns.index(name) for name in self.target_columns]
        self.target_scaler = self.scaler.select(self.target_index)
        self.holidays: str | None = self.config["data"]["holidays"]
        self.seq_len: int = self.config["seq_len"]
        self.pred_len: int = self.config["pred_len"]
        self.loss: str = self.config["loss"]
        self.quantiles = trained_quantiles(self.loss, self.config.get("levels", ()))
        state_dict = content["state_dict"]
        self.is_untrained = is_untrained(content)
        if self.quantiles and self.is_untrained:
            state_dict = medians_alone(state_dict, len(self.quantiles))
            self.loss, self.quantiles = "mae", None
        self.calibration = (
            Calibration.from_state_dict(content["calibration"]) if "calibration" in content else None
        )
        self.baselines = None
        if "baselines" in content:
            self.baselines = FittedBaselines(**{**content["baselines"], "ids": self.data_state.get("ids")})
        self.refitted: dict[str, Any] | None = content.get("refitted")
        self.network = self._network(state_dict)

    def _network(self, state: dict[str, torch.Tensor]) -> nn.Module:
        check_trusted(self.path, self.config["model"])
        weights = {key.removeprefix("model."): value.float() for key, value in state.items()}
        settings = self.config["model"]
        make = partial(
            instantiate(OmegaConf.create(settings)),
            n_features=len(self.feature_columns),
            n_targets=len(self.target_columns),
            n_time_features=self.data_state["n_time_features"],
            n_quantiles=len(self.quantiles or "1"),
        )
        layers = max(settings["encoder_layers"], settings["decoder_layers"])
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
        return raw if self.quantiles is None else arrange(raw, len(self.target_columns))

    def point(self, forecast: Tensor) -> Tensor:
        """The point forecast (batch, pred_len, n_targets): the median of quantiles."""
        return forecast if self.quantiles is None else forecast[..., len(self.quantiles) // 2]

    def note_on(self, dates: pd.DatetimeIndex) -> str:
        """A caution where any of these dates was trained on, else nothing."""
        if not (dates <= pd.Timestamp(self.trained_until)).any():
            return ""
        return f"dates to {self.trained_until} were trained on: their errors say little about new ones"

    def predict(
        self,
        frame: pd.DataFrame | pd.Series | None = None,
        *,
        horizon: int | None = None,
        start: str | pd.Timestamp | None = None,
        levels: Sequence[Level] = (),
        intervals: str = "auto",
    ) -> pd.DataFrame:
        """The steps after the end of `frame` (default: of the data it was trained on), or from `start`, in its units.

        `frame` has a DatetimeIndex and at least `feature_columns`. The answer has a row a date, and for each target its
        forecast, bounds `-lo-80` and `-hi-80` for each of `levels`, and with `start`, `-true` and `-error`. `horizon`
        beyond `pred_len` rolls on. Raises ConfigError and DataError (both ValueError) for what cannot be forecast.
        """
        from forecast import prediction, series_prediction

        if self.has_series:
            panel = self.panel() if frame is None else self._on_clock(self._series_data(frame).read())
            asked = {"horizon": horizon, "start": start, "levels": levels, "method": intervals}
            return series_prediction.predict(self, panel, **asked).frame()
        table = (
            self.table() if frame is None else self._on_clock(read_frame(frame, columns=self.feature_columns))
        )
        return prediction.predict(
            self, table, horizon=horizon, start=start, levels=levels, method=intervals
        ).frame()

    def evaluate(self, frame: pd.DataFrame | pd.Series | None = None, split: str = "test") -> dict[str, Any]:
        """The scores on every window of `frame`, or of a split of the data it was trained on, as metrics.json has them.

        Raises CheckpointError for a model refitted on all rows, whose scores are the tested one's.
        """
        from forecast import evaluation, quiet

        if self.refitted is not None:
            raise CheckpointError(
                f"{self.path}: refitted on all rows, so none are left to score it on: load_tested()"
            )
        quiet.lightning()
        data = self.data() if frame is None else self._frame_data(frame)
        content, _ = evaluation.evaluate(self, data, split, progress=False)
        return content

    def _frame_data(self, frame: pd.DataFrame | pd.Series) -> ForecastData:
        config = self.data_config({"path": FRAME})
        options = {key: config[key] for key in OF_A_FRAME}
        options["eval_stride"] = options["eval_stride"] or 1  # null: a store's own
        data = (
            self._series_data(frame)
            if self.has_series
            else FrameData(frame, columns=self.feature_columns, name=FRAME, **options)
        )
        data.load_state_dict(self.data_state)
        data.setup()
        self.check_freq(FRAME, data.freq)
        return data

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

    def select(self, table: Table) -> Float64[np.ndarray, "rows n_features"]:
        """The table's columns that the network reads, in its order. Raises DataError for one that is missing."""
        self.check_freq("the table", table.freq)
        for name in self.feature_columns:
            if name not in table.columns:
                raise DataError(
                    f"no column {name!r}, which {self.path} was trained on; there are {', '.join(table.columns[:20])}"
                )
        return np.ascontiguousarray(
            table.values[:, [table.columns.index(name) for name in self.feature_columns]]
        )

    def data(self, given: Mapping[str, Any] | None = None) -> ForecastData:
        """The data it was trained on, or what is given in its place, with the scaler from training.

        `given` holds settings of a data module, of which null ones mean: as in training. Of another file than the one
        trained on (`path`), all rows are the split `test`, unless `split` says otherwise.
        """
        config = self.data_config(given or {})
        self._check_made(config)
        data = instantiate(OmegaConf.create(config))
        data.prepare_data()
        data.load_state_dict(self.data_state)
        data.setup()
        self.check_freq(data.name, data.freq)
        return data

    def panel(self, given: Mapping[str, Any] | None = None) -> Panel:
        """All series of the data it was trained on, or of what is given in its place (see `data`)."""
        return self._read(given)

    def _series_data(self, frame: Any) -> SeriesFrame:
        config = self.data_config({"path": FRAME})
        options = {
            key: value for key, value in config.items() if key not in ("_target_", "_convert_", "path")
        }
        return SeriesFrame(frame, **options)

    def check_one_table(self, command: str) -> None:
        """Raises CheckpointError where the model forecasts many series, and the command is made for one table."""
        if self.has_series:
            raise CheckpointError(
                f"{self.path}: {command} works on one table, and this model was trained on many series (data=long); "
                "predict and evaluate work on them"
            )

    def table(self, given: Mapping[str, Any] | None = None) -> Table:
        """The whole table of the data it was trained on, or of what is given in its place (see `data`)."""
        return self._read(given)

    def _read(self, given: Mapping[str, Any] | None) -> Any:
        config = self.data_config(given or {})
        self._check_made(config)
        source = instantiate(OmegaConf.create(config))
        source.prepare_data()
        return self._on_clock(source.read())

    def _on_clock(self, read: Any) -> Any:
        """A table, or many series, with dates on the clock of training."""
        return read.on_clock(self.data_state.get("clock"))

    def _check_made(self, config: dict[str, Any]) -> None:
        """Raises CheckpointError for data that may not be made, or of another form than it was trained on."""
        check_trusted(self.path, config)
        if (config["_target_"] == "forecast.data.SeriesData") != self.has_series:
            trained_on, such = ("many series", "data=long") if self.has_series else ("one table", "data=csv")
            raise CheckpointError(
                f"{self.path}: it was trained on {trained_on}: give such a file, as {such} reads"
            )

    def data_config(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of the data module that `data` makes."""
        if isinstance(given, DictConfig):
            given = OmegaConf.to_container(given)  # type: ignore[assignment]
        chosen = {key: value for key, value in given.items() if value is not None}
        saved = self.config["data"]
        if saved["name"] == FRAME and not {"path", "_target_"} & set(chosen):
            raise CheckpointError(
                f"{self.path}: it was trained on a DataFrame: give one, or a file (data.path)"
            )
        if "_target_" in chosen:  # another ready set
            own = {key: value for key, value in chosen.items() if not str(value).startswith("${")}
            kept = {key: saved[key] for key in OF_THE_MODEL}
            return {"windows_per_epoch": saved["windows_per_epoch"], **own, **kept}
        if saved["_target_"] == "forecast.data.DownloadedData":
            saved = published(saved, chosen.get("root"))
        if "path" in chosen:
            chosen["path"] = str(Path(chosen.pop("root", "")) / chosen["path"])
        elif "root" in chosen and "root" not in saved:
            raise ConfigError(
                f"data.root={chosen['root']}: {self.path} was trained on a file of its own: give another by data.path"
            )
        if "path" not in chosen or is_same_file(chosen["path"], saved.get("path")):
            return {**saved, **chosen}
        file: dict[str, Any] = {
            "_target_": "forecast.data.CsvData", "name": Path(chosen["path"]).name, "split": "test"
        }  # fmt: skip
        if self.has_series:
            kept = {key: value for key, value in saved.items() if key not in OF_THE_SERIES}
            return {**kept, **file, "_target_": saved["_target_"], **chosen}
        if is_store(chosen["path"]) or saved["_target_"] == "forecast.data.StoreData":
            kept = {key: saved[key] for key in OF_A_FRAME}
            file["eval_stride"] = 1
            if is_store(chosen["path"]):
                file |= {"_target_": "forecast.data.StoreData", "eval_stride": None}
        else:
            kept = {key: value for key, value in saved.items() if key not in OF_THE_FILE}
        return {**kept, **file, "columns": list(self.feature_columns), **chosen}

    def check_freq(self, name: str, freq: str) -> None:
        """Raises CheckpointError where rows are not as far apart as in training."""
        if parse_frequency(freq) != parse_frequency(self.freq):
            raise CheckpointError(
                f"{name}: a row every {freq}, where {self.path} was trained on one every {self.freq}: give such data"
            )


def is_same_file(path: str | Path, other: str | Path | None) -> bool:
    return other is not None and Path(path).expanduser().resolve() == Path(other).expanduser().resolve()


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
    """The model of a run folder or checkpoint file; of a folder, the one refitted on all rows where there is one.

    Raises CheckpointError where there is none, or it is damaged, not ours, or names what it may not.
    """
    found = Path(path).expanduser()
    refit = found / "checkpoints" / "refit.ckpt"
    file = refit if refit.is_file() else find_checkpoint(found)
    return TrainedModel(file, load_checkpoint(file))
