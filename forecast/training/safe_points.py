"""Safe points of a trainer's validation and test, where a run may stop on a signal."""

import signal
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.trainer.states import TrainerFn

from forecast.system import signals


class SafePoints(Callback):
    """End the run between two batches of validation or test if a signal was received.

    When a trainer starts, Lightning wraps the installed SIGTERM handler in its own, which sends a message to the other
    processes from inside the handler and ends the trainer with status 0. This callback restores the handlers from
    before the start. The safe points of training are in `training.checkpointing`.
    """

    def setup(self, trainer: L.Trainer, module: L.LightningModule, stage: str) -> None:
        self._handlers = {number: signal.getsignal(number) for number in signals.SIGNALS}

    def on_sanity_check_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self._restore_handlers()

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self._restore_handlers()

    def on_validation_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self._restore_handlers()

    def on_test_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self._restore_handlers()

    def on_validation_batch_end(self, trainer: L.Trainer, *args: Any, **kwargs: Any) -> None:
        if trainer.state.fn != TrainerFn.FITTING:
            exit_together(trainer, " in validation")

    def on_test_batch_end(self, trainer: L.Trainer, *args: Any, **kwargs: Any) -> None:
        exit_together(trainer, " in the test")

    def _restore_handlers(self) -> None:
        if signals.in_main_thread():
            for number, handler in self._handlers.items():
                signal.signal(number, handler)


def exit_together(trainer: L.Trainer, where: str) -> None:
    """Exit if a signal was received, and send SIGTERM to the processes that Lightning started.

    Raises:
        SystemExit: with status 75.
    """
    if signals.received():
        if trainer.strategy.launcher is not None:
            trainer.strategy.launcher.kill(signal.SIGTERM)
        signals.exit_if_received(where)
