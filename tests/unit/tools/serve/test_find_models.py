"""The models that a server finds."""

from pathlib import Path

import pytest

from forecast.tools.serve.processes import find_models


def make_run(folder: Path) -> Path:
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "best.ckpt").touch()
    return folder


def test_a_link_gives_its_name_and_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = make_run(tmp_path / "v1"), make_run(tmp_path / "v2")
    link = tmp_path / "solar"
    link.symlink_to(first)
    monkeypatch.chdir(tmp_path)
    found = find_models(["solar"])
    assert found == {"solar": link}
    link.unlink()
    link.symlink_to(second)
    assert found["solar"].resolve() == second
    assert find_models([str(tmp_path)]).keys() == {"solar", "v1", "v2"}
