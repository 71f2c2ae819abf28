"""Data modules by kind of source: what the `_target_` of a file in conf/data names.

To add a data source, write a class with `path`, `prepare()` and `read()` (`forecast.data.source.Source`), make a data
module of it here, and name that in a YAML file in conf/data.
"""

import inspect
from collections.abc import Callable
from typing import Any

from forecast.data.files.file_source import FileSource, LongSource
from forecast.data.files.frame_source import FrameSource
from forecast.data.module import DataModule
from forecast.data.options import DataOptions
from forecast.data.sets.download import DownloadedSource
from forecast.data.sets.generated import GeneratedSource
from forecast.data.sets.national_load import load_table
from forecast.data.sets.recall import recall_table
from forecast.data.sets.sample import sample_table
from forecast.data.store.source import StoreSource


def make_factory(doc: str, source: type, *given: Any) -> Callable[..., DataModule]:
    """A function that makes a data module of `source(*given, ...)`; source and data module each take their own options.

    An option that both have, such as `target`, goes to both.
    """
    own = {
        name: parameter
        for kind in reversed(source.__mro__[:-1])
        for name, parameter in inspect.signature(kind.__init__).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    shared = {
        name: parameter
        for name, parameter in inspect.signature(DataOptions).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }

    both = {name: own[name].default for name in own.keys() & shared.keys()}

    def make(*first: Any, **options: Any) -> DataModule:
        options = {**both, **options}
        made = source(*given, *first, **{key: value for key, value in options.items() if key in own})
        rest = {key: value for key, value in options.items() if key in shared or key not in own}
        return DataModule(made, **rest)

    make.__doc__ = doc
    make.__signature__ = inspect.Signature([*{**shared, **own}.values()])  # type: ignore[attr-defined]
    return make


csv_data = make_factory("A CSV file with one column for each variable.", FileSource)
downloaded_data = make_factory("A published CSV file, downloaded once.", DownloadedSource)
frame_data = make_factory("A DataFrame of one series or of many.", FrameSource)
long_data = make_factory("A long file with one row for each series and date.", LongSource)
store_data = make_factory("A table on disk, made by `forecast.convert`.", StoreSource)
sample_data = make_factory("The embedded synthetic sample.", GeneratedSource, sample_table)
load_data = make_factory("The generated national load.", GeneratedSource, load_table)
recall_data = make_factory("The generated set that needs a long memory.", GeneratedSource, recall_table)
