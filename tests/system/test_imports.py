import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.support.commands import only, train, workplace
from tests.unit.test_import_graph import COMMANDS

ROOT = Path(__file__).parents[2]
REFUSED = "date,load,temperature\n2024-01-01 00:00,1,2\n2024-01-01 01:00,1,2,3\n"
"""A file whose third line has too many fields."""
RUN = """
import os, runpy, sys
for command, *arguments in {calls!r}:
    print("---", flush=True)
    os.environ.pop("HYDRA_FULL_ERROR", None)  # an error sets it
    sys.argv = [command, *arguments]
    status = 0
    try:
        runpy.run_module("forecast." + command, run_name="__main__", alter_sys=True)
    except SystemExit as exit:
        status = exit.code or 0
    assert status == {status}, (command, arguments, status)
    found = sorted({libraries!r} & set(sys.modules))
    assert not found, (command, arguments, found)
"""
LIBRARIES = {"lightning", "matplotlib", "plotly", "scipy", "torch", "wandb"}
"""What no command imports before it has read its file."""
TABLES = {"jinja2", "numpy", "pandas"}  # what no command imports, in addition, to describe itself

HEAVY = {"lightning", "scipy.signal", "scipy.stats", "sympy", "torch._dynamo", "wandb", "plotly"}


def run(folder: Path, libraries: set[str], *calls: tuple[str, ...], status: int = 0) -> tuple[list[str], str]:
    """Run commands in an interpreter that must not import these libraries; return each stdout, and the stderr."""
    code = RUN.format(calls=calls, libraries=libraries, status=status)
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=200,
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin", "HOME": str(folder)},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.split("---\n")[1:], result.stderr


def test_descriptions_of_commands_import_no_library(tmp_path: Path) -> None:
    asked = [*((command, "--help") for command in sorted(COMMANDS)), ("train", "--cfg=job"), ("predict", "--cfg=job")]
    answers, _ = run(tmp_path, LIBRARIES | TABLES, *asked)
    for (command, question), answer in zip(asked, answers, strict=True):
        if question == "--help":
            assert f"forecast {command}" in answer
        else:
            assert len(OmegaConf.create(answer)) > 3
    assert not list(tmp_path.iterdir())


def test_what_is_refused_is_refused_before_libraries_are_imported(run_of_default_model: Path, tmp_path: Path) -> None:
    (tmp_path / "load.csv").write_text(REFUSED)
    of_files = [(command, "data=csv", "data.path=load.csv") for command in ("train", "backtest", "check")]
    given = (f"checkpoint={run_of_default_model}", "data.path=load.csv")
    of_models = [(name, *given) for name in ("predict", "evaluate", "backtest", "explain", "export", "monitor")]
    calls = [*of_files, ("convert", "data.path=load.csv"), *of_models, ("compare", ".")]
    _, said = run(tmp_path, LIBRARIES, *calls, status=2)
    assert said.count("line 3") == 10
    assert "no finished run" in said


def test_a_file_and_a_trained_model(run_of_default_model: Path, tmp_path: Path) -> None:
    data = f"data.path={run_of_default_model.parents[1]}/load.csv"
    outputs = {"evaluate": (), "explain": ("output=explanation",), "predict": ("output=-",)}
    given = (f"checkpoint={run_of_default_model}", data)
    run(tmp_path, HEAVY, *((command, *given, *output) for command, output in outputs.items()))
    run(tmp_path, HEAVY | {"matplotlib"}, ("check", data))


def test_the_server_and_its_workers_import_no_torch_before_a_request_needs_it() -> None:
    for module in ("app", "worker"):
        libraries = LIBRARIES - {"scipy"}
        code = f"import sys, forecast.tools.serve.{module}; assert not {libraries!r} & set(sys.modules)"
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=200)


@pytest.fixture(scope="module")
def run_of_default_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of the default model, whose linear model reads every column."""
    folder = workplace(tmp_path_factory.mktemp("imports"))
    settings = (
        "data=csv", "data.path=load.csv", "seq_len=24", "label_len=6", "pred_len=6", "trainer.max_epochs=1",
        "logger=[]",
    )  # fmt: skip
    result = train(folder, settings=settings)
    assert result.returncode == 0, result.stderr
    return only(folder, "runs/*")
