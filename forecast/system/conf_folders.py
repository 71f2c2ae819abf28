"""The folders of YAML files: that of this package, and one of the user (FORECAST_CONF). Imports no torch."""

import os
from pathlib import Path

from forecast.system.errors import ConfigError
from forecast.system.paths import CONF, user_path

GROUPS_OF_ATTENTION = ("attention", "encoder", "decoder", "cross", "variables")
"""The groups whose options are the files of the folder `attention`."""


def conf_folders() -> list[Path]:
    """The folders of YAML files: that of this package, and that of the environment variable FORECAST_CONF.

    A user's folder has the same folders, such as `attention` and `model`, with options of their own.
    Raises ConfigError if it is no folder.
    """
    own = os.environ.get("FORECAST_CONF")
    if not own:
        return [CONF]
    folder = user_path(own).absolute()
    if not folder.is_dir():
        raise ConfigError(
            f"FORECAST_CONF={own}: no such folder: name one with YAML files, or unset the variable"
        )
    return [CONF, folder]


def folder_of_group(group: str) -> str:
    """The folder, below each of `conf_folders`, of the options of a group."""
    return "attention" if group in GROUPS_OF_ATTENTION else group


def conf_files(group: str) -> list[Path]:
    """The YAML files of the options of a group, by name; of two of one name, that of the package."""
    places = [folder / folder_of_group(group) for folder in conf_folders()[::-1]]
    files = {path.stem: path for place in places for path in place.glob("*.yaml")}
    return [files[name] for name in sorted(files)]
