"""Exceptions for user errors, which commands print in one line on stderr (see `forecast.cli.errors`)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from forecast.system.paths import install_command

MAX_MESSAGE = 2_000


class ForecastError(ValueError):
    """An error in the user's input. The message says what is wrong, where, and what to do."""


class ConfigError(ForecastError):
    """An invalid configuration."""


class NotInstalled(ConfigError):
    """A feature needs a package that is not installed; `extra` is the name of its extra in pyproject.toml."""

    def __init__(self, what: str, extra: str, package: str = "a package") -> None:
        super().__init__(f"{what}: {package} is not installed: {install_command(extra)}")


class Remedy(NamedTuple):
    """Settings of the key `data`, by name, that may read a refused file; the note ends the message."""

    settings: Mapping[str, Any]
    note: str = ""


class DataError(ForecastError):
    """An invalid data file. The message names the file, the column and the first bad row.

    Attributes:
        problem: the message without `advice`, which names settings that only commands that train take.
        remedies: the likely remedies. The message has none of them: `forecast.data.files.remedies` tries them.
        joint: text between the problem and a remedy.
        fallback: advice that is part of the problem and that a remedy replaces.
    """

    def __init__(
        self,
        problem: str,
        advice: str = "",
        remedies: Sequence[Remedy] = (),
        joint: str = ": ",
        fallback: str = "",
    ) -> None:
        super().__init__(problem + fallback + advice)
        self.problem, self.remedies = problem + fallback, tuple(remedies)
        self.joint, self.fallback = joint, fallback

    def replace_advice(self, advice: str, *, is_for_training: bool) -> None:
        """Replace all advice. `is_for_training`: it names settings that only commands that train take."""
        self.problem = self.problem.removesuffix(self.fallback)
        self.args = (self.problem + advice,)
        self.problem += "" if is_for_training else advice


class TextColumns(DataError):
    """Columns of text among the columns to forecast; `names` are their names."""

    def __init__(self, error: DataError, names: Sequence[str]) -> None:
        advice = str(error).removeprefix(error.problem)
        super().__init__(error.problem, advice, error.remedies, error.joint)
        self.names = tuple(names)


class SeriesInRows(DataError):
    """A file with one series a row, which `remedy` reads in commands that train."""

    def __init__(self, problem: str, remedy: Remedy) -> None:
        super().__init__(problem, remedies=[remedy])
        self.remedy = remedy


class RowOrderError(DataError):
    """A row that repeats a date of its series (`repeats`), or lies before the row above; the message has two parts."""

    def __init__(
        self, fact: str, advice: str, *, repeats: bool, remedies: Sequence[Remedy] = (), joint: str = ", or "
    ) -> None:
        super().__init__(f"{fact}: {advice}", remedies=remedies, joint=joint)
        self.fact, self.advice, self.repeats = fact, advice, repeats


class TrainingError(ForecastError):
    """Training that cannot continue."""


class CheckpointError(ForecastError):
    """A checkpoint that is missing, damaged, or does not fit."""


def printable(text: str) -> str:
    """Return the text as one line that is safe to print.

    Control characters, which could manipulate a terminal, are escaped. The middle of a text of more than
    `MAX_MESSAGE` characters is left out.
    """
    line = " ".join(text.split())
    if len(line) > MAX_MESSAGE:
        line = f"{line[: MAX_MESSAGE // 2]} ... {line[-MAX_MESSAGE // 2 :]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
