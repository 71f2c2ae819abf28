"""Training windows per second, milliseconds per forecast, and seconds of a run."""

import math
import time
from statistics import median
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback


class Throughput(Callback):
    """Measure training windows per second, logged each epoch, and the time of the model's forecasts in the test.

    Validation is not counted, nor the first training batch, in which models are compiled and memory is allocated.
    """

    def __init__(self) -> None:
        self.windows, self.seconds, self._warm, self._last = 0, 0.0, False, 0.0
        self._forecast_started: float | None = None
        self._seconds_per_window: list[float] = []  # one value per test batch

    def state_dict(self) -> dict[str, int | float]:
        return {"windows": self.windows, "seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.windows, self.seconds = state_dict["windows"], state_dict["seconds"]

    @property
    def windows_per_second(self) -> float:
        return self.windows / self.seconds if self.seconds else math.nan

    @property
    def ms_per_window(self) -> float:
        """Milliseconds that one device needs for the forecast of one test window, the median over the batches."""
        return 1000 * median(self._seconds_per_window) if self._seconds_per_window else math.nan

    def on_train_epoch_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self._last = time.perf_counter()

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        now = time.perf_counter()
        if self._warm:
            self.windows += len(batch.index) * trainer.world_size
            self.seconds += now - self._last
        self._warm, self._last = True, now

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        module.log("windows_per_second", self.windows_per_second, rank_zero_only=True)

    def on_test_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        # On the Lightning module, not on the network: hooks would break the graph of a compiled network.
        self._seconds_per_window = []
        self._hooks = [
            module.register_forward_pre_hook(self._before_forecast),
            module.register_forward_hook(self._after_forecast),
        ]

    def on_test_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        for hook in self._hooks:
            hook.remove()

    def _before_forecast(self, module: torch.nn.Module, inputs: Any) -> None:
        self._forecast_started = synchronized_time(module)

    def _after_forecast(self, module: torch.nn.Module, inputs: Any, forecast: Any) -> None:
        # FSDP calls the Lightning module around its test step too: only the innermost call is a forecast
        if self._forecast_started is not None and len(forecast):
            self._seconds_per_window.append(
                (synchronized_time(module) - self._forecast_started) / len(forecast)
            )
        self._forecast_started = None


class RunTime(Callback):
    """Count the seconds since a run began; a resumed run adds the seconds up to its checkpoint.

    Args:
        so_far: seconds of this process that have passed.
        before: seconds up to the checkpoint that the run resumes.
    """

    def __init__(self, so_far: float = 0.0, before: float = 0.0) -> None:
        self.before, self._began = before, time.perf_counter() - so_far - before

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def state_dict(self) -> dict[str, float]:
        return {"seconds": self.seconds}


def synchronized_time(module: torch.nn.Module) -> float:
    """Return the time in seconds after the module's device has finished its queue."""
    if next(module.parameters()).is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter()
