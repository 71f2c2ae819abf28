"""The data module: a source's panel, split, scaled and cut into windows; and that of each source. Imports no torch.

To add a data source, write a subclass of `forecast.data.source.Source`, make a data module of it at the end of this
file, and name that in a YAML file in conf/data. How its models read other files: `settings_of_file`.
"""

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hydra.utils import get_method

from forecast.data.calendars import UtcOffset, utc_offset_of
from forecast.data.covariates import Categories, encode_categories, fit_categories
from forecast.data.files.sources import FileSource, FrameSource, LongSource
from forecast.data.panel import Columns, Panel, check_columns, choose_columns
from forecast.data.row_ranges import RowRanges
from forecast.data.sets import DownloadedSource, GeneratedSource, load_table, recall_table, sample_table
from forecast.data.source import DataOptions, Source, TransformSetting, choose_batch_size, count_windows_per_epoch
from forecast.data.split import Split, check_season, choose_eval_stride, find_window_starts, split_panel
from forecast.data.store import StoreSource, is_store
from forecast.data.time_features import season_candidates
from forecast.system.errors import ConfigError
from forecast.system.formatting import read_mapping
from forecast.system.keys import FILE_SOURCES

if TYPE_CHECKING:
    import torch

    from forecast.data.scaled_panel import ScaledPanel
    from forecast.data.scaler import Scaler
    from forecast.data.windows import WindowLoader, Windows


class DataModule:
    """A panel and its windows: a value, each part of which is computed when it is first asked for.

    `read()` reads the panel and splits its rows, without importing PyTorch, so that a command refuses a file at once;
    `setup()` also scales and cuts. The methods `with_...` return other modules of the same panel, which is read once.

    Args:
        panel: the panel of the source, if it was read before.
        categories: those of the training rows, if they are known.
        state: of the data module in a checkpoint, whose scaler, categories and UTC offset are used; None: those of
            the training rows.

    A series that is too short for a window in a split has none there, with a warning. A series without training rows
    has no scale, and so no window in any split.
    """

    tested_split = "test"  # the split that a test scores

    def __init__(
        self,
        source: Source,
        *,
        panel: Panel | None = None,
        categories: Categories | None = None,
        state: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.source, self.options, self.state = source, DataOptions(**options), state
        self.name, self.seq_len, self.pred_len = (self.options.name, self.options.seq_len, self.options.pred_len)
        self.location = str(source.path or self.name)  # in messages
        self._given, self._categories = panel, categories
        self._on_device: Windows | None = None

    @property
    def title(self) -> str:
        """The name in tables and figures: the file's name where `name` only says what kind of source it is."""
        path = self.source.path
        return path.name if path and self.name in FILE_SOURCES else self.name

    def prepare_data(self) -> None:
        self.source.prepare()

    @cached_property
    def source_panel(self) -> Panel:
        """The panel of the source, at the UTC offset of a checkpoint's data."""
        panel = self.source.read() if self._given is None else self._given
        return panel.at_utc_offset(utc_offset_of(self.state))

    @cached_property
    def rows(self) -> dict[str, RowRanges]:
        panel, options = self.source_panel, self.options
        # refuses a target that is not there before anything is computed
        choose_columns(self.title, panel, options.features, options.target)
        season = (self.state or {}).get("seasonal_naive_season", self.season)
        rows = split_panel(panel, options.split, seq_len=self.seq_len, season=season)
        key = "data.season" if options.season else f"the season of {self.freq} data"
        check_season(self.title, self.season, key, rows, self.seq_len + self.pred_len)
        if options.holidays and panel.utc_offset == UtcOffset(0, "UTC"):
            advice = "set data.timezone" if self.source.path else "give them in the country's zone (tz_convert)"
            warnings.warn(
                f"{self.title}: the dates are UTC, so data.holidays={options.holidays} marks days of UTC, which begin "
                f"and end some hours before or after the country's: {advice}",
                stacklevel=2,
            )
        return rows

    @property
    def freq(self) -> str:
        return self.source_panel.freq

    @property
    def season(self) -> int:
        return self.options.season or self.source_panel.season

    @cached_property
    def eval_stride(self) -> int:
        return self.options.eval_stride or choose_eval_stride(self.rows, self.pred_len, self.season)

    def read(self) -> None:
        _ = self.rows

    @property
    def windows_per_epoch(self) -> int:
        asked, count = self.options.windows_per_epoch, self.n_windows["train"]
        return count_windows_per_epoch(asked, count, bool(self.panel.future_covariates))

    @property
    def eval_batch_size(self) -> int:
        """Windows of a batch of validation and test, over all processes."""
        return self.options.eval_batch_size or self.batch_size

    def setup(self) -> None:
        """Read, scale and cut the panel into windows."""
        _ = self.windows

    @property
    def candidate_seasons(self) -> list[int]:
        """The seasons that the seasonal naive may repeat: data.season, or those of the step that training rows hold."""
        if self.options.season or self.panel.calendar is not None:
            return [self.season]
        first, last = self.rows["train"]
        default, *longer = season_candidates(self.freq)
        return [default, *(season for season in longer if season < (last - first).max())]

    @cached_property
    def categories(self) -> Categories:
        if self.state is not None:
            return self.state["categories"]
        if self._categories is not None:
            return self._categories
        if "train" not in self.rows:
            raise ConfigError("data.split=test has no training rows to fit a scaler on: use a checkpoint's")
        return fit_categories(self.location, self.source_panel, *self.rows["train"])

    @cached_property
    def panel(self) -> Panel:
        """The panel with an indicator column for each category."""
        return encode_categories(self.location, self.source_panel, self.categories)

    @cached_property
    def _chosen(self) -> Columns:
        return choose_columns(self.title, self.panel, self.options.features, self.options.target)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.panel.targets

    @property
    def feature_columns(self) -> tuple[str, ...]:
        return self._chosen.features

    @property
    def target_columns(self) -> tuple[str, ...]:
        return self._chosen.targets

    @property
    def target_index(self) -> list[int]:
        return self._chosen.index

    @property
    def n_features(self) -> int:
        return len(self.feature_columns)

    @property
    def n_targets(self) -> int:
        return len(self.target_columns)

    @property
    def n_time_features(self) -> int:
        return self.scaled.time.n_features

    @property
    def batch_size(self) -> int:
        """Windows of a batch of training, over all processes."""
        return choose_batch_size(self.options.batch_size, bool(self.panel.future_covariates))

    @cached_property
    def scaled(self) -> "ScaledPanel":
        """The columns that a model reads, scaled by the training rows or as in a checkpoint."""
        from forecast.data.scaled_panel import ScaledPanel, Scales

        whole, state = self.panel, self.state
        if state is not None:
            check_columns(self.title, state, self._chosen)
        # a series that is not in the checkpoint is scaled by its rows before the first forecast
        rows = self.rows.get("train") or RowRanges(whole.starts, self.rows["test"].first)
        read = whole.select_columns(self.feature_columns)
        scales = Scales.fit(self.location, read, rows, self.options, targets=self.target_columns, state=state)
        return ScaledPanel.of(self.location, read, scales, self.options, season=self.season)

    @property
    def scaler(self) -> "Scaler":
        return self.scaled.scales.scaler

    @cached_property
    def target_scaler(self) -> "Scaler":
        return self.scaler.select_columns(self.target_index)

    @cached_property
    def windows(self) -> "dict[str, Windows]":
        starts = find_window_starts(
            self.title, self.panel, self.rows, self.scaled.scales.has_scale,
            seq_len=self.seq_len, pred_len=self.pred_len, eval_stride=self.eval_stride,
        )  # fmt: skip
        sizes = {"seq_len": self.seq_len, "pred_len": self.pred_len, "target_index": self.target_index}
        return {split: self.scaled.windows(rows, **sizes) for split, rows in starts.items()}

    @property
    def n_windows(self) -> dict[str, int]:
        return {split: len(windows) for split, windows in self.windows.items()}

    def last_date(self, split: str) -> str:
        """The date of the last row of a split, such as `train`."""
        first, last = self.rows[split]
        return str(self.panel.dates(last[last > first] - 1).max())

    def with_split(self, split: Split) -> "DataModule":
        """The same panel split in another way, with a scaler and categories of its own."""
        return self._with(split=split)

    def with_all_rows_in_training(self) -> "DataModule":
        """The same panel, with a scaler of its own, the same categories, and scaled errors in the units of this one."""
        whole, has_scale = self._with(split="train", categories=self.categories), self.scaled.scales.has_scale
        whole.scaler.error_unit[has_scale] = self.scaler.error_unit[has_scale]
        return whole

    def with_state(self, state: dict[str, Any]) -> "DataModule":
        """The same panel with the scaler, the categories and the UTC offset of a checkpoint's data module.

        Asked for its windows, it raises DataError if the checkpoint was trained on other columns.
        """
        if state is self.state:
            return self
        other, season = self._with(state=state), "seasonal_naive_season"
        if self.state is not None and self.state.get(season) == state.get(season) and "rows" in vars(self):
            other.rows = self.rows  # of the same training; a second split would repeat its warnings
        return other

    def with_optional(self, columns: frozenset[str]) -> "DataModule":
        """A module whose source may lack these columns."""
        return DataModule(self.source.with_optional(columns), **vars(self.options), state=self.state)

    def with_transform(self, transform: TransformSetting | None, target: str | None = None) -> "DataModule":
        """The same rows and split with another transform; with `target`, it and the future covariates alone."""
        if target is None:
            return self._with(transform=transform)
        by_column = {
            name: {target: setting[target]} if target in setting else None
            for name in ("lower", "upper", "fill")
            if isinstance(setting := getattr(self.options, name), Mapping)
        }
        whole = self.source_panel
        texts = {name: text for name, text in whole.texts.items() if name in whole.future_covariates}
        panel = replace(whole.select_columns([target]), texts=texts)
        return self._with(panel=panel, transform=transform, features="M", target=None, **by_column)

    def _with(self, **changes: Any) -> "DataModule":
        """The same panel, scaled and split by other options."""
        panel = vars(self).get("source_panel", self._given)  # if it was read
        return DataModule(self.source, **{"panel": panel, **vars(self.options), **changes})

    def loader(
        self, split: str, *, rank: int = 0, world_size: int = 1, device: "torch.device | None" = None
    ) -> "WindowLoader":
        """The windows of a split in batches, see `WindowLoader`; those of training are `windows_per_epoch` an epoch.

        On a CUDA device, batches are gathered there; the panel is copied to it once for all splits.
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


MODULE_OPTIONS = inspect.signature(DataOptions).parameters


def make_factory(doc: str, source_class: type, *arguments: Any) -> Callable[..., DataModule]:
    """A function that creates a data module whose source is `source_class(*arguments, ...)`.

    The function takes the options of the source and those of the data module (`DataOptions`) by keyword. A table and
    the data module share the option `target`.
    """
    parameters = inspect.signature(source_class).parameters
    source_options = {name: one for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY}

    def make(*frame: Any, **given: Any) -> DataModule:
        options = {name: read_mapping(value) for name, value in given.items()}
        of_module = {name: value for name, value in options.items() if name in MODULE_OPTIONS}
        # an unknown name too: the error of the source names it
        taken = source_options.keys() | options.keys() - MODULE_OPTIONS.keys()
        of_source = {name: value for name, value in options.items() if name in taken}
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
