"""Runs whose processes torchrun or Slurm's srun started: two machines are two folders on this one."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch

from forecast.system import distributed
from tests.support.commands import ROOT, SMALL, only, train_here, workplace

FAKES = ROOT / "tests" / "support" / "fakes"


def begin(command: list[str], folder: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip


def on_nodes(folders: list[Path], *overrides: str, each: int = 1, own: tuple[str, ...] = ()) -> list[tuple]:
    """One torchrun per folder, as one per machine: its status, stdout and stderr. `own`: one override per machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = []
    for node, folder in enumerate(folders):
        options = [f"--nnodes={len(folders)}", f"--nproc-per-node={each}", f"--node-rank={node}"]
        where = ["--master-addr=127.0.0.1", f"--master-port={port}"]
        command = [sys.executable, "-m", "torch.distributed.run", *options, *where, "-m", "forecast.train"]
        started.append(begin([*command, *SMALL, *overrides, *own[node : node + 1]], folder))
    outputs = [process.communicate(timeout=300) for process in started]
    return [(process.returncode, *output) for process, output in zip(started, outputs, strict=True)]


def nodes(tmp_path: Path, count: int = 2) -> list[Path]:
    """One folder per machine, each with its copy of the data."""
    folders = [tmp_path / f"node{n}" for n in range(count)]
    for folder in folders:
        folder.mkdir()
        workplace(folder)
    return folders


@pytest.mark.long
def test_two_machines_make_one_run(tmp_path: Path) -> None:
    runs = f"output_root={tmp_path / 'runs'}"
    ended = on_nodes(nodes(tmp_path), "trainer=ddp_cpu", "trainer.max_epochs=1", runs)
    assert [status for status, *_ in ended] == [0, 0], ended
    folder = only(tmp_path, "runs/*")
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["n_windows"]["test"] == len(window_scores(folder)) == 56
    said = [out for _, out, _ in ended]
    assert "saved in " in said[0]
    assert said[1] == ""
    assert not list(tmp_path.glob("node*/runs"))
    config = (folder / "config.yaml").read_text()
    assert "num_nodes: 2" in config
    assert "devices: 1" in config


def window_scores(folder: Path) -> list[float]:
    """The model's MSE of each test window."""
    errors = pd.read_parquet(folder / "errors_by_window.parquet")["model_mse"].tolist()
    assert all(error > 0 for error in errors)
    return errors


def test_a_trainer_that_leaves_processes_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(distributed, "choose_in_first", lambda what, choose: None)
    for name, value in {"TORCHELASTIC_RUN_ID": "1", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "4",
                        "LOCAL_WORLD_SIZE": "2"}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    assert train_here(monkeypatch, workplace(tmp_path), "trainer=cpu", "logger=[]") == 2
    assert capsys.readouterr().err == (
        "error: torchrun started 4 processes, and trainer.devices=1 on trainer.num_nodes=2 make 2: choose trainer=ddp, "
        "ddp_cpu or fsdp and leave both out, or have torchrun start 2\n"
    )


@pytest.mark.parametrize(
    ("environment", "launcher", "rank", "count", "per_node", "nodes"),
    [
        ({}, None, 0, 1, 7, 1),
        ({"LOCAL_RANK": "3"}, None, 3, 1, 7, 1),  # started by Lightning
        # the first process of the second machine
        ({"TORCHELASTIC_RUN_ID": "none", "RANK": "2", "LOCAL_RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"},
         "torchrun", 2, 4, 2, 2),
        ({"SLURM_NTASKS": "6", "SLURM_PROCID": "3", "SLURM_LOCALID": "0", "SLURM_NTASKS_PER_NODE": "3"},
         "srun", 3, 6, 3, 2),
        # a shell of the user's own within Slurm
        ({"SLURM_NTASKS": "6", "SLURM_PROCID": "0", "SLURM_JOB_NAME": "interactive"}, None, 0, 1, 7, 1),
        # torchrun, once a machine, by srun
        ({"SLURM_NTASKS": "2", "SLURM_PROCID": "1", "TORCHELASTIC_RUN_ID": "9", "RANK": "5", "WORLD_SIZE": "8",
          "LOCAL_WORLD_SIZE": "4"}, "torchrun", 5, 8, 4, 2),
    ],
)  # fmt: skip
def test_the_processes_that_a_launcher_reports(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], launcher: str | None, rank: int, count: int,
    per_node: int, nodes: int,
) -> None:  # fmt: skip
    for name in os.environ:
        if name.startswith(("SLURM_", "TORCHELASTIC_")) or name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = (
        distributed.launcher(),
        distributed.rank(),
        distributed.n_processes(),
        distributed.processes_per_node(7),
        distributed.nodes(),
    )
    assert found == (launcher, rank, count, per_node, nodes)
    assert distributed.is_first() == (rank == 0)


def test_every_process_takes_the_choices_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "_store", torch.distributed.HashStore())  # pyright: ignore
    for name, value in {"TORCHELASTIC_RUN_ID": "1", "RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    choices = {"run folder": "runs/1", "suggested settings": ["seq_len=48"]}
    for what, choice in choices.items():
        assert distributed.choose_in_first(what, lambda choice=choice: choice) == choice
    monkeypatch.setenv("RANK", "1")
    for what, choice in choices.items():
        assert distributed.choose_in_first(what, lambda: pytest.fail("chosen again")) == choice


def job(folder: Path, script: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Run a script of scripts/slurm as sbatch would on two machines of one task each, with srun faked."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / "srun").unlink(missing_ok=True)
    (folder / "bin" / "srun").symlink_to(FAKES / "srun")
    slurm = {
        "SLURM_JOB_ID": "4242", "SLURM_JOB_NAME": "forecast", "SLURM_NNODES": "2", "SLURM_NTASKS": "2",
        "SLURM_NTASKS_PER_NODE": "1", "SLURM_PROCID": "0",
        "PATH": f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    }  # fmt: skip
    return begin(["bash", str(ROOT / "scripts/slurm" / script), *arguments], folder, **slurm | environment)


@pytest.mark.slow
def test_a_slurm_array_runs_one_line_of_the_grid_per_task_and_each_line_once(tmp_path: Path) -> None:
    workplace(tmp_path)
    (tmp_path / "grid.txt").write_text("attention=full\nattention=linear seed=2 \"run_name='two words'\"\n")

    def run_line(number: int, **environment: str) -> tuple[int, str, str]:
        one = {"SLURM_NNODES": "1", "SLURM_NTASKS": "1", "SLURM_ARRAY_JOB_ID": "7"}
        arguments = ("grid.txt", *SMALL, "logger=[]", "trainer.max_epochs=1")
        numbered = {"SLURM_ARRAY_TASK_ID": str(number), **environment}
        process = job(tmp_path, "sweep.sbatch", *arguments, **one, **numbered)
        out, err = process.communicate(timeout=200)
        return process.returncode, out, err

    assert run_line(2)[0] == 0
    run = only(tmp_path, "runs/*")
    metrics = json.loads((run / "metrics.json").read_text())
    assert (metrics["attention"], metrics["seed"]) == ("linear", 2)
    status, out, _ = run_line(2, SLURM_RESTART_COUNT="1")  # a task that Slurm starts again after its end
    assert (status, f"finished before: {run}\n" in out) == (0, True)
    assert only(tmp_path, "runs/*") == run
    assert run_line(3) == (2, "", "error: grid.txt has no line 3\n")
