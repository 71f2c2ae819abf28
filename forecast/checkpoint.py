"""Checkpoints read as data: nothing in them is run."""

import warnings
from pathlib import Path
from typing import Any

from forecast.errors import CheckpointError
from forecast.plain import is_equal, read_plain
from forecast.sealed import is_damaged, save_sealed


def find_checkpoint(path: str | Path, prefer: str = "best") -> Path:
    """The checkpoint that `path` means: a file, or the `prefer`red one of a run folder ("best" or "last").

    Raises:
        CheckpointError: there is none.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        candidate = path / "checkpoints" / f"{prefer}.ckpt"
        if not candidate.is_file():
            raise CheckpointError(
                f"{path}: this folder has no checkpoints/{prefer}.ckpt; give a run folder or a file"
            )
        return candidate
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no such checkpoint file or run folder")
    return path


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The checkpoint's content on the CPU: tensors and plain values only (`weights_only`).

    Raises:
        CheckpointError: truncated, altered since it was written, not a checkpoint, holding code, or not written by
            this project.
    """
    if is_damaged(path):
        raise CheckpointError(f"{path}: damaged: its content is not what its hash says")
    content = read_plain(path)
    if not isinstance(content, dict) or "forecast_version" not in content:
        raise CheckpointError(f"{path}: this checkpoint was not written by forecast.train")
    return content


def add_to_checkpoint(path: Path, **content: Any) -> None:
    """Write these beside what the checkpoint holds; it is replaced whole or not at all."""
    save_sealed({**load_checkpoint(path), **content}, path)


def newest_state(folder: Path, name: str = "last") -> tuple[Path, dict[str, Any]] | None:
    """The newest state that a run kept in its folder, and its content; one that is damaged is passed over, in words.

    Raises:
        CheckpointError: every one is damaged.
    """
    found = [path for end in ("", "-1") if (path := folder / "checkpoints" / f"{name}{end}.ckpt").is_file()]
    for number, path in enumerate(found):
        try:
            return path, load_checkpoint(path)
        except CheckpointError as error:
            if number + 1 == len(found):
                raise
            warnings.warn(f"{error}; going on from the one before it, {found[number + 1].name}", stacklevel=2)
    return None


def epochs_done(content: dict[str, Any]) -> int:
    """Whole epochs of training that a checkpoint has behind it."""
    return content["loops"]["fit_loop"]["epoch_progress"]["current"]["completed"]


def is_untrained(content: dict[str, Any]) -> bool:
    """Whether it holds a model before its first step: a linear map."""
    return content["global_step"] == 0


def seconds_taken(content: dict[str, Any]) -> float:
    """By the run that kept this state, until then; 0 where an earlier version did, which did not count them."""
    return content["callbacks"].get("RunTime", {}).get("seconds", 0.0)


SAME = (
    "model",
    "optimizer",
    "schedule",
    "loss",
    "features",
    "seq_len",
    "label_len",
    "pred_len",
    "data.scaler",
    "data.holidays",
)
"""What a run that goes on from a checkpoint must share with the run that wrote it: its whole state is taken over."""

SPEED_ONLY = ("optimizer.fused",)
"""May differ; the checkpoint's own comes back with the optimizer's state."""


def check_goes_on(
    path: Path,
    content: dict[str, Any],
    config: dict[str, Any],
    data: dict[str, Any],
    *,
    in_place: bool = False,
) -> None:
    """Refuse to go on from a checkpoint of another model, training or table, or of one that has no epoch left.

    A run that goes on in its own folder may have no epoch left: it stopped after them.

    `data` is the state of this run's data module.

    Raises:
        CheckpointError: naming the first setting that differs.
    """
    saved = content["hyper_parameters"]
    if "optimizer_states" not in content:
        raise CheckpointError(f"{path}: it has no optimizer's state to go on with; give the run's last.ckpt")
    for group in (*SAME, *(["levels"] if config["loss"] == "quantile" else [])):
        key, old, new = first_difference(group, setting(saved, group), setting(config, group))
        if key:
            raise CheckpointError(
                f"{path}: it was trained with {key}={old}, this run has {key}={new}; make them equal"
            )
    for state in content.values():
        if isinstance(state, dict) and "feature_columns" in state:
            for name in ("feature_columns", "target_columns"):
                if state[name] != data[name]:
                    what, theirs = name.replace("_", " "), ", ".join(state[name])
                    raise CheckpointError(
                        f"{path}: its {what} are {theirs}; this run's are {', '.join(data[name])}"
                    )
            for name, what in {
                "freq": "step between rows",
                "n_time_features": "number of time features",
            }.items():
                if state[name] != data[name]:
                    raise CheckpointError(f"{path}: its {what} is {state[name]}; this run's is {data[name]}")
    epochs = epochs_done(content)
    if epochs >= config["trainer"]["max_epochs"] and not in_place:
        raise CheckpointError(
            f"{path}: it has {epochs} epochs behind it; to go on, set trainer.max_epochs above that"
        )


def same_windows(content: dict[str, Any], config: dict[str, Any], data: dict[str, Any]) -> bool:
    """Whether validation scores of the run that wrote the checkpoint can be set beside this run's: by the settings of
    both, and by what each took from its training rows; `data` is the state of this run's data module.
    """
    old, new = (
        {
            key: value
            for key, value in settings["data"].items()
            if key not in ("path", "root", "eval_batch_size")
        }
        for settings in (content["hyper_parameters"], config)
    )
    states = [state for state in content.values() if isinstance(state, dict) and "trained_until" in state]
    return old == new and any(is_equal(state, data) for state in states)


def setting(config: dict[str, Any], dotted: str) -> Any:
    for key in dotted.split("."):
        config = config.get(key, {})
    return config


def first_difference(key: str, old: Any, new: Any) -> tuple[str, Any, Any]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            found = first_difference(f"{key}.{name}", old.get(name), new.get(name))
            if found[0]:
                return found
        return "", None, None
    return (key, old, new) if old != new and key not in SPEED_ONLY else ("", None, None)
