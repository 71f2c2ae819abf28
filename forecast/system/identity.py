"""What makes two runs the same: views of the table of keys (`forecast.system.keys`)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from forecast.system.keys import AFTER, LAUNCH, LOG, NAME, PLACE, RESULT, SOURCE, STATE, Effect, row_of

ALL = frozenset(Effect)
OF_ONE_RUN = ALL - {PLACE, LOG, LAUNCH}
"""Effects in which a run must agree with the command that resumes it."""
OF_ONE_VARIANT = OF_ONE_RUN - {SOURCE, AFTER, NAME}
"""Effects in which scores differ, on the same test windows."""


def effect_of(key: str, config: Mapping[str, Any] | None = None) -> Effect:
    """What a key changes in a configuration. A key that the user added may change the result."""
    row = row_of(key)
    if row is None:
        return RESULT
    is_quantile = config is not None and config.get("loss") == "quantile"
    return (
        STATE if row.name == "levels" and is_quantile else row.effect
    )  # the model has outputs for its levels


def effect_of_override(argument: str) -> Effect:
    """What an override changes, as it is typed: `key=value`, `group=option`, with `+` or `~` before it."""
    return effect_of(key_of_override(argument))


def key_of_override(argument: str) -> str:
    return argument.partition("=")[0].lstrip("+~").partition("@")[0].replace("/", ".")


def identity(
    config: Mapping[str, Any], effects: Iterable[Effect] = ALL, *, below: str = "", per_machine: bool = True
) -> dict[str, Any]:
    """The settings, by dotted key, in which two configurations must agree to be the same run in these effects.

    Args:
        config: Plain values, interpolations resolved.
        effects: What counts.
        below: Only the keys of this group.
        per_machine: Whether keys count that may differ between the machines of one run.
    """
    wanted = frozenset(effects)
    return {
        key: value
        for key, value in flatten(config)
        if key.startswith(f"{below}." if below else "")
        and effect_of(key, config) in wanted
        and (per_machine or not is_per_machine(key))
    }


def is_per_machine(key: str) -> bool:
    row = row_of(key)
    return row is not None and row.per_machine


def flatten(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted key and the value of every setting; an empty mapping is a value."""
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def first_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """The first key in which two identities differ, with both values; None where they are equal."""
    for key in {**old, **new}:
        if old.get(key) != new.get(key):
            return key, old.get(key), new.get(key)
    return None
