"""The command line of `scripts/benchmark_peers`.

The peers themselves are not installed where the tests run.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from peers.options import parse

ROOT = Path(__file__).parents[2]
SCRIPT = str(ROOT / "scripts" / "benchmark_peers")


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Begin it with an empty place for temporary folders: `folder`/tmp."""
    (folder / "tmp").mkdir()
    return subprocess.Popen(
        [sys.executable, SCRIPT, *arguments], cwd=folder, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(folder / "tmp"), **environment},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--repeats", "0"], "0 is not a whole number of at least 1"),
        (["--epochs", "two"], "two is not a whole number of at least 1"),
        (["--quick"], "--quick needs --out"),
        (["--fast"], "unrecognized arguments: --fast"),
    ],
)
def test_mistakes_are_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        parse(arguments)
    assert exit.value.code == 2
    assert message in capsys.readouterr().err


def test_help_answers_without_an_environment(tmp_path: Path) -> None:
    process = run(tmp_path, "--help")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "--data-root FOLDER" in out
    assert not list((tmp_path / "tmp").iterdir())


def test_other_folders_are_not_taken_for_environments(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    process = run(tmp_path, "--env", "mine")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "mine holds other files" in err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]
