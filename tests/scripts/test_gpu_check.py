"""`scripts/gpu_check` on a machine without a CUDA device, and environments for packages that this Python lacks."""

import os
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

import environment

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


@pytest.mark.long
@pytest.mark.slow
def test_missing_packages_come_from_the_wheels_and_torch_stays(tmp_path: Path) -> None:
    wheels, info = tmp_path / "wheels", "lacking_package-1.0.dist-info"
    wheels.mkdir()
    options = ("--no-index", "--find-links", str(wheels))
    with pytest.raises(environment.SetUpError, match="lacking-package"):
        environment.make_environment(tmp_path / "venv", ["lacking-package>=1"], *options)
    with zipfile.ZipFile(wheels / "lacking_package-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("lacking_package.py", "")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: lacking-package\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    python = environment.make_environment(tmp_path / "venv", ["lacking-package>=1"], *options)
    code = "import lacking_package, sys; from importlib.metadata import version; print(sys.prefix, version('torch'))"
    said = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert said == [str(tmp_path / "venv"), version("torch")]
    assert not list((tmp_path / "venv").glob("lib/python*/site-packages/torch*"))
