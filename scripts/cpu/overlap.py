"""Accuracy of the sampled ranking of ProbSparse: the fraction of the exact top u that it finds in a trained encoder."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch import Tensor

from forecast.attention import ProbSparseAttention
from forecast.attention.probsparse import sample_size, sparsity_measure
from forecast.checkpoints.file import load_checkpoint
from forecast.checkpoints.find import find_checkpoint
from forecast.data.windows import Batch
from forecast.training.create_model import create_model

FACTOR = 5


def overlaps(seq_len: int, data: list[str], batches: int) -> dict[str, Any]:
    """Return the mean fraction of the exact top u that each sampling finds, over windows, heads and encoder layers."""
    with tempfile.TemporaryDirectory() as folder:
        said = [
            "model=informer", f"seq_len={seq_len}", f"label_len={min(48, seq_len)}", "pred_len=24", *data,
            "trainer.max_epochs=1",
            f"+trainer.limit_train_batches={batches}", "data.eval_stride=24", "logger=[]", f"output_root={folder}",
            f"factor={FACTOR}",
        ]  # fmt: skip
        subprocess.run([sys.executable, "-m", "forecast.train", *said], check=True, stdout=subprocess.DEVNULL)
        (run,) = Path(folder).iterdir()
        checkpoint = load_checkpoint(find_checkpoint(run))
    config, state = OmegaConf.create(checkpoint["hyper_parameters"]), checkpoint["state_dict"]
    module = instantiate(config.data)
    module.prepare_data()
    module.setup()
    model = create_model(
        config.model,
        n_features=module.n_features,
        n_targets=module.n_targets,
        n_time_features=module.n_time_features,
    )
    model.load_state_dict({name.removeprefix("model."): value for name, value in state.items()})
    seen: list[tuple[Tensor, Tensor]] = []
    for layer in model.encoder.layers:
        assert isinstance(layer.attention, ProbSparseAttention)
        layer.attention.mix = remember(layer.attention.mix, seen)
    windows = module.windows["test"]
    batch: Batch = windows.gather(torch.linspace(0, len(windows) - 1, 16).long())
    with torch.no_grad():
        model.eval()(batch.past, batch.past_time, batch.future_time)
    torch.manual_seed(0)
    found = {
        "shared, training": found_fraction(seen, sampling="shared", random=True),
        "shared, evaluation": found_fraction(seen, sampling="shared"),
        "per_query, training": found_fraction(seen, sampling="per_query", random=True),
    }
    return {"length": seq_len, "data": config.data.name, "overlap": found}


def remember(mix, seen: list[tuple[Tensor, Tensor]]):
    def wrapped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        seen.append((q, k))
        return mix(q, k, v)

    return wrapped


def found_fraction(seen: list[tuple[Tensor, Tensor]], **sampling) -> float:
    """|top u by the sample ∩ top u by all keys| / u."""
    fractions = []
    for q, k in seen:
        every_key = torch.arange(k.shape[2])
        top = sample_size(FACTOR, q.shape[2])
        exact, sampled = (
            measure.topk(top).indices
            for measure in (
                sparsity_measure(q, k, sample_index=every_key),
                sparsity_measure(q, k, factor=FACTOR, **sampling),
            )
        )
        fractions.append((exact[..., None] == sampled[..., None, :]).any(-1).float().mean())
    return torch.stack(fractions).mean().item()
