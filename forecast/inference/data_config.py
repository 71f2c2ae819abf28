"""Settings of the data module for a trained model, from those of its training."""

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.utils import get_method
from omegaconf import DictConfig, OmegaConf

from forecast.checkpoints.settings import replace_download_address
from forecast.data import DataModule
from forecast.data.calendars import choose_days
from forecast.data.files.text import quote
from forecast.data.sources import option_names, settings_of_file
from forecast.system.errors import CheckpointError, ConfigError, DataError
from forecast.system.keys import AS_TRAINED, DATA_KEYS
from forecast.system.location import locate

ONE_FILE = tuple(row.name.removeprefix("data.") for row in DATA_KEYS if row.one_file)
"""Settings that do not apply to another file than that of training."""

FRAME = "DataFrame"
"""Name of the data of a DataFrame, which have no file."""


def choose_data_config(
    checkpoint: Path,
    saved: dict[str, Any],
    feature_columns: Sequence[str],
    given: Mapping[str, Any],
    state: Mapping[str, Any],
) -> dict[str, Any]:
    """Choose the settings of the data module for a trained model.

    Args:
        checkpoint: the checkpoint file, for messages.
        saved: the data settings of the training run.
        feature_columns: the columns that the model reads.
        given: settings that replace those of training, except null ones. If `path` is another file than in training,
            all its rows are the split `test` unless `split` is given too.
        state: the state of the data module of the training run.

    Raises:
        CheckpointError: no data are given for a model of a DataFrame.
        ConfigError: settings that do not apply to the training data.
    """
    if isinstance(given, DictConfig):
        given = OmegaConf.to_container(given)  # type: ignore[assignment]
    chosen = {key: value for key, value in given.items() if value is not None}
    if "_target_" in chosen:
        return _other_set_config(saved, chosen)
    if "url" in saved:
        saved = replace_download_address(saved, chosen.get("root"))
    if "path" in chosen:
        chosen = _with_full_path(chosen)
        if is_same_file(chosen["path"], _with_full_path(saved)["path"] if saved.get("path") else None):
            chosen = _without(chosen, ("path",))
        else:
            saved = settings_for_other_file(saved, chosen["path"], feature_columns, name_keys(saved, state))
    else:
        _check_training_data(checkpoint, saved, chosen)
    return {**saved, **chosen}


def name_keys(saved: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """The values of `id_column`, `date_column` and `stamp` that read the training data; an id of None: one series.

    Args:
        saved: the data settings of the training run.
        state: the state of its data module.
    """
    names = {key: state.get(key, saved.get(key)) for key in ("id_column", "date_column")}
    if isinstance(saved.get("id_column"), list):  # of which the state has the joined names
        names["id_column"] = saved["id_column"]
    if "stamp" not in state:  # of an earlier version
        return {**names, "stamp": saved.get("stamp") or "start"}
    return {**names, "stamp": "end" if state["stamp"] else "start"}


def _other_set_config(saved: dict[str, Any], chosen: dict[str, Any]) -> dict[str, Any]:
    """The settings of another data set of conf/data, `chosen`, with those that belong to the model."""
    own = {key: value for key, value in chosen.items() if not str(value).startswith("${")}
    kept = {key: saved[key] for key in AS_TRAINED}
    return {"windows_per_epoch": saved["windows_per_epoch"], **own, **kept}


def _with_full_path(chosen: dict[str, Any]) -> dict[str, Any]:
    """The settings with `root` joined to the path of a local file."""
    root, path = chosen.get("root", ""), chosen["path"]
    path = str(Path(root) / path) if isinstance(locate(path), Path) else path
    return {**_without(chosen, ("root",)), "path": path}


def _check_training_data(checkpoint: Path, saved: dict[str, Any], chosen: dict[str, Any]) -> None:
    """Raise an error if the training data cannot be read again with these settings."""
    if saved["name"] == FRAME:
        raise CheckpointError(f"{checkpoint}: it was trained on a DataFrame: give one, or a file (data.path)")
    if "root" in chosen and "root" not in saved:
        raise ConfigError(
            f"data.root={chosen['root']}: {checkpoint} was trained on a file of its own: give another by data.path"
        )


def settings_for_other_file(
    saved: dict[str, Any], path: str, feature_columns: Sequence[str], keys: Mapping[str, Any]
) -> dict[str, Any]:
    """Change the settings of training to those of another file, all of whose rows are the split `test`."""
    past = saved.get("past_covariates") or ()
    file = {
        **settings_of_file(path, saved["_target_"], keys),
        "name": locate(path).name,
        "split": "test",
        "columns": [
            name for name in feature_columns if name not in past
        ],  # the file may have others, or lack others
    }
    options = option_names(get_method(file["_target_"]))
    kept = {key: value for key, value in saved.items() if key in options or key.startswith("_")}
    return {**_without(kept, ONE_FILE), **file}


def _without(settings: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in keys}


def keep_as_trained(chosen: dict[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """Give the settings the order of day and month and the calendar of the training data with this state."""
    return keep_calendar(keep_date_order(chosen, state.get("day_first")), state.get("calendar"))


def keep_calendar(chosen: dict[str, Any], trained: Mapping[str, Any] | None) -> dict[str, Any]:
    """Give the settings the calendar of training, which newer data may be too few to show; None: it had none."""
    if trained is None or chosen.get("steps") != "rows":
        return chosen
    return {**chosen, "calendar": choose_days(trained, chosen.get("calendar"))}


def keep_date_order(chosen: dict[str, Any], day_first: bool | None) -> dict[str, Any]:
    """Read dates such as 01/02/2024 as those of training (`UtcOffset.day_first`), unless `data.day_first` says how."""
    if "day_first" not in chosen or chosen["day_first"] is not None:
        return chosen
    return {**chosen, "day_first": day_first}


def allow_absent(data: DataModule, columns: frozenset[str]) -> DataModule:
    """The data module, in whose data these columns may be absent, see `Source.with_optional`."""
    data.source = data.source.with_optional(columns)
    return data


@contextmanager
def known_columns(checkpoint: Path, state: Mapping[str, Any]) -> Iterator[None]:
    """Read data for a trained model, whose columns are known.

    There is no warning that a column looks like dates where training read the dates from a column of that name. A
    DataError advises columns that the model was trained on, and no settings that choose other columns.
    """
    with warnings.catch_warnings():
        if name := state.get("date_column"):
            warnings.filterwarnings("ignore", f".*: {re.escape(quote(name))} looks like dates and is used")
        try:
            yield
        except DataError as error:
            if error.problem == str(error):
                raise
            raise DataError(f"{error.problem}; give the columns that {checkpoint} was trained on") from None


def is_same_file(path: str | Path, other: str | Path | None) -> bool:
    """Whether two paths name the same file."""
    if other is None:
        return False
    one, two = locate(path), locate(other)
    if isinstance(one, Path) and isinstance(two, Path):
        return one.resolve() == two.resolve()
    return one == two
