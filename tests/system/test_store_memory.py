"""Training on a store takes memory for windows, whatever the table's size."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.data import store
from forecast.data.panel import TABLE_ID
from tests.support import anonymous_memory
from tests.support.commands import TINY

COLUMNS = tuple(f"sensor{number}" for number in range(16))
BLOCK = 1 << 15  # rows of a block
BYTES_PER_BLOCK = BLOCK * 4 * len(COLUMNS)  # in values.npy

RUN = [
    *TINY, "data=store", "logger=[]", "trainer.max_epochs=1", "data.windows_per_epoch=320",
    "callbacks.progress.refresh_rate=0",
]  # fmt: skip


def write_store(path: Path, blocks: int) -> None:
    """Sixteen sensors, one row per second: blocks of the same daily cycle and noise, because only the size matters."""
    path.mkdir()
    angle = 2 * np.pi * (np.arange(BLOCK) % 86_400) / 86_400
    noise = np.random.default_rng(0).normal(scale=3, size=(BLOCK, len(COLUMNS)))
    values = 20 + 5 * np.sin(angle[:, None] + np.linspace(0, 2 * np.pi, len(COLUMNS))) + noise
    first, rows = pd.Timestamp("2000-01-01"), blocks * BLOCK
    store.write_store(
        path, (values for _ in range(blocks)), columns=COLUMNS, dtype="<f4", freq="s", first=first,  # type: ignore[reportArgumentType]
        last=first + pd.Timedelta(seconds=rows - 1),  # type: ignore[reportArgumentType]
        date_column="date", id_column=None, ids=[TABLE_ID],
        lengths=[rows], first_dates=[str(first)], texts={},
    )  # fmt: skip


def growth(folder: Path, size: int) -> float:
    """MiB of anonymous memory that an epoch and the evaluation take beyond the imports."""
    path, blocks = folder / f"{size}.store", size // BYTES_PER_BLOCK
    write_store(path, blocks)
    stride = max(1, blocks * BLOCK // 5 // 500)
    given = [*RUN, f"data.path={path}", f"data.eval_stride={stride}", f"output_root={folder}/runs"]
    command = [sys.executable, anonymous_memory.__file__, str(folder / "result.json"), *given]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return json.loads((folder / "result.json").read_text())["growth_mib"]


@pytest.mark.long
def test_memory_does_not_grow_with_the_table(tmp_path: Path) -> None:
    large, small = growth(tmp_path, 200 << 20), growth(tmp_path, 2 << 20)
    assert large < 2 << 10
    assert large - small < 150  # less than one copy of the smaller table
