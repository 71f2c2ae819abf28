"""An environment of its own for packages that this Python lacks. Standard library only."""

import os
import re
import site
import subprocess
import sys
import venv
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

VENV = Path(__file__).resolve().parents[1] / ".venv"
"""The environment that `scripts/setup` makes."""


class SetUpError(Exception):
    """An environment that cannot be created or used; the message is one line."""


def use_venv() -> None:
    """Start this script again with the Python of `VENV` if this one has no PyTorch."""
    python = VENV / "bin" / "python"
    if find_spec("torch") is None:
        if not python.exists():
            sys.exit("error: PyTorch is not installed: run scripts/setup dev, then this command again")
        os.execv(python, [str(python), *sys.argv])


def name_of(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]


def list_missing(requirements: Sequence[str]) -> list[str]:
    """Return the requirements whose packages are not installed, whatever their version."""
    missing = []
    for requirement in requirements:
        try:
            version(name_of(requirement))
        except PackageNotFoundError:
            missing.append(requirement)
    return missing


def make_environment(folder: Path, requirements: Sequence[str], *options: str) -> str:
    """Create an environment with the packages of this one and further ones, and return its Python.

    PyTorch keeps its version.

    Args:
        folder: new, empty, or an environment, which is completed.
        requirements: the further packages.
        options: of `pip install`.

    Raises:
        SetUpError: the folder holds other files, or the packages cannot be installed.
    """
    if not (folder / "pyvenv.cfg").exists():
        if folder.exists() and any(folder.iterdir()):
            raise SetUpError(f"{folder} holds other files: give a new folder or an environment")
        venv.create(folder, symlinks=True)
        (own,) = folder.glob("lib/python*/site-packages")
        # This Python may be virtual itself, so that include-system-site-packages would not find its packages.
        (own / "parent.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    python, kept = str(folder / "bin" / "python"), folder / "kept.txt"
    kept.write_text(f"torch=={version('torch')}\n")
    quiet = ("--quiet", "--disable-pip-version-check", "--constraint", str(kept))
    pip = [sys.executable, "-m", "pip", "--python", python, "install", *quiet, *options, *requirements]
    done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["pip gave no reason"]
        reason = next((line for line in lines if line.startswith("ERROR:")), lines[-1])
        raise SetUpError(f"the packages cannot be installed ({reason.removeprefix('ERROR: ')})")
    return python
