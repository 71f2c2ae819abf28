"""`scripts/gpu_check` on a machine without a CUDA device: it runs to its end and says what it left out."""

import json
import os
import subprocess
import sys
import time
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from gpu import environment
from gpu.check import ON_CPU, PARTS
from gpu.parts import GPU_TESTS
from gpu.runner import Runner

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "gpu_check"


def gpu_check(python: Path | str, *options: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The script, as a user of this Python starts it in `folder`."""
    path = os.pathsep.join([str(Path(python).parent), os.environ["PATH"]])
    return subprocess.run(
        [str(SCRIPT), *options], cwd=folder, capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner("cpu", quick=True, scratch=tmp_path, data_root=None, ends=time.monotonic() + 120)


@pytest.mark.long
@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a CUDA device")
def test_without_a_device_the_gpu_parts_are_skipped_by_name(tmp_path: Path):
    done = gpu_check(sys.executable, "--quick", "--out", "there", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "there").iterdir()} == {"gpu-none.json", "gpu-none.md"}
    report = json.loads((tmp_path / "there" / "gpu-none.json").read_text())
    text = (tmp_path / "there" / "gpu-none.md").read_text(encoding="utf-8")
    assert list(report["parts"]) == list(PARTS)
    for name, part in report["parts"].items():
        if name in ON_CPU:
            assert part["status"] == "passed"
            assert part["runs"][0]["test"]["mse"] > 0
        else:
            assert f"skipped: {name}: no CUDA device\n" in done.stdout
            assert part == {"status": "skipped", "why": "no CUDA device"}
            assert f"| {name} | skipped: no CUDA device |" in text
    assert "sample (synthetic" in text
    assert f"| torch | {version('torch')} |" in text


def test_a_missing_package_is_named_with_what_to_do(tmp_path: Path):
    venv.create(tmp_path / "bare", symlinks=True)
    (site_packages,) = (tmp_path / "bare").glob("lib/python*/site-packages")
    for requirement in environment.requirements():
        if (name := environment.name_of(requirement)) not in ("hydra-core", "wandb"):
            info = site_packages / f"{name.replace('-', '_')}-9.0.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Name: {name}\nVersion: 9.0\n")
    done = gpu_check(tmp_path / "bare" / "bin" / "python3", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: not installed here: hydra-core, wandb; on a machine with network")
    assert "pip download -d wheels 'hydra-core>=1.3.2' 'wandb>=0.19'" in done.stderr
    assert not (tmp_path / "docs").exists()


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the wheel of a package that is required and not installed."""
    (tmp_path / "wheels").mkdir()
    with zipfile.ZipFile(tmp_path / "wheels" / "lacking_package-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("lacking_package.py", "")
        info = "lacking_package-1.0.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: lacking-package\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setattr(environment, "requirements", lambda: ["torch>=2.6", "lacking-package>=1"])
    return tmp_path / "wheels"


@pytest.mark.slow
def test_missing_packages_come_from_the_wheels_and_torch_stays(tmp_path: Path, wheels: Path):
    python = environment.python_with_everything(wheels, tmp_path / "venv")
    code = "import lacking_package, sys; from importlib.metadata import version; print(sys.prefix, version('torch'))"
    said = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert said == [str(tmp_path / "venv"), version("torch")]
    assert not list((tmp_path / "venv").glob("lib/python*/site-packages/torch*"))


def test_every_file_with_tests_of_a_device_is_run() -> None:
    tests = ROOT / "tests"
    marked = {
        str(path.relative_to(ROOT))
        for path in tests.rglob("test_*.py")
        if "pytest.mark.gpu" in path.read_text()
    } - {str(Path(__file__).relative_to(ROOT))}
    assert marked == set(GPU_TESTS)
