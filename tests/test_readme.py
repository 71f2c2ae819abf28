"""Every command in the README runs, on smaller models and data."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch

from tests.helpers import write_csv

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
COMMANDS = [line.strip() for block in BLOCKS for line in block.splitlines() if line.strip()]
OURS = [command for command in COMMANDS if command.startswith("python -m forecast.")]
RUN_BY_CI = ("scripts/train", "scripts/test", "pip install", "pytest")  # .ci/run
NEEDS = {
    "trainer=ddp ": "GPUs",
    "trainer=fsdp": "GPUs",
    "wandb sync": "an account",
    "logger.mode=online": "an account",
}

SMALL = (
    "seq_len=24", "label_len=12", "model.d_model=8", "model.n_heads=2", "model.d_ff=8", "data.batch_size=256",
    "trainer.max_epochs=1", "+trainer.limit_train_batches=2", "callbacks.progress.refresh_rate=0",
)  # fmt: skip
SMALL_BENCHMARK = ("repeats=1", "model.d_model=8", "model.n_heads=2", "memory=false")


def test_every_command_is_known() -> None:
    assert len(OURS) >= 5
    others = [c for c in COMMANDS if c not in OURS and not c.startswith(RUN_BY_CI)]
    assert [c for c in others if not any(need in c for need in NEEDS)] == []


def run(module: str, arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=folder, capture_output=True, text=True, timeout=500,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result


@pytest.mark.parametrize("command", OURS)
def test_command(command: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    for text, need in NEEDS.items():
        if text in f"{command} " and not (need == "GPUs" and torch.cuda.device_count() > 1):
            pytest.skip(f"needs {need}")
    _, _, module, *arguments = shlex.split(command, comments=True)
    if module == "forecast.benchmark":
        run(module, [*arguments, *SMALL_BENCHMARK], tmp_path)
        assert list(tmp_path.rglob("benchmark.json"))
        return
    if re.search(r"etth[12]", command):
        arguments.append(f"data.root={request.getfixturevalue('data_root')}")
    write_csv(tmp_path / "my.csv", rows=700)
    result = run(module, [*arguments, *SMALL], tmp_path)
    runs = list(tmp_path.rglob("metrics.json"))
    assert runs
    if "-m " in command.removeprefix("python -m"):
        (summary,) = tmp_path.rglob("summary.csv")
        assert len(pd.read_csv(summary)) > 1
        assert str(summary.relative_to(tmp_path)) in result.stdout


def test_pages_that_the_readme_names_exist() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
    assert len(README.splitlines()) < 200


@pytest.mark.slow
def test_the_default_run_beats_every_baseline(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "forecast.train"], cwd=tmp_path, check=True, capture_output=True)
    (path,) = tmp_path.glob("runs/*/metrics.json")
    metrics = json.loads(path.read_text())
    assert metrics["skill"] > 0
    assert metrics["test"]["mse"] < metrics["baselines"]["seasonal_naive"]["mse"]
    assert list(path.parent.glob("wandb/offline-run-*/run-*.wandb"))
