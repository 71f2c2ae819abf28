"""The windows of a data module as Lightning's trainer asks for them."""

from typing import Any

import lightning as L

from forecast.data import DataModule, WindowLoader


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
            split,
            rank=trainer.global_rank,
            world_size=trainer.world_size,
            device=trainer.strategy.root_device,
        )

    def state_dict(self) -> dict[str, Any]:
        return self.data.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.data.load_state_dict(state_dict)


def data_of(trainer: L.Trainer) -> DataModule:
    """The data module that the trainer reads."""
    return trainer.datamodule.data  # type: ignore[attr-defined]
