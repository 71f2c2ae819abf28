"""A Parquet file of any size as chunks of rows."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from forecast.data.files.cells import Cells
from forecast.data.files.columns import ColumnRoles
from forecast.data.files.read import is_text
from forecast.data.files.table_rows import TableRows
from forecast.data.files.text import quote
from forecast.data.files.timezone import has_one_offset, is_days
from forecast.data.store.chunks import Chunk, Chunks, strip
from forecast.system.errors import DataError

_INDEX = re.compile(r"__index_level_\d+__")
"""pandas' name in a Parquet file for an index without a name."""


class ParquetChunks(Chunks):
    """A Parquet file with a column of dates, typed or as text, and columns of numbers or text."""

    unit = " rows"

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        try:
            self._file = pyarrow.parquet.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path}: no Parquet file that can be read: {_first_line(error)}") from None
        self.total = self._file.metadata.num_rows

    def _read(self, position: dict[str, Any] | None) -> Iterator[Chunk]:
        at = position or {"row": 0, "anchors": []}
        column, roles = self.roles.date, self._resolve_roles()
        self._offset_changes = self._has_offsets(column)
        group, skipped = 0, at["row"]  # rows of that group that were read before
        while group < self._file.num_row_groups and skipped >= self._file.metadata.row_group(group).num_rows:
            skipped -= self._file.metadata.row_group(group).num_rows
            group += 1
        batches = self._file.iter_batches(
            batch_size=max(1, self.size // (8 * len(roles.all))),
            row_groups=range(group, self._file.num_row_groups),
            columns=list(roles.all),
        )
        try:
            for batch in batches:
                if skipped >= len(batch):
                    skipped -= len(batch)
                    continue
                chunk = self._chunk(batch.slice(skipped), roles, at)
                yield chunk
                at, skipped = chunk.position, 0
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{self.path}: cannot be read: {_first_line(error)}") from None
        if not at["anchors"]:
            raise DataError(f"{self.path}: no rows")

    def sort_command(self, rows: TableRows, columns: Sequence[str]) -> str | None:
        """See `Chunks.sort_command`."""
        names = (name.replace('"', '""') for name in columns)
        file, keys = str(self.path).replace("'", "''"), ", ".join(f'"{name}"' for name in names)
        return f"DuckDB's COPY (FROM '{file}' ORDER BY {keys}) TO 'sorted.parquet'"

    def _has_offsets(self, column: str) -> bool:
        """Return whether the UTC offset of the dates changes in the file, reading only their column."""
        kind = self._file.schema_arrow.field(column).type
        if not pa.types.is_timestamp(kind) or kind.tz is None:
            return False
        first, days, changes = pd.DatetimeIndex([], tz="UTC"), True, False
        try:
            for batch in self._file.iter_batches(batch_size=max(1, self.size // 8), columns=[column]):
                dates = pd.DatetimeIndex(batch.to_pandas(ignore_metadata=True)[column].dropna())
                first = first if len(first) else dates[:1]
                days = days and is_days(dates)
                changes = changes or not has_one_offset(pd.DatetimeIndex(first.append(dates)))
                if changes and not days:
                    return True
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{self.path}: cannot be read: {_first_line(error)}") from None
        return False

    def _resolve_roles(self) -> ColumnRoles:
        """The roles with the targets by name. Raises DataError for a column that is missing, or of another type."""
        schema = self._file.schema_arrow
        if len(set(schema.names)) < len(schema.names):
            raise DataError(f"{self.path}: two columns of one name: rename one")
        asked = self.roles.all
        kept = [name for name in schema.names if name in asked or not _INDEX.fullmatch(name)]
        roles = self.roles.resolve(str(self.path), kept)
        for name in roles.values:
            kind = schema.field(name).type
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
                    or pa.types.is_boolean(kind) or pa.types.is_dictionary(kind) or is_text(kind)):  # fmt: skip
                raise DataError(
                    f"{self.path}: column {quote(name)} is of {kind}, not numbers or text: leave it out (data.drop)"
                )
        return roles

    def _chunk(self, batch: pa.RecordBatch, roles: ColumnRoles, at: dict[str, Any]) -> Chunk:
        frame = batch.to_pandas(ignore_metadata=True, date_as_object=False)
        for name in roles.values:
            if isinstance(frame[name].dtype, pd.StringDtype) or frame[name].dtype == object:
                frame[name] = strip(frame[name], self.options.na_texts)
        frame = frame.astype(dict.fromkeys(roles.id_columns, "string"))
        cells = Cells(self.path, frame, first_line=at["row"] + 1, unit="row")
        dates = self._dates(cells, roles.date, at["anchors"])
        anchors = self._anchors(cells, roles.date, dates[0], at["anchors"])
        after = {"row": at["row"] + len(frame), "anchors": anchors}
        return Chunk(self._rows(cells, roles, dates), after, after["row"])


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
