"""Runs of `python -m forecast.convert` within this process."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import run_command

Convert = Callable[..., str]


def converter(folder: Path, capsys: pytest.CaptureFixture, *fixed: str) -> Convert:
    """A function that converts a.csv in a folder to a.store, unless told otherwise.

    It returns what the command printed, or its one line of error. `fixed` overrides come with every call.
    """

    def run(*overrides: str, status: int = 0) -> str:
        given = [] if any(o.startswith("data.path=") for o in overrides) else ["data.path=a.csv"]
        code = run_command("convert", folder, *given, *fixed, "output=a.store", *overrides)
        said = capsys.readouterr()
        assert code == status, said
        if status == 0:
            return said.out
        lines = [line for line in said.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, said
        return lines[0].removeprefix("error: ")

    return run
