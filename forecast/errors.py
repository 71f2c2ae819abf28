"""The mistakes a user can make, each ending in one line on stderr and exit status 2 (see `forecast.cli`)."""


class ForecastError(ValueError):
    """A mistake in what the user gave: the message says what, where, and what to do."""


class ConfigError(ForecastError):
    """A configuration that cannot work."""


class DataError(ForecastError):
    """A table that cannot be trusted: the message names the file, the column and the first bad row."""


class TrainingError(ForecastError):
    """Training that cannot go on."""


class CheckpointError(ForecastError):
    """A checkpoint that is missing, damaged, or of something else."""
