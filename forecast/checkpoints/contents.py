"""What a checkpoint says of its training run, and whether another training can start from it. Imports no torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forecast.system.errors import CheckpointError
from forecast.system.keys import RUN_EFFECTS, SPEED, STATE, first_difference, identity

DATA_STATE = {
    "feature_columns": "feature columns",
    "target_columns": "target columns",
    "freq": "step between rows",
    "n_time_features": "number of time features",
}
"""Values of the data module's state that must be equal, and their names in messages."""


def completed_epochs(content: dict[str, Any]) -> int:
    """Return the number of completed epochs."""
    return content["loops"]["fit_loop"]["epoch_progress"]["current"]["completed"]


def is_untrained(content: dict[str, Any]) -> bool:
    """Whether the checkpoint was written before the first optimizer step: it holds the warm start alone."""
    return content["global_step"] == 0


def is_finished(content: dict[str, Any]) -> bool:
    """Whether the checkpoint was written at the end of training, with no epoch left."""
    return content["callbacks"]["Checkpointing"]["is_finished"]


def data_state(content: dict[str, Any]) -> dict[str, Any]:
    """Return the state of the data module: columns, scaler, frequency; empty if there is none."""
    return next((s for s in content.values() if isinstance(s, dict) and "feature_columns" in s), {})


def check_parts(path: Path, content: dict[str, Any]) -> None:
    """Raise CheckpointError if the checkpoint lacks what inference needs: a scaler and, once tested, calibrations."""
    if not data_state(content):
        raise CheckpointError(f"{path}: it holds no scaler; train again")
    if content.get("calibration") and "baseline_calibrations" not in content:
        raise CheckpointError(
            f"{path}: written by an older version (baseline_calibrations is missing); train again"
        )


def check_same_training(
    path: Path,
    content: dict[str, Any],
    settings: dict[str, Any],
    data: dict[str, Any],
    weights: Mapping[str, Any],
) -> None:
    """Check that a training with `settings` on `data` can restore the model and the optimizer of a checkpoint.

    Args:
        settings: the settings of the training, as plain values.
        data: state of its data module.
        weights: its weights by name.

    Raises:
        CheckpointError: naming the first setting, or what of the data, differs; or there is no optimizer state.
    """
    if "optimizer_states" not in content:
        raise CheckpointError(f"{path}: this checkpoint has no optimizer state; give the run's last.ckpt")
    difference = first_difference(
        *(identity(each, [STATE]) for each in (content["hyper_parameters"], settings))
    )
    if difference is not None:
        key, old, new = difference
        raise CheckpointError(
            f"{path}: the checkpoint was trained with {key}={old}, this run has {key}={new}; make them equal"
        )
    state = data_state(content)
    for key, name in DATA_STATE.items():
        if state.get(key) != data[key]:
            old, new = (
                ", ".join(v) if isinstance(v, list | tuple) else v for v in (state.get(key), data[key])
            )
            raise CheckpointError(
                f"{path}: different {name}: {old} in the checkpoint, {new} in this run; use data of the same form"
            )
    found, shapes = content.get("state_dict"), {name: weight.shape for name, weight in weights.items()}
    if not isinstance(found, Mapping) or {name: weight.shape for name, weight in found.items()} != shapes:
        raise CheckpointError(f"{path}: its weights do not fit this version, or not its settings")


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
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(is_equal, one, other))
    if hasattr(one, "shape"):
        return one.shape == other.shape and bool((one == other).all())
    return one == other
