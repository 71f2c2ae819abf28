"""The Lightning data module: a source's panel, split, scaled and cut into windows."""

import copy
import warnings
from collections.abc import Sequence
from typing import Any

import lightning as L
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from forecast.data.categories import Categories, encode_categories, fit_categories
from forecast.data.clock import Clock, clock_of
from forecast.data.columns import check_columns, choose_columns
from forecast.data.domain import BoundSetting, TransformSetting, check_domain
from forecast.data.future_covariates import KnownSteps, check_known_steps
from forecast.data.loader import WindowLoader
from forecast.data.missing import FillSetting, check_fill
from forecast.data.options import AUTO, check_options, windows_an_epoch
from forecast.data.panel import Panel
from forecast.data.scaled_panel import ScaledPanel, ScalingOptions
from forecast.data.source import Source
from forecast.data.split import Split, split_panel
from forecast.data.time_features import season_candidates
from forecast.data.window_starts import check_season, choose_eval_stride, find_window_starts
from forecast.data.windows import Windows
from forecast.system.errors import ConfigError
from forecast.system.formatting import plural

GENERIC_NAMES = ("csv", "long", "store")
"""Names that say no more than the kind of source; the file's name says more."""


class DataModule(L.LightningDataModule):
    """A panel and its windows; `setup()` reads, splits, scales and cuts, once, with a trainer or without.

    Args:
        source: where the panel comes from.
        name: what the data is called in results.
        seq_len, pred_len: steps read and steps forecast.
        split: see `forecast.data.split`. With `split="test"` a checkpoint's scaler is needed (`load_state_dict`).
        features: `M` (all targets from all columns), `S` (the target from itself), `MS` (the target from all columns).
        target: the column that `S` and `MS` forecast; default: the only one.
        scaler, scale_by: see `forecast.data.scaling.fit_scaler`.
        batch_size, eval_batch_size: windows of a batch, over all processes.
        season: rows of a season; default: by the frequency. Then the seasonal naive may repeat another, see `seasons`.
        fill, fill_limit: how missing values in the past of a window are completed, see `forecast.data.missing`.
        known_steps: steps for which future covariates are known after a forecast origin, one number or by column; None:
            over the whole horizon.
        lower, upper, transform: bounds of the forecasts and transforms before scaling, see `forecast.data.domain`.
        holidays: country whose public holidays are a calendar feature.
        windows_per_epoch: training windows of an epoch, sampled anew each time; None: all; `auto`: by their number.
        eval_stride: use every n-th window of validation and test, the last one always; None: at most
            `EVALUATED_WINDOWS` windows of each split.
        seed: of the order of the training windows.

    A series that is too short for a window in a split has none there, with a warning. A series without training rows
    has no scale, and so no window in any split.

    After `setup()`: `panel`, `columns` (that `target` may name), `feature_columns`, `target_columns`, `target_index`,
    `n_features`, `n_targets`, `n_time_features`, `freq`, `season`, `seasons` (that the seasonal naive may repeat),
    `scaler`, `target_scaler`, `rows` (first row of each series in each split, and the row after its last one),
    `windows` and `n_windows` (by split).

    Raises:
        ConfigError: options that cannot be combined, or name nothing.
        DataError: a panel that cannot be used.
    """

    def __init__(
        self,
        source: Source,
        *,
        name: str,
        seq_len: int,
        pred_len: int,
        split: Split,
        features: str = "M",
        target: str | None = None,
        scaler: str = "standard",
        scale_by: str = "series",
        batch_size: int = 32,
        eval_batch_size: int | None = None,
        season: int | None = None,
        holidays: str | None = None,
        fill: FillSetting | None = None,
        fill_limit: int | None = None,
        known_steps: KnownSteps | None = None,
        lower: BoundSetting | None = None,
        upper: BoundSetting | None = None,
        transform: TransformSetting | None = None,
        windows_per_epoch: int | str | None = None,
        eval_stride: int | None = 1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        required = {"seq_len": seq_len, "pred_len": pred_len, "data.batch_size": batch_size}
        optional = {
            "data.eval_stride": eval_stride, "data.eval_batch_size": eval_batch_size, "data.season": season,
            "data.windows_per_epoch": None if windows_per_epoch == AUTO else windows_per_epoch,
        }  # fmt: skip
        check_options(required, optional, seed, features=features, scaler=scaler, scale_by=scale_by)
        self.name: str = name
        self.source, self.seq_len, self.pred_len = source, seq_len, pred_len
        self.features, self.target = features, target
        self.split, self.scaler_kind, self.scale_by, self.seed = split, scaler, scale_by, seed
        self.batch_size, self.eval_batch_size = batch_size, eval_batch_size or batch_size
        self._windows_per_epoch, self._eval_stride = windows_per_epoch, eval_stride
        check_fill(fill, fill_limit)
        check_known_steps(known_steps)
        check_domain(lower, upper, transform)
        self._season, self.holidays = season, holidays
        self.fill, self.fill_limit, self.known_steps = fill, fill_limit, known_steps
        self.lower, self.upper, self.transform = lower, upper, transform
        self.tested = "test"  # the split that `test_dataloader` serves
        self._is_set_up = False
        self._panel: Panel | None = None  # as the source gives it
        self.categories: Categories | None = None
        self._saved_state: dict[str, Any] | None = None

    @property
    def title(self) -> str:
        """The name in tables and figures: the file's name where `name` only says what kind of source it is."""
        path = self.source.path
        return path.name if path and self.name in GENERIC_NAMES else str(self.name)

    @property
    def windows_per_epoch(self) -> int:
        """Training windows of an epoch."""
        return windows_an_epoch(self._windows_per_epoch, self.n_windows["train"])

    def prepare_data(self) -> None:
        self.source.prepare()

    def setup(self, stage: str | None = None) -> None:
        if self._is_set_up:
            return
        panel = self._panel if self._panel is not None else self.source.read()
        panel = panel.on_clock(clock_of(self._saved_state))
        choose_columns(self.name, panel, self.features, self.target)  # refuses options that name nothing
        self._panel, self.freq = panel, panel.freq
        self.season = self._season or panel.season
        repeated = (self._saved_state or {}).get("repeated_season", self.season)
        self.rows = split_panel(panel, self.split, seq_len=self.seq_len, season=repeated)
        key = "data.season" if self._season else f"the season of {self.freq} data"
        check_season(self.name, self.season, key, self.rows, self.seq_len + self.pred_len)
        self.eval_stride = self._eval_stride or choose_eval_stride(self.rows, self.pred_len, self.season)
        if self.holidays and panel.clock == Clock(0, "UTC"):
            advice = (
                "set data.timezone" if self.source.path else "give them in the country's zone (tz_convert)"
            )
            warnings.warn(
                f"{self.title}: the dates are UTC, so data.holidays={self.holidays} marks days of UTC, which begin "
                f"and end some hours before or after the country's: {advice}",
                stacklevel=2,
            )
        self._scale()
        self._is_set_up = True

    @property
    def seasons(self) -> list[int]:
        """The seasons that the seasonal naive may repeat: data.season, or those of the step that training rows hold."""
        if self._season or self.panel.calendar is not None:
            return [self.season]
        first, last = self.rows["train"]
        default, *longer = season_candidates(self.freq)
        return [default, *(season for season in longer if season < (last - first).max())]

    def _scale(self) -> None:
        """Scale by the training rows or by a checkpoint, and cut every split into windows."""
        state = self._saved_state
        if state is None and "train" not in self.rows:
            raise ConfigError("data.split=test has no training rows to fit a scaler on: use a checkpoint's")
        self._encode(state)
        if state is not None:
            check_columns(self.name, state, self.feature_columns, self.target_columns)
        # a series that is not in the checkpoint is scaled by its rows before the first forecast
        first, last = self.rows.get("train") or (self.panel.starts, self.rows["test"][0])
        self.scaled = ScaledPanel.of(
            str(self.source.path or self.name),
            self.panel.select_columns(self.feature_columns),
            state,
            first,
            last,
            self.scaling_options,
        )
        self.scaler = self.scaled.scaler
        self.target_scaler = self.scaler.select_columns(self.target_index)
        self.n_time_features = self.scaled.time.n_features
        self._device_windows: dict[str, Windows] = {}
        starts = find_window_starts(
            self.name,
            self.panel,
            self.rows,
            self.scaled.has_scale,
            seq_len=self.seq_len,
            pred_len=self.pred_len,
            eval_stride=self.eval_stride,
        )
        self.windows = {split: self.windows_from(rows) for split, rows in starts.items()}
        self.n_windows = {split: len(windows) for split, windows in self.windows.items()}

    def _encode(self, state: dict[str, Any] | None) -> None:
        """Turn the categories of covariates, of the training rows or of a checkpoint, into columns; choose columns."""
        where, panel = str(self.source.path or self.name), self._panel
        assert panel is not None
        categories = self.categories if state is None else state.get("categories", {})
        if categories is None:
            categories = fit_categories(where, panel, *self.rows["train"])
        self.categories, self.panel = categories, encode_categories(where, panel, categories)
        columns = choose_columns(self.name, self.panel, self.features, self.target)
        self.columns, self.feature_columns = self.panel.targets, columns.features
        self.target_columns, self.target_index = columns.targets, columns.index
        self.n_features, self.n_targets = len(columns.features), len(columns.targets)

    def windows_from(self, starts: Sequence[range]) -> Windows:
        """Windows over the scaled panel; of each series, their pasts begin at these rows."""
        return self.scaled.windows(
            starts, seq_len=self.seq_len, pred_len=self.pred_len, target_index=self.target_index
        )

    @property
    def scaling_options(self) -> ScalingOptions:
        return ScalingOptions(
            self.scaler_kind, self.scale_by, self.holidays, self.fill, self.fill_limit, self.season,
            self.target_columns, self.lower, self.upper, self.transform, self.known_steps,
        )  # fmt: skip

    def describe(self) -> str:
        """The panel in one line."""
        panel = self.panel
        dates = f"{panel.steps}, {panel.first_date} to {panel.last_date}"
        if not panel.has_ids:
            return f"{panel.n_rows:,} rows × {plural(len(panel.columns), 'column')}, {dates}"
        shortest, longest = int(panel.lengths.min()), int(panel.lengths.max())
        rows = f"{shortest:,} to {longest:,}" if shortest < longest else f"{longest:,}"
        return f"{len(panel):,} series, {panel.n_rows:,} rows ({rows} each), {dates}"

    def unscale_targets(
        self, values: Float[Tensor, "batch steps n_targets"], series: Int64[Tensor, " batch"]
    ) -> Float64[Tensor, "batch steps n_targets"]:
        """Scaled forecasts or truths of these series in the units of the data."""
        return self.target_scaler.inverse(values, series)

    def clip_targets(
        self, values: Float[Tensor, "batch steps n_targets ..."], series: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch steps n_targets ..."]:
        """Scaled forecasts of these series, or their quantiles, within the bounds (`data.lower`, `data.upper`)."""
        return self.target_scaler.clip(values, series)

    @property
    def trained_until(self) -> str:
        """The date of the last training row."""
        first, last = self.rows["train"]
        return str(self.panel.dates(last[last > first] - 1).max())

    def resplit(self, split: Split, *, keep_categories: bool = False) -> "DataModule":
        """The same panel split in another way, with a scaler of its own, and categories of its own or the same."""
        other = copy.copy(self)
        other.split, other.trainer, other._is_set_up, other._saved_state = split, None, False, None
        other.categories = self.categories if keep_categories else None
        other.setup()
        return other

    def train_dataloader(self) -> WindowLoader:
        return self._loader("train", self.batch_size, shuffle=True, per_epoch=self.windows_per_epoch)

    def val_dataloader(self) -> WindowLoader:
        return self._loader("val", self.eval_batch_size)

    def test_dataloader(self) -> WindowLoader:
        return self._loader(self.tested, self.eval_batch_size)

    def _loader(
        self, split: str, batch_size: int, shuffle: bool = False, per_epoch: int | None = None
    ) -> WindowLoader:
        windows, rank, world_size = self.windows[split], 0, 1
        if self.trainer is not None:
            rank, world_size = self.trainer.global_rank, self.trainer.world_size
            device = self.trainer.strategy.root_device
            windows = self._on_device(split, device) if device.type == "cuda" else windows
        return WindowLoader(windows, batch_size, shuffle, self.seed, rank, world_size, per_epoch)

    def _on_device(self, split: str, device: torch.device) -> Windows:
        """The windows of a split over one copy of the panel on the device, which all splits share."""
        copies = self._device_windows
        if copies and next(iter(copies.values())).device != device:
            copies.clear()
        if split not in copies:
            shared = next(iter(copies.values()), None) or self.windows[split].to(device)
            copies[split] = self.windows[split].on(shared.values, shared.time)
        return copies[split]

    def state_dict(self) -> dict[str, Any]:
        """What a forecast needs of the training data; Lightning keeps it in the checkpoint."""
        return {
            **self.scaled.state_dict(),
            "categories": dict(self.categories or {}),
            "feature_columns": list(self.feature_columns),
            "target_columns": list(self.target_columns),
            "freq": self.freq,
            "season": self.season,
            "calendar": self.panel.calendar and self.panel.calendar.state_dict(),
            "utc_offset": self.panel.clock.utc_offset,
            "timezone": self.panel.clock.timezone,
            "n_time_features": self.n_time_features,
            "trained_until": self.trained_until,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Use a checkpoint's scaler, whatever the rows here; before or after `setup()`.

        Raises DataError where the checkpoint was trained on other columns.
        """
        self._saved_state = state_dict
        if self._is_set_up:
            self._scale()
