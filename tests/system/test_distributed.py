import json
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pandas as pd
import pytest

from forecast.evaluation.scores import SCALED_SCORES
from forecast.runs.folder import read_metrics
from tests.support.commands import finish, only, start, train, workplace

ROWS = 303  # 56 test windows: with batches of 11, the last one has a single window
WITNESS = ("+callbacks.witness._target_=tests.support.probe_callbacks.Witness", "+callbacks.witness.folder=witness")


@dataclass
class Run:
    folder: Path
    result: CompletedProcess[str]
    processes: list[dict]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = workplace(tmp_path_factory.mktemp("processes"), rows=ROWS)
    result = train(
        folder, "trainer=ddp_cpu", "trainer.max_epochs=2", "logger=[wandb,csv]", "data.batch_size=16",
        "data.eval_batch_size=11", "model.dropout=0.3", "levels=[80]", *WITNESS,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    witnesses = [json.loads((folder / f"witness/{rank}.json").read_text()) for rank in range(2)]
    return Run(only(folder, "runs/*"), result, witnesses)


def test_the_report_has_every_window_once(run: Run) -> None:
    """Scores equal those of one process: see test_distributed_scores.py."""
    metrics = read_metrics(run.folder)
    windows: Any = pd.read_parquet(run.folder / "errors_by_window.parquet")
    assert len(windows) == metrics["n_windows"]["test"] == 56
    assert windows["forecast_start"].is_unique
    for score in SCALED_SCORES:
        assert windows[f"model_{score}"].mean() == pytest.approx(metrics["test"][score], rel=1e-6)
    assert (windows["model_mse"] > 0).all()


def test_processes_share_weights_and_windows_but_not_dropout(run: Run) -> None:
    seen = run.processes
    for same in ("initial", "final"):
        assert len({process[same] for process in seen}) == 1
    assert seen[0]["initial"] != seen[0]["final"]
    assert len({process["random"] for process in seen}) == 2
    windows = [index for process in seen for index in process["windows"]]
    assert len(windows) == len(set(windows))
    n_train = read_metrics(run.folder)["n_windows"]["train"]
    assert len(windows) == n_train // 2 * 2


def test_one_process_speaks_and_writes(run: Run) -> None:
    for said in ("data       load.csv", "stride 1", "saved in ", "W&B: "):
        assert run.result.stdout.count(said) == 1, said
    assert run.result.stderr == ""
    assert list(run.folder.parent.iterdir()) == [run.folder]
    assert len(list(run.folder.glob("wandb/offline-run-*"))) == 1
    checkpoints = {path.name for path in run.folder.glob("checkpoints/*")}
    assert checkpoints == {"best.ckpt", "last.ckpt", "last-1.ckpt"}
    assert list(pd.read_csv(run.folder / "metrics.csv")["epoch"]) == [0, 1]


def test_a_process_that_fails_ends_all_with_one_line(tmp_path: Path) -> None:
    """The second one, whose error the first one does not see."""
    failure = "+callbacks.failure._target_=tests.support.probe_callbacks.Failure"
    process = start(workplace(tmp_path), "trainer=ddp_cpu", "logger=[]", failure, "+callbacks.failure.rank=1")
    result = finish(process)  # the pipes close when the last process has gone
    assert (result.returncode, result.stderr) == (2, "error: process 1 broke\n")
    assert only(tmp_path, "runs/*/error.txt").read_text() == "process 1 broke\n"
    assert not list(tmp_path.glob("runs/*/metrics.json"))
