"""The end of a sweep: what its jobs did, and the number of those that failed."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from forecast.runs import sweep
from forecast.runs.folder import write_overrides
from forecast.runs.sweep import read_jobs


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
    sweep.SweepProgress((), 1, "train.log").report("now", tmp_path / "1_now")
    assert sweep.finish(None, can_resume=True) == 1
    assert sweep.finish(None, can_resume=True) == 0  # it is over


def test_damaged_scores_are_those_of_a_failed_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job(tmp_path, "0_damaged", metrics_json='{"test": {"mse"')
    begin(tmp_path)
    sweep.finish(None, can_resume=True)
    assert "failed: 0_damaged: metrics.json: cannot be read: " in capsys.readouterr().out
    assert not read_jobs(tmp_path)[0].is_done
