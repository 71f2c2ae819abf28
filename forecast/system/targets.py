"""Known targets: the classes that the YAML files below conf/, and those of the user, name as `_target_`.

Imports no torch: `forecast.cli.main` uses it before every command.
"""

import os
import re

from forecast.system.conf_folders import conf_folders
from forecast.system.paths import CONF


def known_targets(*groups: str) -> frozenset[str]:
    """Return the targets in the files of these configuration groups, or of all groups without arguments.

    The environment variable FORECAST_TARGETS adds targets, separated by colons.
    """
    all_groups = [folder.name for folder in CONF.iterdir() if folder.is_dir()]
    places = [folder / group for group in groups or all_groups for folder in conf_folders()]
    files = [path for place in (*places, *([] if groups else [CONF])) for path in place.rglob("*.yaml")]
    named = {name for path in files for name in re.findall(r"_target_: *([\w.]+)", path.read_text("utf-8"))}
    added = os.environ.get("FORECAST_TARGETS", "").split(":")
    return frozenset(named) | frozenset(filter(None, added))
