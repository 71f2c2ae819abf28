"""Early search for the files that a configuration names: a mistyped path is refused at once. Imports no torch."""

from pathlib import Path

from omegaconf import DictConfig

from forecast.checkpoints import find
from forecast.system import location
from forecast.system.keys import FILE_SOURCES

FILES = set(FILE_SOURCES) - {"store"}
"""Values of data.name that stand for a file at data.path; a store is a folder."""


def find_named_files(config: DictConfig) -> None:
    """Find the checkpoint and the data file, before the libraries that read them are imported.

    `checkpoint=latest` is replaced by the run that it means, so that it is looked up once. Files at URLs are left to
    their readers, and so are stores and the data of a trained model.

    Raises:
        CheckpointError, DataError: one of them does not exist.
    """
    if config.get("checkpoint"):
        found = find.find_run(config.checkpoint)
        find.check_exists(found)
        config.checkpoint = str(found)
    data = config.get("data") or {}
    if data.get("name") in FILES and (given := data.get("path")):
        path = location.locate(given)
        if isinstance(path, Path):
            location.check_exists(path)
