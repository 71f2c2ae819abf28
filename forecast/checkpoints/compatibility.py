"""Checks that training can resume or continue from a checkpoint with this run's settings and data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from forecast.checkpoints.contents import completed_epochs, data_state
from forecast.system.errors import CheckpointError
from forecast.system.keys import RUN_EFFECTS, SPEED, STATE, first_difference, identity

DATA_STATE = {
    "feature_columns": "feature columns",
    "target_columns": "target columns",
    "freq": "step between rows",
    "n_time_features": "number of time features",
}
"""Values of the data module's state that must be equal, and their names in messages."""

ADDED_SETTINGS = {"model.time_stride": 1}
"""Settings that older checkpoints lack, with the values that those were trained with."""

RESUMED_CALLBACKS = ("Checkpointing", "RunTime", "RankConsistency")
"""Callbacks whose state a resumed run needs."""


def check_resumable(path: Path, content: dict[str, Any]) -> None:
    """Raise CheckpointError if the checkpoint lacks a callback's state that a resumed run needs."""
    missing = [name for name in RESUMED_CALLBACKS if name not in content.get("callbacks", {})]
    if missing:
        raise CheckpointError(
            f"{path}: the checkpoint has no state of {', '.join(missing)}, because an older version wrote it; "
            "leave out resume=auto to start a new run"
        )


def check_settings_equal(path: Path, content: dict[str, Any], settings: dict[str, Any]) -> None:
    """Check that training with `settings` can restore the checkpoint's optimizer and model.

    Raises:
        CheckpointError: the checkpoint has no optimizer state, or naming the first setting that differs.
    """
    if "optimizer_states" not in content:
        raise CheckpointError(f"{path}: this checkpoint has no optimizer state; give the run's last.ckpt")
    mine = identity(settings, [STATE])
    added = {key: value for key, value in ADDED_SETTINGS.items() if key in mine}
    difference = first_difference(added | identity(content["hyper_parameters"], [STATE]), mine)
    if difference is not None:
        key, old, new = difference
        raise CheckpointError(
            f"{path}: the checkpoint was trained with {key}={old}, this run has {key}={new}; make them equal"
        )


def check_data_equal(path: Path, content: dict[str, Any], data: dict[str, Any]) -> None:
    """Check that the checkpoint was trained on data of the same columns and frequency.

    Args:
        data: state of this run's data module.

    Raises:
        CheckpointError: naming the first difference.
    """
    state = data_state(content)
    for key, name in DATA_STATE.items():
        if state.get(key) != data[key]:
            old, new = (
                ", ".join(v) if isinstance(v, list | tuple) else v for v in (state.get(key), data[key])
            )
            raise CheckpointError(
                f"{path}: different {name}: {old} in the checkpoint, {new} in this run; use data of the same form"
            )


def check_weights(path: Path, content: dict[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Check that the checkpoint has weights of these names and shapes. Raises CheckpointError otherwise."""
    found = content.get("state_dict")
    shapes = {name: weight.shape for name, weight in weights.items()}
    if not isinstance(found, Mapping) or {name: weight.shape for name, weight in found.items()} != shapes:
        raise CheckpointError(f"{path}: its weights do not fit this version, or not its settings")


def check_epochs_left(path: Path, content: dict[str, Any], max_epochs: int) -> None:
    """Raise CheckpointError if the checkpoint has been trained for `max_epochs` already."""
    epochs = completed_epochs(content)
    if epochs >= max_epochs:
        raise CheckpointError(
            f"{path}: trained for {epochs} epochs already; to continue, set trainer.max_epochs above that"
        )


def has_same_validation(content: dict[str, Any], settings: dict[str, Any], data: dict[str, Any]) -> bool:
    """Whether the checkpoint's validation scores can be compared with this run's.

    True if the data settings and the data modules' states (columns, scaler, last training date) are equal.
    """
    old, new = (
        identity(each, RUN_EFFECTS - {SPEED}, below="data", per_machine=False)
        for each in (content["hyper_parameters"], settings)
    )
    return old == new and is_equal(data_state(content), data)


def is_equal(one: Any, other: Any) -> bool:
    """Whether two nested values are equal, tensors included."""
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(is_equal(one[key], other[key]) for key in one)
        )
    return one == other
