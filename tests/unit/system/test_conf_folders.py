"""The folder of a user's own options, beside that of the package."""

from pathlib import Path

import pytest

from forecast.system.errors import CONF, ConfigError
from forecast.system.location import conf_files, conf_folders, known_targets


def test_files_of_both_folders_are_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [path.stem for path in conf_files("encoder")]
    (tmp_path / "attention").mkdir()
    for name in ("full", "window_mean"):
        (tmp_path / "attention" / f"{name}.yaml").write_text("_target_: mine.WindowMeanAttention\n")
    monkeypatch.setenv("FORECAST_CONF", str(tmp_path))
    assert conf_folders() == [CONF, tmp_path]
    assert {path.stem for path in conf_files("encoder")} == {*before, "window_mean"}
    assert [path.parent for path in conf_files("encoder") if path.stem == "full"] == [CONF / "attention"]
    assert "mine.WindowMeanAttention" in known_targets("attention")
    monkeypatch.delenv("FORECAST_CONF")
    assert "mine.WindowMeanAttention" not in known_targets()


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORECAST_CONF", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError):
        conf_folders()
