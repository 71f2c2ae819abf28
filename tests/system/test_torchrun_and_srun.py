"""Runs whose processes torchrun or Slurm's srun started: two machines are two folders on this one."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from forecast.runs.folder import read_metrics
from forecast.system import distributed
from tests.support.commands import ROOT, SMALL, only, train_here, workplace


def begin(command: list[str], folder: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip


@pytest.mark.long
def test_two_machines_make_one_run(tmp_path: Path) -> None:
    """One torchrun in a folder with its copy of the data, as one per machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    typed = ("trainer=ddp_cpu", "trainer.max_epochs=1", f"output_root={tmp_path / 'runs'}")
    started = []
    for node in range(2):
        (tmp_path / f"node{node}").mkdir()
        options = ["--nnodes=2", f"--node-rank={node}", "--master-addr=127.0.0.1", f"--master-port={port}"]
        command = [sys.executable, "-m", "torch.distributed.run", *options, "-m", "forecast.train"]
        started.append(begin([*command, *SMALL, *typed], workplace(tmp_path / f"node{node}")))
    (said, first_error), (silence, second_error) = (each.communicate(timeout=300) for each in started)
    assert [each.returncode for each in started] == [0, 0], first_error + second_error
    folder = only(tmp_path, "runs/*")
    errors: Any = pd.read_parquet(folder / "errors_by_window.parquet")["model_mse"]
    assert (errors > 0).all()
    assert read_metrics(folder)["n_windows"]["test"] == len(errors) == 56
    assert ("saved in " in said, silence) == (True, "")
    assert not list(tmp_path.glob("node*/runs"))
    config = (folder / "config.yaml").read_text()
    assert "num_nodes: 2" in config
    assert "devices: 1" in config


def test_a_trainer_that_leaves_processes_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
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
        distributed.launcher(), distributed.rank(), distributed.n_processes(), distributed.processes_per_node(7),
        distributed.nodes(),
    )  # fmt: skip
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


@pytest.mark.slow
def test_a_slurm_array_runs_one_line_of_the_grid_per_task_and_each_line_once(tmp_path: Path) -> None:
    workplace(tmp_path)
    (tmp_path / "grid.txt").write_text("attention=full\nattention=linear seed=2 \"run_name='two words'\"\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "srun").write_text('#!/bin/sh\nSLURM_STEP_ID=0 SLURM_LOCALID=0 exec "$@"\n')
    (tmp_path / "bin" / "srun").chmod(0o755)
    slurm = {
        "SLURM_JOB_ID": "4242", "SLURM_JOB_NAME": "forecast", "SLURM_NNODES": "1", "SLURM_NTASKS": "1",
        "SLURM_NTASKS_PER_NODE": "1", "SLURM_PROCID": "0", "SLURM_ARRAY_JOB_ID": "7", "SLURM_NODELIST": "localhost",
        "PATH": f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    }  # fmt: skip

    def run_line(number: int, **environment: str) -> tuple[int, str, str]:
        """Run the script as sbatch would, with srun faked."""
        command = ["bash", str(ROOT / "scripts/slurm/sweep.sbatch"), "grid.txt", *SMALL, "logger=[]"]
        numbered = {"SLURM_ARRAY_TASK_ID": str(number), **slurm, **environment}
        process = begin([*command, "trainer.max_epochs=1"], tmp_path, **numbered)
        out, err = process.communicate(timeout=200)
        return process.returncode, out, err

    assert run_line(2)[0] == 0
    run = only(tmp_path, "runs/*")
    metrics = read_metrics(run)
    assert (metrics["attention"], metrics["seed"]) == ("linear", 2)
    status, out, _ = run_line(2, SLURM_RESTART_COUNT="1")  # a task that Slurm starts again after its end
    assert (status, f"finished before: {run}\n" in out) == (0, True)
    assert only(tmp_path, "runs/*") == run
    assert run_line(3) == (2, "", "error: grid.txt has no line 3\n")
