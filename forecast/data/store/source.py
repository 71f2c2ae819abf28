"""A store as a source of a panel: the values stay on disk."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from forecast.data.files.cells import quote
from forecast.data.files.column_roles import ColumnRoles, check_as_of
from forecast.data.measured import last_measured
from forecast.data.panel import Panel
from forecast.data.source import Source
from forecast.data.store.format import open_store
from forecast.data.stored_values import StoredValues
from forecast.system.errors import ConfigError, DataError, TextColumns


class StoreSource(Source):
    """The store in the folder `path`.

    Args:
        columns: the targets, in this order. None: all columns that have no other role.
        past_covariates: columns that are read and not forecast.
        future_covariates: columns that are known beyond the end too. The series then ends with the last value of a
            target, and the rows after it give future covariates.
        as_of: by future covariate, the column of its values as they were known in advance.
        drop: columns that are not read.
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
        drop: Sequence[str] = (),
    ) -> None:
        if path is None:
            raise ConfigError("data=store needs data.path=FOLDER, which python -m forecast.convert makes")
        self.path = Path(path).expanduser()
        if columns is not None and not columns:
            raise ConfigError("data.columns=[] must name columns, each once")
        targets = None if columns is None else tuple(map(str, columns))
        pairs = check_as_of(as_of, future_covariates)
        self.roles = ColumnRoles(
            id=None,
            date="",
            targets=targets,
            past=tuple(map(str, past_covariates)),
            future=(*map(str, future_covariates), *pairs.values()),
            as_of=pairs,
            drop=tuple(map(str, drop)),
        )
        self.roles.check()

    def read(self) -> Panel:
        whole = open_store(self.path)
        assert isinstance(whole.values, StoredValues)
        roles = self.roles.resolve(str(self.path), whole.columns)
        _refuse_text(self.path, whole, roles)
        index = [whole.columns.index(name) for name in roles.values]
        panel = replace(
            whole,
            targets=roles.targets,
            past_covariates=roles.past,
            future_covariates=roles.future_covariates,
            as_of=roles.as_of,
            values=whole.values.select(index),
            texts={name: texts for name, texts in whole.texts.items() if name in roles.covariates},
        )
        return self._with_future(panel, whole.values, whole.columns) if roles.future else panel

    def _with_future(self, panel: Panel, values: StoredValues, columns: Sequence[str]) -> Panel:
        """The panel with future covariates, which ends at the last value of a target."""
        future = values.select([columns.index(name) for name in panel.future_columns])
        return replace(panel, future=future, ends=np.array([self._find_end(panel)]))

    def _find_end(self, panel: Panel) -> int:
        """The row after the last value of a target."""
        values = panel.values
        assert isinstance(values, StoredValues)
        targets = values.select(range(len(panel.targets)))
        last = int(last_measured(targets, panel.starts, panel.stops, of_any=True)[0, 0])
        if last < 0:
            raise DataError(
                f"{self.path}: no value of {', '.join(panel.targets[:20])}: choose others (data.columns)"
            )
        return last + 1


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
