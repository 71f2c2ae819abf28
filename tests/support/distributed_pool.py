"""A pool of processes that train or evaluate one model together. Each case gives the number of processes."""

import itertools
import multiprocessing
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pandas as pd
import torch
import torch.distributed as dist
from hydra.utils import instantiate
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from forecast.cli.compose import compose_config
from forecast.data import Batch, DataModule, Panel
from forecast.data.sets import GeneratedSource
from forecast.evaluation.baselines import FittedBaselines
from forecast.evaluation.scores import MODEL
from forecast.models import ForecastModel
from forecast.training.build import make_forecaster
from forecast.training.callbacks import RankConsistency
from forecast.training.module import Forecaster, LightningData
from forecast.training.preparation import filter_messages
from tests.support.windows import set_up

SEQ_LEN, TRAIN = 5, 66  # 60 training windows of two steps ahead, which 2, 3 and 4 processes share evenly
SIZES = ("model=informer", "model.d_model=8", "model.n_heads=2", "model.d_ff=8")


@dataclass(frozen=True)
class Case:
    """The number and shape of the windows, the batch size, and the processes that share the windows."""

    processes: int
    val: int
    test: int
    batch_size: int
    pred_len: int = 2
    columns: int = 2
    seed: int = 0
    attention: str = "full"
    strategy: str = "ddp_cpu"

    def values(self) -> np.ndarray:
        rows = TRAIN + self.val + self.test + 2 * (self.pred_len - 1)
        noise = np.random.default_rng(self.seed).normal(size=(rows, self.columns))
        return 50 + 10 * np.arange(self.columns) + noise.cumsum(axis=0)


def case_data(case: Case) -> DataModule:
    dates = pd.date_range("2024-01-01", periods=len(case.values()), freq="D")
    borders = [str(dates[TRAIN]), str(dates[TRAIN + case.val + case.pred_len - 1])]
    panel = Panel.of_table(dates, case.values(), tuple("abcdef"[: case.columns]), "D")
    return set_up(DataModule(
        GeneratedSource(lambda: panel), name="case", seq_len=SEQ_LEN, pred_len=case.pred_len, split=borders,
        batch_size=case.batch_size,
    ))  # fmt: skip


class Fading(ForecastModel):
    """A model whose forecast of step h is the last value of the window times 0.9 to the power h + 1."""

    def __init__(self, pred_len: int) -> None:
        super().__init__()
        self.factors = nn.Parameter(0.9 ** torch.arange(1, pred_len + 1)[:, None])

    def forward(self, past: Tensor, past_time: Tensor, future_time: Tensor) -> Tensor:
        return past[:, -1:] * self.factors


def evaluate(case: Case) -> dict[str, Any]:
    """Validate and test a case with the Lightning module of the package, together with the connected processes."""
    filter_messages()
    data = case_data(case)
    fitted = FittedBaselines.fit(data)
    forecaster = Forecaster(Fading(case.pred_len), levels=[80], fitted=fitted, config={})
    trainer = L.Trainer(
        accelerator="cpu", devices=case.processes, strategy="ddp" if case.processes > 1 else "auto",
        logger=False, enable_progress_bar=False, enable_checkpointing=False, use_distributed_sampler=False,
    )  # fmt: skip
    trainer.validate(forecaster, datamodule=LightningData(data), verbose=False)
    validation = forecaster.errors[MODEL].scores()
    trainer.test(forecaster, datamodule=LightningData(data), verbose=False)
    return {
        "val": validation,
        "test": forecaster.errors[MODEL].scores(),
        "count": float(forecaster.errors[MODEL].step_counts[0, 0]),
        "windows": forecaster.results.windows[MODEL].numpy(),
        "intervals": forecaster.results.intervals["conformal"],
    }


def train(case: Case, *overrides: str) -> dict[str, Any]:
    """Train three steps; return all weights, and the windows and learning rate of each step."""
    filter_messages()
    sharded = case.strategy == "fsdp"  # no float64: a large eps, or Adam would enlarge gradients that are rounding
    exact = ("trainer.precision=32-true", "+optimizer.eps=0.01") if sharded else ("trainer.precision=64-true",)
    config = compose_config(
        f"attention={case.attention}", f"trainer={case.strategy}", f"trainer.devices={case.processes}",
        "trainer.accelerator=cpu", *exact, "factor=20", "model.dropout=0", "optimizer.fused=true",
        f"data.batch_size={case.batch_size}", f"pred_len={case.pred_len}", f"seq_len={SEQ_LEN}", "label_len=2", *SIZES,
        *overrides,
    )  # fmt: skip
    if case.processes == 1:
        config.trainer.strategy = "auto"
    data = case_data(case)
    L.seed_everything(case.seed, verbose=False)
    forecaster = make_forecaster(config, data, FittedBaselines.fit(data))
    witness = Steps()
    trainer = instantiate(
        config.trainer, callbacks=[RankConsistency(), witness], logger=False, enable_progress_bar=False,
        enable_checkpointing=False, max_epochs=1, limit_train_batches=3, limit_val_batches=0,
    )  # fmt: skip
    trainer.fit(forecaster, datamodule=LightningData(data))
    state = forecaster.model.state_dict()
    weights = {name: (w.full_tensor() if isinstance(w, DTensor) else w).numpy() for name, w in state.items()}
    return {"weights": weights, "windows": witness.windows, "rates": witness.rates}


def train_on_other_data(case: Case) -> dict[str, Any]:
    """Each process has numbers of its own."""
    return train(replace(case, seed=case.seed + dist.get_rank()))


def train_at_other_rates(case: Case) -> dict[str, Any]:
    return train(case, f"optimizer.lr={0.001 * (1 + dist.get_rank())}")


class Steps(L.Callback):
    """Write down the windows of each step, and the rate it learned at."""

    def __init__(self) -> None:
        self.windows: list[list[int]] = []
        self.rates: list[float] = []

    def on_train_batch_start(self, trainer: L.Trainer, module: Any, batch: Batch, batch_idx: int) -> None:
        self.windows.append(batch.index.tolist())
        self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])


def work(rank: int, folder: Path, cases: Any, answers: Any) -> None:
    torch.set_num_threads(1)
    os.environ["LOCAL_RANK"] = str(rank)  # Lightning starts no processes of its own then
    while (message := cases.get()) is not None:
        number, function, case = message
        try:
            if case.processes > 1:
                store = dist.FileStore(str(folder / str(number)), case.processes)  # pyright: ignore
                dist.init_process_group("gloo", store=store, rank=rank, world_size=case.processes)
            answers.put((rank, function(case)))
        except BaseException as error:
            answers.put((rank, repr(error)))
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()


class Pool:
    """Processes that wait for cases; `size` is the most that one case may ask for."""

    def __init__(self, size: int, folder: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])  # Lightning is imported once for all of them
        self.answers = context.Queue()
        self.cases = [context.Queue() for _ in range(size)]
        self.processes = [
            context.Process(target=work, args=(rank, folder, cases, self.answers), daemon=True)
            for rank, cases in enumerate(self.cases)
        ]
        for process in self.processes:
            process.start()
        self.numbers = itertools.count()

    def __call__(self, function: Callable[[Case], Any], case: Case) -> list[Any]:
        """The result of `function` in each process of the case, or the text of its error."""
        message = next(self.numbers), function, case
        for cases in self.cases[: case.processes]:
            cases.put(message)
        found = dict(self.answers.get(timeout=200) for _ in range(case.processes))
        return [found[rank] for rank in range(case.processes)]

    def close(self) -> None:
        for cases in self.cases:
            cases.put(None)
        for process in self.processes:
            process.join()
