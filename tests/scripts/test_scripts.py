"""The published ProbSparse that benchmarks time ours beside, the tests that need a GPU, and `--help`."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

from environment import VENV
from experiments.benchmarks import GPU_TESTS
from experiments.compared import published_probsparse
from forecast.attention.full import full_attention
from forecast.cli.compose import compose_command
from tests.support.long_variants import every_nth


def test_with_every_query_on_top_the_published_form_is_softmax() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, n, 4, dtype=torch.float64) for n in (11, 13, 13))
    torch.testing.assert_close(published_probsparse(q, k, v, factor=50), full_attention(q, k, v))


def test_every_file_with_tests_of_a_device_is_run() -> None:
    marked = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if "pytest.mark.gpu" in path.read_text()
    } - {str(Path(__file__).relative_to(ROOT))}
    assert marked == set(GPU_TESTS)


# ---- --help, also by a Python without packages

ROOT = Path(__file__).parents[2]
BARE = getattr(sys, "_base_executable", sys.executable) if VENV.exists() else sys.executable
SCRIPTS = [
    path.name
    for path in sorted((ROOT / "scripts").iterdir())
    if path.is_file() and path.read_text().startswith("#!/usr/bin/env python3")
]


@pytest.mark.parametrize("name", every_nth(SCRIPTS, 5))
def test_help_is_printed(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [BARE, str(ROOT / "scripts" / name), "--help"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path, text=True, capture_output=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "usage: " in done.stdout
    assert not list(tmp_path.iterdir())


# ---- scripts/wandb_sweep.yaml: W&B's own agent runs it

PATH = ROOT / "scripts" / "wandb_sweep.yaml"
CONTENT: dict[str, Any] = yaml.safe_load(PATH.read_text())


@pytest.mark.parametrize("name", CONTENT["parameters"])
def test_values_are_known(name: str) -> None:
    parameter = CONTENT["parameters"][name]
    for value in parameter.get("values") or [parameter["min"], parameter["max"]]:
        (argument,) = create_sweep_command_args({"args": {name: {"value": value}}})["args_no_hyphens"]
        compose_command("train", [argument])
