import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.data import store
from forecast.data.panel import TABLE_ID
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


def peak(folder: Path, size: int) -> float:
    """MiB of memory that is not mapped from a file (RssAnon), the most at once, of a run on a store of `size` bytes."""
    path, blocks = folder / f"{size}.store", size // BYTES_PER_BLOCK
    write_store(path, blocks)
    stride = max(1, blocks * BLOCK // 5 // 500)
    given = [*RUN, f"data.path={path}", f"data.eval_stride={stride}", f"output_root={folder}/runs"]
    process = subprocess.Popen([sys.executable, "-m", "forecast.train", *given], cwd=folder)
    highest = 0
    while process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text()
        highest = max(highest, *(int(kib) for kib in re.findall(r"RssAnon:\s+(\d+)", status)), 0)
        time.sleep(0.02)
    assert process.returncode == 0
    return highest / 2**10


@pytest.mark.long
def test_memory_does_not_grow_with_the_table(tmp_path: Path) -> None:
    large, small = peak(tmp_path, 200 << 20), peak(tmp_path, 2 << 20)
    assert large - small < 150  # less than one copy of the smaller table
