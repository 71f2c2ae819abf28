"""The space of a hyperparameter search: the overrides that each trial draws.

Imports optuna (extra `optuna`).
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep, Transformer
from optuna.trial import Trial

from forecast.system.errors import ConfigError

Draw = Callable[[Trial], Any]
"""Draws the value of one parameter of a trial."""


def read_search_space(
    arguments: Sequence[str], config_loader: Any = None
) -> tuple[dict[str, Draw], list[str]]:
    """Split overrides into the parameters that each trial draws, and the overrides that all trials share.

    If a key has several overrides, the last one counts.

    Args:
        arguments: overrides in Hydra's syntax. `interval`, `choice` (also `a,b`), `range` and `glob` are drawn. The tag
            `log` of an interval draws on a logarithmic scale. `int(interval(1, 4))` draws whole numbers.
        config_loader: Hydra's, which knows the options that `glob` selects.

    Raises:
        ConfigError: a range has no values, or trials would have validation scores that cannot be compared.
    """
    parsed = OverridesParser.create(config_loader).parse_overrides(list(arguments))
    last = {override.get_key_element().lstrip("+~"): override for override in parsed}
    drawn = [o for o in last.values() if o.is_sweep_override()]
    check_comparable(drawn)
    draws = {o.get_key_element(): draw_of(o) for o in drawn}
    return draws, [o.input_line or "" for o in last.values() if not o.is_sweep_override()]


def check_comparable(drawn: Sequence[Override]) -> None:
    """Raise ConfigError if the search would draw what the validation score measures: quantiles or their levels."""
    for override in drawn:
        key = override.get_key_element()
        if key == "levels":
            raise ConfigError(
                f"{override.input_line}: the quantile loss, which a search compares, depends on levels"
            )
        if key == "loss" and "quantile" in (override.input_line or ""):
            raise ConfigError(
                f"{override.input_line}: a search compares the quantile loss of trials with loss=quantile and the MSE "
                "of others, so it cannot draw both"
            )


def draw_of(override: Override) -> Draw:
    """Return the function that draws the value of an override that is a sweep."""
    name, value = override.get_key_element(), override.value()
    if isinstance(value, IntervalSweep):
        low, high = value.start, value.end
        suggest: Any = (
            Trial.suggest_int if isinstance(low, int) and isinstance(high, int) else Trial.suggest_float
        )
        return partial(suggest, name=name, low=low, high=high, log="log" in value.tags)
    values: list[Any] = list(override.sweep_iterator(transformer=Transformer.encode))
    if not isinstance(value, RangeSweep):
        return partial(Trial.suggest_categorical, name=name, choices=values)
    if not values:
        raise ConfigError(f"{override.input_line}: this range has no values")
    is_whole = all(isinstance(each, int) for each in values)
    number, suggest = (int, Trial.suggest_int) if is_whole else (float, Trial.suggest_float)
    start, step = Decimal(str(value.start)), Decimal(str(value.step))  # 0.1 + 0.2 is 0.3
    low, high = sorted((start, start + (len(values) - 1) * step))
    return partial(suggest, name=name, low=number(low), high=number(high), step=number(abs(step)))
