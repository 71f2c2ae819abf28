"""The columns of a table to read, by role: targets, covariates, ids."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from jaxtyping import Int32

from forecast.data.files.cells import FRAME, FUTURE, Cells, Numbers, are_numbers, read_numbers
from forecast.data.files.header import is_unnamed
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.text import LIKE_A_NUMBER, MISSING, quote, strip
from forecast.data.panel import TABLE_ID
from forecast.system.errors import ConfigError, DataError
from forecast.system.formatting import shorten, write_setting


def read_covariate(cells: Cells, name: str, options: ReadOptions) -> tuple[Numbers, list[str] | None]:
    """A column of numbers, or of true and false; or the codes of its texts, −1 for an empty cell, and the texts.

    Raises DataError if some texts are numbers, or were probably meant as numbers, and others are not.
    """
    column = pd.Series(cells.frame[name])
    if are_numbers(column):
        return read_numbers(cells, name, options), None
    if isinstance(column.dtype, pd.CategoricalDtype) and column.cat.categories.dtype.kind in "iufb":
        # numbers that pandas was told are categories
        return column.cat.codes.to_numpy(np.float64), column.cat.categories.astype(str).tolist()
    codes, found = pd.factorize(column.astype("string"))
    plain = strip(pd.Series(found, dtype="string"), options.na_texts)
    try:
        numbers = read_numbers(replace(cells, frame=pd.DataFrame({name: plain})), name, options)
        return np.append(numbers, np.nan)[codes], None
    except DataError:
        is_like_a_number = plain.str.fullmatch(LIKE_A_NUMBER).fillna(False).astype(bool)
    if is_like_a_number.any():
        column = pd.concat([plain, pd.Series([pd.NA], dtype="string")], ignore_index=True).iloc[codes]
        is_text = ~is_like_a_number & plain.notna()
        if is_text.any():
            row = int(np.append(is_text, False)[codes].argmax())
            number = quote(plain.loc[is_like_a_number].iloc[0])
            problem = f"{quote(column.iloc[row])} is text, and other cells are numbers, such as {number}"
            advice = ": correct it, write text in every cell, or name it in data.na_values if it is a missing value"
            raise cells.error(problem, advice, row=row, column=name)
        read_numbers(replace(cells, frame=column.to_frame(name)), name, options)  # names the first bad cell
    places, categories = pd.factorize(plain)
    return np.append(places, -1)[codes].astype(np.float64), categories.astype(str).tolist()


def read_numbers_or_texts(cells: Cells, name: str, options: ReadOptions) -> pd.Series:
    """Convert a text column to float64 if all its cells are numbers or missing, else return it unchanged."""
    column = pd.Series(cells.frame[name])
    numbers = replace(cells, frame=pd.DataFrame({name: column.mask(column.isin(MISSING))}))
    try:
        return pd.Series(read_numbers(numbers, name, options))
    except DataError:
        return column


IdColumn = str | Sequence[str] | None
"""Value of `data.id_column`: one column, several that name a series together, or None for a file of one series."""

Ids = tuple[Int32[np.ndarray, " rows"], pd.Index]
"""The number of the series of each row, and the id of each number."""

SEPARATOR = "/"  # between the parts of an id, and the names of its columns


def list_id_columns(id_column: IdColumn) -> tuple[str, ...]:
    """The columns of `data.id_column`. Raises ConfigError for an empty list, and for a column that is named twice."""
    if id_column is None or isinstance(id_column, str):
        return () if id_column is None else (id_column,)
    names = tuple(map(str, id_column))
    if not names or len(set(names)) < len(names):
        advice = "name the columns, each once, as in data.id_column=[store,department]"
        raise ConfigError(f"data.id_column={list(id_column)}: {advice}")
    return names


def name_ids(id_columns: Sequence[str]) -> str | None:
    """The name of the ids: that of the column, or the names of several columns, joined; None without a column."""
    return SEPARATOR.join(id_columns) or None


def split_ids(table: pd.DataFrame, id_columns: Sequence[str]) -> pd.DataFrame:
    """The table with an index of the id columns in place of the texts that `read_ids` joined.

    The table is unchanged if its index has another name, or if a text has the sign between them.
    """
    if len(id_columns) < 2 or table.index.name != name_ids(id_columns):
        return table
    codes, ids = pd.factorize(table.index)
    parts = [tuple(str(name).split(SEPARATOR)) for name in ids]
    if any(len(texts) != len(id_columns) for texts in parts):
        return table
    return table.set_index(pd.MultiIndex.from_tuples(parts, names=list(id_columns))[codes])


def take_parts(ids: pd.Index, id_columns: Sequence[str], chosen: Sequence[str]) -> pd.Index:
    """Return ids that `read_ids` joined with the parts of some of their columns.

    Raises DataError if a text of the others has the sign between the parts.
    """
    if len(chosen) == len(id_columns):
        return ids
    parts = split_ids(pd.DataFrame(index=ids.rename(name_ids(id_columns))), id_columns).index
    if not isinstance(parts, pd.MultiIndex):
        problem = f"an id has {SEPARATOR} in a text of {', '.join(id_columns)}"
        raise DataError(f"{problem}: use another sign there, or one id column")
    return pd.Index([SEPARATOR.join(texts) for texts in parts.to_frame()[list(chosen)].to_numpy()])


def read_ids(cells: Cells, id_columns: Sequence[str]) -> Ids:
    """The ids of the rows, without spaces around them; several are joined: store 1, department 3 are the series 1/3.

    No column at all is a file of one series. Of several columns, some cells may be empty, which have the code −1.
    Raises DataError for a row without an id, and if two series have one id when joined.
    """
    if not id_columns:
        return np.zeros(len(cells.frame), dtype=np.int32), pd.Index([TABLE_ID])
    parts = []
    for name in id_columns:
        codes, found = pd.factorize(pd.Series(cells.frame[name]))
        places, ids = pd.factorize(pd.Index(found).astype(str).str.strip())
        parts.append((np.append(places, -1)[codes].astype(np.int32), pd.Index(ids, dtype=str)))
    nowhere = np.logical_and.reduce([codes < 0 for codes, _ in parts])
    if nowhere.any():
        raise cells.error("no id", row=int(nowhere.argmax()), column=name_ids(id_columns))
    if len(parts) == 1:
        return parts[0]
    places = pd.DataFrame(dict(enumerate(codes for codes, _ in parts)))
    codes = places.groupby([*places], sort=False).ngroup().to_numpy().astype(np.int32)
    first = np.unique(codes, return_index=True)[1]
    texts = [np.append(ids.to_numpy(dtype=object), "")[codes[first]] for codes, ids in parts]
    joined = pd.Index([SEPARATOR.join(ids) for ids in zip(*texts, strict=True)], dtype=str)
    if not joined.is_unique:
        problem = f"two series are {quote(joined[joined.duplicated()][0])} when joined with {SEPARATOR}"
        raise DataError(f"{cells.path}: {problem}: use another sign in their columns")
    return codes, joined


@dataclass(frozen=True)
class ColumnRoles:
    """Names of the columns to read, by role.

    Attributes:
        id_columns: the columns that name the series; none for a table of one series.
        date: the date column. Several columns, such as a date and a time, are joined when the file is parsed.
        targets: None for all columns that have no other role, in the order of the file, except for row numbers: a
            first column without a name.
        past: past covariates.
        future: future covariates, then the columns of `as_of`.
        as_of: by future covariate, the column of its values as they were known in advance.
        static: static covariates.
        drop: columns that are not read.
        optional: columns with numbers, or with categories, that may be absent: then all their values are missing.
        target: a column that must be there where `targets` is None; None: no such column.
        absent: the columns of `optional` that the table does not have.
        without_role: the columns of the table that have no role.
    """

    id_columns: tuple[str, ...]
    date: str
    targets: tuple[str, ...] | None = None
    past: tuple[str, ...] = ()
    future: tuple[str, ...] = ()
    as_of: Mapping[str, str] = field(default_factory=dict)
    static: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    optional: frozenset[str] = frozenset()
    target: str | None = None
    absent: frozenset[str] = frozenset()
    without_role: tuple[str, ...] = ()

    @property
    def values(self) -> tuple[str, ...]:
        """Targets and past covariates."""
        return (*(self.targets or ()), *self.past)

    @property
    def covariates(self) -> tuple[str, ...]:
        """Past and future covariates."""
        return (*self.past, *self.future)

    @property
    def future_covariates(self) -> tuple[str, ...]:
        """Future covariates without the columns of `as_of`."""
        return self.future[: len(self.future) - len(self.as_of)]

    @property
    def numbers(self) -> tuple[str, ...]:
        return (*self.values, *self.future)

    @property
    def id(self) -> str | None:
        """The name of the ids; None for a table of one series."""
        return name_ids(self.id_columns)

    @property
    def keys(self) -> tuple[str, ...]:
        """The id columns and the date column, as far as there are any; a store has neither."""
        return tuple(name for name in (*self.id_columns, self.date) if name)

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.keys, *self.numbers, *self.static)

    def find_keys(self, name: str) -> list[str]:
        """The options that name a column, as often as they do."""
        targets = self.targets or ()
        named = {
            "id_column": self.id_columns,
            "date_column": (self.date,),
            "target" if targets == (self.target,) else "columns": targets,
            "past_covariates": self.past,
            "future_covariates": self.future_covariates,
            "as_of": tuple(self.as_of.values()),
            "static_covariates": self.static,
            "drop": self.drop,
        }
        return [f"data.{key}" for key, names in named.items() for one in names if one == name]

    def check(self) -> None:
        """Raise ConfigError if a column has two roles."""
        for name in [*self.all, *self.drop]:
            keys = self.find_keys(name)
            if len(keys) > 1:
                named = " and ".join(dict.fromkeys(keys))
                raise ConfigError(f"column {name!r} is named twice ({named}): leave it out of {keys[-1]}")

    def of_future_rows(self) -> "ColumnRoles":
        """Return the roles of a table of future covariates after the ends of the series.

        A covariate with an entry in `as_of` is read from the column of that entry.
        """
        names = tuple(self.as_of.get(name, name) for name in self.future_covariates)
        return ColumnRoles(self.id_columns, self.date, targets=(), future=names, optional=self.optional)

    def resolve(self, where: str, present: Sequence[str]) -> "ColumnRoles":
        """Return the roles of a table that has the columns `present`, with the targets by name.

        Raises DataError, beginning with `where`, for a column that is missing, and if no column is left to forecast.
        """
        wanted = [*self.all, *self.drop]
        if self.targets is None and self.target is not None:
            wanted.append(self.target)
        for name in wanted:
            if name not in present and name not in self.optional:
                raise self._refuse_missing(where, name, [c for c in present if c != self.date])
        absent, others = self.optional & {*self.all} - {*present}, {*self.all, *self.drop}
        rest = tuple(name for name in present if name not in others)
        if self.targets is not None:
            return replace(self, absent=absent, without_role=rest)
        targets = tuple(name for name in rest if not is_unnamed(name))
        if not targets:
            beside = ", ".join(map(quote, others))
            raise DataError(f"{where}: no column beside {beside}: there is nothing to forecast")
        return replace(self, targets=targets, absent=absent, without_role=tuple(filter(is_unnamed, rest)))

    def _refuse_missing(self, where: str, name: str, present: Sequence[str]) -> DataError:
        """The error of a column that is missing, with the option that names it."""
        near = difflib.get_close_matches(name, present, n=1)
        meant = f"; did you mean {quote(near[0])}?" if near else ""
        there = shorten(list(map(quote, present)), 12)
        problem = f"{where}: no column {quote(name)}; there are {there}{meant}"
        key = [*self.find_keys(name), "data.target"][0]
        others = [one for one in present if one not in self.all and not is_unnamed(one)]
        if self.id_columns and key == "data.target" and others and not meant:
            advice = f": name the column to forecast, as in {write_setting(key, others[0])}"
        elif where in (str(FRAME), str(FUTURE)):
            return DataError(problem)
        else:
            advice = f" ({key})"
        return DataError(problem, advice, is_for_training=name not in (*self.keys, *self.static))


def check_as_of(as_of: Mapping[str, str] | None, future_covariates: Sequence[str]) -> dict[str, str]:
    """The pairs of columns of `data.as_of`. Raises ConfigError unless it maps future covariates to columns."""
    pairs = {} if as_of is None else as_of
    if not isinstance(pairs, Mapping):
        advice = "write pairs of columns, as in data.as_of={temperature:temperature_forecast}"
        raise ConfigError(f"data.as_of={pairs}: {advice}")
    for name in pairs:
        if name not in map(str, future_covariates):
            raise ConfigError(f"data.as_of names {name}: add it to data.future_covariates")
    return {str(name): str(column) for name, column in pairs.items()}
