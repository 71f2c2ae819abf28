"""Exceptions for user errors, which commands print in one line on stderr (see `forecast.cli.errors`)."""

from collections.abc import Sequence

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


class DataError(ForecastError):
    """An invalid data file. The message names the file, the column and the first bad row.

    Attributes:
        problem: the message without `advice`, which names settings that only commands that train take.
    """

    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__(problem + advice)
        self.problem = problem


class TooFewRows(DataError):
    """Data without rows, or with so few that the step between them is unknown."""


class TextColumns(DataError):
    """Columns of text among the columns to forecast; `names` are their names."""

    def __init__(self, error: DataError, names: Sequence[str]) -> None:
        super().__init__(error.problem, str(error).removeprefix(error.problem))
        self.names = tuple(names)


class SeriesInRows(DataError):
    """A file with one series a row; `settings` read it in commands that train, and a note on them ends the message."""

    def __init__(self, problem: str, settings: Sequence[str], note: str) -> None:
        super().__init__(problem, f": set {' '.join(settings)}{note}")
        self.settings = tuple(settings)


class RowOrderError(DataError):
    """A row that repeats a date of its series (`repeats`), or lies before the row above; the message has two parts."""

    def __init__(self, fact: str, advice: str, *, repeats: bool) -> None:
        super().__init__(f"{fact}: {advice}")
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
