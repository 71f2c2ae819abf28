"""The notebook in docs/ runs from its first cell to its last, with fewer rows, shorter windows and one epoch."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "docs" / "quickstart.ipynb"


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    (table,) = (cell for cell in notebook.cells if ".iloc[-6000:]" in cell.source)
    table.source = table.source.replace(".iloc[-6000:]", ".iloc[-2000:]")
    (training,) = (cell for cell in notebook.cells if "trainer.max_epochs=4" in cell.source)
    training.source = training.source.replace("trainer.max_epochs=4", "trainer.max_epochs=1", 1).replace(
        '"logger=[]"', '"logger=[]", "windows_per_epoch=512", "seq_len=96"', 1
    )
    NotebookClient(notebook, timeout=400, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    shown = "".join(str(output) for output in outputs)
    assert "OT-lo-80" in shown
    assert "image/png" in shown
    assert len(list(tmp_path.glob("runs/*/checkpoints/refit.ckpt"))) == 1
