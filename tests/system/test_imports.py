"""What the commands import: each library takes time at every start."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import only, train, workplace
from tests.support.csv_files import write_csv
from tests.unit.test_import_graph import COMMANDS

ROOT = Path(__file__).parents[2]
REFUSED = "date,load,temperature\n2024-01-01 00:00,1,2\n2024-01-01 01:00,1,2,3\n"
"""A file whose third line has too many fields."""
RUN = """
import runpy, sys
sys.argv = {arguments!r}
status = 0
try:
    runpy.run_module("forecast.{command}", run_name="__main__", alter_sys=True)
except SystemExit as exit:
    status = exit.code or 0
assert status == {status}, status
found = sorted({libraries!r} & set(sys.modules))
assert not found, found
"""
LIBRARIES = {"lightning", "matplotlib", "plotly", "scipy", "sklearn", "torch", "wandb"}
"""What no command imports before it has read its file."""

HEAVY = {"lightning", "sklearn", "scipy.signal", "scipy.stats", "sympy", "torch._dynamo", "wandb", "plotly"}


def run(folder: Path, command: str, libraries: set[str], *arguments: str, status: int = 0) -> str:
    """Run a command in a new interpreter, which must not import these libraries; return what it wrote to stderr."""
    code = RUN.format(arguments=[command, *arguments], command=command, libraries=libraries, status=status)
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=200,
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin", "HOME": str(folder)},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stderr


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_imports_no_library(tmp_path: Path, command: str) -> None:
    run(tmp_path, command, LIBRARIES, "--help")


@pytest.mark.parametrize("command", ["train", "backtest", "check", "convert"])
def test_a_file_is_refused_before_libraries_are_imported(tmp_path: Path, command: str) -> None:
    (tmp_path / "load.csv").write_text(REFUSED)
    data = () if command == "convert" else ("data=csv",)
    assert "line 3" in run(tmp_path, command, LIBRARIES, *data, "data.path=load.csv", status=2)


@pytest.mark.parametrize("command", ["predict", "evaluate", "backtest", "explain", "export", "monitor"])
def test_a_file_for_a_model_is_refused_before_libraries_are_imported(
    run_of_default_model: Path, tmp_path: Path, command: str
) -> None:
    (tmp_path / "load.csv").write_text(REFUSED)
    given = (f"checkpoint={run_of_default_model}", "data.path=load.csv")
    assert "line 3" in run(tmp_path, command, LIBRARIES, *given, status=2)


def test_a_folder_without_runs_is_refused_before_libraries_are_imported(tmp_path: Path) -> None:
    assert "no finished run" in run(tmp_path, "compare", LIBRARIES, ".", status=2)


@pytest.mark.parametrize("command", ["evaluate", "explain", "predict"])
def test_a_trained_model(run_of_default_model: Path, tmp_path: Path, command: str) -> None:
    output = () if command == "evaluate" else (f"output={'-' if command == 'predict' else 'explanation'}",)
    given = (f"checkpoint={run_of_default_model}", f"data.path={run_of_default_model.parents[1]}/load.csv")
    run(tmp_path, command, HEAVY, *given, *output)


def test_the_workers_of_the_server_import_no_torch_before_a_request_needs_it() -> None:
    code = f"import sys, forecast.tools.serve.worker; assert not {LIBRARIES - {'scipy'}!r} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=200)


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
