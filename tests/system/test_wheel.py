"""Installed as a wheel, the commands work from any folder: the configuration travels inside."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.support.selection import every_nth

ROOT = Path(__file__).parents[2]


def test_the_wheel_holds_the_configuration(tmp_path: Path) -> None:
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
        assert "hydra_plugins/forecast_launchers.py" in archive.namelist()
        packed = {name for name in archive.namelist() if name.startswith("forecast/conf/")}
    ours = {f"forecast/{p.relative_to(ROOT)}" for p in (ROOT / "conf").rglob("*.yaml")}
    assert packed == ours
    result = subprocess.run(
        [sys.executable, "-m", "forecast.train", "--cfg", "job", "attention=nystrom"], cwd=tmp_path / "site",
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "forecast.attention.NystromAttention" in result.stdout


COMMANDS = sorted(
    p.stem for p in (ROOT / "conf").glob("*.yaml") if p.stem not in ("common", "tool", "trained")
)


def test_every_configuration_has_its_command() -> None:
    assert "train" in COMMANDS
    assert [name for name in COMMANDS if not (ROOT / "forecast" / f"{name}.py").exists()] == []


@pytest.mark.parametrize("name", every_nth(COMMANDS, 4))
def test_help_and_cfg_load_no_torch(name: str, tmp_path: Path) -> None:
    for question in ("--help", "--cfg=job"):
        code = (
            f"import sys; sys.argv = [{name!r}, {question!r}]\n"
            "import runpy\n"
            f"try: runpy.run_module('forecast.{name}', run_name='__main__')\n"
            "except SystemExit: pass\n"
            "assert not {'torch', 'numpy', 'pandas', 'scipy', 'matplotlib', 'plotly'} & set(sys.modules)\n"
        )
        result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        assert f"python -m forecast.{name}" in result.stdout or question != "--help"
        assert question == "--help" or len(OmegaConf.create(result.stdout)) > 3
        assert not list(tmp_path.iterdir())
