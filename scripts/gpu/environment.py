"""The machine that `scripts/gpu_check` runs on: hardware, packages, and installation of missing packages."""

import os
import platform
import re
import shlex
import site
import subprocess
import sys
import tomllib
import venv
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOR_TESTS = ("beartype", "hypothesis", "pytest", "pytest-timeout", "pytest-xdist")


class MissingPackages(Exception):
    """A package is missing and cannot be installed; the message is one line that says what to do."""


def requirements() -> list[str]:
    """Return the requirements of the project and its tests from pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for_tests = [r for r in project["optional-dependencies"]["dev"] if name_of(r) in FOR_TESTS]
    return [*project["dependencies"], *for_tests]


def name_of(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]


def missing() -> list[str]:
    """Return the requirements whose packages are not installed, whatever their version."""
    lacking = []
    for requirement in requirements():
        try:
            version(name_of(requirement))
        except PackageNotFoundError:
            lacking.append(requirement)
    return lacking


def python_with_everything(wheels: Path | None, folder: Path) -> str:
    """Return this Python if nothing is missing, else that of a new environment which also has the packages of this one.

    Raises:
        MissingPackages: the packages cannot be installed from `wheels`.
    """
    lacking = missing()
    if not lacking:
        return sys.executable
    names = ", ".join(name_of(requirement) for requirement in lacking)
    if "torch" in names.split(", "):
        raise MissingPackages(f"{sys.executable} has no torch: run the script with a Python that has it")
    how = (
        f"on a machine with network and Python {platform.python_version_tuple()[0]}."
        f"{platform.python_version_tuple()[1]} run `pip download -d wheels {shlex.join(lacking)}`, bring the folder, "
        "and give --wheels wheels"
    )
    if wheels is None:
        raise MissingPackages(f"not installed here: {names}; {how}")
    print(f"installing {names} from {wheels}", flush=True)
    python = make_environment(folder)
    kept = folder / "kept.txt"
    kept.write_text(f"torch=={version('torch')}\n")
    install = [
        "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-build-isolation",
        "--find-links", str(wheels.resolve()), "--constraint", str(kept), *lacking,
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, *install],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["pip gave no reason"]
        reason = next((line for line in said if line.startswith("ERROR:")), said[-1])
        reason = reason.removeprefix("ERROR: ")
        raise MissingPackages(
            f"{wheels}: the packages cannot be installed from this folder ({reason}); {how}"
        )
    return python


def make_environment(folder: Path) -> str:
    """Create a virtual environment with the packages of this Python, which may be virtual itself; return its Python."""
    venv.create(folder, system_site_packages=True, symlinks=os.name == "posix")
    (own,) = folder.glob("lib/python*/site-packages")
    (own / "machine.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return str(folder / "bin" / "python")


def machine() -> dict[str, Any]:
    """Return the hardware, the driver and the versions."""
    import torch

    facts: dict[str, Any] = {"date": datetime.now(UTC).date().isoformat(), "cuda_device": None}
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        facts |= {
            "cuda_device": properties.name,
            "memory_gib": round(properties.total_memory / 2**30, 1),
            "multiprocessors": properties.multi_processor_count,
            "compute_capability": f"{properties.major}.{properties.minor}",
            "driver": driver(),
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
        }
    packages = {}
    for requirement in requirements():
        packages[name_of(requirement)] = version(name_of(requirement))
    return {
        **facts,
        "cpu_cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": packages,
    }


def driver() -> str | None:
    """Return the version of the driver from nvidia-smi; None if it cannot be run."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
