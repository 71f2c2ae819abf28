"""The note that a conversion saves of its progress after each chunk, from which it can be resumed."""

import contextlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from forecast.data.store.column_types import ColumnKinds
from forecast.data.store.ranges import Ranges
from forecast.data.store.series_progress import SeriesProgress
from forecast.data.store.writer import Unit
from forecast.system.files import write_json

NOTE = "progress.json"


@dataclass
class Note:
    """Progress of a conversion: everything that resuming needs, as JSON values."""

    identity: dict[str, Any]  # of the file and the options
    dtype: str = "<f4"
    unit: Unit = "us"
    position: dict[str, Any] | None = None  # of the next chunk
    columns: list[str] = field(default_factory=list)
    date_column: str = ""
    freq: str | None = None
    dated: dict[str, Any] = field(default_factory=dict)  # `UtcOffset.state` of its dates
    series: SeriesProgress = field(default_factory=SeriesProgress)
    ranges: Ranges = field(default_factory=Ranges)
    kinds: ColumnKinds = field(default_factory=ColumnKinds)

    def save(self, partial: Path) -> None:
        """Write the note into the folder of an incomplete store."""
        write_json(partial / NOTE, asdict(self))


def read_note(partial: Path, identity: dict[str, Any]) -> Note:
    """Return the note of an interrupted conversion of the same file, else a new one."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        saved = json.loads((partial / NOTE).read_text())
        if saved["identity"] == identity:
            parts = {
                "ranges": Ranges.from_json(saved["ranges"]),
                "kinds": ColumnKinds(**saved["kinds"]),
                "series": SeriesProgress(**saved["series"]),
            }
            return Note(**{**saved, **parts})
    (partial / NOTE).unlink(missing_ok=True)
    return Note(identity)
