"""Runs of `python -m forecast.convert`, within this process or killed on the way."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from forecast.data.store.format import PARTS
from tests.support.commands import answer, finish, start

Convert = Callable[..., str]
CONVERT = ("-m", "forecast.convert")


def converter(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, *fixed: str
) -> Convert:
    """A function that converts a.csv in a folder to a.store, unless told otherwise.

    It returns what the command printed, or its one line of error. `fixed` overrides come with every call.
    """

    def run(*overrides: str, status: int = 0) -> str:
        given = [] if any(o.startswith("data.path=") for o in overrides) else ["data.path=a.csv"]
        code = answer(monkeypatch, "convert", folder, *given, *fixed, "output=a.store", *overrides)
        said = capsys.readouterr()
        assert code == status, said
        if status == 0:
            return said.out
        lines = [line for line in said.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, said
        return lines[0].removeprefix("error: ")

    return run


def kill_conversion(folder: Path, settings: tuple[str, ...], seen: int) -> None:
    """Start a conversion to b.store, and kill it once it has read so many bytes."""
    note = folder / ".b.store.partial" / "progress.json"
    process = start(folder, program=CONVERT, settings=settings)
    while process.poll() is None and not offset(note) >= seen:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (folder / "b.store").exists()


def resume_conversion(folder: Path, settings: tuple[str, ...]) -> None:
    """Repeat a killed conversion to b.store to its end."""
    result = finish(start(folder, program=CONVERT, settings=settings))
    assert result.returncode == 0, result.stderr
    assert "resumes at row" in result.stdout


def check_same_bytes(folder: Path) -> None:
    """Check that b.store has the bytes of a.store."""
    for name in PARTS:
        assert (folder / "b.store" / name).read_bytes() == (folder / "a.store" / name).read_bytes()


def offset(note: Path) -> int:
    """How far into the file a conversion came."""
    return json.loads(note.read_text())["position"]["offset"] if note.exists() else -1
