# pyright: reportMissingImports=false
"""Test scores of all Informers on ETTh1, 48/48→24, all columns from all, on the same windows in the same order."""

import copy
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from hydra.utils import instantiate
from omegaconf import DictConfig

from forecast.cli.compose import compose_config
from forecast.data.module import DataModule
from forecast.data.windows import Batch
from forecast.system.errors import TrainingError

from .models import NeuralforecastInformer, TransformersInformer
from .options import Sizes

EXPERIMENT = "experiment=informer2020/etth1_m_24"
PRECISIONS = {"float32": "32-true", "bfloat16": "bf16-mixed"}
Row = dict[str, Any]


def load_data(data_root: Path) -> tuple[DictConfig, DataModule]:
    """Return the configuration of the experiment, and its data."""
    config = compose_config(EXPERIMENT)
    config.data.root = str(data_root)
    data = instantiate(config.data)
    data.prepare_data()
    data.setup()
    return config, data


def ours(sizes: Sizes, data_root: Path, epochs: int, precision: str) -> Row:
    """Run `python -m forecast.train` in a new process, and return its scores."""
    with tempfile.TemporaryDirectory() as folder:
        overrides = [
            EXPERIMENT, "attention=probsparse", f"data.root={data_root}", f"output_root={folder}", "logger=[]",
            f"trainer.max_epochs={epochs}", f"callbacks.early_stopping.patience={epochs}",
            f"trainer.precision={PRECISIONS[precision]}", "trainer.accelerator=cpu", f"model.dropout={sizes.dropout}",
            f"model.d_model={sizes.d_model}", f"model.n_heads={sizes.n_heads}", f"model.d_ff={sizes.d_ff}",
        ]  # fmt: skip
        command = [sys.executable, "-m", "forecast.train", *overrides]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            reason = result.stderr.strip().splitlines()[-1].removeprefix("error: ")
            raise TrainingError(f"forecast.train: {reason}")
        (path,) = Path(folder).glob("*/metrics.json")
        metrics = json.loads(path.read_text())
    return {
        "model": "ours, probsparse",
        "precision": precision,
        "parameters": metrics["n_parameters"],
        "test_mse": metrics["test"]["mse"],
        "test_mae": metrics["test"]["mae"],
    }


def peers(sizes: Sizes, config: DictConfig, data: DataModule, epochs: int) -> Iterable[Row]:
    """Train and score the Informers of neuralforecast and transformers."""
    schedule = instantiate(config.schedule)
    window = {"seq_len": config.seq_len, "pred_len": config.pred_len, "factor": config.factor}
    torch.manual_seed(config.seed)
    peer = NeuralforecastInformer(sizes, label_len=config.label_len, **window)
    yield train(peer, data, epochs, config.optimizer.lr, schedule)
    torch.manual_seed(config.seed)
    peer = TransformersInformer(sizes, columns=data.n_features, **window)
    yield train(peer, data, epochs, config.optimizer.lr, schedule)


def train(
    peer: NeuralforecastInformer | TransformersInformer,
    data: DataModule,
    epochs: int,
    lr: float,
    schedule: Any,
) -> Row:
    """Train a model and test its epoch with the lowest validation MSE, as `forecast.train` does."""
    loader, model = data.loader("train"), peer.model
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
    rate = schedule(optimizer, total_steps=epochs * len(loader))["scheduler"]
    lowest, weights = math.inf, model.state_dict()
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        model.train()
        for batch in loader:
            optimizer.zero_grad()
            peer.loss(batch).backward()
            optimizer.step()
        rate.step()
        mse, _ = scores(peer, data.loader("val"))
        print(f"{peer.name}: epoch {epoch + 1} of {epochs}, validation MSE {mse:.3f}", file=sys.stderr)
        if mse < lowest:
            lowest, weights = mse, copy.deepcopy(model.state_dict())
    model.load_state_dict(weights)
    mse, mae = scores(peer, data.loader("test"))
    return {
        "model": peer.name,
        "precision": "float32",
        "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "test_mse": mse,
        "test_mae": mae,
    }


@torch.no_grad()
def scores(
    peer: NeuralforecastInformer | TransformersInformer, batches: Iterable[Batch]
) -> tuple[float, float]:
    """Return MSE and MAE on scaled values over all windows."""
    peer.model.eval()
    squared, absolute, count = 0.0, 0.0, 0
    for batch in batches:
        error = (peer.predict(batch) - batch.future).double()
        squared += error.square().sum().item()
        absolute += error.abs().sum().item()
        count += error.numel()
    return squared / count, absolute / count
