"""The charts and tables of the page."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.reports.compare.page import Chart, find_pareto_front, make_task_charts
from tests.support.synthetic_runs import compare, configuration, make_run

pytestmark = pytest.mark.slow


def charts(root: Path) -> dict[str, Chart]:
    (task,) = compare(root)
    return {chart.heading: chart for chart in make_task_charts(task)}


def test_the_pareto_front_agrees_with_its_definition() -> None:
    """Few distinct values, so that there are ties."""
    rng = np.random.default_rng(0)
    costs, errors = (rng.integers(0, 6, size=12).astype(float).tolist() for _ in range(2))
    points = list(zip(costs, errors, strict=True))

    def is_beaten(point: tuple[float, float]) -> bool:
        return any(c <= point[0] and e <= point[1] and (c, e) != point for c, e in points)

    front = [points[i] for i in find_pareto_front(costs, errors)]
    assert front == sorted({point for point in points if not is_beaten(point)})


def test_the_charts_show_the_numbers_of_the_runs(pair: Path) -> None:
    drawn = charts(pair)
    assert list(drawn) == [
        "Difference from full", "Accuracy against cost", "Training curves", "Error by horizon step",
        "Forecasts of the same test windows",
    ]  # fmt: skip
    costs = drawn["Accuracy against cost"].choices["ms/window"]
    assert [trace["name"] for trace in costs] == ["full", "linear", "Pareto front"]
    assert costs[0]["y"] == [pytest.approx(0.415)]
    forecasts = drawn["Forecasts of the same test windows"]
    assert len(forecasts.choices) == 3 * 2  # windows, variables
    label, (truth, *lines) = next(iter(forecasts.choices.items()))
    assert label == "window 0, from 2024-01-04 00:00:00: HUFL"
    table = pd.read_parquet(pair / "linear-1" / "forecasts.parquet")
    table = table.query("window == 0 and variable == 'HUFL'")
    assert truth["y"] == pytest.approx(table["truth"].tolist(), rel=1e-3, abs=1e-3)
    names = ["full", "linear", "linear baseline", "seasonal naive", "naive"]
    assert [line["name"] for line in lines] == names
    assert lines[1]["y"] == pytest.approx(table.loc[table["step"] > 0, "model"].tolist(), rel=1e-3)
    figure = forecasts.figure()
    buttons = figure["layout"]["updatemenus"][0]["buttons"]
    visible = [button["args"][0]["visible"] for button in buttons]
    assert [trace["visible"] for trace in figure["data"]] == visible[0]
    assert {sum(map(bool, each)) for each in visible} == {len(lines) + 1}


def compare_lengths(root: Path, lengths: tuple[int, ...], **metrics: Any) -> dict[str, Chart]:
    for kind, power in {"full": 2, "linear": 1}.items():
        for seq_len in lengths:
            for seed in (1, 2):
                config = {**configuration(f"attention={kind}", f"seq_len={seq_len}"), "seed": seed}
                slots: dict[str, Any] = {"encoder": {"role": "self", "queries": seq_len, "keys": seq_len}}
                time = (seq_len / 100) ** power * (1 + 0.1 * (seed - 1.5))
                facts = {"attention_slots": slots, "ms_per_window": time, **metrics}
                make_run(root / f"{kind}-{seq_len}-{seed}", config, mse=0.4 + 0.01 * seed, **facts)
    return charts(root)


def test_costs_are_drawn_against_the_tokens_where_they_can_be_compared(tmp_path: Path) -> None:
    heading = "Error and cost against the tokens"
    chart = compare_lengths(tmp_path / "alone", (96, 192))[heading]
    full, linear = chart.choices["ms/window"]
    assert (full["x"], full["y"]) == ([96, 192], pytest.approx([0.96**2, 1.92**2], rel=1e-3))
    assert linear["error_y"]["array"] == pytest.approx([0.048, 0.096], rel=1e-3)
    beside = compare_lengths(tmp_path / "beside", (96, 192), finished="2026-11-25T10:00:00+00:00")[heading]
    assert list(beside.choices) == ["peak memory (MiB)", "parameters", "MSE (scaled)"]
    assert heading not in compare_lengths(tmp_path / "one", (96,))
