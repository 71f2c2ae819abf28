"""What is found, as JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from forecast.diagnosis.command import training_command
from forecast.diagnosis.diagnosis import Diagnosis
from forecast.diagnosis.windows import Part


def content(found: Diagnosis, typed: Mapping[str, Any]) -> dict[str, Any]:
    """The findings as plain values, for check.json."""
    dates, gaps = found.unfilled.dates, found.gaps
    seq_len, pred_len = found.lengths
    has_command = bool(found.settings) and not found.unfillable
    return plain(
        {
            "name": found.name,
            "rows": len(dates),
            "freq": found.unfilled.freq,
            "first": dates[0],
            "last": dates[-1],
            "refused_for_gaps": found.refused,
            "fill": found.fill,
            "gaps": asdict(gaps),
            "columns": [asdict(column) | {"notes": column.notes(len(dates))} for column in found.columns],
            "seasons": [
                {
                    "rows": season.rows,
                    "name": season.name,
                    "strength": season.strength,
                    "word": season.word,
                    "by_column": dict(zip(found.targets, season.by_column, strict=True)),
                }
                for season in found.seasons
            ],
            "baseline_season": found.season,
            "seq_len": seq_len,
            "pred_len": pred_len,
            "split": {part.name: part_content(part, seq_len, pred_len) for part in found.parts},
            "rules": asdict(found.rules) if found.rules else None,
            "suggested": {setting.key: setting.value for setting in found.settings},
            "why": {setting.key: setting.why for setting in found.settings},
            "unfillable": [column.name for column in found.unfillable],
            "command": training_command(typed, found.settings) if has_command else None,
        }
    )


def part_content(part: Part, seq_len: int, pred_len: int) -> dict[str, Any]:
    return {
        "first": part.first,
        "last": part.last,
        "rows": len(part.rows),
        "windows": part.windows(seq_len, pred_len),
    }


def plain(value: Any) -> Any:
    """Dates as ISO 8601, NumPy's numbers as Python's."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    return value.item() if isinstance(value, np.generic) else value
