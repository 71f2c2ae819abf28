"""The lines of a sweep on the terminal, and its summary, for each command that can be swept."""

import json
from pathlib import Path
from typing import Any

import pytest

from forecast.runs.sweep import SweepProgress, print_unfinished, read_jobs

SCORES = {"mse": 0.25, "mae": 0.4}
METRICS = {"test": SCORES, "skill": 0.125, "seconds": 3.2, "seed": 1, "baselines": {"naive": {"mse": 1.0}}}
RESULTS: dict[str, tuple[dict[str, Any], str]] = {
    "train": ({"metrics.json": METRICS}, "MSE 0.2500   skill +0.125      3 s"),
    "backtest": ({"backtest.json": {"model": SCORES}}, "MSE 0.2500"),
    "benchmark": ({"benchmark.json": {"rows": []}}, "saved benchmark.json"),
}


def write(folder: Path, files: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / "overrides.yaml").write_text("- seed=1\n")
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize("command", RESULTS)
def test_a_run_that_ended_shows_its_scores_and_is_not_interrupted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    files, line = RESULTS[command]
    progress = SweepProgress(fixed=["pred_len"], total=2, log=f"{command}.log", started=0.0)
    progress.begin(tmp_path, [["pred_len=24", "seed=1"], ["pred_len=24", "seed=2"]])
    progress.report("seed=1", write(tmp_path / "0_done", files))
    progress.report("seed=2", write(tmp_path / "1_empty", {}))
    first, done, empty = capsys.readouterr().out.splitlines()
    assert first == f"2 runs in {tmp_path}; the output of each is in its {command}.log"
    assert done.startswith(f"[1/2] seed=1   {line}   about ")
    assert empty == "[2/2] seed=2   failed: it ended without results"
    jobs = read_jobs(tmp_path)
    assert [job.is_interrupted for job in jobs] == [False, True]


@pytest.mark.parametrize("can_resume", [True, False])
def test_only_a_command_that_can_resume_is_told_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], can_resume: bool
) -> None:
    write(tmp_path / "0_empty", {})
    print_unfinished(tmp_path, read_jobs(tmp_path), 2, can_resume=can_resume)
    told = capsys.readouterr().out
    assert told.startswith("interrupted: 0_empty\nnot begun: 1 run\n")
    assert ("repeat the command with resume=auto" in told) == can_resume
