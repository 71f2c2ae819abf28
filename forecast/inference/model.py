"""Trained models loaded from checkpoints, with their scalers and their data, and their evaluation on a split."""

import copy
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from forecast.checkpoints.contents import check_stored_settings, find_checkpoint, find_trained, is_untrained
from forecast.checkpoints.file import load_checkpoint
from forecast.data import Batch, DataModule, Panel
from forecast.data.scaler import Scaler
from forecast.evaluation.baselines import FittedBaselines
from forecast.evaluation.conformal import Calibration
from forecast.evaluation.measurement import Results, SplitScorer, ValidationErrors
from forecast.evaluation.scores import MODEL, ReportedScores, parse_levels, trained_quantiles
from forecast.inference.model_data import ModelData, known_columns
from forecast.models import ForecastModel
from forecast.models.linear_model import FutureTime, Past, PastTime, Targets
from forecast.models.residual import Output, arrange_quantiles, take_median
from forecast.system.errors import CheckpointError, check_choice
from forecast.system.progress import track
from forecast.training.create_model import computing, create_model, fits, has_gpu, keep_precision, model_class

BATCH_SIZE = 64  # number of windows that a trained model forecasts at once


class TrainedModel(ModelData):
    """A trained network with the configuration, the scaler and the calibration of its run.

    Attributes:
        network: `network(past, past_time, future_time)` on scaled values, in evaluation mode, on the CPU, in float32.
        quantiles: probabilities of the network's outputs if it was trained with loss=quantile and an epoch of training
            was kept; else None.
        calibrations: of the model and of each baseline, by name; empty if the run was not tested.
        baselines: the fitted baselines of the run; None if the run was not tested.
        test: the scores of the run's test; None if the run was not tested.
        results: those scores in the layout of metrics.json; empty if the run was not tested.
    """

    def _take(self, content: dict[str, Any]) -> None:
        super()._take(content)
        state = self.data_state
        self.scaler = Scaler.from_state_dict(state["scaler"])
        self.target_scaler = self.scaler.select_columns(self.target_index)
        self.loss: str = self.config["loss"]
        self.quantiles = trained_quantiles(self.loss, self.config.get("levels", ()))
        self.is_untrained = is_untrained(content)
        self.calibrations, self.baselines, self.test = {}, None, None
        self.results: dict[str, Any] = content.get("test", {})
        if "test" in content:
            states = {MODEL: content["calibration"], **content["baseline_calibrations"]}
            self.calibrations = {name: Calibration.from_state_dict(s) for name, s in states.items()}
            self.baselines = FittedBaselines.from_state_dict(content["baselines"], state["ids"])
            self.test = ReportedScores.read(content["test"])
        self.network = self._network(content["state_dict"])
        if self.quantiles and self.is_untrained:
            self.network.keep_median()
            self.loss, self.quantiles = "mae", None

    @property
    def calibration(self) -> Calibration | None:
        """The calibration of the model's intervals; None if the run was not tested."""
        return self.calibrations.get(MODEL)

    def _network(self, state: dict[str, torch.Tensor]) -> ForecastModel:
        check_stored_settings(self.path, self.config["model"])
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

    def forecast(self, past: Past, past_time: PastTime, future_time: FutureTime) -> Output:
        """Scaled point forecasts, or scaled quantiles along one more axis if the model has `quantiles`."""
        raw = self.network(past, past_time, future_time)
        return raw if self.quantiles is None else arrange_quantiles(raw, len(self.target_columns))

    def output(self, batch: Batch) -> Output:
        return self.forecast(batch.past, batch.past_time, batch.future_time)

    def point(self, forecast: Tensor) -> Tensor:
        """Point forecast (batch, pred_len, n_targets) of an output of `forecast`: the median of quantiles."""
        return take_median(forecast, self.quantiles)

    def forecast_batch(self, batch: Batch) -> Targets:
        return self.point(self.output(batch))

    def tested(self) -> "TrainedModel":
        """Return the tested model: this one, or the one before the refit if this one was refitted on all rows."""
        if self.refitted is None:
            return self
        best = self.path.with_name("best.ckpt")
        if self.path.name != "refit.ckpt" or not best.is_file():
            raise CheckpointError(f"{self.path}: refitted on all rows; the model that was tested is not beside it")
        found = load_tested(best)
        found.frame = self.frame
        return found

    def select_columns(self, panel: Panel) -> Panel:
        """Select the columns that the network reads, of rows as far apart as in training."""
        self.check_freq("the data", panel.freq)
        return panel.select_columns(self.feature_columns)

    def data(self, given: Mapping[str, Any] | DataModule | None = None, unread: Collection[str] = ()) -> DataModule:
        """Set up the data module of the training data or of other data, with the scaler from training.

        Args:
            given: a data module of `read_data`, `open_data` or `open_frame`, or the settings that `read_data` takes.
            unread: columns that may be absent, see `find_unread_columns`.

        Raises:
            CheckpointError: the time between rows is not that of training.
            DataError: a column is missing, a value or a date cannot be read, or there are too few rows.
        """
        data = given if isinstance(given, DataModule) else self.open_data(given or {})
        with known_columns(self.path, self.data_state):
            data.read()
            self.refuse_absent(data, unread)
            data = data.with_state(self.data_state)  # with the scaler
            data.setup()
        self.check_freq(data.name, data.freq)
        return data

    def read_panel(self, given: Mapping[str, Any] | DataModule | None = None, unread: Collection[str] = ()) -> Panel:
        """Read the training data or other data (see `data`), unscaled."""
        data = given if isinstance(given, DataModule) else self.open_data(given or {})
        panel = self.read_source(data)
        self.refuse_absent(data, unread)
        return panel


def load_tested(path: str | Path) -> TrainedModel:
    """Load the tested model of a run. Raises CheckpointError for a model refitted on all rows."""
    file = find_checkpoint(path)
    model = TrainedModel(file, load_checkpoint(file))
    model.refuse_refitted()
    return model


def load(path: str | Path) -> TrainedModel:
    """Load the model of a run folder or checkpoint file; see `read_checkpoint`."""
    return TrainedModel(*read_checkpoint(path))


def read_checkpoint(path: str | Path) -> tuple[Path, dict[str, Any]]:
    """Read a checkpoint file, or that of a run folder (`latest`: the newest): the refitted model if there is one.

    Raises CheckpointError: there is no checkpoint, it is damaged, or another program wrote it.
    """
    file = find_trained(path)
    return file, load_checkpoint(file)


def evaluate(
    model: TrainedModel, data: DataModule, split: str = "test", *, progress: bool = True
) -> tuple[dict[str, Any], Results]:
    """Score every window of a split, on the best available device and in the precision of training.

    The baselines, the denominator of MASE and the calibration come from the training run.

    Raises:
        ConfigError: `data` does not have the split.
        CheckpointError: the run was not tested and the data have no validation rows.
    """
    check_choice("split", split, data.windows)
    fitted, device = baselines_for(model, data), torch.device("cuda" if has_gpu() else "cpu")
    # weights that require gradients, as in the run's test: of others, kernels round differently
    network = copy.deepcopy(model.network).requires_grad_(True)
    data.tested_split = split
    levels, calibrations = parse_levels(model.config["levels"]), model.calibrations
    precision = keep_precision(model.config["trainer"]["precision"])
    with computing(network, precision, device) as dtype:

        def forecast(part: str, what: str) -> Iterator[tuple[Batch, Tensor]]:
            """Yield each batch of a split, with the output of the network within the bounds."""
            loader = data.loader(part, device=device)
            for batch in track(loader, what) if progress else loader:
                batch = Batch(*(each.to(dtype) if each.is_floating_point() else each for each in batch))
                output = network(batch.past, batch.past_time, batch.future_time)
                if model.quantiles is not None:
                    output = arrange_quantiles(output, data.n_targets)
                yield batch, data.target_scaler.clip(output, batch.series)

        if model.calibration is None:
            validation = ValidationErrors(data, fitted, levels, device)
            for batch, output in forecast("val", "validation"):
                validation.update(model.point(output), batch)
            calibrations = validation.calibrate()
        test = SplitScorer(data, fitted, calibrations, model.quantiles, levels, device)
        for batch, output in forecast(split, "test"):
            test.update(model.point(output), output, batch)
    results = test.compute()
    facts = {"checkpoint": str(model.path), "data": data.name, "split": split}
    return {**facts, "n_windows": data.n_windows[split], **results.content()}, results


def baselines_for(model: TrainedModel, data: DataModule) -> FittedBaselines:
    """Return the baselines of the run, or fit them to `data`. Raises CheckpointError if neither is possible."""
    if model.baselines is None and "val" not in data.windows:
        raise CheckpointError(
            f"{model.path}: its run was not tested, so it holds no baselines and no calibration; give the folder of a "
            "finished run"
        )
    return model.baselines or FittedBaselines.fit(data)
