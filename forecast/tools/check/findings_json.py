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


def collect_findings(diagnosis: Diagnosis, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the findings to plain values. The key `series` is present only if the source has ids."""
    panel = diagnosis.file
    longest = diagnosis.series.longest
    return to_plain(
        {
            "name": diagnosis.name,
            "rows": panel.n_rows,
            "freq": panel.freq,
            "first": panel.first_date,
            "last": panel.last_date,
            **series_entry(panel, diagnosis.series),
            "gaps": gaps_to_dict(diagnosis.gaps),
            "not_read": diagnosis.not_read,
            "columns": [
                to_dict(column) | {"notes": column.list_notes(longest)} for column in diagnosis.columns
            ],
            "categories": diagnosis.categories,
            "copies": diagnosis.copies,
            "seasons": [
                {
                    "rows": season.rows,
                    "name": season.name,
                    "strength": season.strength,
                    "word": season.word,
                    "by_column": dict(
                        zip(diagnosis.targets, season.by_target(len(diagnosis.targets)), strict=True)
                    ),
                }
                for season in diagnosis.seasons
            ],
            "baseline_season": diagnosis.season,
            "seq_len": diagnosis.lengths[0],
            "pred_len": diagnosis.lengths[1],
            "split": {part.name: part_to_dict(part, *diagnosis.lengths) for part in diagnosis.parts},
            "baselines": diagnosis.baselines,
            "suggested": {setting.key: setting.value for setting in diagnosis.settings},
            "why": {setting.key: setting.why for setting in diagnosis.settings},
            "command": write_command(typed, diagnosis.settings) if diagnosis.settings else None,
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
