"""What the commands import: each library takes time at every start."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import only, train, workplace
from tests.support.csv_files import write_csv

ROOT = Path(__file__).parents[2]
RUN = """
import runpy, sys
sys.argv = {arguments!r}
runpy.run_module("forecast.{command}", run_name="__main__", alter_sys=True)
found = sorted({libraries!r} & set(sys.modules))
assert not found, found
"""
HEAVY = {"lightning", "sklearn", "scipy.signal", "scipy.stats", "sympy", "torch._dynamo", "wandb", "plotly"}


def run(folder: Path, command: str, libraries: set[str], *arguments: str) -> None:
    """Run a command in a new interpreter, which must not import these libraries."""
    code = RUN.format(arguments=[command, *arguments], command=command, libraries=libraries)
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=200,
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin", "HOME": str(folder)},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-2000:]


def test_predict(run_of_default_model: Path) -> None:
    folder = run_of_default_model.parents[1]
    run(folder, "predict", HEAVY, f"checkpoint={run_of_default_model}", "output=-")


def test_check(tmp_path: Path) -> None:
    write_csv(tmp_path / "load.csv", rows=300)
    run(tmp_path, "check", HEAVY | {"matplotlib"}, "data.path=load.csv")


@pytest.fixture(scope="module")
def run_of_default_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of the default model, whose linear model reads every column."""
    folder = workplace(tmp_path_factory.mktemp("imports"))
    settings = (
        "data=csv",
        "data.path=load.csv",
        "seq_len=24",
        "label_len=6",
        "pred_len=6",
        "trainer.max_epochs=1",
        "logger=[]",
    )
    result = train(folder, settings=settings)
    assert result.returncode == 0, result.stderr
    return only(folder, "runs/*")
