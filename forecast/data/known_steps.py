"""Settings of future covariates: the steps after a forecast origin for which each is known. Imports no torch."""

from collections.abc import Mapping, Sequence
from typing import Any

from forecast.data.panel import Panel
from forecast.system.checks import check_count
from forecast.system.errors import ConfigError, DataError

KnownSteps = int | Mapping[str, int]


def covariate_feature_names(covariates: Sequence[str], known_steps: Sequence[int | None]) -> list[str]:
    """Names of the columns of `FutureCovariates`: covariates, then masks. They follow the calendar features."""
    masked = [name for name, steps in zip(covariates, known_steps, strict=True) if steps is not None]
    return [*covariates, *(f"{name} known" for name in masked)]


def describe_known(
    covariates: Sequence[str], as_of: Mapping[str, str], known_steps: Sequence[int | None]
) -> list[str]:
    """Each future covariate, with the column and the number of steps that are known after a forecast origin."""
    described = []
    for name, steps in zip(covariates, known_steps, strict=True):
        limits = [as_of[name]] if name in as_of else []
        limits += [f"{steps} steps"] if steps is not None else []
        described.append(name + (f" (horizon: {', '.join(limits)})" if limits else ""))
    return described


def resolve_known_steps(known_steps: KnownSteps | None, panel: Panel) -> list[int | None]:
    """The steps of each future covariate by `data.known_steps`; None: known over the whole horizon.

    Raises:
        ConfigError: a name that is no future covariate, or no future covariate at all.
    """
    columns = [panel.indicators.get(name, name) for name in panel.future_covariates]
    if not isinstance(known_steps, Mapping):
        if known_steps is not None and not columns:
            raise ConfigError(
                f"data.known_steps={known_steps} limits data.future_covariates, and there are none"
            )
        return [known_steps] * len(columns)
    for name in known_steps:
        if name not in columns:
            there = ", ".join(list(dict.fromkeys(columns))[:20]) or "none"
            raise ConfigError(
                f"data.known_steps names {name}, which is no future covariate: there are {there}"
            )
    return [known_steps.get(name) for name in columns]


def check_known_steps(known_steps: KnownSteps | None) -> None:
    """Raise ConfigError unless `data.known_steps` is null or positive whole numbers."""
    for steps in known_steps.values() if isinstance(known_steps, Mapping) else [known_steps]:
        if steps is not None:
            advice = "; a covariate whose future is not known is one of data.past_covariates"
            check_count("data.known_steps", steps, unit="steps", advice=advice)


def check_known_as_trained(
    name: str, panel: Panel, known_steps: list[int | None], state: dict[str, Any]
) -> None:
    """Raise DataError for other future covariates than the checkpoint's, or if they are known for other steps."""
    both = (
        describe_known(panel.future_covariates, panel.as_of, known_steps),
        describe_known(
            state["future_covariates"],
            state.get("as_of", {}),
            state.get("known_steps", [None] * len(state["future_covariates"])),
        ),
    )
    if both[0] != both[1]:
        mine, theirs = (", ".join(names) or "none" for names in both)
        raise DataError(
            f"{name}: future covariates {mine}, where the checkpoint was trained on {theirs}: choose the same"
        )
