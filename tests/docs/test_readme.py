"""Every command in the README runs, on smaller models and data."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch

from tests.support.commands import finish, start
from tests.support.csv_files import write_csv
from tests.support.long_variants import select

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
COMMANDS = [line.strip() for block in BLOCKS for line in block.splitlines() if line.strip()]
OURS = [command for command in COMMANDS if command.startswith("forecast ")]
RUN_BY_CI = ("scripts/train", "scripts/test", "pip install", "pytest")  # .ci/run
NEEDS = {"trainer=ddp ": "GPUs", "trainer=fsdp": "GPUs", "wandb sync": "an account", "logger.mode=online": "an account"}

SMALL = (
    "seq_len=24", "label_len=12", "model.d_model=8", "model.n_heads=2", "model.d_ff=8", "data.batch_size=256",
    "trainer.max_epochs=1", "+trainer.limit_train_batches=2", "callbacks.progress.refresh_rate=0",
)  # fmt: skip
LAYERS = ("model.d_model=8", "model.n_heads=2", "model.d_ff=8")  # those of the overrides that `model=mlp` does not have

PLAIN = ("pictures=false", "logger=[]")
"""Overrides of all training commands but the first one: drawing and logging take longer than two batches."""
FEWER = {
    "experiment=compare_attention ": "experiment=compare_attention attention=linear,none seed=1 ",
    "seed=1,2,3": "seed=1,2",
    "pred_len=24,48": "pred_len=24",
    "n_trials=20": "n_trials=4",
    ",8192]": "]",
}
SMALL_BENCHMARK = (
    "repeats=1", "attention_types=[full,linear]", "model.d_model=8", "model.n_heads=2", "memory=false",
)  # fmt: skip
MAKES = {  # what a command that takes no training settings leaves behind
    "check": [],
    "convert": ["big.store/store.json"],
    "predict": ["*.csv", "*.png"],
    "evaluate": [],
    "compare": ["comparison.html", "comparison.csv", "comparison.md", "comparison.tex"],
    "explain": ["explanation/index.html"],
    "export": ["model.onnx", "model.onnx.json"],
    "dashboard": ["dashboard.json"],
}


def test_every_command_is_known() -> None:
    assert len(OURS) >= 5
    others = [c for c in COMMANDS if c not in OURS and not c.startswith(RUN_BY_CI)]
    assert [c for c in others if not any(need in c for need in NEEDS)] == []


def run(module: str, arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    result = finish(start(folder, program=("-m", module, *arguments), settings=()))
    assert result.returncode == 0, result.stderr
    return result


def write_sales(path: Path) -> None:
    """A long file of two shops."""
    write_csv(path, rows=300)
    one = pd.read_csv(path).set_axis(["ds", "y", "price"], axis=1)
    shops = [one.assign(unique_id=name, region=name[:5]) for name in ("north_1", "south_1")]
    pd.concat(shops).to_csv(path, index=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a CSV file and a run trained on it."""
    folder = tmp_path_factory.mktemp("readme")
    write_csv(folder / "my.csv", rows=700)
    run("forecast.train", ["data=csv", "data.path=my.csv", *SMALL, *PLAIN], folder)
    (made,) = folder.glob("runs/*")
    made.rename(folder / "runs" / "MY_RUN")
    shutil.copy(folder / "my.csv", folder / "big.csv")
    return folder


SWEEPS = [command for command in OURS if "-m " in command]


@pytest.mark.parametrize("command", select(OURS, lambda _, command: command not in SWEEPS[1:]))
def test_command(command: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    for text, need in NEEDS.items():
        if text in f"{command} " and not (need == "GPUs" and torch.cuda.device_count() > 1):
            pytest.skip(f"needs {need}")
    for many, few in FEWER.items():
        command = command.replace(many, few)
    _, name, *arguments = shlex.split(command, comments=True)
    module = f"forecast.{name}"
    if name == "benchmark":
        run(module, [*arguments, *SMALL_BENCHMARK], tmp_path)
        assert list(tmp_path.rglob("benchmark.json"))
        return
    if name in MAKES or "checkpoint=" in command:
        shutil.copytree(request.getfixturevalue("place"), tmp_path, dirs_exist_ok=True)
        run(module, arguments, tmp_path)
        patterns = MAKES.get(name, ["runs/*/backtest.json"])
        assert [pattern for pattern in patterns if len(set(tmp_path.glob(pattern)) - {tmp_path / "my.csv"}) == 0] == []
        return
    if "data=long" in command:
        write_sales(tmp_path / "sales.csv")
    if "data=store" in command:
        write_csv(tmp_path / "big.csv", rows=700)
        run("forecast.convert", ["data.path=big.csv"], tmp_path)
    if re.search(r"etth[12]", command):
        arguments += [f"data.root={request.getfixturevalue('data_root')}", "data.split=[2,1,1]"]
    write_csv(tmp_path / "my.csv", rows=700)
    small = [override for override in SMALL if override not in LAYERS or "mlp" not in command]
    result = run(module, [*arguments, *small, *(PLAIN if name == "train" and command != OURS[0] else ())], tmp_path)
    runs = list(tmp_path.rglob("backtest.json" if name == "backtest" else "metrics.json"))
    assert runs
    if "-m " in command:
        (summary,) = tmp_path.rglob("summary.csv")
        assert len(pd.read_csv(summary)) > 1
        assert str(summary.relative_to(tmp_path)) in result.stdout


@pytest.mark.slow
def test_the_python_in_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_csv(tmp_path / "my.csv", rows=700)
    frame = pd.read_csv(tmp_path / "my.csv", parse_dates=["date"], index_col="date")
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names = {"frame": frame, "later_frame": frame.iloc[-400:]}
    exec(block, names)
    ahead = names["model"].predict(frame, levels=[80])
    assert list(ahead.columns[:3]) == ["load", "load-lo-80", "load-hi-80"]
    assert len(ahead) == 48


@pytest.mark.long
def test_the_default_run_gives_the_first_table_and_beats_every_baseline(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "forecast.train"], cwd=tmp_path, check=True, capture_output=True)
    (path,) = tmp_path.glob("runs/*/metrics.json")
    metrics = json.loads(path.read_text())
    (table,) = re.findall(r"(\| test scores on.*?)\n\n", README, re.DOTALL)
    rows = [[cell.strip(" *") for cell in line.strip("| ").split("|")] for line in table.splitlines()[2:]]
    baselines = [metrics["baselines"][name] for name in ("naive", "seasonal_naive", "linear")]
    for (name, *shown), measured in zip(rows, [metrics["test"], *baselines], strict=True):
        found = [measured[key] for key in ("mse", "mae", "mae_raw", "mase")]
        assert [float(cell) for cell in shown] == pytest.approx(found, rel=0.01), name
    assert metrics["skill"] > 0
    assert metrics["test"]["mse"] < metrics["baselines"]["seasonal_naive"]["mse"]
    assert list(path.parent.glob("wandb/offline-run-*/run-*.wandb"))
