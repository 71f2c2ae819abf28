"""Stores: panels on disk that are mapped into memory, their writer, and a store as a source of a panel."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.lib import format as npy

from forecast.data.calendars import is_zone, utc_offset_of
from forecast.data.files.sources import ColumnOptions, find_series
from forecast.data.files.table_rows import NAME_AS_COVARIATE, STATIC_CHANGES
from forecast.data.files.text import quote
from forecast.data.panel import Panel
from forecast.data.row_ranges import PerSeries, RowRanges, RunningStatistics, StoredValues, find_target_rows, pieces_of
from forecast.system.errors import ConfigError, DataError, TextColumns, user_path
from forecast.system.files import write_json
from forecast.system.memory import available

_WORK = 5  # memory that examining a table takes, as a multiple of its size

KIND, VERSION = "forecast.store", 2
DESCRIPTION, VALUES, DATES = "store.json", "values.npy", "dates.npy"
PARTS = {DESCRIPTION, VALUES, DATES}


def is_store(path: str | Path) -> bool:
    return (user_path(path) / DESCRIPTION).is_file()


def open_store(path: str | Path) -> Panel:
    """The panel in the folder `path`, with its values on disk. Raises DataError for a damaged or incomplete store."""
    folder = user_path(path)
    if not is_store(folder):
        what = "no such store" if not folder.exists() else f"no store (it has no {DESCRIPTION})"
        raise DataError(f"{folder}: {what}: make one by forecast convert data.path=FILE")
    try:
        about = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        if not _is_consistent(about):
            raise DataError(f"{DESCRIPTION} describes no store in version {VERSION} of the format")
        columns, lengths = tuple(about["columns"]), np.array(about["lengths"], dtype=np.int64)
        values = _map(folder / VALUES, (int(lengths.sum()), len(columns)), ("<f4", "<f8"))
        dates = _map(folder / DATES, (about["dates"],), ("<M8[us]", "<M8[ns]"))
        grid = pd.DatetimeIndex(dates, copy=False, name=about["date_column"])
        grid_starts = _find_grid_starts(grid, about, lengths)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        what = error if isinstance(error, DataError) else f"{DESCRIPTION} cannot be read"
        advice = "the store is damaged or of another version: convert again"
        raise DataError(f"{folder}: {what}: {advice}") from None
    facts = (tuple(about[name]) for name in ("minimum", "maximum", "missing"))
    stored = StoredValues(values, folder / VALUES, tuple(range(len(columns))), *facts, codes=(None,) * len(columns))
    ids, stops = pd.Index(about["ids"], dtype=str, name=about["id_column"]), lengths.cumsum()
    return Panel(
        ids=ids, grid=grid, freq=about["freq"], grid_starts=grid_starts, starts=stops - lengths, ends=stops,
        stops=stops, targets=columns, values=stored, static=pd.DataFrame(index=ids), utc_offset=utc_offset_of(about),
        texts=about["texts"],
    )  # fmt: skip


def check_fits_memory(panel: Panel) -> None:
    """Raise DataError if memory cannot hold a panel on disk and the arrays that examining it needs."""
    rows, columns = panel.values.shape
    needed, free = _WORK * 8 * rows * columns, available()
    if panel.is_on_disk and needed > free:
        size = f"about {needed / 2**30:,.1f} GiB, and {free / 2**30:,.1f} GiB are free"
        raise DataError(f"this needs the whole table in memory, {size}: give a smaller file")


def _is_consistent(about: Any) -> bool:
    """Whether the descriptions of the columns, of the series and of the dates are possible and belong together.

    A value of another type may raise an error.
    """
    columns, ids, lengths, texts = about["columns"], about["ids"], about["lengths"], about["texts"]
    numbers = np.array([about["minimum"], about["maximum"], about["missing"]], dtype=np.float64)
    return bool(
        (about["kind"], about["version"]) == (KIND, VERSION)
        and _are_texts([*columns, *ids, *about["first_dates"], about["freq"], about["date_column"]])
        and 0 < len(columns) == len(set(columns))
        and numbers.shape == (3, len(columns))
        and np.isfinite(numbers).all()
        and (numbers[2] >= 0).all()
        and 0 < len(ids) == len(set(ids)) == len(lengths) == len(about["first_dates"])
        and all(type(number) is int and number > 0 for number in [*lengths, about["dates"]])
        and all(name in columns and isinstance(one, list) and _are_texts(one) for name, one in texts.items())
        and isinstance(about.get("id_column"), str | None)
        and all(type(about.get(key)) in (int, type(None)) for key in ("utc_offset", "stamp"))
        and is_zone(about.get("timezone"))
    )


def _are_texts(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _map(file: Path, shape: tuple[int, ...], dtypes: tuple[str, ...]) -> np.ndarray:
    """The array of a file, mapped into memory for reading, as a plain array: slices of `np.memmap` take longer."""
    problem = DataError(f"{file.name} is missing, truncated or no array of {' × '.join(map(str, shape))}")
    try:
        found = npy.open_memmap(file, mode="r")
    except (ValueError, OSError):
        raise problem from None
    is_whole = file.stat().st_size == found.offset + found.nbytes  # type: ignore[attr-defined]
    if found.shape != shape or found.dtype.str not in dtypes or not found.flags.c_contiguous or not is_whole:
        raise problem
    return np.asarray(found)


def _find_grid_starts(dates: pd.DatetimeIndex, about: dict[str, Any], lengths: PerSeries) -> PerSeries:
    """The position of the first date of each series. Raises DataError unless all dates of the series are there."""
    begin = pd.date_range(dates[0], periods=min(3, len(dates)), freq=about["freq"])
    firsts = pd.DatetimeIndex(pd.to_datetime(about["first_dates"], format="ISO8601")).as_unit(dates.unit)
    places = np.searchsorted(dates.to_numpy(), firsts.to_numpy()).astype(np.int64)
    are_there = dates.to_numpy()[places.clip(max=len(dates) - 1)] == firsts.to_numpy()
    is_grid = begin.equals(dates[: len(begin)].rename(None)) and are_there.all()
    if not is_grid or places.min() > 0 or (places + lengths).max() != len(dates):
        raise DataError(f"{DATES} has other dates than {DESCRIPTION}")
    return places


DATES_AT_ONCE = 1 << 20  # dates that are written at a time


def write_store(
    folder: Path,
    blocks: Iterable[Float[np.ndarray, "rows columns"]],
    *,
    columns: Sequence[str],
    dtype: str,
    freq: str,
    first: pd.Timestamp,
    last: pd.Timestamp,
    unit: Literal["us", "ns"] = "us",
    **about: Any,
) -> None:
    """Write a store into a folder: the rows, the dates from `first` to `last` by the step `freq`, the description."""
    lowest, highest = np.full(len(columns), np.inf), np.full(len(columns), -np.inf)
    missing = np.zeros(len(columns), dtype=np.int64)

    def described() -> Iterator[np.ndarray]:
        for block in blocks:
            np.fmin(lowest, np.fmin.reduce(block), out=lowest)
            np.fmax(highest, np.fmax.reduce(block), out=highest)
            np.add(missing, np.isnan(block).sum(axis=0), out=missing)
            yield block

    _write_array(folder / VALUES, np.dtype(dtype), (len(columns),), described())
    count = _write_array(folder / DATES, np.dtype(f"<M8[{unit}]"), (), _dates(first, last, freq))
    description = {
        "kind": KIND, "version": VERSION, "columns": list(columns), "dates": count, "freq": freq,
        "minimum": lowest.tolist(), "maximum": highest.tolist(), "missing": missing.tolist(),
    }  # fmt: skip
    write_json(folder / DESCRIPTION, description | about)


def _dates(first: pd.Timestamp, last: pd.Timestamp, freq: str) -> Iterator[np.ndarray]:
    while first <= last:
        two = pd.date_range(first, periods=2, freq=freq).to_numpy()
        left = int((last.to_datetime64() - two[0]) / (two[1] - two[0])) + 1
        part = pd.date_range(first, periods=min(left, DATES_AT_ONCE) + 1, freq=freq)
        yield part[:-1][part[:-1] <= last].to_numpy()
        first = pd.Timestamp(part.to_numpy()[-1])  # type: ignore[reportAssignmentType]


def _write_array(path: Path, dtype: np.dtype, row: tuple[int, ...], blocks: Iterable[np.ndarray]) -> int:
    """Write blocks of rows as an .npy file, and return their number. NumPy's header has room for a larger number."""
    count = 0
    with path.open("wb") as file:
        for is_last in (False, True):
            file.seek(0)
            header = {"descr": dtype.str, "fortran_order": False, "shape": (count, *row)}
            npy.write_array_header_1_0(file, header)
            for block in () if is_last else blocks:
                with np.errstate(over="ignore"):
                    file.write(block.astype(dtype).tobytes())
                count += len(block)
        file.flush()
        os.fsync(file.fileno())
    return count


def read_static(where: str, panel: Panel, store: Panel, names: Sequence[str]) -> pd.DataFrame:
    """Read columns of a store that do not change within a series, one row for each series of a panel.

    A series has the value of its rows that have one, NaN if none has. The panel has some series of the whole `store`.
    Raises DataError, beginning with `where`, for a column that changes within a series.
    """
    assert isinstance(store.values, StoredValues)
    if not names:
        return pd.DataFrame(index=panel.ids)
    values = store.values.select([store.columns.index(name) for name in names])
    is_text = np.array([name in store.texts for name in names])
    found = RunningStatistics(len(names), len(panel))
    for rows in pieces_of(values, panel.starts, panel.ends):
        block = values[rows]
        found.add(np.where(is_text & (block < 0), np.nan, block), panel.series_of(rows))
    changes = found.lowest < found.highest
    if changes.any():
        series, column = divmod(int(changes.argmax()), len(names))
        problem = f"{where}: series {quote(panel.ids[series])}: column {quote(names[column])} changes: {STATIC_CHANGES}"
        raise DataError(problem, NAME_AS_COVARIATE, is_for_training=True)
    known = np.where(found.count, found.lowest, np.nan)
    columns: dict[str, np.ndarray] = dict(zip(names, known.T, strict=True))
    for name in set(names) & set(store.texts):
        texts = np.array([*store.texts[name], np.nan], dtype=object)
        columns[name] = texts[np.nan_to_num(columns[name], nan=-1).astype(int)]
    return pd.DataFrame(columns, index=panel.ids)


@dataclass(kw_only=True)
class StoreSource(ColumnOptions):
    """The store in the folder `path`, of one series or many, with the options of `ColumnOptions`."""

    path: Any  # a path when given, then a Path

    def __post_init__(self) -> None:
        if self.path is None:
            raise ConfigError("data=store needs data.path=FOLDER, which forecast convert makes")
        self.path = user_path(self.path)
        self.roles = self.choose_roles()

    def read(self) -> Panel:
        whole = open_store(self.path)
        assert isinstance(whole.values, StoredValues)
        roles = self.roles.resolve(str(self.path), whole.columns)
        if texts := [name for name in roles.targets or () if name in whole.texts]:
            example = quote(whole.texts[texts[0]][0])
            problem = f"{self.path}: column {quote(texts[0])} holds text, such as {example}"
            advice = ": leave it out (data.drop), or read it as a covariate (data.past_covariates or future_covariates)"
            raise TextColumns(problem, advice, texts)
        places = {name: place for place, name in enumerate(whole.columns)}
        values = whole.values.select([places[name] for name in roles.values])
        future = whole.values.select([places[name] for name in roles.future])
        texts = {name: texts for name, texts in whole.texts.items() if name in roles.covariates}
        panel = replace(
            self._choose_series(whole), targets=roles.targets, past_covariates=roles.past, as_of=roles.as_of,
            future_covariates=roles.future_covariates, values=values, future=future if roles.future else None,
            texts=texts,
        )  # fmt: skip
        panel = self._cut_to_targets(panel)
        return replace(panel, static=read_static(str(self.path), panel, whole, roles.static))

    def _choose_series(self, panel: Panel) -> Panel:
        """The series `ids`. Raises ConfigError for a series that is not there."""
        if self.ids is None:
            return panel
        if not panel.has_ids:
            raise ConfigError(f"data.ids names series, and {self.path} holds one table")
        chosen = np.flatnonzero(find_series(self.ids, panel.ids, str(self.path)))
        names = ("ids", "grid_starts", "starts", "ends", "stops")
        return replace(panel, **{name: getattr(panel, name)[chosen] for name in names})

    def _cut_to_targets(self, panel: Panel) -> Panel:
        """The panel of the rows that `find_target_rows` keeps, and of their dates."""
        assert isinstance(panel.values, StoredValues)
        targets, ids = panel.values.select(range(len(panel.targets))), panel.ids if panel.has_ids else None
        rows, keep_end = RowRanges(panel.starts, panel.stops), panel.future is not None
        firsts, ends, stops = find_target_rows(str(self.path), targets, panel.targets, rows, ids, keep_end)
        grid_starts = panel.grid_starts + firsts - panel.starts
        begin, end = int(grid_starts.min()), int((grid_starts + stops - firsts).max())
        grid_starts, grid = grid_starts - begin, panel.grid[begin:end]
        return replace(panel, grid=grid, grid_starts=grid_starts, starts=firsts, ends=ends, stops=stops)
