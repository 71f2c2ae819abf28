"""`scripts/gpu_check` on a machine without a CUDA device, or without packages."""

import os
import runpy
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import torch

import environment

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "gpu_check"
MODULE = runpy.run_path(str(SCRIPT))


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


def test_a_missing_package_is_named_with_what_to_do(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    (site_packages,) = (tmp_path / "bare").glob("lib/python*/site-packages")
    for requirement in MODULE["list_requirements"]():
        if (name := environment.name_of(requirement)) not in ("hydra-core", "wandb"):
            info = site_packages / f"{name.replace('-', '_')}-9.0.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Name: {name}\nVersion: 9.0\n")
    done = gpu_check(tmp_path / "bare" / "bin" / "python3", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: not installed here: hydra-core, wandb; on a machine with network")
    assert "pip download -d wheels 'hydra-core>=1.3.2' 'wandb>=0.19'" in done.stderr
