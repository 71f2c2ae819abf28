"""A store as a source of a panel: the values stay on disk."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from forecast.data.files.column_roles import ColumnRoles
from forecast.data.panel import Panel
from forecast.data.store.format import open_store
from forecast.data.stored_values import StoredValues
from forecast.system.errors import ConfigError, DataError
from forecast.system.formatting import plural


class StoreSource:
    """The store in the folder `path`.

    Args:
        columns: the targets, in this order. None: all columns that have no other role.
        past_covariates: columns that are read and not forecast.
        future_covariates: columns that are known beyond the end too. The series then ends with the last value of a
            target, and the rows after it give future covariates.
    """

    def __init__(
        self,
        *,
        path: str | Path | None,
        columns: Sequence[str] | None = None,
        past_covariates: Sequence[str] = (),
        future_covariates: Sequence[str] = (),
    ) -> None:
        if path is None:
            raise ConfigError("data=store needs data.path=FOLDER, which python -m forecast.convert makes")
        self.path = Path(path).expanduser()
        if columns is not None and not columns:
            raise ConfigError("data.columns=[] must name columns, each once")
        targets = None if columns is None else tuple(map(str, columns))
        past, future = (tuple(map(str, names)) for names in (past_covariates, future_covariates))
        self.roles = ColumnRoles(id=None, date="", targets=targets, past=past, future=future)
        self.roles.check()

    def prepare(self) -> None:
        """Nothing to download."""

    def read(self) -> Panel:
        whole = open_store(self.path)
        assert isinstance(whole.values, StoredValues)
        roles = self.roles.resolve(str(self.path), whole.columns)
        index = [whole.columns.index(name) for name in roles.values]
        panel = replace(
            whole,
            targets=roles.targets,
            past_covariates=roles.past,
            future_covariates=roles.future,
            values=whole.values.select(index),
        )
        return self._with_future(panel, whole.values, whole.columns) if roles.future else panel

    def _with_future(self, panel: Panel, values: StoredValues, columns: Sequence[str]) -> Panel:
        """The panel with future covariates. Raises DataError for one that has missing values."""
        future = values.select([columns.index(name) for name in panel.future_covariates])
        for name, missing in zip(panel.future_covariates, future.missing, strict=True):
            if missing:
                raise DataError(
                    f"{self.path}: future covariate {name!r} has {plural(missing, 'missing value')}, and a store needs "
                    "every value: fill them in the file, or name the column in data.past_covariates"
                )
        return replace(panel, future=future, ends=np.array([self._find_end(panel)]))

    def _find_end(self, panel: Panel) -> int:
        """The row after the last value of a target."""
        values = panel.values
        assert isinstance(values, StoredValues)
        for rows in reversed(list(values.stretches(range(len(values))))):
            given = np.isfinite(values[rows.start : rows.stop, : len(panel.targets)]).any(axis=1)
            if given.any():
                return rows.start + int(np.flatnonzero(given)[-1]) + 1
        raise DataError(
            f"{self.path}: no value of {', '.join(panel.targets[:20])}: choose others (data.columns)"
        )
