"""`scripts/gpu_check` on a machine without a CUDA device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu_check"


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a CUDA device")
def test_without_a_device_it_says_so(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [str(SCRIPT), "--out", str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (2, "error: PyTorch finds no CUDA device on this machine\n")
    assert not list(tmp_path.iterdir())
