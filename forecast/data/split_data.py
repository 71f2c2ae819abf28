"""A source's panel and the rows of its splits. Imports no torch, so that a command refuses a file at once."""

from typing import Any

from forecast.data.panel import Panel, choose_columns
from forecast.data.row_ranges import RowRanges
from forecast.data.source import DataOptions, Source
from forecast.data.split import split_panel
from forecast.data.time_features import rows_in, warn_of_utc_holidays
from forecast.data.utc_offset import UtcOffset, utc_offset_of
from forecast.data.window_starts import check_season, choose_eval_stride, warn_of_times_of_day
from forecast.system.keys import FILE_SOURCES


class SplitData:
    """A panel and the rows of each split, the part of a data module that needs no tensors; `read()` reads it once.

    Args:
        source: where the panel comes from.
        options: keyword arguments of `DataOptions`.

    After `read()`: `freq`, `season`, `eval_stride`, and `rows` (first row of each series in each split, and the row
    after its last one).

    Raises:
        ConfigError: options that cannot be combined, or name nothing.
        DataError: a panel that cannot be used.
    """

    freq: str
    season: int
    eval_stride: int
    rows: dict[str, RowRanges]

    def __init__(self, source: Source, **options: Any) -> None:
        self.source, self.options = source, DataOptions(**options)
        self.seq_len, self.pred_len = self.options.seq_len, self.options.pred_len
        self._is_split = False
        self._panel: Panel | None = None  # as the source gives it
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
        if self._is_split:
            return
        panel = self.read_panel()
        # refuses a target that is not there before anything is computed
        choose_columns(self.title, panel, self.options.features, self.options.target)
        self._panel, self.freq = panel, panel.freq
        self.season = self.options.season or panel.season
        season = (self._saved_state or {}).get("seasonal_naive_season", self.season)
        self.rows = split_panel(panel, self.options.split, seq_len=self.seq_len, season=season)
        key = "data.season" if self.options.season else f"the season of {self.freq} data"
        check_season(self.title, self.season, key, self.rows, self.seq_len + self.pred_len)
        self.eval_stride = self.options.eval_stride or choose_eval_stride(
            self.rows, self.pred_len, self.season
        )
        warn_of_times_of_day(self.title, self.eval_stride, rows_in(1, self.freq))
        if self.options.holidays and panel.utc_offset == UtcOffset(0, "UTC"):
            warn_of_utc_holidays(self.title, self.options.holidays, has_file=self.source.path is not None)
        self._is_split = True
