"""The values of overrides that give several values, which a sweep runs one by one. Imports no torch."""

from collections.abc import Sequence
from typing import Any

from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep

from forecast.system.errors import ConfigError


def values_of(override: Override) -> list[Any]:
    """The value of an override, or all values of a sweep over choices. Hydra checks other sweeps."""
    if override.is_choice_sweep():
        return list(override.sweep_iterator(transformer=lambda x: x))
    return [] if override.is_sweep_override() or override.is_delete() else [override.value()]


def ends_of(override: Override) -> list[Any]:
    """The first and the last value of a sweep over an interval or a range of numbers."""
    value = override.value()
    if isinstance(value, IntervalSweep):
        return [value.start, value.end]
    if isinstance(value, RangeSweep) and (values := list(override.sweep_iterator(transformer=lambda x: x))):
        return [values[0], values[-1]]
    return []


def draws_fractions(override: Override) -> bool:
    """Whether an override draws numbers from an interval that is not one of whole numbers."""
    value = override.value()
    return isinstance(value, IntervalSweep) and isinstance(value.start, float)


def refuse_sweep(overrides: Sequence[Override]) -> None:
    """Raise ConfigError for an override with several values, in a command without -m."""
    for override in overrides:
        if override.is_sweep_override():
            raise ConfigError(
                f"{override.input_line}: several values: give one of them, or a list in brackets; forecast.train, "
                "forecast.backtest and forecast.benchmark run each of them with -m"
            )


def first_of_sweep(override: Override) -> str:
    """An override as text, with the first value of a sweep over choices."""
    if not override.is_choice_sweep():
        return override.input_line or ""
    return f"{override.get_key_element()}={next(iter(override.sweep_string_iterator()))}"


def first_of_sweeps(overrides: Sequence[Override]) -> list[str]:
    """Overrides as text, with the first value of each sweep over choices; without sweeps over ranges and intervals."""
    return [first_of_sweep(o) for o in overrides if o.is_choice_sweep() or not o.is_sweep_override()]
