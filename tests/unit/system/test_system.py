"""The folder of a user's own options, files that are written whole or not at all, and the memory of a container."""

import errno
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from forecast.cli.main import one_line
from forecast.system import memory
from forecast.system.errors import CONF, ConfigError
from forecast.system.files import atomic_file, atomic_folder
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


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")
@pytest.mark.parametrize("written", [atomic_file, atomic_folder])
def test_a_full_disk_is_reported_with_the_file_that_is_written(written, tmp_path: Path) -> None:
    path = tmp_path / "forecast.csv"
    with (
        pytest.raises(OSError, match="No space left") as failed,
        written(path),
        FULL.open("wb", buffering=0) as file,
    ):
        file.write(b"x")
    assert failed.value.errno == errno.ENOSPC
    assert one_line(failed.value) == f"{path}: No space left on device"
    assert list(tmp_path.iterdir()) == []


GIB = 2**30


@pytest.mark.parametrize(("limit", "expected"), [("max", 100), (f"{32 * GIB}", 30), (f"{512 * GIB}", 100)])
def test_pages_of_files_that_were_read_are_available(
    limit: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container of 32 GiB that uses 30 of them, 28 of which are cached files."""
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text(f"{30 * GIB}\n")
    (tmp_path / "memory.stat").write_text(f"anon {2 * GIB}\ninactive_file {28 * GIB}\nactive_file 0\n")
    monkeypatch.setattr(memory, "_CONTAINER", tmp_path)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=100 * GIB))
    assert memory.available() == expected * GIB
