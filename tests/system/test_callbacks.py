"""The moving average of the weights, which is validated and saved while training goes on, and the table of epochs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning as L
import pandas as pd
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from forecast.training.callbacks import AverageWeights, EpochTable

DECAY, EPOCHS, ACCUMULATED = 0.7, 3, 2
QUIET: dict[str, Any] = dict.fromkeys(
    ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
)


class Regression(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 1)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        return (self.layer(x) - y).square().mean()

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        pass

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.1)


class Recorder(Callback):
    """Keep the weights after each step, and those that are validated."""

    def __init__(self, saves: Path) -> None:
        self.saves = saves
        self.trained: list[Tensor] = []
        self.validated: list[Tensor] = []

    def on_train_batch_end(self, trainer: L.Trainer, module: L.LightningModule, *args: object) -> None:
        if len(self.trained) < trainer.global_step:
            self.trained.append(copy_weights(module))

    def on_validation_batch_end(self, trainer: L.Trainer, module: L.LightningModule, *args: object) -> None:
        self.validated.append(copy_weights(module))

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        trainer.save_checkpoint(self.saves / f"{trainer.current_epoch}.ckpt")


def copy_weights(module: L.LightningModule) -> Tensor:
    return torch.cat([weights.detach().flatten().clone() for weights in module.parameters()])


def train(saves: Path, decay: float | None, resumed: Path | None = None) -> tuple[Tensor, Recorder]:
    saves.mkdir()
    x = torch.randn(24, 3, generator=torch.Generator().manual_seed(1))
    windows = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=6)
    module, recorder = Regression(), Recorder(saves)
    trainer = L.Trainer(
        max_epochs=EPOCHS, accelerator="cpu", callbacks=[AverageWeights(decay), recorder],
        accumulate_grad_batches=ACCUMULATED, num_sanity_val_steps=1, **QUIET,
    )  # fmt: skip
    trainer.fit(module, windows, DataLoader(TensorDataset(x[:1]), batch_size=1), ckpt_path=resumed)
    return copy_weights(module), recorder


def test_the_average_is_validated_and_saved_and_is_what_remains(tmp_path: Path) -> None:
    without, plain = train(tmp_path / "without", None)
    final, recorder = train(tmp_path / "averaged", DECAY)
    assert torch.equal(torch.stack(recorder.trained), torch.stack(plain.trained)), "training itself is unchanged"
    average, averages = recorder.trained[0], []
    for k, weights in enumerate(recorder.trained, start=1):
        decay = min(DECAY, (1 + k) / (10 + k))
        average = decay * average + (1 - decay) * weights
        averages.append(average)
    steps = len(averages) // EPOCHS
    assert steps == 24 // 6 // ACCUMULATED
    first, *validated = recorder.validated
    assert torch.equal(first, plain.validated[0]), "before training there is no average"
    for epoch, weights in enumerate(validated):
        torch.testing.assert_close(weights, averages[steps * (epoch + 1) - 1])
    torch.testing.assert_close(final, averages[-1])
    assert not torch.allclose(final, without)
    saved = torch.load(tmp_path / "averaged" / "1.ckpt")
    torch.testing.assert_close(
        torch.cat([each.flatten() for each in saved["state_dict"].values()]), averages[2 * steps - 1]
    )
    kept = torch.cat([each.flatten() for each in saved["trained_weights"]])
    assert torch.equal(kept, recorder.trained[2 * steps - 1])


def test_training_that_goes_on_from_a_checkpoint_ends_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    whole, recorder = train(tmp_path / "whole", DECAY)
    resumed, again = train(tmp_path / "resumed", DECAY, tmp_path / "whole" / "0.ckpt")
    assert torch.equal(resumed, whole)
    assert torch.equal(again.validated[-1], recorder.validated[-1])


class Slope(L.LightningModule):
    """A loss w · x, whose gradient is x."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return self.weight @ batch.slope

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.0)


def test_losses_are_means_over_windows_and_gradients_over_steps(tmp_path: Path) -> None:
    batches = [
        SimpleNamespace(slope=torch.tensor([3.0, 4.0]), index=range(1)),
        SimpleNamespace(slope=torch.tensor([0.0, 1.0]), index=range(3)),
    ]
    trainer = L.Trainer(
        max_epochs=1, accelerator="cpu", gradient_clip_val=0.1, callbacks=[EpochTable(str(tmp_path / "metrics.csv"))],
        **QUIET,
    )  # fmt: skip
    trainer.fit(Slope(), DataLoader(batches, batch_size=None))  # type: ignore[arg-type]
    found = pd.read_csv(tmp_path / "metrics.csv").iloc[0]
    assert found["train/loss"] == pytest.approx((7 + 3 * 1) / 4)
    assert found["train/grad_norm"] == pytest.approx((5 + 1) / 2)
