"""Facts about a training run that its checkpoint's content holds."""

from pathlib import Path
from typing import Any

from forecast.system.errors import CheckpointError


def completed_epochs(content: dict[str, Any]) -> int:
    """Return the number of completed epochs."""
    return content["loops"]["fit_loop"]["epoch_progress"]["current"]["completed"]


def is_untrained(content: dict[str, Any]) -> bool:
    """Whether the checkpoint was written before the first optimizer step: it holds the warm start alone."""
    return content["global_step"] == 0


def is_finished(content: dict[str, Any]) -> bool:
    """Whether the checkpoint was written at the end of training, with no epoch left."""
    return content["callbacks"]["Checkpointing"]["is_finished"]


def run_seconds(content: dict[str, Any]) -> float:
    """Return the seconds from the run's start to this checkpoint."""
    return content["callbacks"]["RunTime"]["seconds"]


def data_state(content: dict[str, Any]) -> dict[str, Any]:
    """Return the state of the data module: columns, scaler, frequency; empty if there is none."""
    return next((s for s in content.values() if isinstance(s, dict) and "feature_columns" in s), {})


def data_settings(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the data that the checkpoint at `path` was trained on.

    Raises:
        CheckpointError: there are none.
    """
    settings = content.get("hyper_parameters")
    data = settings.get("data") if isinstance(settings, dict) else None
    if not isinstance(data, dict) or "name" not in data:
        raise CheckpointError(f"{path}: it does not have the layout of a checkpoint of this program")
    return data


def check_parts(path: Path, content: dict[str, Any]) -> None:
    """Check that the checkpoint at `path` holds what inference needs.

    Raises:
        CheckpointError: it holds no scaler, or an older version wrote it.
    """
    state = data_state(content)
    if not state:
        raise CheckpointError(f"{path}: it holds no scaler; train again")
    parts = dict.fromkeys(("freq", "trained_until", "n_time_features"), state)
    parts |= {"error_unit": state["scaler"]}
    if content.get("calibration"):  # the run was tested
        parts["baseline_calibrations"] = content
    for key, part in parts.items():
        if key not in part:
            raise CheckpointError(f"{path}: written by an older version ({key} is missing); train again")
