"""`scripts/benchmark_cpu` runs to its end, and the slow ProbSparse that it measures against is ProbSparse."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cpu.published import published_probsparse
from forecast.attention.full import full_attention
from forecast.attention.probsparse import probsparse_attention

ROOT = Path(__file__).parents[2]
SCRIPT = str(ROOT / "scripts" / "benchmark_cpu")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def test_with_every_query_on_top_the_published_form_is_softmax() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, n, 4, dtype=torch.float64) for n in (11, 13, 13))
    torch.testing.assert_close(published_probsparse(q, k, v, factor=50), full_attention(q, k, v))


def test_the_published_form_fills_rows_as_ours_does() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 40, 4, dtype=torch.float64) for _ in range(3))
    out = published_probsparse(q, k, v, factor=2)
    mean = v.mean(2, keepdim=True)
    active = ((out - mean).abs().amax(-1) > 1e-12).nonzero()[:, 2].view(2, 3, -1)
    assert active.shape[2] == 8  # 2·⌈ln 40⌉
    torch.testing.assert_close(out, probsparse_attention(q, k, v, top_queries=active))


@pytest.mark.long
def test_every_part_runs_and_is_on_the_page(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--quick", "--threads", "1", "--out", str(tmp_path)],
        env=ENVIRONMENT, cwd=tmp_path, text=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "cpu.json").read_text())
    assert results["quick"] is True
    assert {row["attention"] for row in results["growth"]["rows"]} == {
        "probsparse", "linear", "nystrom", "fastformer", "gated_delta",
    }  # fmt: skip
    assert 0 < results["overlap"][0]["overlap"]["shared, training"] <= 1
    assert results["step"][0]["groups"]["matrix products"] > 0
    assert "--quick" in (tmp_path / "cpu.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--quick"], "--quick needs --out"),
        (["--data-root", "/no/such"], "/no/such: there is no ETTh1.csv in it"),
        (["--repeats", "0"], "0 is not a whole number of at least 1"),
    ],
)
def test_mistakes_are_refused_before_anything_is_measured(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = runpy.run_path(SCRIPT)["main"]
    monkeypatch.setattr(sys, "argv", ["benchmark_cpu", *arguments])
    with pytest.raises(SystemExit) as exit:
        main()
    assert exit.value.code == 2
    assert message in capsys.readouterr().err
