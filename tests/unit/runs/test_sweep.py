import json
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from forecast.runs import sweep
from forecast.runs.folder import write_overrides
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
def test_a_run_that_ended_shows_its_scores_and_is_not_interrupted(tmp_path: Path, capsys, command: str) -> None:
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
def test_only_a_command_that_can_resume_is_told_to(tmp_path: Path, capsys, can_resume: bool) -> None:
    write(tmp_path / "0_empty", {})
    print_unfinished(tmp_path, read_jobs(tmp_path), 2, can_resume=can_resume)
    told = capsys.readouterr().out
    assert told.startswith("interrupted: 0_empty\nnot begun: 1 run\n")
    assert ("repeat the command with resume=auto" in told) == can_resume


def job(folder: Path, name: str, **files: str) -> None:
    (folder / name).mkdir(parents=True)
    write_overrides(folder / name / "overrides.yaml", ["seed=1"])
    for file, text in files.items():
        (folder / name / file.replace("_", ".")).write_text(text)


def begin(folder: Path) -> None:
    hydra = {"sweep": {"dir": str(folder)}, "overrides": {"task": [], "hydra": []}}
    sweep.SweepCallback().on_multirun_start(OmegaConf.create({"hydra": hydra}))


def test_failures_of_earlier_commands_do_not_count(tmp_path: Path) -> None:
    job(tmp_path, "0_earlier", error_txt="nowhere.csv: no such file")
    begin(tmp_path)
    assert sweep.finish(None, can_resume=True) == 0
    begin(tmp_path)
    job(tmp_path, "1_now", error_txt="nowhere.csv: no such file")
    SweepProgress((), 1, "train.log").report("now", tmp_path / "1_now")
    assert sweep.finish(None, can_resume=True) == 1
    assert sweep.finish(None, can_resume=True) == 0  # it is over


def test_damaged_scores_are_those_of_a_failed_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job(tmp_path, "0_damaged", metrics_json='{"test": {"mse"')
    begin(tmp_path)
    sweep.finish(None, can_resume=True)
    assert "failed: 0_damaged: metrics.json: cannot be read: " in capsys.readouterr().out
    assert not read_jobs(tmp_path)[0].is_done
