# pyright: reportMissingImports=false
"""Times of training steps and of Nyström self-attention layers in this project and other libraries, in turn."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.nystromformer.configuration_nystromformer import NystromformerConfig
from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

from forecast.attention import NystromAttention
from forecast.cli.compose import compose_config
from forecast.data.windows import Batch
from forecast.tools.benchmark.measurement import DTYPES, Case, Work, make_work, time_in_turn

from .models import TIME_FEATURES, NeuralforecastInformer, TransformersInformer
from .options import Sizes

COLUMNS, FACTOR, KERNEL = 7, 5, 33
Row = dict[str, Any]


def training_steps(sizes: Sizes, length: str, repeats: int) -> list[Row]:
    """Time a training step of each Informer at one seq_len/label_len/pred_len, in float32 and bfloat16."""
    seq_len, label_len, pred_len = (int(part) for part in length.split("/"))
    works: dict[tuple[str, str], Work] = {}
    for precision in ("float32", "bfloat16"):
        windows = {"seq_len": seq_len, "label_len": label_len, "pred_len": pred_len, "factor": FACTOR}
        torch.manual_seed(0)
        peer = NeuralforecastInformer(sizes, **windows)
        works[peer.name, precision] = step(peer, random_batch(sizes, seq_len, pred_len, 1), precision)
        del windows["label_len"]
        windows["seq_len"] += 1  # so that its encoder has as many positions as the others
        peer = TransformersInformer(sizes, columns=COLUMNS, **windows)
        batch = random_batch(sizes, seq_len + 1, pred_len, COLUMNS)
        works[peer.name, precision] = step(peer, batch, precision)
        for attention in ("probsparse", "full"):
            works[f"ours, {attention}", precision] = our_step(sizes, attention, length, precision)
    spreads = time_in_turn(list(works.values()), repeats)
    return [
        {"case": length, "model": model, "precision": precision, **asdict(spread)}
        for (model, precision), spread in zip(works, spreads, strict=True)
    ]


def random_batch(sizes: Sizes, seq_len: int, pred_len: int, columns: int) -> Batch:
    rows, n_time = sizes.batch_size, len(TIME_FEATURES)
    return Batch(
        past=torch.randn(rows, seq_len, columns),
        past_time=torch.rand(rows, seq_len, n_time),
        future=torch.randn(rows, pred_len, columns),
        future_time=torch.rand(rows, pred_len, n_time),
        index=torch.arange(rows),
        series=torch.zeros(rows, dtype=torch.int64),
    )


def step(peer: NeuralforecastInformer | TransformersInformer, batch: Batch, precision: str) -> Work:
    """Create a training step like that of `forecast.tools.benchmark.measurement.make_step`."""
    optimizer = torch.optim.Adam(peer.model.parameters(), lr=1e-4, fused=True)
    dtype = DTYPES[precision]

    def train_step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            loss = peer.loss(batch)
        loss.backward()
        optimizer.step()

    return train_step


def our_step(sizes: Sizes, attention: str, length: str, precision: str) -> Work:
    overrides = [
        "benchmark=model", f"precision={precision}", f"factor={FACTOR}",
        f"benchmark.batch_size={sizes.batch_size}", f"benchmark.n_features={COLUMNS}",
        f"model.d_model={sizes.d_model}", f"model.n_heads={sizes.n_heads}", f"model.d_ff={sizes.d_ff}",
        f"model.dropout={sizes.dropout}", "model.encoder_layers=2", "model.decoder_layers=1",
    ]  # fmt: skip
    config = compose_config(*overrides, config_name="benchmark")
    return make_work(config, Case(attention, length, backward=True), "cpu")


def nystrom_layers(sizes: Sizes, length: int, landmarks: int, repeats: int) -> list[Row]:
    """Time forward and backward of a self-attention layer with its projections and its convolution."""
    d_model = sizes.d_model
    config = NystromformerConfig(
        hidden_size=d_model,
        num_attention_heads=sizes.n_heads,
        num_landmarks=landmarks,
        segment_means_seq_len=length,
        conv_kernel_size=KERNEL,
    )
    theirs, out = NystromformerSelfAttention(config), nn.Linear(d_model, d_model)
    ours = NystromAttention(d_model, sizes.n_heads, role="self", num_landmarks=landmarks, conv_kernel=KERNEL)
    x = torch.randn(max(1, sizes.layer_tokens // length), length, d_model, requires_grad=True)
    works = {
        "transformers": forward_and_backward(lambda: out(theirs(x)[0]), [x, *theirs.parameters(), *out.parameters()]),
        "ours": forward_and_backward(lambda: ours(x, x), [x, *ours.parameters()]),
    }  # fmt: skip
    spreads = time_in_turn(list(works.values()), repeats)
    case = f"{length:,}, {landmarks} landmarks"
    return [
        {"case": case, "model": model, "precision": "float32", **asdict(spread)}
        for model, spread in zip(works, spreads, strict=True)
    ]


def forward_and_backward(call: Callable[[], Tensor], leaves: list[Tensor]) -> Work:
    gradient = torch.randn_like(call())

    def work() -> None:
        torch.autograd.grad(call(), leaves, gradient)

    return work
