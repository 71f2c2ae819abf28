"""Files that are written whole or not at all."""

import errno
from pathlib import Path

import pytest

from forecast.cli.main import one_line
from forecast.system.files import atomic_file, atomic_folder

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
