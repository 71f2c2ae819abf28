"""A training run on a DataFrame, for `forecast.fit`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

import pandas as pd
from omegaconf import DictConfig, OmegaConf

from forecast.cli import safety
from forecast.cli.compose import compose_command, compose_config
from forecast.cli.overrides import quote as quote_override
from forecast.commands.train import train
from forecast.data import DataModule, frame_data
from forecast.data.sources import MODULE_OPTIONS, option_names
from forecast.inference.model_data import FRAME
from forecast.runs.folder import write_config
from forecast.system.errors import ConfigError
from forecast.system.formatting import write_value
from forecast.system.keys import key_of_override
from forecast.system.location import known_targets


def train_on_frame(
    frame: pd.DataFrame | pd.Series, given: Sequence[str], roles: Mapping[str, Any], *, suggest: bool
) -> Path:
    """Train on a DataFrame and test, in a new run folder, which is returned.

    Args:
        frame: see `forecast.fit`.
        given: overrides.
        roles: the options of `frame_data` that name columns.
        suggest: whether to take the settings that `forecast.check` suggests and that `given` leaves out.
    """
    layout = "data=long" if "id_column" in roles else "data=csv"
    compose_command("train", [layout, *given])
    check_data_overrides(given)
    if suggest:
        suggested = suggest_for(frame, roles, given)
        roles, given = leave_out_settled(roles, suggested), [*suggested, *given]
    config = compose_run([layout, *given])
    config.data.update(roles)
    data = make_frame_data(frame, config)
    write_config(Path(config.output_dir), config, given)
    train(config, data)
    return Path(config.output_dir)


def write_overrides(
    settings: Mapping[str, Any], overrides: Sequence[str], target: str | None, is_table: bool
) -> list[str]:
    """The arguments of `fit` as overrides of the command line. The target of a table is forecast from all columns."""
    typed = [*(f"{key}={write_value(value)}" for key, value in settings.items()), *overrides]
    if target is not None:
        if is_table and not any(text.startswith("features=") for text in typed):
            typed.append("features=MS")
        typed.append(f"data.target={target}")
    return [quote_override(text, sweep=False) for text in typed]


def suggest_for(frame: pd.DataFrame | pd.Series, roles: Mapping[str, Any], given: Sequence[str]) -> list[str]:
    """The settings that `forecast.check` suggests for a DataFrame, without those that are given."""
    from forecast.tools.check.diagnosis import suggest_overrides

    typed = {key_of_override(text) for text in given}
    config = compose_command("train", given)
    chosen = {key: config[key] for key in ("seq_len", "label_len", "pred_len", "features") if key in typed}
    return suggest_overrides(frame, {role: names for role, names in roles.items() if names}, chosen, typed)


def leave_out_settled(roles: Mapping[str, Any], suggested: Sequence[str]) -> dict[str, Any]:
    """The roles of columns that no suggested setting has; the suggested ones contain those that are given."""
    settled = {key_of_override(text) for text in suggested}
    return {role: names for role, names in roles.items() if f"data.{role}" not in settled}


def check_data_overrides(given: Sequence[str]) -> None:
    """Raise ConfigError for a setting that applies only to data files."""
    allowed = MODULE_OPTIONS.keys() - {"name"} | {"drop", "freq", "stamp", "steps", "calendar"}
    for text in given:
        group, _, key = text.split("=")[0].partition(".")
        if text.startswith("suggest="):
            raise ConfigError(f"{text}: give fit the argument suggest")
        if group == "data" and key not in allowed:
            raise ConfigError(
                f"{text}: this setting is for data files; change the DataFrame instead (columns, dates, gaps)"
            )


def compose_run(given: Sequence[str]) -> DictConfig:
    """Compose and check the configuration of a run on a DataFrame, with a new run folder."""
    config = compose_config(*given, f"data.name={FRAME}", "run_name=''")
    config.run_name = f"{config.model.attention.name}-{FRAME}-{config.pred_len}-s{config.seed}"
    folder = f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{config.run_name}_{token_hex(3)}"
    config.output_dir = str(Path(config.output_root) / folder)
    OmegaConf.resolve(config)
    safety.check_targets(config, known_targets())
    safety.check(config)
    return config


def make_frame_data(frame: pd.DataFrame | pd.Series, config: DictConfig) -> DataModule:
    """Create the data module of a DataFrame and set it up."""
    settings: dict[str, Any] = OmegaConf.to_container(config.data, resolve=True)  # type: ignore[assignment]
    options = {key: settings[key] for key in option_names(frame_data) if key in settings}
    data = frame_data(frame, **options)
    data.setup()
    return data
