"""Checks of the settings in a checkpoint: allowed targets and downloads. The file may come from a stranger."""

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from forecast.system.errors import CheckpointError
from forecast.system.paths import CONF
from forecast.system.targets import known_targets

MODEL_TARGETS = known_targets("attention", "encoder", "decoder", "cross", "model", "data")
"""Allowed targets of prediction: models, attention layers and data modules."""

TRAINING_TARGETS = known_targets("optimizer", "schedule")
"""Targets that training again with a checkpoint's settings needs too: optimizers and schedules."""


def check_settings(path: Path, settings: Any, allowed: frozenset[str] | None = MODEL_TARGETS) -> None:
    """Check that settings read from the checkpoint at `path` are plain values and name only allowed targets.

    Args:
        allowed: the targets; None allows every name, for settings that are only read and never instantiated.

    Raises:
        CheckpointError: a value is not plain, is an interpolation, or names another target.
    """
    waiting = [settings]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            target = value.get("_target_")
            if allowed is not None and target is not None and target not in allowed:
                raise CheckpointError(
                    f"{path}: the checkpoint names {target}, which this project does not write into checkpoints; "
                    "nothing was executed. For a class of your own, set FORECAST_CONF or FORECAST_TARGETS as in "
                    "training"
                )
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif not (value is None or isinstance(value, str | bool | int | float)) or "${" in str(value):
            raise CheckpointError(
                f"{path}: the checkpoint's settings are not plain values; nothing was executed"
            )


def replace_download_address(saved: dict[str, Any], root: str | None) -> dict[str, Any]:
    """Replace the address and hash of a downloaded data set in a checkpoint's settings by those in conf/data.

    The checkpoint does not choose the folder of a download either. Unless the user gives `root`, a file is downloaded
    only into the default folder.
    """
    path = CONF / "data" / f"{saved['name']}.yaml"
    shipped: Any = OmegaConf.load(path) if path in (CONF / "data").glob("*.yaml") else {}
    is_shipped = shipped.get("path") == saved.get("path")
    may_download = is_shipped and (root is not None or saved.get("root") == "data")
    return {
        **saved,
        "url": shipped.get("url") if may_download else None,
        "hash": shipped.get("hash") if is_shipped else None,
        "by_hand": "the file itself, or its folder as data.root=FOLDER",
    }
