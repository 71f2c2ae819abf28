"""The data module: a source's panel, split, scaled and cut into windows; and that of each source. Imports no torch.

To add a data source, write a subclass of `forecast.data.source.Source`, make a data module of it at the end of this
file, and name that in a YAML file in conf/data. How its models read other files: `settings_of_file`.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hydra.utils import get_method

from forecast.data.calendars import UtcOffset, utc_offset_of
from forecast.data.covariates import Categories, encode_categories, fit_categories
from forecast.data.files.sources import FileSource, FrameSource, LongSource
from forecast.data.panel import Panel, check_columns, choose_columns
from forecast.data.row_ranges import RowRanges
from forecast.data.sets import DownloadedSource, GeneratedSource, load_table, recall_table, sample_table
from forecast.data.source import (
    DataOptions,
    Source,
    TransformSetting,
    choose_batch_size,
    count_windows_per_epoch,
)
from forecast.data.split import (
    Split,
    check_season,
    choose_eval_stride,
    find_window_starts,
    split_panel,
)
from forecast.data.store import StoreSource, is_store
from forecast.data.time_features import season_candidates, warn_of_utc_holidays
from forecast.system.errors import ConfigError
from forecast.system.formatting import read_mapping
from forecast.system.keys import FILE_SOURCES

if TYPE_CHECKING:
    import torch

    from forecast.data.scaled_panel import ScaledPanel
    from forecast.data.windows import WindowLoader, Windows


class DataModule:
    """A panel and its windows.

    `read()` reads the panel and splits its rows, without importing PyTorch, so that a command refuses a file at once;
    `setup()` also scales and cuts.

    Args:
        source: where the panel comes from.
        panel: the panel of the source, if it was read before.
        categories: those of the training rows, if they are known.
        options: keyword arguments of `DataOptions`.

    A series that is too short for a window in a split has none there, with a warning. A series without training rows
    has no scale, and so no window in any split.

    After `read()`: `freq`, `season`, `eval_stride`, and `rows` (first row of each series in each split, and the row
    after its last one). After `setup()` also: `panel`, `columns` (that `target` may name), `feature_columns`,
    `target_columns`, `target_index`, `n_features`, `n_targets`, `n_time_features`, `batch_size` (of training),
    `scaler`, `target_scaler`, `windows` and `n_windows` (by split).

    Raises:
        ConfigError: options that cannot be combined, or name nothing.
        DataError: a panel that cannot be used.
    """

    freq: str
    season: int
    eval_stride: int
    rows: dict[str, RowRanges]
    scaled: "ScaledPanel"

    def __init__(
        self,
        source: Source,
        *,
        panel: Panel | None = None,
        categories: Categories | None = None,
        **options: Any,
    ) -> None:
        self.source, self.options = source, DataOptions(**options)
        self.seq_len, self.pred_len = self.options.seq_len, self.options.pred_len
        self.tested_split = "test"  # the split that a test scores
        self.categories = categories
        self._panel = panel  # as the source gives it
        self._saved_state: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        return self.options.name

    @property
    def title(self) -> str:
        """The name in tables and figures: the file's name where `name` only says what kind of source it is."""
        path = self.source.path
        return path.name if path and self.name in FILE_SOURCES else self.name

    @property
    def location(self) -> str:
        """The path or the URL in messages; the name of data without one."""
        return str(self.source.path or self.name)

    def prepare_data(self) -> None:
        self.source.prepare()

    def read_panel(self) -> Panel:
        """The panel of the source, at the UTC offset of a checkpoint's data; read once."""
        if self._panel is None:
            self._panel = self.source.read()
        return self._panel.at_utc_offset(utc_offset_of(self._saved_state))

    def read(self) -> None:
        """Read the panel and split its rows; later calls do nothing."""
        if hasattr(self, "rows"):
            return
        panel = self.read_panel()
        # refuses a target that is not there before anything is computed
        choose_columns(self.title, panel, self.options.features, self.options.target)
        self._panel, self.freq = panel, panel.freq
        self.season = self.options.season or panel.season
        season = (self._saved_state or {}).get("seasonal_naive_season", self.season)
        rows = split_panel(panel, self.options.split, seq_len=self.seq_len, season=season)
        key = "data.season" if self.options.season else f"the season of {self.freq} data"
        check_season(self.title, self.season, key, rows, self.seq_len + self.pred_len)
        self.eval_stride = self.options.eval_stride or choose_eval_stride(rows, self.pred_len, self.season)
        self.rows = rows
        if self.options.holidays and panel.utc_offset == UtcOffset(0, "UTC"):
            warn_of_utc_holidays(self.title, self.options.holidays, has_file=self.source.path is not None)

    @property
    def windows_per_epoch(self) -> int:
        """Training windows of an epoch."""
        asked, count = self.options.windows_per_epoch, self.n_windows["train"]
        return count_windows_per_epoch(asked, count, bool(self.panel.future_covariates))

    @property
    def eval_batch_size(self) -> int:
        """Windows of a batch of validation and test, over all processes."""
        return self.options.eval_batch_size or self.batch_size

    def setup(self) -> None:
        if not hasattr(self, "scaled"):
            self.read()
            self._scale()

    @property
    def candidate_seasons(self) -> list[int]:
        """The seasons that the seasonal naive may repeat: data.season, or those of the step that training rows hold."""
        if self.options.season or self.panel.calendar is not None:
            return [self.season]
        first, last = self.rows["train"]
        default, *longer = season_candidates(self.freq)
        return [default, *(season for season in longer if season < (last - first).max())]

    def _scale(self) -> None:
        """Scale by the training rows or by a checkpoint, and cut every split into windows."""
        from forecast.data.scaled_panel import ScaledPanel, Scales

        whole, state, rows = self._panel, self._saved_state, self.rows.get("train")
        assert whole is not None
        if state is not None:
            self.categories = state["categories"]
        elif rows is None:
            raise ConfigError("data.split=test has no training rows to fit a scaler on: use a checkpoint's")
        elif self.categories is None:
            self.categories = fit_categories(self.location, whole, *rows)
        self.panel = encode_categories(self.location, whole, self.categories)
        columns = choose_columns(self.title, self.panel, self.options.features, self.options.target)
        self.columns, self.feature_columns = self.panel.targets, columns.features
        self.target_columns, self.target_index = columns.targets, columns.index
        self.n_features, self.n_targets = len(columns.features), len(columns.targets)
        if state is not None:
            check_columns(self.title, state, self.feature_columns, self.target_columns)
        # a series that is not in the checkpoint is scaled by its rows before the first forecast
        rows = rows or RowRanges(whole.starts, self.rows["test"].first)
        read = self.panel.select_columns(self.feature_columns)
        scales = Scales.fit(self.location, read, rows, self.options, targets=self.target_columns, state=state)
        self.scaled = ScaledPanel.of(self.location, read, scales, self.options, season=self.season)
        self.scaler, self.target_scaler = scales.scaler, scales.scaler.select_columns(self.target_index)
        self.n_time_features = self.scaled.time.n_features
        self._on_device: Windows | None = None
        self.batch_size = choose_batch_size(self.options.batch_size, bool(self.panel.future_covariates))
        starts = find_window_starts(
            self.title, self.panel, self.rows, scales.has_scale,
            seq_len=self.seq_len, pred_len=self.pred_len, eval_stride=self.eval_stride,
        )  # fmt: skip
        sizes = {"seq_len": self.seq_len, "pred_len": self.pred_len, "target_index": self.target_index}
        self.windows = {split: self.scaled.windows(rows, **sizes) for split, rows in starts.items()}
        self.n_windows = {split: len(windows) for split, windows in self.windows.items()}

    def last_date(self, split: str) -> str:
        """The date of the last row of a split, such as `train`."""
        first, last = self.rows[split]
        return str(self.panel.dates(last[last > first] - 1).max())

    def resplit(self, split: Split) -> "DataModule":
        """The same panel split in another way, with a scaler and categories of its own."""
        return self._with(split=split)

    def with_all_rows_in_training(self) -> "DataModule":
        """The same panel, with a scaler of its own, the same categories, and scaled errors in the units of this one."""
        whole = self._with(split="train", categories=self.categories)
        whole.scaler.copy_error_units(self.scaler, self.scaled.scales.has_scale)
        whole.target_scaler = whole.scaler.select_columns(whole.target_index)
        return whole

    def set_transform(self, transform: TransformSetting | None) -> None:
        """Use another transform, before or after `setup()`."""
        self.options = replace(self.options, transform=transform)
        if hasattr(self, "scaled"):
            self._scale()

    def with_transform(self, transform: TransformSetting | None, target: str | None = None) -> "DataModule":
        """The same rows and split with another transform; with `target`, it and the future covariates alone."""
        if target is None:
            return self._with(transform=transform)
        by_column = {
            name: {target: setting[target]} if target in setting else None
            for name in ("lower", "upper", "fill")
            if isinstance(setting := getattr(self.options, name), Mapping)
        }
        assert self._panel is not None
        texts = {
            name: text for name, text in self._panel.texts.items() if name in self._panel.future_covariates
        }
        panel = replace(self._panel.select_columns([target]), texts=texts)
        return self._with(panel=panel, transform=transform, features="M", target=None, **by_column)

    def _with(self, **changes: Any) -> "DataModule":
        """The same panel, scaled and split by other options."""
        other = DataModule(self.source, **{"panel": self._panel, **vars(self.options), **changes})
        other.setup()
        return other

    def loader(
        self, split: str, *, rank: int = 0, world_size: int = 1, device: "torch.device | None" = None
    ) -> "WindowLoader":
        """The windows of a split in batches; training windows are drawn at random, `windows_per_epoch` an epoch.

        Args:
            split: a key of `windows`.
            rank, world_size: this process, and the number of processes that share the windows.
            device: gathers batches there if it is a CUDA device; the panel is copied to it once for all splits.
        """
        from forecast.data.windows import WindowLoader

        windows, train, options = self.windows[split], split == "train", self.options
        if device is not None and device.type == "cuda":
            if self._on_device is None or self._on_device.device != device:
                self._on_device = windows.to(device)
            windows = windows.with_rows(self._on_device.values, self._on_device.time)
        batch_size = self.batch_size if train else self.eval_batch_size
        per_epoch = self.windows_per_epoch if train else None
        return WindowLoader(windows, batch_size, train, options.seed, rank, world_size, per_epoch)

    def state_dict(self) -> dict[str, Any]:
        """The facts of the training data that a forecast needs; a part of the checkpoint."""
        return {
            **self.scaled.state_dict(),
            "categories": dict(self.categories or {}),
            "feature_columns": list(self.feature_columns),
            "target_columns": list(self.target_columns),
            "freq": self.freq,
            "season": self.season,
            "calendar": self.panel.calendar and self.panel.calendar.state_dict(),
            **self.panel.utc_offset.state,
            "date_column": self.panel.grid.name,
            "n_time_features": self.n_time_features,
            "trained_until": self.last_date("train"),
            "validated_until": self.last_date("val") if "val" in self.rows else None,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Use the scaler of a checkpoint in place of one fitted to these rows, before or after `setup()`.

        Raises:
            DataError: the checkpoint was trained on other columns.
        """
        self._saved_state = state_dict
        if hasattr(self, "scaled"):
            self._scale()


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
