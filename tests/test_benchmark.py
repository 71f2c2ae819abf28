"""`python -m forecast.benchmark`: what it measures is what it says, whatever the time it takes."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch

from forecast.configuration import composed
from forecast.errors import ConfigError
from forecast.timing import faster_from, growth_exponent, in_process_for_memory, peak_memory, time_in_turn
from forecast.workloads import FLOOR, NoMixing, cases, make
from tests.helpers import KINDS

SMALL = ("benchmark.lengths=[16,48]", "benchmark.tokens=96", "benchmark.n_heads=2", "benchmark.head_dim=4")


def allocate(mib: int) -> float:
    return peak_memory(lambda: lambda: torch.ones(mib * 2**18), cuda=False)


def hold_one_and_one(mib: int) -> float:
    """Two tensors at once, then a third after they are gone: the peak is two."""

    def work() -> None:
        tensors = [torch.ones(mib * 2**18), torch.ones(mib * 2**18)]
        tensors.clear()
        torch.ones(mib * 2**18)

    return peak_memory(lambda: work, cuda=False)


@pytest.mark.skipif(sys.platform != "linux", reason="measured on Linux alone")
def test_peak_memory_is_what_was_held_at_once() -> None:
    with in_process_for_memory(1) as elsewhere:
        for mib in (4, 64):
            assert elsewhere.submit(allocate, mib).result() == pytest.approx(mib, rel=0.1, abs=0.5)
        assert elsewhere.submit(hold_one_and_one, 32).result() == pytest.approx(64, rel=0.1)


def test_kinds_are_timed_in_turn_after_one_warm_up() -> None:
    calls: list[str] = []
    spreads = time_in_turn([lambda: calls.append("a"), lambda: calls.append("b")], repeats=3)
    assert "".join(calls) == "ab" * 4
    assert all(0 < s.fastest <= s.median <= s.slowest for s in spreads)


def test_growth_and_crossing() -> None:
    lengths = [10, 100, 1000]
    assert growth_exponent(lengths, [3 * n**1.5 for n in lengths]) == pytest.approx(1.5)
    assert pd.isna(growth_exponent([10], [1.0]))
    assert faster_from(lengths, [1.0, 1.0, 1.0], [2.0] * 3) == 10
    assert faster_from(lengths, [3.0, 1.0, 1.0], [2.0] * 3) == 100
    assert faster_from(lengths, [1.0, 3.0, 1.0], [2.0] * 3) == 1000
    assert faster_from(lengths, [1.0, 1.0, 3.0], [2.0] * 3) is None


def test_kinds_that_cannot_serve_a_role_are_left_out() -> None:
    def kinds(role: str) -> set[str]:
        return {case.kind for case in cases(composed(f"benchmark.role={role}", config_name="benchmark"))}

    assert kinds("self") == {*KINDS, FLOOR}
    assert kinds("causal") == {*KINDS, FLOOR} - {"nystrom"}
    assert kinds("cross") == set(KINDS) - {"fastformer"}


@pytest.mark.parametrize("part", ["layer", "mixing"])
@pytest.mark.parametrize("role", ["self", "causal", "cross"])
def test_every_case_of_a_layer_runs(part: str, role: str) -> None:
    config = composed(*SMALL, f"benchmark.part={part}", f"benchmark.role={role}", config_name="benchmark")
    for case in cases(config):
        make(config, case, "cpu")()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_every_step_of_a_model_runs(precision: str) -> None:
    sizes = ("benchmark.lengths=[24/12/6]", "benchmark.batch_size=2", "model.d_model=8", "model.n_heads=2")
    config = composed("benchmark=model", *sizes, f"precision={precision}", config_name="benchmark")
    for case in cases(config):
        make(config, case, "cpu")()


def test_the_floor_has_every_projection_and_hands_the_values_on() -> None:
    layer = NoMixing(6, 2, role="self")
    x = torch.randn(2, 5, 6)
    value = torch.nn.functional.linear(x, layer.in_projection.weight[12:], layer.in_projection.bias[12:])
    torch.testing.assert_close(layer(x, x), layer.out_projection(value))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("kinds=[full,sparse]", "kinds: sparse is unknown"),
        ("benchmark.lengths=[12/6/3]", "whole number such as 512"),
        ("benchmark.lengths=[0]", "whole number such as 512"),
        ("benchmark.part=all", "benchmark.part=all must be one of layer, mixing"),
    ],
)
def test_mistakes_are_refused(override: str, message: str) -> None:
    config = composed(override, config_name="benchmark")
    with pytest.raises(ConfigError, match=message):
        make(config, cases(config)[0], "cpu")


def test_the_command_leaves_a_table_and_a_picture(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "forecast.benchmark", *SMALL, "repeats=2", "kinds=[full,linear]"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    (folder,) = (tmp_path / "runs").iterdir()
    content = json.loads((folder / "benchmark.json").read_text())
    rows = pd.read_csv(folder / "benchmark.csv")
    assert len(rows) == len(content["rows"]) == 2 * 2 * 3  # passes, lengths, kinds with the floor
    assert set(rows["kind"]) == {"full", "linear", FLOOR}
    assert rows["batch"].tolist() == [6] * 6 + [2] * 6
    assert content["hardware"]["torch"] == torch.__version__
    assert (folder / "benchmark.png").stat().st_size > 10_000
    assert "linear: time grows as n^" in result.stdout
    assert str(folder.relative_to(tmp_path)) in result.stdout
