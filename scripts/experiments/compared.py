# pyright: reportMissingImports=false
"""Times beside other implementations, in turn: ProbSparse as published, and the Informer of neuralforecast."""

import json
import math
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from experiments.store import Row
from forecast.attention.probsparse import probsparse_attention
from forecast.cli.compose import compose_config
from forecast.system.memory import keep_freed_memory
from forecast.tools.benchmark import DTYPES, Case, Work, make_work, time_in_turn

HEADS, HEAD_DIM, TOKENS, FACTOR, REPEATS = 8, 64, 4096, 5, 9
BATCH, COLUMNS = 32, 7
SIZES = {"d_model": 512, "n_heads": 8, "d_ff": 2048, "dropout": 0.05}
TIME_FEATURES = ["hour", "day_of_week", "day_of_month", "day_of_year"]


def time_published() -> list[Row]:
    """Time forward and backward of each sampling, and of the published algorithm, in turn."""
    rows = []
    for length in (96, 512, 2048):
        shape = (max(1, TOKENS // length), HEADS, length, HEAD_DIM)
        q, k, v = (torch.randn(shape, requires_grad=True) for _ in range(3))
        gradient = torch.randn(shape)

        def work(attend, q=q, k=k, v=v, gradient=gradient) -> Work:
            return lambda: torch.autograd.grad(attend(q, k, v), (q, k, v), gradient)

        works = {
            "published": work(lambda q, k, v: published_probsparse(q, k, v, factor=FACTOR)),
            "shared": work(lambda q, k, v: probsparse_attention(q, k, v, random=True)),
            "per_query": work(lambda q, k, v: probsparse_attention(q, k, v, random=True, sampling="per_query")),
        }  # fmt: skip
        timings = time_in_turn(list(works.values()), REPEATS)
        for form, timing in zip(works, timings, strict=True):
            times = timings[0]["median"] / timing["median"]
            rows.append({"length": length, "form": form, **timing, "times_published": times})
    return rows


def published_probsparse(
    q: Float[Tensor, "batch heads query_len head_dim"],
    k: Float[Tensor, "batch heads memory_len head_dim"],
    v: Float[Tensor, "batch heads memory_len head_dim"],
    factor: int,
) -> Float[Tensor, "batch heads query_len head_dim"]:
    """Algorithm 1 of Zhou et al. 2021. Each query draws its own keys, and one tensor holds the keys of all queries."""
    batch, heads, length, width = q.shape
    memory_len = k.shape[2]
    samples = min(factor * math.ceil(math.log(memory_len)), memory_len)
    top = min(factor * math.ceil(math.log(length)), length)
    drawn = torch.randint(memory_len, (length, samples))
    every_query = k[:, :, None].expand(-1, -1, length, -1, -1)
    sampled = every_query[:, :, torch.arange(length)[:, None], drawn]  # (batch, heads, length, samples, width)
    scores = (q[:, :, :, None] @ sampled.mT).squeeze(3)
    best = (scores.amax(-1) - scores.sum(-1) / memory_len).topk(top).indices
    rows = torch.arange(batch)[:, None, None], torch.arange(heads)[:, None], best
    out = v.mean(2, keepdim=True).expand(-1, -1, length, -1).clone()
    out[rows] = (q[rows] @ k.mT / math.sqrt(width)).softmax(-1) @ v
    return out


def make_peer_step(length: str, precision: str) -> Work:
    """Create a training step on windows of one column, like that of `make_step` of the benchmark."""
    from neuralforecast.models import Informer

    seq_len, label_len, pred_len = map(int, length.split("/"))
    model = Informer(
        h=pred_len, input_size=seq_len, futr_exog_list=TIME_FEATURES, hidden_size=SIZES["d_model"],
        n_head=SIZES["n_heads"], conv_hidden_size=SIZES["d_ff"], encoder_layers=2, decoder_layers=1,
        dropout=SIZES["dropout"], factor=FACTOR,
    )  # fmt: skip
    # The constructor takes label_len as a fraction of input_size below 1; forward reads this attribute only.
    model.label_len = label_len
    windows = {
        "insample_y": torch.randn(BATCH, seq_len, 1),
        "futr_exog": torch.rand(BATCH, seq_len + pred_len, len(TIME_FEATURES)),
    }
    future = torch.randn(BATCH, pred_len, 1)
    optimizer, dtype = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True), DTYPES[precision]

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            loss = F.mse_loss(model(windows).float(), future)
        loss.backward()
        optimizer.step()

    return step


def time_steps() -> list[Row]:
    """Time the Informer at the size of the paper, and neuralforecast's univariate one."""
    return [row for length in ("96/48/24", "336/168/168") for row in time_length(length)]


def time_length(length: str) -> list[Row]:
    works: dict[tuple[str, str], Work] = {}
    for precision in ("float32", "bfloat16"):
        torch.manual_seed(0)
        works["neuralforecast", precision] = make_peer_step(length, precision)
        for attention in ("probsparse", "full"):
            config = compose_config(
                "benchmark=model", f"precision={precision}", f"factor={FACTOR}", f"benchmark.batch_size={BATCH}",
                f"benchmark.n_features={COLUMNS}", "model.encoder_layers=2", "model.decoder_layers=1",
                *(f"model.{key}={value}" for key, value in SIZES.items()), config_name="benchmark",
            )  # fmt: skip
            case = Case(attention, "model", SIZES["d_model"], length, backward=True)
            works[f"ours, {attention}", precision] = make_work(config, case, "cpu")
    timings = time_in_turn(list(works.values()), REPEATS)
    return [
        {"case": length, "model": model, "precision": precision, **timing}
        for (model, precision), timing in zip(works, timings, strict=True)
    ]


def main() -> None:
    name, threads, out = sys.argv[1:]
    torch.set_num_threads(int(threads))
    keep_freed_memory()
    Path(out).write_text(json.dumps({"published": time_published, "steps": time_steps}[name]()))


if __name__ == "__main__":
    main()
