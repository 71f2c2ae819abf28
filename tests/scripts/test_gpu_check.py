"""`scripts/gpu_check` on a machine without a CUDA device, or without packages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "gpu_check"


def gpu_check(python: Path | str, *options: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The script, as a user of this Python starts it in `folder`."""
    path = os.pathsep.join([str(Path(python).parent), os.environ["PATH"]])
    return subprocess.run(
        [str(SCRIPT), *options], cwd=folder, capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a CUDA device")
def test_without_a_device_it_says_so(tmp_path: Path) -> None:
    done = gpu_check(sys.executable, "--out", str(tmp_path), folder=tmp_path)
    assert (done.returncode, done.stderr) == (2, "error: PyTorch finds no CUDA device on this machine\n")
    assert not list(tmp_path.iterdir())
