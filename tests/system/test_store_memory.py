"""Training on a store takes memory for windows, whatever the table's size."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import anonymous_memory, generated_store
from tests.support.commands import TINY

RUN = [
    *TINY, "data=store", "logger=[]", "trainer.max_epochs=1", "data.windows_per_epoch=320",
    "callbacks.progress.refresh_rate=0",
]  # fmt: skip


def growth(folder: Path, size: int) -> float:
    """MiB of anonymous memory that an epoch and the evaluation take beyond the imports."""
    store = folder / f"{size}.store"
    generated_store.write_store(store, size)
    stride = max(1, size // generated_store.BYTES_PER_ROW // 5 // 500)
    given = [*RUN, f"data.path={store}", f"data.eval_stride={stride}", f"output_root={folder}/runs"]
    command = [sys.executable, anonymous_memory.__file__, str(folder / "result.json"), *given]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return json.loads((folder / "result.json").read_text())["growth_mib"]


@pytest.mark.long
def test_memory_does_not_grow_with_the_table(tmp_path: Path) -> None:
    large, small = growth(tmp_path, 200 << 20), growth(tmp_path, 2 << 20)
    assert large < 2 << 10
    assert large - small < 150  # less than one copy of the smaller table
