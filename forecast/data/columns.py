"""The columns that a model reads, and those that it forecasts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from forecast.data.panel import Panel
from forecast.system.errors import ConfigError, DataError
from forecast.system.formatting import shorten

Value = TypeVar("Value")


@dataclass(frozen=True)
class Columns:
    """features: names that are read; targets: names that are forecast; index: the targets among the features."""

    features: tuple[str, ...]
    targets: tuple[str, ...]
    index: list[int]


def choose_columns(name: str, panel: Panel, features: str, target: str | None) -> Columns:
    """The columns by `features` (M, S or MS) and `target`. Raises ConfigError naming the possible targets."""
    target = _find_target(name, panel.targets, features, target)
    if features == "S" and panel.past_covariates:
        raise ConfigError(
            "features=S reads the target alone: leave data.past_covariates out, or set features=MS"
        )
    read = (target,) if features == "S" else panel.columns
    forecast = panel.targets if features == "M" else (target,)
    return Columns(read, forecast, [read.index(column) for column in forecast])


def _find_target(name: str, columns: Sequence[str], features: str, target: str | None) -> str:
    listed = shorten(columns, 20)
    if target is None:
        if features != "M" and len(columns) > 1:
            raise ConfigError(f"features={features} needs data.target, one of: {listed}")
        return columns[0]
    if target not in columns:
        raise ConfigError(f"data.target={target} is not a column of {name}: {listed}")
    return target


def check_columns(
    name: str, state: Mapping[str, Any], features: Sequence[str], targets: Sequence[str]
) -> None:
    """Raise DataError if these columns are not those of a checkpoint's data module, `state`."""
    for what, columns in {"feature_columns": features, "target_columns": targets}.items():
        mine, theirs = ", ".join(columns), ", ".join(state[what])
        if mine != theirs:
            raise DataError(
                f"{name}: {what.replace('_', ' ')} {mine}, where the checkpoint was trained on {theirs}",
                ": choose the same (data.columns, data.target, data.past_covariates, features)",
            )


def by_column(
    key: str,
    setting: Value | Mapping[str, Value] | None,
    columns: Sequence[str],
    default: Value,
    what: str = "column",
) -> dict[str, Value]:
    """The value of a setting for each column: one value for all, or a mapping; `default` where there is none.

    Raises ConfigError where the mapping names a column that is not among `columns`; `what` says what these are.
    """
    if not isinstance(setting, Mapping):
        return dict.fromkeys(columns, default if setting is None else setting)
    given = {str(name): value for name, value in setting.items()}
    for name in given:
        if name not in columns:
            raise ConfigError(
                f"{key} names {name}, which is no {what} here: there are {', '.join(columns[:20])}"
            )
    return {name: default if given.get(name) is None else given[name] for name in columns}
