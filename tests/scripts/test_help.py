"""Every script in Python answers --help, also when started with a Python that has no packages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from environment import VENV
from tests.support.long_variants import every_nth

ROOT = Path(__file__).parents[2]
BARE = getattr(sys, "_base_executable", sys.executable) if VENV.exists() else sys.executable
SCRIPTS = [
    path.name
    for path in sorted((ROOT / "scripts").iterdir())
    if path.is_file() and path.read_text().startswith("#!/usr/bin/env python3")
]


@pytest.mark.parametrize("name", every_nth(SCRIPTS, 5))
def test_help_is_printed(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [BARE, str(ROOT / "scripts" / name), "--help"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path, text=True, capture_output=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "usage: " in done.stdout
    assert not list(tmp_path.iterdir())
