"""The columns of a table to read, by role."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from forecast.data.files.cells import FRAME
from forecast.data.files.header import is_unnamed
from forecast.data.files.series_ids import name_ids
from forecast.data.files.text import quote
from forecast.system.errors import ConfigError, DataError
from forecast.system.formatting import shorten


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

    def check(self) -> None:
        """Raise ConfigError if a column has two roles."""
        roles = {
            "id_column": self.id_columns,
            "date_column": (self.date,) if self.date else (),
            "target" if self.targets == (self.target,) else "columns": self.targets or (),
            "past_covariates": self.past,
            "future_covariates": self.future_covariates,
            "as_of": tuple(self.as_of.values()),
            "static_covariates": self.static,
            "drop": self.drop,
        }
        for name in [*self.all, *self.drop]:
            keys = [key for key, names in roles.items() for one in names if one == name]
            if len(keys) > 1:
                named = " and ".join(f"data.{key}" for key in dict.fromkeys(keys))
                raise ConfigError(
                    f"column {name!r} is named twice ({named}): leave it out of data.{keys[-1]}"
                )

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
                problem = (
                    f"{where}: no column {quote(name)}{_hint(name, [c for c in present if c != self.date])}"
                )
                raise DataError(problem) if where == str(FRAME) else self._with_key(problem, name)
        absent = self.optional & {*self.all} - {*present}
        others = {*self.all, *self.drop}
        rest = tuple(name for name in present if name not in others)
        if self.targets is not None:
            return replace(self, absent=absent, without_role=rest)
        targets = tuple(name for name in rest if not is_unnamed(name))
        if not targets:
            raise DataError(
                f"{where}: no column beside {', '.join(map(quote, others))}: there is nothing to forecast"
            )
        unnamed = tuple(name for name in rest if is_unnamed(name))
        return replace(self, targets=targets, absent=absent, without_role=unnamed)

    def _with_key(self, problem: str, name: str) -> DataError:
        """The error of a column that is missing, with the key that names the column."""
        if name in self.keys:
            return DataError(f"{problem} (data.{'id' if name in self.id_columns else 'date'}_column)")
        if name in self.static:
            return DataError(f"{problem}; data.static_path names a file of static columns")
        keys = {
            "columns or data.target": self.targets or (self.target,),
            "past_covariates": self.past,
            "future_covariates": self.future_covariates,
            "as_of": self.future,
            "drop": self.drop,
        }
        return DataError(problem, f" (data.{next(key for key, names in keys.items() if name in names)})")


def check_as_of(as_of: Mapping[str, str] | None, future_covariates: Sequence[str]) -> dict[str, str]:
    """The pairs of columns of `data.as_of`. Raises ConfigError unless it maps future covariates to columns."""
    pairs = {} if as_of is None else as_of
    if not isinstance(pairs, Mapping):
        raise ConfigError(
            f"data.as_of={pairs}: write pairs of columns, as in data.as_of={{temperature: temperature_forecast}}"
        )
    for name in pairs:
        if name not in map(str, future_covariates):
            raise ConfigError(f"data.as_of names {name}: add it to data.future_covariates")
    return {str(name): str(column) for name, column in pairs.items()}


def _hint(name: str, present: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, present, n=1)
    meant = f"; did you mean {quote(near[0])}?" if near else ""
    shown = shorten(list(map(quote, present)), 12)
    return f"; there are {shown}{meant}"
