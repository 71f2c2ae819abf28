"""Checkpoints without torch: find the file, read what it says of its run, and check that it is safe and fits."""

import io
import pickle
import pickletools
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from forecast.system.errors import CheckpointError, user_path
from forecast.system.keys import RUN_EFFECTS, SPEED, STATE, first_difference, identity
from forecast.system.location import known_targets, locate

# ---- find the file

LATEST, RUNS = "latest", "runs"  # the name of the newest run, and the folder in which it is looked for


def find_run(path: str | Path) -> Path:
    """Return `path`, a file or a folder, or for `latest` the folder below `runs` whose test finished last.

    Raises CheckpointError: there is none.
    """
    path = user_path(path)
    if path.is_file() or path.is_dir():
        return path
    if str(path) != LATEST:
        raise CheckpointError(f"{path}: there is no such checkpoint file or run folder")
    finished = [file for file in Path(RUNS).rglob("metrics.json") if (file.parent / "checkpoints").is_dir()]
    if not finished:
        raise CheckpointError(f"checkpoint={LATEST}: no finished run is below {RUNS}: give a run folder or a file")
    return max(finished, key=lambda file: file.stat().st_mtime).parent


def find_checkpoint(path: str | Path, prefer: str = "best") -> Path:
    """Return `path` if it is a file; if it is a run folder, return its checkpoint `prefer` ("best" or "last").

    `latest` is the newest run folder (`find_run`).

    Raises CheckpointError: there is no such file.
    """
    path = find_run(path)
    if path.is_file():
        return path
    candidate = path / "checkpoints" / f"{prefer}.ckpt"
    if not candidate.is_file():
        raise CheckpointError(f"{path}: this folder has no checkpoints/{prefer}.ckpt; give a run folder or a file")
    return candidate


def find_trained(path: str | Path) -> Path:
    """Return the checkpoint that forecasts: that of the model refitted on all rows if a run folder has one, else best.

    Raises CheckpointError: there is no such file.
    """
    found = find_run(path)
    refit = found / "checkpoints" / "refit.ckpt"
    return refit if refit.is_file() else find_checkpoint(found)


# ---- read it as data

TYPES = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
SAFE_NAMES = {"collections OrderedDict", "torch._utils _rebuild_tensor_v2", *(f"torch {name}Storage" for name in TYPES)}
"""Global names that a checkpoint's pickle may contain."""

UNSAFE_OPCODES = {"STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4"}
"""Pickle operations that can name or create any other object."""

MAX_VALUES = 1_000_000


def read_plain(path: Path) -> dict[str, Any]:
    """Read a checkpoint with None in place of each tensor.

    Raises CheckpointError: the file is damaged, unsafe, or was not written by this project.
    """
    return check_written_here(path, load_checked(path, _unpickle_plain))


def resolve_paths(settings: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of data, whose relative paths that are not below the current folder begin where training was started."""
    folder, found = Path(content.get("folder", "")), dict(settings)
    for key in ("root" if settings.get("root") else "path", "static_path", "future_path"):
        path = locate(settings[key]) if settings.get(key) else None
        if isinstance(path, Path) and not path.exists() and (folder / path).exists():
            found[key] = str(folder / path)
    return found


def check_written_here(path: Path, content: Any) -> dict[str, Any]:
    """Return the content of a checkpoint. Raises CheckpointError if another program or version wrote it."""
    if not isinstance(content, dict) or "forecast_version" not in content:
        raise CheckpointError(f"{path}: this checkpoint was not written by forecast.train")
    parts = [content.get(name) for name in ("hyper_parameters", "LightningData", "state_dict", "loops")]
    if not all(isinstance(part, dict) for part in parts):
        raise CheckpointError(f"{path}: it does not have the layout of a checkpoint of this version; train again")
    return content


def load_checked(path: Path, load: Callable[[BinaryIO, zipfile.ZipFile, int], tuple[Any, str]]) -> Any:
    """Load a file with `load(file, archive, size)` unless its archive is unsafe.

    `load`: returns the content, and what is unsafe in it, or "".

    Raises CheckpointError: the file cannot be read, is damaged, is not a checkpoint, or contains more than data.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            problem, content = find_unsafe_member(archive, size), None
            if not problem:
                content, problem = load(file, archive, size)
    except Exception as error:  # a damaged file can fail anywhere
        if isinstance(error, OSError) and error.strerror:
            raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
        raise CheckpointError(f"{path}: the file is damaged, or it is not a checkpoint") from error
    if problem:
        raise CheckpointError(f"{path}: not a checkpoint of this project: it contains {problem}; nothing was executed")
    return content


def find_unsafe_member(archive: zipfile.ZipFile, size: int) -> str:
    """Return the unsafe part of the archive or of its pickle, or "", before anything is loaded."""
    members = archive.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        return "compressed members"
    if sum(member.file_size for member in members) > size:
        return "members larger than the file"
    for opcode, argument, _ in pickletools.genops(read_pickle(archive)):
        if opcode.name in UNSAFE_OPCODES:
            return f"a pickle with {opcode.name}"
        if opcode.name == "GLOBAL" and argument not in SAFE_NAMES:
            return str(argument).replace(" ", ".")
    return ""


def read_pickle(archive: zipfile.ZipFile) -> io.BytesIO:
    """The bytes of `data.pkl`. Raises zipfile.BadZipFile if its CRC does not match."""
    (pickled,) = (m for m in archive.infolist() if m.filename.split("/")[1:] == ["data.pkl"])
    return io.BytesIO(archive.read(pickled))


def find_unsafe_value(content: Any, check_other: Callable[[Any], str]) -> str:
    """Return the first unsafe one of the loaded values, or "".

    `check_other` is called with each value that is not plain; it returns what is unsafe in it, or "".
    """
    waiting, n_values = [content], 0
    while waiting:
        value = waiting.pop()
        n_values += 1
        if n_values > MAX_VALUES:
            return f"more than {MAX_VALUES:,} values"
        if type(value) in (dict, OrderedDict):
            waiting += [*value, *value.values()]
        elif type(value) in (list, tuple):
            waiting += value
        elif type(value) not in (str, int, float, bool, type(None)) and (problem := check_other(value)):
            return problem
    return ""


class _PlainUnpickler(pickle.Unpickler):
    """Creates ordered dicts, and None for every tensor."""

    def find_class(self, module: str, name: str) -> Any:
        return OrderedDict if (module, name) == ("collections", "OrderedDict") else lambda *_: None

    def persistent_load(self, pid: Any) -> None:
        """The bytes of a tensor are not read."""


def _unpickle_plain(file: BinaryIO, archive: zipfile.ZipFile, size: int) -> tuple[Any, str]:
    content = _PlainUnpickler(read_pickle(archive)).load()
    return content, find_unsafe_value(content, lambda value: f"a {type(value).__name__}")


MODEL_TARGETS = known_targets("attention", "encoder", "decoder", "cross", "model", "data")
"""Allowed targets of prediction: models, attention layers and data modules."""

TRAINING_TARGETS = known_targets("optimizer", "schedule")
"""Targets that training again with a checkpoint's settings needs too: optimizers and schedules."""


def check_stored_settings(path: Path, settings: Any, allowed: frozenset[str] | None = MODEL_TARGETS) -> None:
    """Check that settings read from the checkpoint at `path` are plain values and name only allowed targets.

    `allowed`: the targets; None allows every name, for settings that are only read and never instantiated.

    Raises CheckpointError: a value is not plain, is an interpolation, or names another target.
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
            raise CheckpointError(f"{path}: the checkpoint's settings are not plain values; nothing was executed")


# ---- what it says of its training

DATA_STATE = ("freq", "n_time_features")
"""Values of the data module's state that must be equal, beside the columns, which scaling compares."""


def completed_epochs(content: dict[str, Any]) -> int:
    return content["loops"]["fit_loop"]["epoch_progress"]["current"]["completed"]


def is_untrained(content: dict[str, Any]) -> bool:
    """Whether the checkpoint was written before the first optimizer step: it holds the warm start alone."""
    return content["global_step"] == 0


def is_finished(content: dict[str, Any]) -> bool:
    """Whether the checkpoint was written at the end of training, with no epoch left."""
    return content["callbacks"]["Checkpointing"]["is_finished"]


def data_state(content: dict[str, Any]) -> dict[str, Any]:
    return content["LightningData"]


def check_same_training(
    path: Path, content: dict[str, Any], settings: dict[str, Any], data: dict[str, Any], weights: Mapping[str, Any]
) -> None:
    """Check that a training with `settings` on `data` can restore the model and the optimizer of a checkpoint.

    Raises CheckpointError: naming the first setting, or what of the data, differs; or there is no optimizer state.
    """
    if "optimizer_states" not in content:
        raise CheckpointError(f"{path}: this checkpoint has no optimizer state; give the run's last.ckpt")
    sides = (content["hyper_parameters"], data_state(content)), (settings, data)
    difference = first_difference(
        *({**identity(each, [STATE]), **{key: state[key] for key in DATA_STATE}} for each, state in sides)
    )
    if difference is not None:
        key, old, new = difference
        raise CheckpointError(
            f"{path}: the checkpoint was trained with {key}={old}, this run has {key}={new}; make them equal: repeat "
            "the settings of its run, including data="
        )
    shapes, wanted = ({name: w.shape for name, w in each.items()} for each in (content["state_dict"], weights))
    if shapes != wanted:
        raise CheckpointError(f"{path}: its weights do not fit this version, or not its settings")


def saved_table(content: dict[str, Any]) -> str:
    """The description of the table of training (`forecast.data.panel.describe_content`)."""
    return content["callbacks"]["RankConsistency"]["table"]


def has_same_validation(content: dict[str, Any], settings: dict[str, Any], table: str) -> bool:
    """Whether the checkpoint's validation scores can be compared: those of the same table and settings of the data."""
    old, new = (
        identity(each, RUN_EFFECTS - {SPEED}, below="data", per_machine=False)
        for each in (content["hyper_parameters"], settings)
    )
    return old == new and saved_table(content) == table
