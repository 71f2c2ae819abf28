"""Small things that several tests need."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn

from forecast.attention import (
    Attention,
    FastformerAttention,
    FullAttention,
    LinearAttention,
    NystromAttention,
    ProbSparseAttention,
)
from forecast.model.informer import AttentionSlots

GOLDEN = Path(__file__).parent / "golden"

KINDS: dict[str, type[Attention]] = {
    "full": FullAttention,
    "probsparse": ProbSparseAttention,
    "linear": LinearAttention,
    "nystrom": NystromAttention,
    "fastformer": FastformerAttention,
}


def golden(name: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN / f"{name}.npz") as arrays:
        return dict(arrays)


def slots(kind: str, cross: str = "full") -> AttentionSlots:
    """The three slots as conf/attention/<kind>.yaml fills them."""
    make = KINDS[kind]
    decoder = "causal" if "causal" in make.roles else "self"
    return {
        "encoder": partial(make, role="self"),
        "decoder": partial(make, role=decoder),
        "cross": partial(KINDS[cross], role="cross"),
    }


def without_gradient(module: nn.Module) -> list[str]:
    """Parameters whose gradient is missing or zero everywhere."""
    return [n for n, p in module.named_parameters() if p.grad is None or not torch.any(p.grad != 0)]


TINY = (
    "model=informer", "seq_len=12", "label_len=6", "pred_len=5",
    "model.d_model=8", "model.n_heads=2", "model.d_ff=8", "data.batch_size=16",
)  # fmt: skip
"""Overrides that make a run of seconds."""


def write_csv(path: Path, rows: int) -> None:
    """An hourly file of a load with a daily cycle and a temperature, from 2024-01-01."""
    t = np.arange(rows)
    noise = np.random.default_rng(0).normal(size=(2, rows))
    dates = pd.date_range("2024-01-01", periods=rows, freq="h")
    load = 100 + 30 * np.sin(2 * np.pi * t / 24) + 3 * noise[0]
    temperature = 10 + 5 * np.cos(2 * np.pi * t / 24) + noise[1]
    pd.DataFrame({"date": dates, "load": load, "temperature": temperature}).to_csv(path, index=False)
