"""Error and cost against the tokens, and the crossover with softmax."""

from pathlib import Path
from typing import Any

import pytest

from forecast.reports.compare.grouping import group_into_tasks
from forecast.reports.compare.page import (
    Point,
    describe_crossovers,
    make_scaling_charts,
    measure_scaling,
)
from forecast.reports.compare.run_folders import find_run_folders, read_runs
from forecast.reports.compare.task import Task
from tests.support.synthetic_runs import configuration, make_run

COST = {"full": lambda n: (n / 100) ** 2, "linear": lambda n: 2 * n / 100}


def compare_lengths(root: Path, lengths: tuple[int, ...], **metrics: Any) -> Task:
    for kind, cost in COST.items():
        for seq_len in lengths:
            config = configuration(f"attention={kind}", f"seq_len={seq_len}")
            for seed in (1, 2):
                slots: dict[str, Any] = {"encoder": {"role": "self", "queries": seq_len, "keys": seq_len}}
                make_run(
                    root / f"{kind}-{seq_len}-{seed}", {**config, "seed": seed}, mse=0.4 + 0.01 * seed,
                    attention_slots=slots, ms_per_window=cost(seq_len) * (1 + 0.1 * (seed - 1.5)),
                    **metrics,
                )  # fmt: skip
    (task,) = group_into_tasks(read_runs(find_run_folders([str(root)]))[0])
    return task


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        # 3 n / 100 meets (n / 100)² at n = 300
        (
            {100: 3.0, 200: 6.0, 400: 12.0},
            "faster than full from about 300 tokens on (slower at 200, faster at 400)",
        ),
        ({100: 2.0, 200: 4.0, 400: 8.0}, "faster than full from 400 tokens on; no clear difference at 200"),
        ({100: 0.5, 200: 1.0, 400: 2.0}, "faster than full from 100 tokens on"),
        ({100: 5.0, 200: 10.0, 400: 20.0}, "slower than full at 400 tokens"),
        ({100: 5.0, 200: 10.0, 400: 16.5}, "no clear difference from full at 400 tokens"),
        ({400: 5.0}, "faster than full at 400 tokens"),
        ({800: 5.0}, None),
    ],
)
def test_a_linear_cost_meets_a_quadratic_one(costs: dict[int, float], expected: str | None) -> None:
    lines = {
        "full": [
            Point(n, (n / 100) ** 2, 0.95 * (n / 100) ** 2, 1.05 * (n / 100) ** 2) for n in (100, 200, 400)
        ],
        "linear": [Point(n, cost, cost, cost) for n, cost in costs.items()],
    }
    assert describe_crossovers(lines) == ([f"linear: {expected}."] if expected else [])


@pytest.mark.slow
def test_lines_are_means_over_seeds_at_each_number_of_tokens(tmp_path: Path) -> None:
    task = compare_lengths(tmp_path, (96, 192, 384))
    lines = measure_scaling(task, "ms_per_window")
    assert [point.tokens for point in lines["full"]] == [96, 192, 384]
    last = lines["full"][-1]
    assert (last.mean, last.low, last.high) == pytest.approx((3.84**2, 0.95 * 3.84**2, 1.05 * 3.84**2))
    assert describe_crossovers(lines) == [
        "linear: faster than full from 384 tokens on; no clear difference at 192."
    ]
    charts = make_scaling_charts(task)
    assert [chart["is_cost"] for chart in charts] == [True, True, True, False]
    assert charts[-1]["heading"] == "MSE (scaled)"


@pytest.mark.slow
def test_times_of_overlapping_runs_are_left_out(tmp_path: Path) -> None:
    task = compare_lengths(tmp_path, (96, 192), finished="2026-11-25T10:00:00+00:00")
    assert describe_crossovers(measure_scaling(task, "ms_per_window")) == []
    assert [chart["heading"] for chart in make_scaling_charts(task)] == ["peak memory (MiB)", "MSE (scaled)"]


def test_one_length_makes_no_chart(tmp_path: Path) -> None:
    assert make_scaling_charts(compare_lengths(tmp_path, (96,))) == []
