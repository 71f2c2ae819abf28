"""Checks of the options of a forecast and of a backtest, before data are read. Imports no torch."""

import warnings

import pandas as pd
from omegaconf import DictConfig, OmegaConf

from forecast.evaluation.levels import ADAPTIVE, CONFORMAL, INTERVAL_METHODS, QUANTILE, parse_levels
from forecast.evaluation.scores import LABELS
from forecast.system.errors import ConfigError, check_choice, check_count

AUTO = "auto"

NEVER, FINE_TUNE, SCRATCH = "never", "fine_tune", "scratch"
POLICIES = (NEVER, FINE_TUNE, SCRATCH)
"""The policies after each `refit_every` rows: nothing, more epochs of the trained model, or a new training."""


def check_forecast(config: DictConfig) -> None:
    """Raise ConfigError for an option of `forecast.predict` that no model can use."""
    if config.baseline is not None:
        check_baseline(config.baseline)
    check_method(config.intervals, config.baseline)
    if config.levels is not None:
        parse_levels(
            OmegaConf.to_object(config.levels) if OmegaConf.is_config(config.levels) else config.levels
        )
    if config.horizon is not None:
        check_count("horizon", config.horizon)
    if config.start is not None:
        read_date("start", config.start)


def check_baseline(name: object) -> None:
    """Raise ConfigError if there is no baseline of this name."""
    check_choice("baseline", name, LABELS, advice="; null: the model")


def check_method(method: str, baseline: object) -> None:
    """Raise ConfigError for an unknown method of intervals, or trained quantiles of a baseline (None: the model)."""
    check_choice("intervals", method, (AUTO, *INTERVAL_METHODS))
    if method == QUANTILE and baseline is not None:
        raise ConfigError(
            f"intervals=quantile are the model's, not those of baseline={baseline}: use conformal or adaptive"
        )


def read_date(key: str, text: str | pd.Timestamp) -> pd.Timestamp:
    """Read a user's date. Raises ConfigError for a text that is no date, or in which day and month could be swapped."""
    write = "write it as 2018-01-31 or 2018-01-31T06:00"
    iso = pd.to_datetime(text, format="ISO8601", errors="coerce")
    if not pd.isna(iso):
        return iso
    try:
        with warnings.catch_warnings(
            action="ignore", category=UserWarning
        ):  # where only one order can be meant
            dates = [pd.to_datetime(text, dayfirst=dayfirst) for dayfirst in (False, True)]
    except ValueError:
        raise ConfigError(f"{key}={text} is not a date: {write}") from None
    if dates[0] != dates[1]:
        raise ConfigError(f"{key}={text}: day or month first? {write}")
    return dates[0]


def check_backtest(config: DictConfig) -> None:
    """Raise ConfigError for an invalid option of a backtest."""
    for key in ("refit", "resume"):
        if config[key] is not None:
            raise ConfigError(f"{key}={config[key]}: a backtest has no {key}: leave it out")
    for key in ("steps", "stride", "refit_every"):
        if config[key] is not None:
            check_count(key, config[key], unit="rows")
    if not config.checkpoint and config.steps is not None and config.steps < config.pred_len:
        raise ConfigError(f"steps={config.steps} is shorter than pred_len={config.pred_len}: give more steps")
    interval_methods(config)
    list_policies(config)


def interval_methods(config: DictConfig) -> tuple[str, ...]:
    """The methods of the intervals to score. Raises ConfigError for an unknown one."""
    check_choice("intervals", config.intervals, (CONFORMAL, ADAPTIVE))
    return (CONFORMAL,) if config.intervals == CONFORMAL else (CONFORMAL, ADAPTIVE)


def list_policies(config: DictConfig) -> list[str]:
    """The policies of `retrain`. Raises ConfigError for an unknown one, or for one that needs `refit_every`."""
    given = config.retrain if OmegaConf.is_list(config.retrain) else [config.retrain]
    policies, setting = list(dict.fromkeys(given)), f"retrain=[{','.join(map(str, given))}]"
    if not policies or not set(policies) <= set(POLICIES):
        raise ConfigError(f"{setting} must be one or more of {', '.join(POLICIES)}")
    if config.refit_every is None and policies not in ([SCRATCH], [NEVER]):
        raise ConfigError(f"{setting} needs refit_every=, the number of rows between two trainings")
    return policies
