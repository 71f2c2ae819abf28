"""Errors for users, checks of values, paths of the user."""

import os
from collections.abc import Iterable, Sequence
from numbers import Integral
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
CONF = _PACKAGE / "conf" if (_PACKAGE / "conf").is_dir() else _PACKAGE.parent / "conf"


def user_path(path: str | os.PathLike[str]) -> Path:
    """A path that a user typed: `~` is the home folder; `~name` stays where there is no such user."""
    return Path(os.path.expanduser(path))


def install_command(extra: str) -> str:
    """The command that installs an extra of pyproject.toml: in a checkout, or of an installed wheel."""
    if CONF.parent == _PACKAGE:
        return f"pip install 'informer-forecast[{extra}]'"
    return f"pip install -c constraints.txt -e '.[{extra}]'"


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
        problem: the message without `advice`, which names settings.
        is_for_training: whether only commands that train take these settings.
    """

    def __init__(self, problem: str, advice: str = "", *, is_for_training: bool = False) -> None:
        super().__init__(problem + advice)
        self.problem, self.is_for_training = problem, is_for_training


class TooFewRows(DataError):
    """Data without rows, or with so few that the step between them is unknown."""


class TextColumns(DataError):
    """Columns of text among the columns to forecast; `names` are their names."""

    def __init__(self, problem: str, advice: str, names: Sequence[str]) -> None:
        super().__init__(problem, advice, is_for_training=True)
        self.names = tuple(names)


class RowOrderError(DataError):
    """A row that repeats a date of its series, or lies before the row above."""


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


def check_choice(key: str, value: object, choices: Iterable[str], *, advice: str = "") -> None:
    """Raise ConfigError unless the value of the setting `key` is one of `choices`."""
    known = list(choices)
    if value not in known:
        raise ConfigError(f"{key}={value} is not one of {', '.join(known)}{advice}")


def check_count(key: str, value: object, *, unit: str | None = None, least: int = 1, advice: str = "") -> None:
    """Raise ConfigError unless the value of the setting `key` is a whole number (of `unit`) of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        limit = f"of at least {least}" if unit is None else f"of {unit}, at least {least}"
        raise ConfigError(f"{key}={value} must be a whole number {limit}{advice}")


def check_flag(key: str, value: object) -> None:
    """Raise ConfigError unless the value of the setting `key` is true, false or null."""
    if value not in (None, True, False):
        raise ConfigError(f"{key}={value}: true, false or null is needed")
