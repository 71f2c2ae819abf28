"""Controlled tasks: what two encoder layers of each attention type learn to look up, and at which length.

The last `QUERIES` tokens of a sequence are queries; the target of each is a number of unit variance. The error is the
mean squared error on new sequences: 1 for a model that looks up nothing, 0 for a perfect one (0.2 in `lag`).
"""

import json
import math
import sys
import tempfile
from collections.abc import Callable
from itertools import product
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from experiments.cells import ALL_TYPES, FACTS, SEEDS, Cell
from experiments.run import Context
from experiments.store import Row
from forecast.cli.compose import compose_config
from forecast.models.embedding import sinusoidal_positions
from forecast.models.layers import stack_encoder
from forecast.tools.benchmark import get_attention_factory

QUERIES, WIDTH, KEY = 8, 16, 8
D_MODEL, N_HEADS, D_FF, LAYERS = 64, 4, 128, 2
STEPS, BATCH, RATE, TESTED = 2000, 32, 2e-3, 1024
LENGTH, LONG = 128, 512
"""Tokens of the training sequences, and of the longer ones on which models are tested too."""
NOISE = 0.5
"""Standard deviation of the noise that hides the signal of `lag`."""

Sequences = tuple[Float[Tensor, "batch length width"], Float[Tensor, "batch queries"]]


def make_recall(batch: int, length: int, random: torch.Generator) -> Sequences:
    """Pairs of a random key and a value; a query repeats a key and asks for its value (Arora et al. 2024, Zoology)."""
    pairs = length - QUERIES
    x = torch.zeros(batch, length, WIDTH)
    keys = nn.functional.normalize(torch.randn(batch, pairs, KEY, generator=random), dim=-1)
    values = torch.randn(batch, pairs, generator=random)
    asked = torch.rand(batch, pairs, generator=random).argsort(1)[:, :QUERIES]
    x[:, :pairs, :KEY], x[:, :pairs, KEY] = math.sqrt(KEY) * keys, values
    x[:, pairs:, :KEY] = math.sqrt(KEY) * keys.gather(1, asked[..., None].expand(-1, -1, KEY))
    x[:, pairs:, KEY + 1] = 1
    return x, values.gather(1, asked)


def make_copy(batch: int, length: int, random: torch.Generator) -> Sequences:
    """Values of which `QUERIES` are marked; query i asks for the i-th marked value (Gu and Dao 2023, Mamba)."""
    past = length - QUERIES
    x = torch.zeros(batch, length, WIDTH)
    values = torch.randn(batch, past, generator=random)
    marked = torch.rand(batch, past, generator=random).argsort(1)[:, :QUERIES].sort(1).values
    x[:, :past, 0] = values
    x[:, :past, 1].scatter_(1, marked, 1.0)
    x[:, past:, 2 : 2 + QUERIES] = math.sqrt(QUERIES) * torch.eye(QUERIES)
    return x, values.gather(1, marked)


def make_lag(batch: int, length: int, random: torch.Generator) -> Sequences:
    """White noise; a query asks for the signal half a window back, which was observed with `NOISE`."""
    x = torch.zeros(batch, length, WIDTH)
    signal = torch.randn(batch, length, generator=random)
    x[:, :, 0] = signal + NOISE * torch.randn(batch, length, generator=random)
    x[:, -QUERIES:, 0] = 0
    x[:, -QUERIES:, 1] = 1
    middle = length // 2
    return x, signal[:, middle - QUERIES : middle]


TASKS: dict[str, Callable[[int, int, torch.Generator], Sequences]] = {
    "recall": make_recall,
    "copy": make_copy,
    "lag": make_lag,
}


class Reader(nn.Module):
    """Encoder layers, and a linear output at the last `QUERIES` tokens."""

    positions: Tensor

    def __init__(self, attention: str) -> None:
        super().__init__()
        make = get_attention_factory(compose_config(config_name="benchmark"), attention, "self")
        self.embed = nn.Linear(WIDTH, D_MODEL)
        sizes = {"d_model": D_MODEL, "d_ff": D_FF, "dropout": 0.0, "match": "parameters"}
        self.encoder = stack_encoder([make] * LAYERS, N_HEADS, **sizes)
        self.head = nn.Linear(D_MODEL, 1)
        self.register_buffer("positions", sinusoidal_positions(LONG, D_MODEL), persistent=False)

    def forward(self, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch queries"]:
        tokens = self.embed(x) + self.positions[: x.shape[1]]
        return self.head(self.encoder(tokens)[:, -QUERIES:]).squeeze(-1)


def train_reader(task: str, attention: str, seed: int) -> Row:
    """Train on new sequences in each step, and test on `TESTED` others of each length."""
    make = TASKS[task]
    torch.manual_seed(seed)
    random = torch.Generator().manual_seed(seed)
    model = Reader(attention)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS, pct_start=0.1)
    for _ in range(STEPS):
        x, y = make(BATCH, LENGTH, random)
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval()
    errors = {f"mse_{length}": measure_error(model, make, length, seed) for length in (LENGTH, LONG)}
    parameters = sum(weight.numel() for weight in model.parameters())
    return {**errors, "last_loss": loss.item(), "n_parameters": parameters}


@torch.no_grad()
def measure_error(
    model: Reader, make: Callable[[int, int, torch.Generator], Sequences], length: int, seed: int
) -> float:
    random = torch.Generator().manual_seed(10_000 + seed)
    batches = [make(BATCH, length, random) for _ in range(TESTED // BATCH)]
    return float(torch.stack([(model(x) - y).square().mean() for x, y in batches]).mean())


def list_cells(table: str) -> list[Cell]:
    return [
        Cell(
            table,
            f"{task}/{attention}/s{seed}",
            (task, attention, str(seed)),
            dict(zip(FACTS, (task, "", QUERIES, attention, seed), strict=True)),
        )
        for seed, task, attention in product(SEEDS, TASKS, ALL_TYPES)
    ]


def run_task(cell: Cell, context: Context) -> Row:
    """Train one encoder in a process of its own."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        cost = context.python("-m", "experiments.tasks", *cell.overrides, str(context.threads), out.name)
        return {**json.loads(Path(out.name).read_text()), "cpu_seconds": cost.cpu_seconds}


if __name__ == "__main__":
    name, kind, number, threads, path = sys.argv[1:]
    torch.set_num_threads(int(threads))
    Path(path).write_text(json.dumps(train_reader(name, kind, int(number))))
