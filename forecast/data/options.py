"""Checks of the options that every data set has."""

from collections.abc import Mapping

from forecast.data.scaling import SCALE_BY, SCALERS
from forecast.system.errors import ConfigError

FEATURES = ("M", "S", "MS")
AUTO = "auto"


def check_options(
    required: Mapping[str, int],
    optional: Mapping[str, int | None],
    seed: int,
    *,
    features: str,
    scaler: str,
    scale_by: str,
) -> None:
    """Raises ConfigError for the first option that cannot be; numbers are whole and at least 1."""
    given = {key: value for key, value in optional.items() if value is not None}
    for key, value in {**required, **given}.items():
        if type(value) is not int or value < 1:
            raise ConfigError(f"{key}={value} must be a whole number of at least 1")
    if type(seed) is not int or seed < 0:
        raise ConfigError(f"seed={seed} must be a whole number of at least 0")
    choices = {
        "features": (features, FEATURES),
        "data.scaler": (scaler, SCALERS),
        "data.scale_by": (scale_by, SCALE_BY),
    }
    for key, (value, known) in choices.items():
        if value not in known:
            raise ConfigError(f"{key}={value} is not one of {', '.join(known)}")


def windows_an_epoch(asked: int | str | None, count: int) -> int:
    """The number of `count` training windows that an epoch trains on; None: all.

    `auto` is a seventh of them, at least 4,096 and at most 100,000. Neighbouring windows are almost equal, so a model
    that overfits after some passes has its best epoch long before the end of the first pass; more rows need more
    windows, and beyond a hundred thousand only the epochs get longer (docs/residual.md).
    """
    if asked == AUTO:
        asked = min(max(4_096, count // 7), 100_000)
    return count if asked is None else min(int(asked), count)
