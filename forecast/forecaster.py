"""The Lightning module: loss, metrics, optimizer, nothing else."""

from collections.abc import Callable, Sequence
from typing import Any

import lightning as L
import torch
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from forecast import __version__
from forecast.conformal import Calibration, enough, every
from forecast.data import Batch
from forecast.errors import ConfigError
from forecast.interval_scores import IntervalSums
from forecast.metrics import SCORES, ErrorSums, window_errors
from forecast.quantiles import Level, arrange, check_levels, pinball, probabilities
from forecast.sharding import shard
from forecast.share import has_share

LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse": F.mse_loss,
    "mae": F.l1_loss,
    "huber": F.huber_loss,
}
QUANTILE = "quantile"
CHUNK = 1 << 24  # quantile forecasts scored at a time


def trained_quantiles(loss: str, levels: Sequence[Level]) -> tuple[float, ...] | None:
    """The probabilities that a model is trained for, with loss=quantile: deciles, and the bounds of the levels."""
    return probabilities(levels) if loss == QUANTILE else None


class Forecaster(L.LightningModule):
    """Train `model(past, past_time, future_time)` and measure it on every window.

    `trainer.validate` calibrates the intervals that `trainer.test` scores, unless they come from a checkpoint.

    Args:
        model: gives scaled forecasts (batch, pred_len, n_targets), or with loss=quantile the raw outputs
            (batch, pred_len, n_targets · quantiles) that `forecast.quantiles.arrange` puts in order.
        loss: one of `LOSSES`, or quantile; the point forecast is then the median.
        levels: the intervals, in percent, that a test scores.
        new_errors: makes the sums that a pass over a split is measured with.
        config: the run's whole configuration as plain values; kept in checkpoints, sent to the loggers.
        optimizer: called with the parameters; None: for testing only.
        schedule: called with the optimizer and the number of optimizer steps to come (see `forecast.schedule`).
    """

    errors: ErrorSums
    """Sums over the split last measured, over all processes once its epoch has ended."""
    validation_windows: Tensor
    """MSE of each validation window (n_windows,), in training, of a model that begins with a linear map."""
    test_windows: Tensor
    """MSE and MAE of each test window (n_windows, 2)."""
    intervals: dict[str, IntervalSums]
    """Of the split last tested, by method: conformal, and quantile where the model is trained for that."""

    def __init__(
        self,
        model: nn.Module,
        *,
        loss: str = "mse",
        levels: Sequence[Level] = (),
        new_errors: Callable[[], ErrorSums],
        config: dict[str, Any],
        optimizer: Callable[..., Optimizer] | None = None,
        schedule: Callable[..., dict[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        self.save_hyperparameters(config)
        if loss not in (*LOSSES, QUANTILE):
            raise ConfigError(f"loss={loss} is unknown; choose one of {', '.join((*LOSSES, QUANTILE))}")
        self.model = model
        # true where the model before its first step is tested: its quantiles are no one's
        self.is_untrained = False
        self.levels, self.quantiles = check_levels(levels), trained_quantiles(loss, levels)
        self.loss = LOSSES.get(loss, self._quantile_loss)
        self.calibration: Calibration | None = None
        self.make_optimizer, self.make_schedule, self.new_errors = optimizer, schedule, new_errors

    def forward(self, batch: Batch) -> Tensor:
        """Scaled point forecasts (batch, pred_len, n_targets), or with loss=quantile quantiles, one more axis."""
        raw = self.model(batch.past, batch.past_time, batch.future_time)
        return raw if self.quantiles is None else arrange(raw, batch.future.shape[-1])

    def point(self, forecast: Tensor) -> Tensor:
        """The point forecast, (batch, pred_len, n_targets): the median of quantiles."""
        return forecast if self.quantiles is None else forecast[..., len(self.quantiles) // 2]

    def configure_model(self) -> None:
        shard(self.model, self.trainer)

    def on_train_start(self) -> None:
        """The rate that the schedule gives the next step: a run that goes on from another has more steps to come."""
        schedule = self.lr_schedulers()
        if isinstance(schedule, LambdaLR):
            rates = zip(schedule.base_lrs, schedule.lr_lambdas, strict=True)
            for group, (base, factor) in zip(schedule.optimizer.param_groups, rates, strict=True):
                group["lr"] = base * factor(schedule.last_epoch)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        return self.loss(self(batch), batch.future)

    def _quantile_loss(self, quantiles: Tensor, target: Tensor) -> Tensor:
        assert self.quantiles is not None
        return pinball(quantiles, target, self.quantiles).mean()

    def on_validation_epoch_start(self) -> None:
        self.errors = self.new_errors()
        if self._is_calibrating:
            data = self.trainer.datamodule  # type: ignore[attr-defined]
            self._stride = every(data.n_windows["val"], size=data.pred_len * data.n_targets)
            windows = -(-data.n_windows["val"] // self._stride)
            self._validation_errors = torch.zeros(windows, data.pred_len, data.n_targets)
        elif has_share(self):
            n_windows = self.trainer.datamodule.n_windows["val"]  # type: ignore[attr-defined]
            self.validation_windows = torch.zeros(n_windows)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        prediction = self.point(self(batch))
        self.errors.update(prediction, batch.future, self._series("val", batch))
        if self._is_calibrating:
            stride, index = self._stride, batch.index.cpu()
            kept = index % stride == 0
            error = (batch.future - prediction).float().cpu()
            self._validation_errors[index[kept] // stride] = error[kept]
        elif has_share(self):
            mse = (prediction.float() - batch.future).square().flatten(1).mean(1)
            self.validation_windows[batch.index.cpu()] = mse.float().cpu()

    def on_validation_epoch_end(self) -> None:
        self._sum_errors()
        if self._is_calibrating:
            errors = self._sum_over_processes(self._validation_errors)
            self.calibration = Calibration.fit(errors, self.levels)
            del self._validation_errors
        else:
            if has_share(self):
                self.validation_windows = self._sum_over_processes(self.validation_windows)
            self._log_scores("val", ("mse", "mae"))

    @property
    def _is_calibrating(self) -> bool:
        return self.trainer.state.fn == TrainerFn.VALIDATING

    def on_test_epoch_start(self) -> None:
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        self.errors = self.new_errors()
        self.test_windows = torch.zeros(data.n_windows[data.tested], 2, dtype=torch.float64)
        assert self.calibration is not None, "trainer.validate calibrates, and comes before trainer.test"
        own = None if self.is_untrained else self.quantiles
        methods = {"conformal": self.calibration.quantiles, QUANTILE: own}
        levels, scale = enough(self.calibration, self.levels), data.target_scaler.scale
        self.intervals = {name: IntervalSums(at, levels, scale) for name, at in methods.items() if at}

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        forecast = self(batch)
        prediction = self.point(forecast)
        series = self._series(self.trainer.datamodule.tested, batch)  # type: ignore[attr-defined]
        self.errors.update(prediction, batch.future, series)
        self.test_windows[batch.index.cpu()] = window_errors(prediction, batch.future)
        assert self.calibration is not None
        at_once = max(1, CHUNK // (prediction.shape[1:].numel() * len(self.calibration.quantiles)))
        parts = (tensor.split(at_once) for tensor in (prediction, forecast, batch.future, series))
        for point, own, future, which in zip(*parts, strict=True):
            self.intervals["conformal"].update(self.calibration.around(point.float()), future, which)
            if QUANTILE in self.intervals:
                self.intervals[QUANTILE].update(own, future, which)

    def _series(self, split: str, batch: Batch) -> Tensor:
        """The series that each window lies in (batch,)."""
        return self.trainer.datamodule.windows[split].series(batch.index.cpu())  # type: ignore[attr-defined]

    def on_test_epoch_end(self) -> None:
        self._sum_errors()
        self._log_scores("test", SCORES)
        self.test_windows = self._sum_over_processes(self.test_windows)
        for sums in self.intervals.values():
            for name in ("pinball", "inside", "width", "width_raw", "count"):
                setattr(sums, name, self._sum_over_processes(getattr(sums, name)))

    def _sum_errors(self) -> None:
        for name in self.errors.totals:
            setattr(self.errors, name, self._sum_over_processes(getattr(self.errors, name)))

    def _log_scores(self, split: str, names: Sequence[str]) -> None:
        scores = self.errors.scores()
        for name in names:
            self.log(f"{split}/{name}", scores[name], rank_zero_only=False, prog_bar=split == "val")

    def _sum_over_processes(self, tensor: Tensor) -> Tensor:
        if self.trainer.world_size == 1:
            return tensor.cpu()
        return self.trainer.strategy.reduce(tensor.to(self.device), reduce_op="sum").cpu()  # type: ignore[union-attr]

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        state = checkpoint.get("calibration")
        self.calibration = Calibration.from_state_dict(state) if state else None

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["forecast_version"] = __version__

    def configure_optimizers(self) -> OptimizerLRScheduler:
        assert self.make_optimizer is not None
        assert self.make_schedule is not None
        optimizer = self.make_optimizer(self.parameters())
        if (
            self.trainer.precision == "bf16-mixed"
        ):  # no loss scale to undo, so Lightning may clip a fused one's gradients
            optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]
        # Lightning's own estimate would start the loader before its place in an interrupted epoch is known
        batches = len(self.trainer.datamodule.train_dataloader())  # type: ignore[attr-defined]
        limit = self.trainer.limit_train_batches
        batches = int(batches * limit) if isinstance(limit, float) else min(batches, limit)
        steps = -(-batches // self.trainer.accumulate_grad_batches) * (self.trainer.max_epochs or 1)
        schedule = self.make_schedule(optimizer, steps)
        return {"optimizer": optimizer, "lr_scheduler": schedule}  # type: ignore[return-value]
