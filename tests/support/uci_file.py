"""A raw file of electricity as UCI publishes it, with four clients."""

from pathlib import Path

import numpy as np
import pandas as pd

FIRST, LAST = "2011-12-25 00:15:00", "2012-03-20 00:00:00"  # more than one chunk
BORN = {"MT_001": FIRST, "MT_002": "2012-01-01 23:45:00", "MT_003": "2012-01-02 00:15:00", "MT_004": FIRST}


def raw_readings() -> pd.DataFrame:
    """kW by the end of each quarter of an hour; zero before a client was born."""
    ends = pd.date_range(FIRST, LAST, freq="15min")
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.uniform(1, 500, size=(len(ends), len(BORN))), index=ends, columns=list(BORN))
    for client, born in BORN.items():
        frame.loc[frame.index < born, client] = 0.0
    return frame


def write_raw(path: Path, frame: pd.DataFrame) -> Path:
    """As UCI has it: semicolons, decimal commas, names and dates in quotes, whole numbers bare."""
    lines = ['"";' + ";".join(f'"{client}"' for client in frame.columns)]
    for end, row in zip(frame.index, frame.to_numpy(), strict=True):
        cells = [f"{value:.15g}".replace(".", ",") for value in row]
        lines.append(f'"{end:%Y-%m-%d %H:%M:%S}";' + ";".join(cells))
    path.write_text("\r\n".join(lines) + "\r\n")
    return path
