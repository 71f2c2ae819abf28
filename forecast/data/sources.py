"""The data module of each source, which the `_target_` of a file in conf/data names.

To add a data source, write a subclass of `forecast.data.source.Source`, make a data module of it here, and name that
in a YAML file in conf/data. How its models read other files: `settings_of_file`.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from hydra.utils import get_method

from forecast.data.files.sources import FileSource, FrameSource, LongSource
from forecast.data.module import DataModule
from forecast.data.sets import DownloadedSource, GeneratedSource, load_table, recall_table, sample_table
from forecast.data.source import DataOptions
from forecast.data.store import StoreSource, is_store
from forecast.system.formatting import read_mapping

MODULE_OPTIONS = inspect.signature(DataOptions).parameters


def make_factory(doc: str, source_class: type, *arguments: Any) -> Callable[..., DataModule]:
    """A function that creates a data module whose source is `source_class(*arguments, ...)`.

    The function takes the options of the source and those of the data module (`DataOptions`) by keyword. A table and
    the data module share the option `target`.
    """
    source_options = {
        name: parameter
        for name, parameter in inspect.signature(source_class).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }

    def make(*frame: Any, **given: Any) -> DataModule:
        options = {name: read_mapping(value) for name, value in given.items()}
        of_module = {name: value for name, value in options.items() if name in MODULE_OPTIONS}
        of_source = {  # an unknown name too: the error of the source names it
            name: value
            for name, value in options.items()
            if name in source_options or name not in MODULE_OPTIONS
        }
        if options.get("features") == "S" and options.get("target") and "columns" in source_options:
            of_source["columns"] = options.get("columns") or [options["target"]]  # others are not read
        source = source_class(*arguments, *frame, **of_source)
        if "target" in source_options:
            of_module["target"] = source.target  # its default depends on the source
        return DataModule(source, **of_module)

    make.__doc__ = doc
    make.__signature__ = inspect.Signature([*{**MODULE_OPTIONS, **source_options}.values()])  # type: ignore[attr-defined]
    return make


csv_data = make_factory("A CSV file with one column for each variable.", FileSource)
downloaded_data = make_factory("A published CSV file, downloaded once.", DownloadedSource)
frame_data = make_factory("A DataFrame of one series or of many.", FrameSource)
long_data = make_factory("A long file with one row for each series and date.", LongSource)
store_data = make_factory("A table on disk, made by `forecast.convert`.", StoreSource)
sample_data = make_factory("The embedded synthetic sample.", GeneratedSource, sample_table)
load_data = make_factory("The generated national load.", GeneratedSource, load_table)
recall_data = make_factory("The generated set that needs a long memory.", GeneratedSource, recall_table)

LONG, STORE, TABLE = "forecast.data.long_data", "forecast.data.store_data", "forecast.data.csv_data"
"""Targets of the data modules of a user's file."""


def settings_of_file(path: str, trained: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The target that reads another file than that of training, and settings whose value changes with it.

    A source of another kind of file, which has the option `path`, reads such files. Otherwise, a model trained on many
    series reads long files, every other model tables. All read stores.

    Args:
        path: the other file.
        trained: the target of training.
        keys: the values of `id_column`, `date_column` and `stamp` in training; an id of None: one series.
    """
    if is_store(path):
        return {"_target_": STORE, "eval_stride": None}
    options = option_names(get_method(trained))
    if trained not in (LONG, STORE, TABLE) and "path" in options and "url" not in options:
        return {"_target_": trained}
    stride = {"eval_stride": 1} if trained == STORE else {}
    if trained == LONG or keys.get("id_column") is None:
        return {"_target_": LONG if trained == LONG else TABLE, "stamp": keys["stamp"], **stride}
    return {"_target_": LONG, **keys, **stride}


def option_names(make: Callable[..., DataModule]) -> frozenset[str]:
    """Names of the options of a data module, those of its source included."""
    return frozenset(inspect.signature(make).parameters)
