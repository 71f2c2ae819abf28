"""The mistakes a user can make, each ending in one line on stderr and exit status 2 (see `forecast.cli`)."""

LONGEST_MESSAGE = 2_000


class ForecastError(ValueError):
    """A mistake in what the user gave: the message says what, where, and what to do."""


class ConfigError(ForecastError):
    """A configuration that cannot work."""


class NotInstalled(ConfigError):
    """What was asked for needs a package of an extra; `extra` as pyproject.toml names it."""

    def __init__(self, what: str, extra: str, package: str = "a package") -> None:
        super().__init__(
            f"{what}: {package} is not installed: pip install -c constraints.txt -e '.[{extra}]'"
        )


class DataError(ForecastError):
    """A table that cannot be trusted: the message names the file, the column and the first bad row."""


class TrainingError(ForecastError):
    """Training that cannot go on."""


class CheckpointError(ForecastError):
    """A checkpoint that is missing, damaged, or of something else."""


def printable(text: str) -> str:
    """One line that shows what it says: a file's or a user's control characters, which could change what a terminal
    shows, as their escapes, and the middle of a very long text left out.
    """
    line = " ".join(text.split())
    if len(line) > LONGEST_MESSAGE:
        line = f"{line[: LONGEST_MESSAGE // 2]} ... {line[-LONGEST_MESSAGE // 2 :]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
