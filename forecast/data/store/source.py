"""A store as a source of a panel: the values stay on disk."""

from collections.abc import Sequence
from pathlib import Path

from forecast.data.panel import Panel
from forecast.data.store.format import open_store
from forecast.system.errors import ConfigError, DataError


class StoreSource:
    """The store in the folder `path`; `columns` chooses and orders its columns, default all."""

    def __init__(self, *, path: str | Path | None, columns: Sequence[str] | None = None) -> None:
        if path is None:
            raise ConfigError("data=store needs data.path=FOLDER, which python -m forecast.convert makes")
        self.path, self._columns = Path(path).expanduser(), columns

    def prepare(self) -> None:
        """Nothing to download."""

    def read(self) -> Panel:
        panel = open_store(self.path)
        if self._columns is None:
            return panel
        chosen = tuple(map(str, self._columns))
        if not chosen or len(set(chosen)) < len(chosen):
            raise ConfigError(f"data.columns={list(chosen)} must name columns, each once")
        for name in chosen:
            if name not in panel.columns:
                raise DataError(
                    f"{self.path}: no column {name!r} (data.columns); there are {', '.join(panel.columns[:20])}"
                )
        return panel.select_columns(chosen)
