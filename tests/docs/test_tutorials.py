"""The blocks of each tutorial run in order, as a reader runs them, in an empty folder.

A forked process runs each command (`tests.support.forking_python`): its libraries are imported before.
"""

import re
import socket
import subprocess
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.forking_python import write_python
from tests.support.long_variants import select

ROOT = Path(__file__).parents[2]
TUTORIALS = [path for path in sorted((ROOT / "docs" / "tutorials").glob("*.md")) if path.stem != "index"]
MAKES = {
    "attention": ["comparison.html", "runs/*/metrics.json", "runs/*/benchmark.json"],
    "load": ["check.png", "forecast.png", "explanation/importance.png", "runs/*/backtest.png", "comparison.html"],
    "own_attention": ["comparison.html", "runs/*_sweep_*/*_window_mean-*/metrics.json"],
    "prices": ["tomorrow.csv", "runs/*/backtest.json", "explanation/index.html"],
    "serving": ["models/temperature/metrics.json"],
    "shops": ["sales-forecast.csv", "sales.store/store.json"],
}
"""What the blocks of a page leave behind."""
LONG = ("own_attention", "serving")


def script_of(page: str) -> str:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert {language for language, _ in blocks} <= {"bash", "python"}, "a block that no test runs"
    return "\n".join(
        f"python - <<'END_OF_BLOCK'\n{block}END_OF_BLOCK\n" if language == "python" else block
        for language, block in blocks
    )


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.mark.slow
@pytest.mark.parametrize("path", select(TUTORIALS, lambda _, path: path.stem not in LONG), ids=lambda path: path.stem)
def test_the_blocks_run(path: Path, tmp_path: Path) -> None:
    script = script_of(path.read_text()).replace("8000", str(free_port()))
    script = re.sub(r"windows_per_epoch=\d+", "windows_per_epoch=64 pictures=false logger=[]", script)
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    env, server = write_python(tmp_path / "bin")
    stop = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"
    command = ["bash", "-m", "-euo", "pipefail", "-c", f"{stop}\n{script}"]
    with (tmp_path / "output.txt").open("w") as output:  # not a pipe, which a server would hold open
        code = subprocess.run(
            command, cwd=tmp_path / "work", env=env, pass_fds=[server], stdout=output, stderr=output
        ).returncode
    assert code == 0, (tmp_path / "output.txt").read_text()[-4000:]
    assert [pattern for pattern in MAKES[path.stem] if not [*(tmp_path / "work").glob(pattern)]] == []


# ---- the notebook

NOTEBOOK = Path(__file__).parents[2] / "docs" / "quickstart.ipynb"


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    (table,) = (cell for cell in notebook.cells if ".iloc[-6000:]" in cell.source)
    table.source = table.source.replace(".iloc[-6000:]", ".iloc[-2000:]")
    (training,) = (cell for cell in notebook.cells if "max_epochs=3" in cell.source)
    training.source = training.source.replace("max_epochs=3", "max_epochs=1", 1).replace(
        "logger=[]", "logger=[], windows_per_epoch=512, seq_len=96", 1
    )
    NotebookClient(notebook, timeout=400, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = "".join(str(cell.outputs) for cell in notebook.cells if cell.cell_type == "code")
    assert "y-lo-80" in shown
    assert shown.count("image/png") == 2
    assert len(list(tmp_path.glob("runs/*/checkpoints/refit.ckpt"))) == 1
    committed = nbformat.read(NOTEBOOK, as_version=4).cells
    assert all(cell.outputs for cell in committed if cell.cell_type == "code")
