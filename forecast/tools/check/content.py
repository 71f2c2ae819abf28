"""Findings as values that JSON can hold."""

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
import pandas as pd

from forecast.data.panel_labels import series_entry
from forecast.tools.check.diagnosis import Diagnosis
from forecast.tools.check.gaps import Gaps
from forecast.tools.check.settings import write_command
from forecast.tools.check.windows import SplitPart


def collect_findings(found: Diagnosis, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the findings to plain values. The key `series` is present only if the source has ids."""
    panel = found.file
    longest = found.series.longest
    return to_plain(
        {
            "name": found.name,
            "rows": panel.n_rows,
            "freq": panel.freq,
            "first": panel.first_date,
            "last": panel.last_date,
            **series_entry(panel, found.series),
            "gaps": gaps_to_dict(found.gaps),
            "not_read": found.not_read,
            "columns": [to_dict(column) | {"notes": column.list_notes(longest)} for column in found.columns],
            "categories": found.categories,
            "copies": found.copies,
            "seasons": [
                {
                    "rows": season.rows,
                    "name": season.name,
                    "strength": season.strength,
                    "word": season.word,
                    "by_column": dict(zip(found.targets, season.by_target(len(found.targets)), strict=True)),
                }
                for season in found.seasons
            ],
            "baseline_season": found.season,
            "seq_len": found.lengths[0],
            "pred_len": found.lengths[1],
            "split": {part.name: part_to_dict(part, *found.lengths) for part in found.parts},
            "baselines": found.baselines,
            "suggested": {setting.key: setting.value for setting in found.settings},
            "why": {setting.key: setting.why for setting in found.settings},
            "command": write_command(typed, found.settings) if found.settings else None,
        }
    )


def gaps_to_dict(gaps: Gaps) -> dict[str, Any]:
    places = [[place.series, place.column, place.date] for place in gaps.places]
    content = to_dict(gaps)
    del content["by_series"]
    return content | {"places": [[part for part in place if part] for place in places]}


def part_to_dict(part: SplitPart, seq_len: int, pred_len: int) -> dict[str, Any]:
    return {
        "first": part.begins,
        "last": part.ends,
        "rows": part.n_rows,
        "windows": part.windows(seq_len, pred_len).sum(),
    }


def to_dict(value: Any) -> dict[str, Any]:
    """Convert a dataclass to a dictionary. The empty id of the single series of a table is left out."""
    return asdict(value, dict_factory=lambda items: {k: v for k, v in items if (k, v) != ("series", "")})


def to_plain(value: Any) -> Any:
    """Convert dates to ISO 8601, dataclasses to dictionaries and NumPy numbers to Python numbers."""
    if is_dataclass(value) and not isinstance(value, type):
        return to_plain(to_dict(value))
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    return value.item() if isinstance(value, np.generic) else value
