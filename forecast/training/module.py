"""The Lightning module: losses, metrics and optimizer; the windows that it reads; forecasts outside of the trainer."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import lightning as L
import torch
from jaxtyping import Float
from lightning.pytorch.strategies import ModelParallelStrategy
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn import functional as F
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from forecast import __version__
from forecast.data import Batch, DataModule, WindowLoader
from forecast.data.scaler import Scaler
from forecast.evaluation.baselines import FittedBaselines
from forecast.evaluation.conformal import Calibration
from forecast.evaluation.errors import Errors, window_errors
from forecast.evaluation.intervals import pinball
from forecast.evaluation.measurement import Results, SplitScorer, ValidationErrors, new_sums
from forecast.evaluation.scores import MODEL, Level, parse_levels, trained_quantiles
from forecast.models import ForecastModel
from forecast.models.layers import sum_over_processes
from forecast.models.linear_model import Targets
from forecast.models.residual import Output, arrange_quantiles, take_median
from forecast.training.preparation import LOSSES


class Forecaster(L.LightningModule):
    """Train `model(past, past_time, future_time)` and measure it on every window.

    `trainer.validate` calibrates the intervals of the model and of the baselines that `trainer.test` scores.

    Args:
        model: gives scaled forecasts (batch, pred_len, n_targets), or with loss=quantile the raw outputs
            (batch, pred_len, n_targets · quantiles) that `models.residual.arrange_quantiles` puts in order.
        loss: see `make_loss`; with `quantile`, the point forecast is the median.
        levels: levels of the intervals that a test scores, in percent.
        fitted: the baselines that a test measures beside the model, and the denominators of MASE.
        config: the run's whole configuration as plain values; kept in checkpoints, sent to the loggers.
        optimizer: called with the parameters; None: for testing only.
        schedule: called with the optimizer and the number of optimizer steps to come (see `training.schedules`).
    """

    errors: dict[str, Errors]
    """Errors on the split measured last, by name: the model, and after a test every baseline."""
    validation_losses: Tensor
    """Losses of each validation window (n_windows, losses), see `window_losses`; the mean of the last column is
    the value of `validation_metric`. Measured of quantiles, and in training of models with a shrinkage weight."""
    validation_scores: dict[str, float]
    """Scores on the validation windows when they were last measured: `mse`, `mae` and that of `selecting_score`."""
    baseline_calibrations: dict[str, Calibration]
    """Calibration of each baseline, by name, after `trainer.validate`."""
    results: Results
    """Results of the last test."""
    seconds_per_window: list[float]
    """Seconds that one device needed for the forecast of a window, for each batch of the last test."""

    def __init__(
        self,
        model: ForecastModel,
        *,
        loss: str = "mse",
        levels: Sequence[Level] = (),
        fitted: FittedBaselines,
        config: dict[str, Any],
        optimizer: Callable[..., Optimizer] | None = None,
        schedule: Callable[..., dict[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        self.save_hyperparameters(config)
        self.model = model
        self.is_untrained = False  # True if the warm start alone is tested: its quantiles were never trained
        self.levels, self.quantiles = parse_levels(levels), trained_quantiles(loss, levels)
        self.loss = make_loss(loss, self.quantiles)
        self.calibration: Calibration | None = None
        self.added: dict[str, Any] = {}  # further entries of checkpoints
        self.make_optimizer, self.make_schedule, self.fitted = optimizer, schedule, fitted

    def forward(self, batch: Batch) -> Tensor:
        """Return scaled forecasts (batch, pred_len, n_targets); with loss=quantile, a fourth axis of quantiles."""
        raw = self.model(batch.past, batch.past_time, batch.future_time)
        return raw if self.quantiles is None else arrange_quantiles(raw, batch.future.shape[-1])

    def point(self, forecast: Tensor) -> Tensor:
        """Return the point forecast (batch, pred_len, n_targets), which is the median of quantiles."""
        return take_median(forecast, self.quantiles)

    def configure_model(self) -> None:
        """Shard the weights if the trainer's strategy is FSDP; a second call does nothing.

        Each layer is one unit, so that its weights are gathered only while it is computed. Layers that share an
        attention form one unit.
        """
        if not isinstance(self.trainer.strategy, ModelParallelStrategy) or is_sharded(self.model):
            return
        layers = self.model.shardable_layers()
        own = [parameter for layer in layers for parameter in layer.parameters()]
        if len(own) == len(set(own)):
            for layer in layers:
                fully_shard(layer)
        fully_shard(self.model)

    def on_train_start(self) -> None:
        """Set the learning rate of the next step from the schedule, which a continued run makes for more steps."""
        schedule = self.lr_schedulers()
        if isinstance(schedule, LambdaLR):
            rates = zip(schedule.base_lrs, schedule.lr_lambdas, strict=True)
            for group, (base, factor) in zip(schedule.optimizer.param_groups, rates, strict=True):
                group["lr"] = base * factor(schedule.last_epoch)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        forecast, target = self(batch), batch.future
        if self.data.panel.has_missing:
            forecast, target = keep_measured(forecast, target)
        return self.loss(forecast, target)

    @property
    def selecting_score(self) -> str:
        """The validation score that selects the best epoch: the loss of trained quantiles, or the MSE."""
        return "mse" if self.quantiles is None else "quantile_loss"

    @property
    def validation_metric(self) -> str:
        """The name under which `selecting_score` is logged."""
        return f"val/{self.selecting_score}"

    def on_validation_epoch_start(self) -> None:
        self._sums = new_sums(self.fitted, self.data, self.device)
        if self._measures_windows:
            n_losses = 1 if self.quantiles is None else 2
            self.validation_losses = torch.zeros(self.data.n_windows["val"], n_losses)
        if self._is_calibrating:
            self._validation = ValidationErrors(self.data, self.fitted, self.levels, self.device)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        forecast = self._forecast_untrained(batch) if self.trainer.sanity_checking else None
        forecast = self.data.target_scaler.clip(self(batch) if forecast is None else forecast, batch.series)
        point = self.point(forecast)
        self._sums.update(point, batch.future, batch.series)
        if self._measures_windows:
            losses = window_losses(forecast, batch, self.data.target_scaler, self.quantiles)
            self.validation_losses[batch.index.cpu()] = losses
        if self._is_calibrating:
            self._validation.update(point, batch)

    def _forecast_untrained(self, batch: Batch) -> Tensor | None:
        """Forecast without the correction of the point forecast; None for a model without a warm start.

        Quantiles keep their distances, which shrinkage does not change.
        """
        point = self.model.forecast_untrained(batch.past, batch.past_time, batch.future_time)
        if point is None or self.quantiles is None:
            return point
        trained = self(batch)
        return trained + (point - self.point(trained))[..., None]

    def on_validation_epoch_end(self) -> None:
        self.errors = {MODEL: self._sums.compute()}
        scores = self.errors[MODEL].scores()
        self.validation_scores = {name: scores[name] for name in ("mse", "mae")}
        if self._measures_windows:
            losses = sum_over_processes(self.validation_losses.to(self.device)).cpu()
            self.validation_losses = losses / self.errors[MODEL].observed_fraction
        if self.quantiles is not None:
            self.validation_scores["quantile_loss"] = self.validation_losses[:, -1].mean().item()
        if self._is_calibrating:
            found = self._validation.calibrate()
            self.calibration, self.baseline_calibrations = found.pop(MODEL), found
            del self._validation
            return
        self._log_scores("val", self.validation_scores)

    @property
    def _measures_windows(self) -> bool:
        has_weight = self.model.shrinkage is not None and not self._is_calibrating
        return self.quantiles is not None or has_weight

    @property
    def _is_calibrating(self) -> bool:
        return self.trainer.state.fn == TrainerFn.VALIDATING

    def on_test_epoch_start(self) -> None:
        assert self.calibration is not None, "trainer.validate calibrates, and comes before trainer.test"
        calibrations = {MODEL: self.calibration, **self.baseline_calibrations}
        trained = None if self.is_untrained else self.quantiles
        self._test = SplitScorer(self.data, self.fitted, calibrations, trained, self.levels, self.device)
        self.seconds_per_window = []

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        began = self._read_clock()
        forecast = self(batch)
        if len(forecast):
            self.seconds_per_window.append((self._read_clock() - began) / len(forecast))
        forecast = self.data.target_scaler.clip(forecast, batch.series)
        self._test.update(self.point(forecast), forecast, batch)

    def on_test_epoch_end(self) -> None:
        self.results = self._test.compute()
        self.errors = self.results.errors
        self._log_scores("test", self.results.scores[MODEL])

    def _read_clock(self) -> float:
        """The time once the device has finished its work."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    @property
    def data(self) -> DataModule:
        return self.trainer.datamodule.data  # type: ignore[attr-defined]

    def _log_scores(self, split: str, scores: Mapping[str, float]) -> None:
        for name, score in scores.items():
            self.log(f"{split}/{name}", score, rank_zero_only=False, prog_bar=split == "val")

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint.update(self.added, forecast_version=__version__, folder=os.getcwd())

    def configure_optimizers(self) -> OptimizerLRScheduler:
        assert self.make_optimizer is not None
        assert self.make_schedule is not None
        optimizer = self.make_optimizer(self.parameters())
        if self.trainer.precision == "bf16-mixed":
            # bf16 has no loss scale to undo, so Lightning may clip the gradients of a fused optimizer
            optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]
        # Lightning's own estimate would start the loader before its place in an interrupted epoch is known
        batches = len(self.data.loader("train", world_size=self.trainer.world_size))
        limit = self.trainer.limit_train_batches
        batches = int(batches * limit) if isinstance(limit, float) else min(batches, limit)
        # a refit trains for fewer epochs than those of the configuration, for which the schedule is made
        epochs = self.hparams["trainer"]["max_epochs"]
        steps = -(-batches // self.trainer.accumulate_grad_batches) * epochs
        schedule = self.make_schedule(optimizer, steps)
        if "monitor" in schedule:
            schedule["monitor"] = schedule["monitor"] or self.validation_metric
        return {"optimizer": optimizer, "lr_scheduler": schedule}  # type: ignore[return-value]


# ---- losses


def make_loss(name: str, quantiles: tuple[float, ...] | None) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the loss of a forecast and its target: one of `LOSSES`, or the mean pinball loss of the quantiles."""
    if quantiles is None:
        return getattr(F, LOSSES[name])
    return lambda forecast, target: pinball(forecast, target, quantiles).mean()


def keep_measured(forecast: Output, target: Targets) -> tuple[Float[Tensor, "values ..."], Float[Tensor, " values"]]:
    """Select the forecasts whose true value was measured, and these values; one zero of each if there is none."""
    measured = ~target.isnan()
    if not measured.any():
        return 0 * forecast.flatten(0, 2)[:1], torch.zeros_like(target.flatten()[:1])
    return forecast[measured], target[measured]


def window_losses(
    forecast: Output, batch: Batch, scaler: Scaler, quantiles: tuple[float, ...] | None
) -> Float[Tensor, "batch losses"]:
    """Compute the losses of each window: the MSE, or the MAE of the median and the mean pinball loss of quantiles.

    The last one selects the best epoch, the first one the shrinkage weight. Missing true values have a loss of 0. Those
    of a target with a transform are losses on the scale that it has without it, as the scores are.
    """
    if quantiles is None:
        return window_errors(forecast, batch.future, scaler, batch.series)[:, :1].float()
    median = take_median(forecast, quantiles)
    absolute = window_errors(median, batch.future, scaler, batch.series)[:, 1].float()
    values, truth = (scaler.error_values(each, batch.series).float() for each in (forecast, batch.future))
    losses = pinball(values, truth, quantiles).mean(-1)
    losses = torch.where(truth.isnan(), 0.0, losses).flatten(1).mean(1)
    return torch.stack([absolute, losses.cpu()], dim=1)


# ---- data and sharded weights


class LightningData(L.LightningDataModule):
    """Serve the windows of `data` to a trainer, each process its part, and keep its state in checkpoints."""

    def __init__(self, data: DataModule) -> None:
        super().__init__()
        self.data = data

    def prepare_data(self) -> None:
        self.data.prepare_data()

    def setup(self, stage: str) -> None:
        self.data.setup()

    def train_dataloader(self) -> WindowLoader:
        return self._loader("train")

    def val_dataloader(self) -> WindowLoader:
        return self._loader("val")

    def test_dataloader(self) -> WindowLoader:
        return self._loader(self.data.tested_split)

    def _loader(self, split: str) -> WindowLoader:
        trainer = self.trainer
        assert trainer is not None
        return self.data.loader(
            split, rank=trainer.global_rank, world_size=trainer.world_size, device=trainer.strategy.root_device
        )

    def state_dict(self) -> dict[str, Any]:
        """The state that `train_on` gives the data of a run that starts from a checkpoint."""
        return self.data.state_dict()


def is_sharded(model: ForecastModel) -> bool:
    return isinstance(model, FSDPModule)


def load_whole(model: ForecastModel, content: dict[str, Any]) -> ForecastModel:
    """Load a checkpoint's weights into the unsharded `model`, which one process can evaluate alone; return it."""
    weights = content["state_dict"]
    model.load_state_dict({name.removeprefix("model."): value for name, value in weights.items()})
    return model


def predict(forecaster: Forecaster, batch: Batch) -> Tensor:
    """Compute scaled point forecasts in the precision of the weights."""
    return forecaster.point(compute_output(forecaster, batch))


@torch.no_grad()
def compute_output(forecaster: Forecaster, batch: Batch) -> Tensor:
    """Compute the scaled output of the model, with quantiles if it has any, in the precision of the weights."""
    forecaster.eval()
    weights = next(forecaster.parameters())
    device = batch.past.device
    past, past_time, future, future_time = (part.to(weights) for part in batch[:4])
    # not compiled: there are too few windows, and they may be on another device
    with torch.compiler.set_stance("force_eager"):
        batch = Batch(past, past_time, future, future_time, batch.index, batch.series)
        return forecaster(batch).to(device)


def count_flops(forecaster: Forecaster, batch: Batch) -> int:
    """Count the floating-point operations of the matrix products and convolutions that forecast `batch`."""

    def count_fused(query: Any, key: Any, value: Any, *settings: Any, **outputs: Any) -> int:
        return sdpa_flop_count(query, key, value)

    # PyTorch's counter does not know this operation
    operation = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    with FlopCounterMode(display=False, custom_mapping={operation: count_fused}) as counter:
        compute_output(forecaster, batch)
    return counter.get_total_flops()
