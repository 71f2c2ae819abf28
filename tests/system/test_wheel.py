"""Installed as a wheel, the commands work from any folder: the configuration travels inside."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

import forecast

ROOT = Path(__file__).parents[2]

INSTALL_RAY = "pip install 'informer-forecast[ray]'"
TINY = (
    "model=informer", "attention=linear", "seq_len=12", "label_len=6", "pred_len=5", "model.d_model=8",
    "model.n_heads=2", "model.d_ff=8", "trainer.max_epochs=1", "windows_per_epoch=256", "logger=[]", "pictures=false",
)  # fmt: skip


def run(*command: str | Path, **options: Any) -> str:
    """Run a program without the checkout on its path; return its output."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(command, capture_output=True, text=True, env=env, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    (built,) = folder.glob("*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    options = ("--no-deps", "--no-build-isolation", "-q")
    run(sys.executable, "-m", "pip", "wheel", *options, "-w", source.parent, source)
    (built,) = source.parent.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_and_its_data_files_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = sorted(name for name in archive.namelist() if ".dist-info/" not in name)
    ours = [
        str(path.relative_to(ROOT))
        for folder in ("forecast", "hydra_plugins", "conf") for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    ]  # fmt: skip
    assert packed == sorted(f"forecast/{name}" if name.startswith("conf/") else name for name in ours)
    assert {"forecast/py.typed", "forecast/conf/train.yaml", "forecast/tools/serve/page.html"} <= set(packed)


def test_the_source_distribution_leaves_out_ignored_files(source: Path) -> None:
    with tarfile.open(source) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    ours = set(run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines())
    assert packed - ours == {"PKG-INFO"}


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, which finds the dependencies where this one has them, but not the checkout."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "-q", wheel)
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    # a path in a .pth file: the .pth files there, such as that of the checkout, are not read
    Path(site, "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder


@pytest.mark.slow
def test_the_installed_wheel_trains_outside_of_the_checkout(installed: Path, tmp_path: Path) -> None:
    program = installed / "bin" / "forecast"
    assert run(program, "--version", cwd=tmp_path) == f"forecast {forecast.__version__}\n"
    run(program, "train", *TINY, cwd=tmp_path)
    assert len(list(tmp_path.glob("runs/*/metrics.json"))) == 1
    assert "checkpoint" in run(program, "predict", "--help", cwd=tmp_path)
    code = "import forecast; forecast.fit; print(forecast.__file__)"
    found = run(installed / "bin" / "python", "-c", code, cwd=tmp_path).strip()
    assert Path(found).is_relative_to(installed)
    code = "from forecast.system.errors import NotInstalled; print(NotInstalled('hydra/launcher=ray', 'ray'))"
    said = run(installed / "bin" / "python", "-c", code, cwd=tmp_path)
    assert said == f"hydra/launcher=ray: a package is not installed: {INSTALL_RAY}\n"


@pytest.mark.slow
def test_a_server_needs_the_packages_of_its_list_only(installed: Path, tmp_path: Path) -> None:
    """A model that this environment exports is served by one without PyTorch, from a folder that cannot be written."""
    program = installed / "bin" / "forecast"
    run(program, "train", *TINY, cwd=tmp_path)
    assert run(program, "serve", "runs", "runtime=export", cwd=tmp_path).startswith("exported ")
    for path in tmp_path.glob("runs/*/checkpoints"):
        path.chmod(0o555)
    site = tmp_path / "site"
    site.mkdir()
    packages = (ROOT / "scripts" / "deploy" / "serve-packages.txt").read_text().splitlines()
    link_packages(site, [name for name in packages if not name.startswith("#")])
    (pth,) = installed.rglob("dependencies.pth")
    before = pth.read_text()
    pth.write_text(f"{site}\n")
    command = [program, "serve", "runs", "port=0"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    server = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=env)
    try:
        assert server.stdout is not None
        printed = [server.stdout.readline() for _ in range(3)]
        found = re.search(r"http://\S+", "".join(printed))
        assert found, printed
        (name,) = (path.name for path in tmp_path.glob("runs/*"))
        url = f"{found.group()}/v1/models/{name}"
        asked = urlopen(f"{url}/example").read()
        answer = json.load(urlopen(Request(f"{url}/forecast", data=asked, method="POST")))
        assert len(answer["forecast"]) == 5
    finally:
        server.terminate()
        server.communicate()
        pth.write_text(before)
    assert "torch" in printed[0]  # it says that nothing could be exported here


def link_packages(site: Path, names: Sequence[str]) -> None:
    """Link these packages, and those that they need, into a folder."""
    waiting, seen = list(names), set()
    while waiting:
        name = re.split(r"[^A-Za-z0-9._-]", waiting.pop())[0]
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # for another system
        waiting += [need for need in found.requires or () if "extra ==" not in need]
        for file in found.files or ():
            top = file.parts[0]
            if top != ".." and not (site / top).exists() and top != "__pycache__":
                (site / top).symlink_to(str(found.locate_file(top)))
