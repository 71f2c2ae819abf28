"""`scripts/benchmark_series` runs to its end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.long
def test_an_epoch_of_few_steps_has_no_speed(tmp_path: Path) -> None:
    script = str(ROOT / "scripts" / "benchmark_series")
    done = subprocess.run(
        [sys.executable, script, "--series", "20", "--rows", "300", "--windows", "64"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path, text=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()][:3] == ["made", "file", "loading"]
    last = done.stdout.splitlines()[-1]
    assert last.startswith("run ")
    assert "unknown windows/s in training, 20 test windows" in last
