"""A store as a source of a panel: the values stay on disk."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64

from forecast.data.files.columns import ColumnRoles, check_as_of
from forecast.data.files.grid import warn_of_rows_left_out
from forecast.data.files.sources import check_list, find_series
from forecast.data.files.text import quote
from forecast.data.panel import Panel
from forecast.data.row_ranges import PerSeries, StoredValues, first_measured, last_measured, pieces_of
from forecast.data.source import Source
from forecast.data.store.format import open_store
from forecast.system.errors import ConfigError, DataError, TextColumns, user_path


def read_static(where: str, panel: Panel, store: Panel, names: Sequence[str]) -> pd.DataFrame:
    """Read columns of a store, one row for each series of a panel, and check that they do not change.

    A series has the value of its rows that have one, NaN if none has.

    Args:
        where: the folder, for messages.
        panel: some series of the store.
        store: the panel of the whole store.
        names: the columns.

    Raises:
        DataError: a column changes within a series.
    """
    assert isinstance(store.values, StoredValues)
    if not names:
        return pd.DataFrame(index=panel.ids)
    values = store.values.select([store.columns.index(name) for name in names])
    is_text = np.array([name in store.texts for name in names])
    known = np.full((len(panel), len(names)), np.nan)
    for rows, changes in _find_changes(panel, values, is_text, known):
        _refuse_changes(where, panel, rows, changes, names)
    columns = {
        name: np.array([*store.texts[name], np.nan], dtype=object)[np.nan_to_num(column, nan=-1).astype(int)]
        if name in store.texts
        else column
        for name, column in zip(names, known.T, strict=True)
    }
    return pd.DataFrame(columns, index=panel.ids)


def find_static(store: Panel) -> list[str]:
    """The columns of a store that have one value in each series, and several in all."""
    assert isinstance(store.values, StoredValues)
    is_text = np.array([name in store.texts for name in store.columns])
    known = np.full((len(store), len(store.columns)), np.nan)
    is_static = np.ones(len(store.columns), dtype=bool)
    for _, changes in _find_changes(store, store.values, is_text, known):
        is_static &= ~changes.any(axis=0)
    return [
        name
        for name, static, column in zip(store.columns, is_static, known.T, strict=True)
        if static and len(np.unique(column[~np.isnan(column)])) > 1
    ]


def _find_changes(
    panel: Panel,
    values: StoredValues,
    is_text: Bool[np.ndarray, " columns"],
    known: Float64[np.ndarray, "series columns"],
) -> Iterator[tuple[np.ndarray, Bool[np.ndarray, "rows columns"]]]:
    """Yield rows, piece by piece, and whether each number differs from the first one of its series (`known`)."""
    for rows in pieces_of(values, panel.starts, panel.ends):
        block, series = np.where(is_text & (values[rows] < 0), np.nan, values[rows]), panel.series_of(rows)
        first = pd.DataFrame(block).groupby(series).first()
        known[first.index] = np.where(np.isnan(known[first.index]), first, known[first.index])
        yield rows, (block != known[series]) & ~np.isnan(block)


def _refuse_changes(
    where: str,
    panel: Panel,
    rows: np.ndarray,
    wrong: Bool[np.ndarray, "rows columns"],
    names: Sequence[str],
) -> None:
    """Raise DataError for the first row that is wrong."""
    if wrong.any():
        place, column = divmod(int(wrong.argmax()), len(names))
        row = rows[place : place + 1]
        label = f"series {quote(panel.ids[panel.series_of(row)][0])}, {panel.dates(row)[0]}"
        raise DataError(
            f"{where}: {label}: column {quote(names[column])} differs from a row above: a static column has one value "
            "in a series; name it in data.past_covariates or data.future_covariates"
        )


class StoreSource(Source):
    """The store in the folder `path`, of one series or many.

    Args:
        columns: the targets, in this order. None: all columns that have no other role.
        past_covariates: columns that are read and not forecast.
        future_covariates: columns that are known beyond the end too. A series then ends with the last value of a
            target, and the rows after it give future covariates.
        as_of: by future covariate, the column of its values as they were known in advance.
        static_covariates: columns that do not change within a series.
        drop: columns that are not read.
        ids: the series to use; None: all.
    """

    path: Path

    def __init__(
        self,
        *,
        path: str | Path | None,
        columns: Sequence[str] | None = None,
        past_covariates: Sequence[str] = (),
        future_covariates: Sequence[str] = (),
        as_of: Mapping[str, str] | None = None,
        static_covariates: Sequence[str] = (),
        drop: Sequence[str] = (),
        ids: Sequence[str] | None = None,
    ) -> None:
        if path is None:
            raise ConfigError("data=store needs data.path=FOLDER, which python -m forecast.convert makes")
        self.path, self.ids = user_path(path), ids
        check_list("columns", columns)
        check_list("ids", ids)
        pairs = check_as_of(as_of, future_covariates)
        self.roles = ColumnRoles(
            id_columns=(),
            date="",
            targets=None if columns is None else tuple(map(str, columns)),
            past=tuple(map(str, past_covariates)),
            future=(*map(str, future_covariates), *pairs.values()),
            as_of=pairs,
            static=tuple(map(str, static_covariates)),
            drop=tuple(map(str, drop)),
        )
        self.roles.check()

    def read(self) -> Panel:
        whole = open_store(self.path)
        assert isinstance(whole.values, StoredValues)
        roles = self.roles.resolve(str(self.path), whole.columns)
        _refuse_text(self.path, whole, roles)
        values, future = (
            whole.values.select([whole.columns.index(name) for name in names])
            for names in (roles.values, roles.future)
        )
        panel = replace(
            self._choose_series(whole),
            targets=roles.targets,
            past_covariates=roles.past,
            future_covariates=roles.future_covariates,
            as_of=roles.as_of,
            values=values,
            future=future if roles.future else None,
            texts={name: texts for name, texts in whole.texts.items() if name in roles.covariates},
        )
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
        """Leave out the rows of each series before its first value of a target and after the last one, with warnings.

        Rows after the last value stay if there are future covariates. See `forecast.data.files.align`.
        """
        firsts, ends = self._find_targets(panel)
        stops = panel.stops if panel.future is not None else ends
        warn_of_rows_left_out(str(self.path), firsts - panel.starts, panel.stops - stops)
        grid_starts = panel.grid_starts + firsts - panel.starts
        begin, end = int(grid_starts.min()), int((grid_starts + stops - firsts).max())
        return replace(
            panel,
            grid=panel.grid[begin:end],
            grid_starts=grid_starts - begin,
            starts=firsts,
            ends=ends,
            stops=stops,
        )

    def _find_targets(self, panel: Panel) -> tuple[PerSeries, PerSeries]:
        """The first row with a value of a target of each series, and the row after the last one."""
        assert isinstance(panel.values, StoredValues)
        targets = panel.values.select(range(len(panel.targets)))
        if not any(targets.missing):
            return panel.starts, panel.stops
        firsts = first_measured(targets, panel.starts, panel.stops)
        empty = firsts == panel.stops
        if empty.any():
            series = f" of series {quote(panel.ids[int(empty.argmax())])}" if panel.has_ids else ""
            raise DataError(
                f"{self.path}: no value{series} of {', '.join(panel.targets[:20])}: choose others (data.columns)"
            )
        return firsts, last_measured(targets, panel.starts, panel.stops, of_any=True)[:, 0] + 1


def _refuse_text(path: Path, store: Panel, roles: ColumnRoles) -> None:
    """Raise TextColumns for targets that are text."""
    texts = [name for name in roles.targets or () if name in store.texts]
    if texts:
        example = quote(store.texts[texts[0]][0])
        error = DataError(
            f"{path}: column {quote(texts[0])} holds text, such as {example}",
            ": leave it out (data.drop), or read it as a covariate (data.past_covariates or future_covariates)",
        )
        raise TextColumns(error, texts)
