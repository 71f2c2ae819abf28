import json
import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.evaluation.scores import SAME_ERROR
from forecast.evaluation.significance import LossDifference
from forecast.reports.compare.page import Chart, find_pareto_front, make_task_charts
from forecast.reports.compare.tables import (
    collect_interval_scores,
    describe_task,
    make_card_table,
    make_interval_table,
    make_overview_table,
    make_rows,
    make_short_table,
    print_tables,
)
from forecast.reports.compare.task import Task, find_reference
from forecast.reports.tables import MISSING, format_interval, format_number, format_percent, write_latex, write_markdown
from tests.support.synthetic_runs import compare, configuration, make_run, make_variants


def task_of(root: Path, errors: dict[str, float], **more) -> Task:
    make_variants(root, errors, **more)
    (task,) = compare(root)
    return task


@pytest.mark.parametrize(
    ("windows", "other", "spread", "verdict", "sentences"),
    [
        (200, 0.4005, 1e-5, "too few windows or seeds", ["No variant is known", "1 untested"]),
        (1000, 0.4001, 1e-5, "no significant difference", ["Use full: lowest MSE", "Equivalent: linear."]),
        (1000, 0.41, 0.06, "no significant difference", ["No variant is known", "1 not told apart from full"]),
        (200, 4.0, 1e-5, "worse", ["Use full: lowest MSE", "1 significantly worse."]),
    ],
)  # fmt: skip
def test_verdicts_and_their_sentences(
    windows: int, other: float, spread: float, verdict: str, sentences: list[str], tmp_path: Path
) -> None:
    errors = {"full": 0.4, "linear": other}
    task = task_of(tmp_path, errors, windows=windows, spread=spread, seeds=4, ms_per_window=1.0)
    assert task.get_verdict(task.variants[1]) == verdict
    answer = describe_task(task)[0]
    assert [sentence for sentence in sentences if sentence not in answer] == []
    # the table claims no more than the sentences: the lowest error, and not that the variant is the best
    (_, (name, of_best, *_)), *_ = make_short_table(task).rows
    assert (name.text, of_best.text) == ("full", "lowest")


@pytest.mark.parametrize(
    ("times", "sentences"),
    [
        ({"full": [2.0, 2.2], "linear": [1.0, 1.9]}, ["Use linear: the fastest of 2 equivalent variants (1.450"]),
        ({"full": [2.0, 2.2], "linear": [1.0, 2.1]}, ["Use full: lowest MSE", "Equivalent: linear."]),
        ({"full": [2.0, 2.2], "linear": [1.0, math.nan]}, ["Use full: lowest MSE", "Equivalent: linear."]),
    ],
)  # fmt: skip
def test_a_variant_is_faster_if_all_its_runs_are(times: dict[str, list[float]], sentences: list[str], tmp_path) -> None:
    for attention, of_runs in times.items():
        for seed, time in enumerate(of_runs):
            config = {**configuration(f"attention={attention}"), "seed": seed}
            mse = (0.4 if attention == "full" else 0.4001) + 1e-4 * seed
            make_run(tmp_path / f"{attention}-{seed}", config, mse=mse, windows=2000, ms_per_window=time)
    (task,) = compare(tmp_path)
    answer = describe_task(task)[0]
    assert [sentence for sentence in sentences if sentence not in answer] == []


@pytest.mark.parametrize(
    ("errors", "sentence"),
    [
        ({"full": 0.4, "linear": 0.45}, "2 of 2 variants have a lower error than the best baseline"),
        ({"full": 0.6, "linear": 0.7}, "Use the best baseline, linear baseline (MSE 0.500): it is significantly"),
        ({"full": 0.499}, "1 of 1 variant has a lower error than the best baseline, linear baseline"),
    ],
)  # fmt: skip
def test_sentences_on_the_best_baseline(errors: dict[str, float], sentence: str, tmp_path: Path) -> None:
    task = task_of(tmp_path, errors, windows=2000)
    findings = describe_task(task)
    assert findings[0 if task.is_baseline_better else -1].startswith(sentence)
    assert task.is_baseline_better == (min(errors.values()) > 0.5)
    assert " ".join(findings).count("linear baseline") == 1
    if task.is_baseline_better:
        assert findings[1].startswith("Of the variants, use full: lowest MSE")


def test_a_model_that_equals_the_best_baseline_is_not_worse(tmp_path: Path) -> None:
    make_run(tmp_path / "same", configuration("attention=full"), mse=0.5 * (1 + SAME_ERROR / 2))
    make_run(tmp_path / "worse", configuration("attention=linear"), mse=0.75)
    flags = {row["name"]: row["worse_than_best_baseline"] for row in make_rows(compare(tmp_path))}
    assert (flags["full"], flags["linear"]) == (False, True)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ({"full": 0.40, "none": 0.50}, "Attention is worth +20.0% ["),
        ({"full": 0.50, "none": 0.40}, "Attention is worth nothing here: full, the best of the others,"),
        ({"full": 0.40, "linear": 0.50}, ""),
    ],
)  # fmt: skip
def test_what_attention_is_worth(errors: dict[str, float], expected: str, tmp_path: Path) -> None:
    findings = describe_task(task_of(tmp_path, errors, windows=2000))
    found = [sentence for sentence in findings if sentence.startswith("Attention is worth")]
    assert [sentence.startswith(expected) for sentence in found] == ([True] if expected else [])


def test_that_every_run_kept_its_linear_model_is_the_only_finding(tmp_path: Path, capsys) -> None:
    task = task_of(tmp_path, {"full": 0.5, "linear": 0.5}, seeds=1, best_epoch=0)
    (note,) = describe_task(task)
    assert note.startswith("2 of 2 runs kept only the linear model: ")
    table = make_short_table(task)
    assert note in write_markdown(table)
    assert "full (linear model alone)" in write_latex(table)
    assert find_reference(task, "linear") == "linear (linear model alone)"
    print_tables([task], [])
    assert capsys.readouterr().out.startswith(note)


def test_variants_of_one_seed_are_not_tested(tmp_path: Path) -> None:
    task = task_of(tmp_path, {"full": 0.4, "linear": 0.5}, windows=1000, seeds=1)
    assert task.get_verdict(task.variants[1]) == "one seed: unknown"
    assert "1 untested (they or full have one seed: run seed=1,2,3 or more)." in describe_task(task)[0]
    assert math.isnan(task.differences["linear"].adjusted_p_value)
    assert task.get_verdict(task.baselines[-1]) == "worse"


def test_variants_with_the_same_forecasts_count_once_in_the_tests(tmp_path: Path) -> None:
    """Neither the correction nor the degrees of freedom grow by a copy of a variant."""
    alone = task_of(tmp_path / "alone", {"full": 0.4, "linear": 0.45})
    copied = task_of(tmp_path / "copied", {"full": 0.4, "linear": 0.45, "probsparse": 0.4, "none": 0.45})
    assert [copied.get_verdict(entry) for entry in copied.variants] == ["lowest", "equal", "worse", "worse"]
    for name in ("linear", "none"):
        assert copied.differences[name] == alone.differences["linear"]
    assert copied.differences["naive"] == alone.differences["naive"]
    assert "Equivalent: probsparse." in describe_task(copied)[0]
    (against,) = compare(tmp_path / "copied", reference="probsparse")
    assert against.get_verdict(against.best) == "equal"
    assert against.differences["linear"].p_value == alone.differences["linear"].p_value


def test_the_overview_is_a_table_of_data_sets_and_horizons(tmp_path: Path) -> None:
    for horizon, errors in ((12, {"full": 0.40, "linear": 0.41}), (24, {"full": 0.46, "linear": 0.45, "none": 0.6})):
        for (kind, mse), seed in product(errors.items(), (1, 2)):
            config = {**configuration(f"attention={kind}"), "pred_len": horizon, "seed": seed}
            make_run(
                tmp_path / f"{horizon}-{kind}-{seed}",
                config,
                mse=mse,
                finished=f"2026-11-2{seed}T10:00:00+00:00",
                machine={
                    "device": "a CPU", "threads": 2, "torch": "2.13", "python": "3.11", "system": "Linux",
                    "forecast": "1.0", "commit": "abc" if seed == 1 else "def",
                    "used_by_others": 0.01 if seed == 1 else 0.4,
                },
            )  # fmt: skip
    (tmp_path / "command.yaml").write_text("[data.path=/home/me/my.csv, 'attention=full,linear', hydra.mode=MULTIRUN]")
    tasks = compare(tmp_path)
    table = make_overview_table(tasks)
    assert [column.heading for column in table.columns][:4] == ["data", "horizon", "full", "linear"]
    texts = [[cell.text for cell in cells[:4]] for _, cells in table.rows]
    assert texts == [
        ["sample, features=M", "12", "0.400 ± 0.000", "0.410 ± 0.000"],
        ["sample, features=M", "24", "0.460 ± 0.000", "0.450 ± 0.000"],
        ["average rank", "–", "1.50", "1.50"],
    ]
    assert r"sample, features=M & 12 & \textbf{0.400 $\pm$ 0.000} & 0.410" in write_latex(table)
    card = {cells[0].text: cells[1].text for _, cells in make_card_table(tasks).rows}
    assert card["commands"] == "forecast train -m data.path=my.csv attention=full,linear"
    assert card["machine"] == "a CPU, 2 threads, torch 2.13, Python 3.11, Linux"
    assert card["code"] == "forecast 1.0, commit abc; forecast 1.0, commit def"
    assert card["used by other programs"] == "1% to 40% of the processors"
    assert (card["seeds"], card["precision"]) == ("1, 2", "32-true")
    assert card["training ended"] == "2026-11-21T10:00:00+00:00 to 2026-11-22T10:00:00+00:00"
    assert card["times"].startswith("Times of ")  # runs that ended together overlapped
    hashes = {text for name, text in card.items() if name.startswith("test windows of")}
    assert len(hashes) == 2


def test_the_others_are_compared_with_the_reference(pair: Path) -> None:
    (best,), (linear,), (baseline,) = (compare(pair, reference=name) for name in (None, "linear", "linear baseline"))
    assert [linear.get_verdict(entry) for entry in linear.variants] == ["better", "reference"]
    assert linear.relative_difference(linear.best) == pytest.approx(0.415 / 0.465 - 1)
    assert linear.differences["full"].mean == pytest.approx(-best.differences["linear"].mean)
    assert linear.differences["full"].p_value == pytest.approx(best.differences["linear"].p_value)
    assert describe_task(linear) == describe_task(best)
    verdicts = [baseline.get_verdict(entry) for entry in baseline.entries]
    # both variants have the same luck over their two seeds, which leaves one degree of freedom
    assert verdicts == ["better", "too few windows or seeds", "reference", "worse", "worse"]


def test_the_rows_of_the_csv(pair: Path) -> None:
    tasks = compare(pair)
    table = pd.DataFrame(make_rows(tasks)).set_index("name")
    assert list(table.index) == ["full", "linear", "linear baseline", "seasonal naive", "naive"]
    assert table.loc["linear baseline", "mse"] == 0.5
    assert table["verdict"].tolist() == ["lowest", "worse", "worse", "worse", "worse"]
    assert table.loc["naive", "p_adjusted"] == tasks[0].differences["naive"].adjusted_p_value
    assert table.loc["linear", "p_adjusted"] == tasks[0].differences["linear"].adjusted_p_value
    assert table["kind"].tolist() == ["variant", "variant", "baseline", "baseline", "baseline"]
    assert (table.loc["full", "n_parameters"], table.loc["linear", "attention"]) == (32000, "linear")
    assert set(table["worse_than_best_baseline"]) == {False}


def test_interval_scores_of_runs_that_have_any(pair: Path) -> None:
    for seed, coverage in ((1, 0.78), (2, 0.82)):
        path = pair / f"full-{seed}" / "metrics.json"
        scores = {"80": {"coverage": coverage, "width": 1.5}, "crps": 0.3}
        path.write_text(json.dumps({**json.loads(path.read_text()), "intervals": {"conformal": scores}}))
    (task,) = compare(pair)
    full, linear = map(collect_interval_scores, task.variants)
    assert full["conformal"]["coverage_80"] == pytest.approx((0.80, 0.04 / math.sqrt(2)))
    assert not linear
    table = make_interval_table(task)
    assert table is not None
    assert [column.heading for column in table.columns][2:5] == ["coverage 80", "width 80", "crps"]
    rows = {row["name"]: row for row in make_rows([task])}
    assert rows["full"]["conformal_crps"] == 0.3
    assert "conformal_crps" not in rows["linear"]


@pytest.mark.parametrize(
    ("write", "given", "text"),
    [
        *((format_number, numbers, text) for numbers, text in [
            ((0.41234, 0.01), "0.412 ± 0.010"), ((9623.0, 0.0), "9,623"), ((-1.5,), "−1.500"), ((math.nan,), "–"),
            ((0.00001234,), "1.23e−05"),
        ]),
        *((format_percent, (change,), text) for change, text in [
            (0.0154, "+1.5%"), (-0.25, "−25.0%"), (-1e-9, "+0.0%"), (12.5, "+1,250.0%"),
        ]),
        *((format_interval, (difference,), text) for difference, text in [
            (LossDifference(-0.1, 1e-4, 50.0, base=0.5), "[−24.0, −16.0]"),
            (LossDifference(-0.1, 0.04, 1.0, base=0.5, independent=7.1), "too few independent windows (about 7)"),
            (LossDifference(-0.1, math.nan, 0.0), MISSING),  # the variance over seeds is not known
        ]),
    ],
)  # fmt: skip
def test_numbers_and_names_in_words(write: Callable[..., str], given: tuple[Any, ...], text: str) -> None:
    assert write(*given) == text


def charts(root: Path) -> dict[str, Chart]:
    (task,) = compare(root)
    return {chart.heading: chart for chart in make_task_charts(task)}


@pytest.mark.slow
def test_the_pareto_front_agrees_with_its_definition() -> None:
    """Few distinct values, so that there are ties."""
    rng = np.random.default_rng(0)
    costs, errors = (rng.integers(0, 6, size=12).astype(float).tolist() for _ in range(2))
    points = list(zip(costs, errors, strict=True))

    def is_beaten(point: tuple[float, float]) -> bool:
        return any(c <= point[0] and e <= point[1] and (c, e) != point for c, e in points)

    front = [points[i] for i in find_pareto_front(costs, errors)]
    assert front == sorted({point for point in points if not is_beaten(point)})


@pytest.mark.slow
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


@pytest.mark.slow
def test_costs_are_drawn_against_the_tokens_where_they_can_be_compared(tmp_path: Path) -> None:
    heading = "Error and cost against the tokens"
    chart = compare_lengths(tmp_path / "alone", (96, 192))[heading]
    full, linear = chart.choices["ms/window"]
    assert (full["x"], full["y"]) == ([96, 192], pytest.approx([0.96**2, 1.92**2], rel=1e-3))
    assert linear["error_y"]["array"] == pytest.approx([0.048, 0.096], rel=1e-3)
    beside = compare_lengths(tmp_path / "beside", (96, 192), finished="2026-11-25T10:00:00+00:00")[heading]
    assert list(beside.choices) == ["peak memory (MiB)", "parameters", "MSE (scaled)"]
    assert heading not in compare_lengths(tmp_path / "one", (96,))
