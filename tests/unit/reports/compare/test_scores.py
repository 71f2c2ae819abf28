"""Scores, verdicts and the text of numbers."""

import json
import math
from pathlib import Path

import pytest

from forecast.evaluation.scores import SAME_ERROR
from forecast.evaluation.significance import LossDifference, diebold_mariano
from forecast.reports.compare.findings import answer, describe_results
from forecast.reports.compare.grouping import group_into_tasks
from forecast.reports.compare.number_format import MISSING, format_interval, format_number, format_percent
from forecast.reports.compare.run_folders import find_run_folders, read_runs
from forecast.reports.compare.tables import collect_interval_scores, make_test_fields
from forecast.reports.compare.task import Task, get_verdict
from forecast.reports.compare.writers import make_rows
from tests.support.synthetic_runs import configuration, make_run


def compared(root: Path) -> list[Task]:
    return group_into_tasks(read_runs(find_run_folders([str(root)]))[0])


def test_baselines_are_rows_of_the_table(pair: Path) -> None:
    (task,) = compared(pair)
    assert [entry.name for entry in task.baselines] == ["linear baseline", "seasonal naive", "naive"]
    assert task.skill(task.best) == pytest.approx([1 - 0.41 / 0.5, 1 - 0.42 / 0.5])
    table = {row["name"]: row for row in make_rows([task])}
    assert list(table) == ["full", "linear", "linear baseline", "seasonal naive", "naive"]
    assert table["linear baseline"]["mse"] == 0.5
    assert table["full"]["verdict"] == "best"
    assert table["naive"]["verdict"] == "worse"
    assert table["naive"]["p_adjusted"] == min(1, 2 * 3 * table["naive"]["p_value"])
    assert not any(row["worse_than_best_baseline"] for row in table.values())


def test_interval_scores_of_runs_that_have_any(pair: Path) -> None:
    for seed, coverage in ((1, 0.78), (2, 0.82)):
        path = pair / f"full-{seed}" / "metrics.json"
        scores = {"80": {"coverage": coverage, "width": 1.5}, "crps": 0.3}
        path.write_text(json.dumps({**json.loads(path.read_text()), "intervals": {"conformal": scores}}))
    (task,) = compared(pair)
    found = collect_interval_scores(task)
    assert set(found) == {"full"}
    assert found["full"]["conformal"]["coverage_80"] == pytest.approx((0.80, 0.04 / math.sqrt(2)))
    table = {row["name"]: row for row in make_rows([task])}
    assert table["full"]["conformal_crps"] == 0.3
    assert "conformal_crps" not in table["linear"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((0.41234, 0.01), "0.412 ± 0.010"), ((9623.0, 0.0), "9,623"), ((-1.5,), "−1.500"), ((0.0123,), "0.0123"),
        ((12345.6, 100.2), "12,346 ± 100"), ((85.958, 37.2), "86.0 ± 37.2"), ((math.nan,), "–"), ((0.0,), "0"),
        ((0.00001234,), "1.23e−05"), ((4.0, math.nan), "4"),
    ],
)  # fmt: skip
def test_numbers_have_decimals_according_to_their_size(given: tuple[float, ...], text: str) -> None:
    assert format_number(*given) == text


def test_no_percentage_is_given_relative_to_an_mse_of_zero(tmp_path: Path) -> None:
    for kind, mse in (("full", 0.0), ("linear", 0.1)):
        make_run(tmp_path / kind, configuration(f"attention={kind}"), mse=mse)
    (task,) = compared(tmp_path)
    rival = next(entry for entry in task.variants if entry.name == "linear")
    assert next(make_cell(rival).text for _, make_cell in make_test_fields(task)) == MISSING


@pytest.mark.parametrize(
    ("change", "text"), [(0.0154, "+1.5 %"), (-0.25, "−25.0 %"), (-1e-9, "+0.0 %"), (12.5, "+1,250.0 %")]
)
def test_percentages_have_a_sign(change: float, text: str) -> None:
    assert format_percent(change) == text


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        (LossDifference(-0.1, 1e-4, 50.0, base=0.5), "[−24.0, −16.0]"),
        (LossDifference(-0.1, 0.04, 1.0, base=0.5, independent=7.1), "too few independent windows (about 7)"),
        (
            LossDifference(-0.1, math.nan, 0.0, base=0.5, independent=1.2),
            "too few independent windows (about 1)",
        ),
        (LossDifference(-0.1, math.nan, 0.0), MISSING),  # the variance over seeds is not known
    ],
)
def test_a_relative_interval_is_shown_only_where_the_windows_determine_it(
    difference: LossDifference, text: str
) -> None:
    assert format_interval(difference) == text


def test_a_model_that_equals_the_best_baseline_is_not_worse(tmp_path: Path) -> None:
    make_run(tmp_path / "same", configuration("attention=full"), mse=0.5 * (1 + SAME_ERROR / 2))
    make_run(tmp_path / "worse", configuration("attention=linear"), mse=0.75)
    (task,) = compared(tmp_path)
    flags = {row["name"]: row["worse_than_best_baseline"] for row in make_rows([task])}
    assert (flags["full"], flags["linear"]) == (False, True)


def test_mae_ranks_and_tests_where_it_is_the_score(tmp_path: Path) -> None:
    for kind, mse, mae in (("full", 0.40, 0.50), ("linear", 0.45, 0.40)):
        for seed in (1, 2, 3):
            config = {**configuration(f"attention={kind}"), "seed": seed}
            make_run(tmp_path / f"{kind}-{seed}", config, mse=mse + 0.001 * seed, mae=mae + 0.001 * seed)
    runs = read_runs(find_run_folders([str(tmp_path)]))[0]
    (by_mse,), (by_mae,) = group_into_tasks(runs), group_into_tasks(runs, score="mae")
    assert [task.best.name for task in (by_mse, by_mae)] == ["full", "linear"]
    assert answer(by_mae).startswith("Use linear: it has the lowest MAE, 0.402 ± 0.001")
    full = by_mae.variants[1]
    losses = full.losses, by_mae.best.losses
    assert losses[0].mean() == pytest.approx(0.502)
    alone = diebold_mariano(*losses, by_mae.overlap)
    assert by_mae.differences["full"].mean == pytest.approx(alone.mean)
    assert by_mae.differences["full"].variance > alone.variance  # the variance over seeds is added
    assert by_mae.skill(full)[0] == pytest.approx(1 - 0.501 / by_mae.best_baseline.mean("mae"))
    assert full.by_step.mean() == pytest.approx(0.502)


def test_the_others_are_compared_with_the_reference(pair: Path) -> None:
    runs = read_runs(find_run_folders([str(pair)]))[0]
    (best,), (linear,) = group_into_tasks(runs), group_into_tasks(runs, reference="linear")
    full = linear.best
    assert [get_verdict(linear, entry) for entry in linear.variants] == ["better", "reference"]
    assert linear.relative_difference(full) == pytest.approx(0.415 / 0.465 - 1)
    assert linear.differences["full"].mean == pytest.approx(-best.differences["linear"].mean)
    assert linear.differences["full"].p_value == pytest.approx(best.differences["linear"].p_value)
    assert answer(linear) == answer(best)
    assert describe_results(linear) == describe_results(best)
    (baseline,) = group_into_tasks(runs, reference="linear baseline")
    assert [get_verdict(baseline, entry) for entry in baseline.entries] == [
        "better",
        "better",
        "reference",
        "worse",
        "worse",
    ]
