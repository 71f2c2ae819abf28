"""Available memory within the limit of a container."""

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from forecast.system import memory

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
