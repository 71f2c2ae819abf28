from pathlib import Path

import pytest
from omegaconf import OmegaConf

from forecast.cli.named_files import check_named_files
from forecast.system.errors import CheckpointError, DataError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data": {"name": "csv", "path": "load.csv"}}, r"load\.csv: no such file$"),
        ({"data": {"name": "long", "path": "~/nowhere/sales.csv"}}, r"nowhere/sales\.csv: no such file$"),
        ({"data": {"name": "csv", "path": "link.csv"}}, r"link\.csv: no such file: a broken link$"),
        ({"checkpoint": "runs/none"}, r"runs/none: there is no such checkpoint file or run folder$"),
        ({"checkpoint": "latest"}, "no finished run is below runs"),
    ],
)
def test_what_is_missing_is_refused(
    settings: dict, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("link.csv").symlink_to("nowhere.csv")
    with pytest.raises((CheckpointError, DataError), match=message):
        check_named_files(OmegaConf.create(settings))


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
    check_named_files(OmegaConf.create(settings))
