"""Several processes (gloo) train one model, and their scores are those of one process on the same checkpoint."""

import json
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

import lightning as L
import numpy as np
import pandas as pd
import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf

from forecast.evaluation.baselines import FittedBaselines
from forecast.evaluation.scores import MODEL, SCALED_SCORES
from forecast.training.callbacks import RandomState
from forecast.training.create_model import create_model
from forecast.training.module import Forecaster, LightningData
from tests.support.commands import finish, only, start, train_here, workplace

ROWS = 303  # 56 test windows: with batches of 11, the last one has a single window
WITNESS = (
    "+callbacks.witness._target_=tests.support.probe_callbacks.Witness",
    "+callbacks.witness.folder=witness",
)


@dataclass
class Run:
    folder: Path
    result: CompletedProcess[str]
    processes: list[dict]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Run]:
    """A run of two processes and one of three, started together: their ports must not meet."""
    started = {}
    for processes, batch_size in ((2, 16), (3, 18)):
        folder = workplace(tmp_path_factory.mktemp(f"processes{processes}"), rows=ROWS)
        started[processes] = folder, start(
            folder, "trainer=ddp_cpu", f"trainer.devices={processes}", "trainer.max_epochs=2", "logger=[wandb,csv]",
            f"data.batch_size={batch_size}", "data.eval_batch_size=11", "model.dropout=0.3", "levels=[80]", *WITNESS,
        )  # fmt: skip
    done = {}
    for processes, (folder, process) in started.items():
        result = finish(process)
        assert result.returncode == 0, result.stderr
        witnesses = [json.loads((folder / f"witness/{rank}.json").read_text()) for rank in range(processes)]
        done[processes] = Run(only(folder, "runs/*"), result, witnesses)
    return done


both = pytest.mark.parametrize("processes", [2, 3])


@both
def test_scores_are_those_of_one_process(
    runs: dict[int, Run], processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = runs[processes].folder
    monkeypatch.chdir(folder.parent.parent)
    config = OmegaConf.load(folder / "config.yaml")
    config.data.eval_batch_size = 64
    data = instantiate(config.data)
    data.setup()
    assert data.n_windows["test"] % 11 == 1
    model = create_model(
        config.model,
        n_features=data.n_features,
        n_targets=data.n_targets,
        n_time_features=data.n_time_features,
    )
    forecaster = Forecaster(
        model,
        optimizer=torch.optim.Adam,
        schedule=lambda *_: {},
        fitted=FittedBaselines.fit(data),
        config={},
        levels=[80],
    )
    trainer = L.Trainer(accelerator="cpu", devices=1, logger=False, enable_progress_bar=False)
    checkpoint = folder / "checkpoints" / "best.ckpt"
    trainer.validate(
        forecaster, datamodule=LightningData(data), ckpt_path=checkpoint, weights_only=True, verbose=False
    )
    trainer.test(forecaster, datamodule=LightningData(data), verbose=False)

    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["test"] == pytest.approx(forecaster.errors[MODEL].scores(), rel=1e-6)
    intervals = forecaster.results.intervals["conformal"]
    assert metrics["intervals"]["conformal"].keys() == intervals.keys()
    for name, score in intervals.items():
        assert metrics["intervals"]["conformal"][name] == pytest.approx(score, rel=1e-5), name
    windows = pd.read_parquet(folder / "errors_by_window.parquet")
    assert len(windows) == data.n_windows["test"] == metrics["n_windows"]["test"]
    found = windows[[f"model_{score}" for score in SCALED_SCORES]].to_numpy()
    np.testing.assert_allclose(found, forecaster.results.windows[MODEL].numpy(), rtol=1e-5, atol=1e-7)
    assert found.mean(axis=0) == pytest.approx([metrics["test"][score] for score in SCALED_SCORES], rel=1e-6)
    assert (found > 0).all()


@both
def test_processes_share_weights_and_windows_but_not_dropout(runs: dict[int, Run], processes: int) -> None:
    seen = runs[processes].processes
    assert len({process["initial"] for process in seen}) == 1
    assert len({process["final"] for process in seen}) == 1
    assert seen[0]["initial"] != seen[0]["final"]
    assert len({process["random"] for process in seen}) == processes
    windows = [index for process in seen for index in process["windows"]]
    assert len(windows) == len(set(windows))
    n_train = json.loads((runs[processes].folder / "metrics.json").read_text())["n_windows"]["train"]
    assert len(windows) == n_train // processes * processes


def test_no_two_processes_of_any_seed_draw_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = set()
    for seed in range(5):
        for rank in range(5):
            torch.manual_seed(seed)
            trainer = L.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
            monkeypatch.setattr(type(trainer), "global_rank", rank)
            monkeypatch.setattr(type(trainer), "is_global_zero", rank == 0)
            RandomState().on_fit_start(trainer, L.LightningModule())
            drawn.add(torch.rand(1).item())
    assert len(drawn) == 25


@both
def test_one_process_speaks_and_writes(runs: dict[int, Run], processes: int) -> None:
    run = runs[processes]
    for said in ("data       load.csv", "stride 1", "saved in ", "W&B: "):
        assert run.result.stdout.count(said) == 1, said
    assert run.result.stderr == ""
    assert list(run.folder.parent.iterdir()) == [run.folder]
    assert len(list(run.folder.glob("wandb/offline-run-*"))) == 1
    checkpoints = {path.name for path in run.folder.glob("checkpoints/*")}
    assert checkpoints == {"best.ckpt", "last.ckpt", "last-1.ckpt"}
    assert list(pd.read_csv(run.folder / "metrics.csv")["epoch"]) == [0, 1]


def test_a_process_that_fails_ends_all_with_one_line(tmp_path: Path) -> None:
    started = []
    for rank in (0, 1):
        failure = (
            "+callbacks.failure._target_=tests.support.probe_callbacks.Failure",
            f"+callbacks.failure.rank={rank}",
        )
        (tmp_path / str(rank)).mkdir()
        folder = workplace(tmp_path / str(rank))
        started.append((rank, folder, start(folder, "trainer=ddp_cpu", "logger=[]", *failure)))
    for rank, folder, process in started:
        result = finish(process)  # the pipes close when the last process has gone
        assert result.returncode == 2
        assert result.stderr == f"error: process {rank} broke\n"
        assert only(folder, "runs/*/error.txt").read_text() == f"process {rank} broke\n"
        assert not list(folder.glob("runs/*/metrics.json"))


def test_a_batch_that_cannot_be_shared_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    overrides = ("trainer=ddp_cpu", "trainer.devices=2", "data.batch_size=31", "logger=wandb")
    assert train_here(monkeypatch, workplace(tmp_path), *overrides) == 2
    captured = capsys.readouterr()
    assert captured.err == "error: data.batch_size=31 must divide by the number of processes, 2\n"
    assert captured.out == ""
