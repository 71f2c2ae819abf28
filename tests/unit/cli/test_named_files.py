from pathlib import Path

import pytest
from omegaconf import OmegaConf

from forecast.cli.compose import find_named_files


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"checkpoint": None, "data": {"name": "csv", "path": None}},
        {
            "checkpoint": "run",
            "data": {"path": "other.csv"},
        },  # what the file must be depends on the checkpoint
        {"data": {"name": "csv", "path": "s3://bucket/load.csv"}},
        {"data": {"name": "store", "path": "load.store"}},
        {"data": {"name": "csv", "path": "run"}},
    ],
)
def test_everything_else_is_left_to_its_reader(
    settings: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()
    find_named_files(OmegaConf.create(settings))


def test_latest_is_looked_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends during the command does not become the run that the command reads."""
    monkeypatch.chdir(tmp_path)
    config = OmegaConf.create({"checkpoint": "latest"})
    for name in ("old", "new"):
        (tmp_path / "runs" / name / "checkpoints").mkdir(parents=True)
        (tmp_path / "runs" / name / "metrics.json").touch()
        find_named_files(config)
    assert config.checkpoint == str(Path("runs", "old"))
