import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.cli.compose import compose_config
from forecast.tools.benchmark import (
    fit_growth,
    list_cases,
    make_work,
    measure_peak_memory,
    start_memory_processes,
    time_in_turn,
)
from tests.support.commands import run_command

SMALL = ("benchmark.lengths=[16,48]", "benchmark.tokens=96", "benchmark.n_heads=2", "benchmark.widths=[8]")


def allocate(mib: int) -> float:
    return measure_peak_memory(lambda: lambda: torch.ones(mib * 2**18), cuda=False)


def hold_one_and_one(mib: int) -> float:
    """Hold two tensors at once, then a third after they are freed: the peak is two."""

    def work() -> None:
        tensors = [torch.ones(mib * 2**18), torch.ones(mib * 2**18)]
        tensors.clear()
        torch.ones(mib * 2**18)

    return measure_peak_memory(lambda: work, cuda=False)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="measured on Linux only")
def test_peak_memory_is_the_largest_memory_held_at_once() -> None:
    with start_memory_processes(1) as elsewhere:
        for mib in (4, 64):
            assert elsewhere.submit(allocate, mib).result() == pytest.approx(mib, rel=0.1, abs=0.5)
        assert elsewhere.submit(hold_one_and_one, 32).result() == pytest.approx(64, rel=0.1)


def test_functions_are_timed_in_turn_after_one_warm_up() -> None:
    calls: list[str] = []
    spreads = time_in_turn([lambda: calls.append("a"), lambda: calls.append("b")], repeats=3)
    assert "".join(calls) == "ab" * 4
    assert all(0 < s["fastest"] <= s["median"] <= s["slowest"] for s in spreads)


def test_the_exponent_of_the_growth_is_that_of_one_sequence() -> None:
    table = pd.DataFrame({"n": np.repeat([10, 100, 1000], 2), "backward": [False, True] * 3})
    length, batch, median = table["n"].astype(str) + "/5/5", 1000 // table["n"], 3 * table["n"] ** 0.5
    table = table.assign(attention="full", part="layer", width=8, length=length, batch=batch, median=median)
    rows = table.assign(peak_mib=1000.0).to_dict("records")
    assert [row["time_exponent"] for row in fit_growth(rows)] == pytest.approx([1.5, 1.5])
    assert [row["memory_exponent"] for row in fit_growth(rows)] == pytest.approx([1, 1], rel=1e-2)
    assert pd.isna(fit_growth(rows[:1])[0]["time_exponent"])


MODEL = (
    "benchmark=model",
    "benchmark.lengths=[24/12/6]",
    "benchmark.batch_size=2",
    "model.d_model=8",
    "model.n_heads=2",
)


@pytest.mark.parametrize(
    "chosen", [(*SMALL, "benchmark.role=causal"), (*SMALL, "benchmark.role=cross"), (*MODEL, "precision=bfloat16")]
)
def test_every_case_runs(chosen: tuple[str, ...]) -> None:
    config = compose_config(*chosen, config_name="benchmark")
    for case in list_cases(config):
        make_work(config, case, "cpu")()


def test_the_command_leaves_a_table_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = (*SMALL, "repeats=1", "attention_types=[linear]")
    assert run_command("benchmark", tmp_path, *options) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    content = json.loads((folder / "benchmark.json").read_text())
    rows = pd.read_csv(folder / "benchmark.csv")
    assert len(rows) == len(content["rows"]) == 2**3
    assert len(rows[["attention", "part", "width", "length", "backward"]].drop_duplicates()) == 2**3
    assert set(rows["batch"] * rows["length"]) == {96}
    assert content["hardware"]["torch"] == torch.__version__
    assert (folder / "benchmark.png").stat().st_size > 10_000
    said = capsys.readouterr().out
    assert "linear, layer of width 8: time grows as n^" in said
    assert str(folder.relative_to(tmp_path)) in said
