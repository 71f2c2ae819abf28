"""The Lightning module: loss, metrics, optimizer, nothing else."""

from collections.abc import Callable
from typing import Any

import lightning as L
import torch
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from forecast import __version__
from forecast.data.windows import Batch
from forecast.errors import ConfigError
from forecast.metrics import ErrorSums, window_errors

LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse": F.mse_loss,
    "mae": F.l1_loss,
    "huber": F.huber_loss,
}


class Forecaster(L.LightningModule):
    """Train `model(past, past_time, future_time)` and measure it on every window.

    Args:
        model: gives scaled forecasts (batch, pred_len, n_targets).
        loss: one of `LOSSES`.
        optimizer: called with the parameters.
        schedule: called with the optimizer and the number of optimizer steps to come (see `forecast.schedule`).
        new_errors: makes the sums that a pass over a split is measured with.
        config: the run's whole configuration as plain values; kept in checkpoints, sent to the loggers.
    """

    errors: ErrorSums
    """Sums over the split last measured, over all processes once its epoch has ended."""
    test_windows: Tensor
    """MSE and MAE of each test window (n_windows, 2)."""

    def __init__(
        self,
        model: nn.Module,
        *,
        loss: str = "mse",
        optimizer: Callable[..., Optimizer],
        schedule: Callable[..., dict[str, Any]],
        new_errors: Callable[[], ErrorSums],
        config: dict[str, Any],
    ) -> None:
        super().__init__()
        self.save_hyperparameters(config)
        if loss not in LOSSES:
            raise ConfigError(f"loss={loss} is unknown; choose one of {', '.join(LOSSES)}")
        self.model = model
        self.loss = LOSSES[loss]
        self.make_optimizer, self.make_schedule, self.new_errors = optimizer, schedule, new_errors

    def forward(self, batch: Batch) -> Tensor:
        return self.model(batch.past, batch.past_time, batch.future_time)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss = self.loss(self(batch), batch.future)
        self.log(
            "train/loss", loss, on_step=False, on_epoch=True, batch_size=len(batch.future), sync_dist=True
        )
        return loss

    def on_validation_epoch_start(self) -> None:
        self.errors = self.new_errors()

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self.errors.update(self(batch), batch.future)

    def on_validation_epoch_end(self) -> None:
        self._measure("val")

    def on_test_epoch_start(self) -> None:
        self.errors = self.new_errors()
        windows = self.trainer.datamodule.n_windows["test"]  # type: ignore[attr-defined]
        self.test_windows = torch.zeros(windows, 2, dtype=torch.float64)

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        prediction = self(batch)
        self.errors.update(prediction, batch.future)
        self.test_windows[batch.index.cpu()] = window_errors(prediction, batch.future)

    def on_test_epoch_end(self) -> None:
        self._measure("test")
        self.test_windows = self._sum_over_processes(self.test_windows)

    def _measure(self, split: str) -> None:
        self.errors.sums = self._sum_over_processes(self.errors.sums)
        self.errors.count = self._sum_over_processes(self.errors.count)
        for name, score in self.errors.scores().items():
            if split == "test" or name in ("mse", "mae"):
                self.log(f"{split}/{name}", score, rank_zero_only=False, prog_bar=split == "val")

    def _sum_over_processes(self, tensor: Tensor) -> Tensor:
        if self.trainer.world_size == 1:
            return tensor.cpu()
        return self.trainer.strategy.reduce(tensor.to(self.device), reduce_op="sum").cpu()  # type: ignore[union-attr]

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["forecast_version"] = __version__

    def configure_optimizers(self) -> OptimizerLRScheduler:
        optimizer = self.make_optimizer(self.parameters())
        if (
            self.trainer.precision == "bf16-mixed"
        ):  # no loss scale to undo, so Lightning may clip a fused one's gradients
            optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]
        schedule = self.make_schedule(optimizer, int(self.trainer.estimated_stepping_batches))
        return {"optimizer": optimizer, "lr_scheduler": schedule}  # type: ignore[return-value]
