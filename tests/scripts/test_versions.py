"""scripts/test_versions: which versions are asked for, with programs that only note how they are called."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "test_versions"

PYTHON = """#!/bin/sh
echo "python $*" >> "$CALLS"
mkdir -p "$3/bin"
for name in pip uv python; do
  printf '#!/bin/sh\\necho "%s $*" >> "$CALLS"\\n' $name > "$3/bin/$name"
  chmod +x "$3/bin/$name"
done
"""


def run(folder: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run the script, and return its result and the calls that it made."""
    interpreter, calls = folder / "python", folder / "calls.txt"
    interpreter.write_text(PYTHON)
    interpreter.chmod(0o755)
    calls.touch()
    environment = {
        **os.environ,
        "PYTHON": str(interpreter),
        "CALLS": str(calls),
        "REQUIRE": "torch==2.13.0 a==1",
    }
    result = subprocess.run(
        [str(SCRIPT), *arguments], env=environment, text=True, capture_output=True, timeout=60
    )
    return result, calls.read_text().splitlines()


@pytest.mark.parametrize(("which", "resolution"), [("lowest", "lowest-direct"), ("highest", "highest")])
def test_the_versions_are_resolved_and_the_tests_run_with_them(
    which: str, resolution: str, tmp_path: Path
) -> None:
    place = tmp_path / "environment"
    result, calls = run(tmp_path, which, str(place), "-x")
    assert result.returncode == 0, result.stderr
    made, _, resolved, installed, tested = calls
    assert made == f"python -m venv {place}"
    assert f"--resolution {resolution} " in resolved
    assert f"-r {place}/versions.txt " in installed
    assert tested.endswith(" tests/unit -x")
    assert (place / "more.txt").read_text() == "torch==2.13.0\na==1\n"


@pytest.mark.parametrize("arguments", [(), ("highest",), ("newest", "folder")])
def test_other_arguments_are_refused_in_one_line(arguments: tuple[str, ...], tmp_path: Path) -> None:
    result, calls = run(tmp_path, *arguments)
    assert result.returncode == 2
    assert result.stderr == "error: give lowest or highest, and a folder for the environment\n"
    assert calls == []
