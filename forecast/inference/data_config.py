"""Settings of the data that a trained model is given, from those it was trained on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from forecast.checkpoints.settings import shipped_download
from forecast.data.store.format import is_store
from forecast.system.errors import CheckpointError, ConfigError

OF_THE_FILE = ("root", "url", "hash", "by_hand", "path", "name")
"""Settings of a data set that another file does not share."""

OF_THE_SERIES = ("ids", "static_path", "future_path")
"""Settings of a long file that another long file does not share."""

LONG = "forecast.data.long_data"
"""The kind of source whose other settings another file shares."""

FRAME = "DataFrame"
"""The name of data that came as a DataFrame, and lies in no file."""

OF_THE_MODEL = ("seq_len", "pred_len", "features", "target", "scaler", "seed", "season", "holidays")
OF_A_FRAME = (*OF_THE_MODEL, "batch_size", "eval_batch_size", "split", "windows_per_epoch", "eval_stride")


def choose_data_config(
    checkpoint: Path, saved: dict[str, Any], feature_columns: Sequence[str], given: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings of a data module for a trained model.

    Args:
        checkpoint: for messages.
        saved: the data settings of the training run.
        feature_columns: the columns that the model reads.
        given: settings that replace those of training; null ones mean: as in training. Of another file (`path`), all
            rows are the split `test`, unless `split` says otherwise.
    """
    if isinstance(given, DictConfig):
        given = OmegaConf.to_container(given)  # type: ignore[assignment]
    chosen = {key: value for key, value in given.items() if value is not None}
    if saved["name"] == FRAME and not {"path", "_target_"} & set(chosen):
        raise CheckpointError(f"{checkpoint}: it was trained on a DataFrame: give one, or a file (data.path)")
    if "_target_" in chosen:  # another ready set
        own = {key: value for key, value in chosen.items() if not str(value).startswith("${")}
        kept = {key: saved[key] for key in OF_THE_MODEL}
        return {"windows_per_epoch": saved["windows_per_epoch"], **own, **kept}
    if saved["_target_"] == "forecast.data.downloaded_data":
        saved = shipped_download(saved, chosen.get("root"))
    if "path" in chosen:
        chosen["path"] = str(Path(chosen.pop("root", "")) / chosen["path"])
    elif "root" in chosen and "root" not in saved:
        raise ConfigError(
            f"data.root={chosen['root']}: {checkpoint} was trained on a file of its own: give another by data.path"
        )
    if "path" not in chosen or is_same_file(chosen["path"], saved.get("path")):
        return {**saved, **chosen}
    file: dict[str, Any] = {
        "_target_": "forecast.data.csv_data", "name": Path(chosen["path"]).name, "split": "test"
    }  # fmt: skip
    if saved["_target_"] == LONG:
        kept = {key: value for key, value in saved.items() if key not in OF_THE_SERIES}
        return {**kept, **file, "_target_": saved["_target_"], **chosen}
    if is_store(chosen["path"]) or saved["_target_"] == "forecast.data.store_data":
        kept = {key: saved[key] for key in OF_A_FRAME}
        file["eval_stride"] = 1
        if is_store(chosen["path"]):
            file |= {"_target_": "forecast.data.store_data", "eval_stride": None}
    else:
        kept = {key: value for key, value in saved.items() if key not in OF_THE_FILE}
    return {**kept, **file, "columns": list(feature_columns), **chosen}


def is_same_file(path: str | Path, other: str | Path | None) -> bool:
    return other is not None and Path(path).expanduser().resolve() == Path(other).expanduser().resolve()
