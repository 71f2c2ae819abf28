"""Sentences of the page about significant and other differences."""

from pathlib import Path

import pytest

from forecast.reports.compare.findings import describe_results, describe_test
from forecast.reports.compare.grouping import group_into_tasks
from forecast.reports.compare.page import make_section, render_page
from forecast.reports.compare.paper_tables import format_markdown
from forecast.reports.compare.run_folders import find_run_folders, read_runs
from forecast.reports.compare.scores import get_verdict
from forecast.reports.compare.task import Task
from forecast.reports.compare.terminal_tables import print_tables
from tests.support.synthetic_runs import configuration, make_run


def compared(root: Path) -> Task:
    (task,) = group_into_tasks(read_runs(find_run_folders([str(root)]))[0])
    return task


def two_variants(root: Path, *, windows: int, other: float, seeds: int = 2, spread: float = 1e-5) -> Task:
    """Full attention with an MSE of 0.4, linear attention with another; seeds change it by `spread`."""
    for attention, mse in (("full", 0.4), ("linear", other)):
        for seed in range(seeds):
            config = {**configuration(f"attention={attention}"), "seed": seed}
            make_run(
                root / f"{attention}-{seed}",
                config,
                mse=mse + spread * (seed - (seeds - 1) / 2),
                windows=windows,
            )
    return compared(root)


NO_TEST = "Too few test windows or seeds to compare with the best variant: linear."
NOT_SIGNIFICANT = "No significant difference to the best variant: linear (lowest adjusted p: "
WORSE = "1 variant is significantly worse than the best variant."


@pytest.mark.parametrize(
    ("windows", "other", "verdict", "sentence"),
    [
        (40, 0.5, "too few windows or seeds", NO_TEST),  # no test
        (200, 0.4005, "too few windows or seeds", NO_TEST),  # 2 degrees of freedom
        (1000, 0.4001, "no significant difference", NOT_SIGNIFICANT),
        (200, 4.0, "worse", WORSE),  # significant even with 2 degrees of freedom
        (1000, 0.5, "worse", WORSE),
    ],
)
def test_verdicts_and_their_sentences(
    tmp_path: Path, windows: int, other: float, verdict: str, sentence: str
) -> None:
    task = two_variants(tmp_path, windows=windows, other=other)
    assert get_verdict(task, task.variants[1]) == verdict
    best, test, _, *more = describe_results(task)
    no_test = windows == 40
    assert more == ["The difference of full from that baseline is not significant."] * no_test
    assert best == "full has the lowest MSE: 0.400 ± 0.000."
    assert test.startswith(sentence)
    assert (" †" in format_markdown([task]).splitlines()[5]) == (verdict != "worse")


@pytest.mark.parametrize(
    ("errors", "sentence"),
    [
        ((0.4, 0.45), "Every variant beats the best baseline, linear baseline (MSE 0.500)."),
        ((0.6, 0.7), "Every variant is worse than the best baseline, linear baseline (MSE 0.500): use the baseline."),
        ((0.4, 0.7), "1 of 2 variants beats the best baseline, linear baseline (MSE 0.500)."),
        ((0.4, 0.5), "1 of 2 variants beats the best baseline, linear baseline (MSE 0.500), and 1 equals it."),
        ((0.5 + 1e-9, 0.5), "Every variant equals the best baseline, linear baseline (MSE 0.500)."),
        ((0.4,), "full beats the best baseline, linear baseline (MSE 0.500)."),
        ((0.7,), "full is worse than the best baseline, linear baseline (MSE 0.500): use the baseline."),
    ],
)  # fmt: skip
def test_sentences_on_the_best_baseline(tmp_path: Path, errors: tuple[float, ...], sentence: str) -> None:
    for attention, mse in zip(("full", "linear"), errors, strict=False):
        make_run(tmp_path / attention, configuration(f"attention={attention}"), mse=mse)
    assert describe_results(compared(tmp_path))[-1] == sentence


def test_runs_that_kept_only_their_linear_model_are_counted(tmp_path: Path, capsys) -> None:
    for attention, epoch in {"full": 0, "linear": 4, "nystrom": 0}.items():
        make_run(tmp_path / attention, configuration(f"attention={attention}"), mse=0.4, best_epoch=epoch)
    task = compared(tmp_path)
    note = describe_results(task)[-1]
    assert note.startswith("2 of 3 runs kept ")
    print_tables([task], [])
    assert note in capsys.readouterr().out


@pytest.mark.parametrize(
    ("windows", "facts"),
    [
        (40, ["No test: it needs test windows that span at least two horizons."]),
        (100, ["span only 4 horizons, so only large", "from 1 cosine term ("]),
        (
            671,
            [
                "span only 27 horizons, so only large",
                "from 6 cosine terms (",
                "both the windows and the seeds",
            ],
        ),
        (800, ["all but one of their 24 steps", "(Bonferroni): 1 for variants, 3 for baselines"]),
    ],
)
def test_the_description_of_the_test(tmp_path: Path, windows: int, facts: list[str]) -> None:
    description = describe_test(two_variants(tmp_path, windows=windows, other=0.41))
    assert [fact for fact in facts if fact not in description] == []
    assert ("only large differences are significant" in description) == (windows in (100, 671))


def test_variants_of_one_seed_are_not_tested(tmp_path: Path, capsys) -> None:
    task = two_variants(tmp_path, windows=1000, other=0.5, seeds=1)
    assert get_verdict(task, task.variants[1]) == "one seed: unknown"
    assert describe_results(task)[1].startswith(
        "One seed of each variant: whether the others are worse is unknown"
    )
    assert "variants are not tested against each other" in describe_test(task)
    assert format_markdown([task]).splitlines()[5].startswith("| linear | 1 | 0.500 † |")
    assert "+25.0 % – | – |" in format_markdown([task]).splitlines()[5]
    assert get_verdict(task, task.baselines[-1]) == "worse"
    print_tables([task], [])
    assert "one seed: unknown" in capsys.readouterr().out


def test_a_difference_that_seeds_explain_is_not_significant(tmp_path: Path) -> None:
    luck = two_variants(tmp_path / "luck", windows=1000, other=0.45, seeds=4, spread=0.06)
    assert get_verdict(luck, luck.variants[1]) == "no significant difference"
    low, high = luck.relative_interval(luck.variants[1])
    assert low < 0 < 0.125 < high
    skill = two_variants(tmp_path / "skill", windows=1000, other=0.45, seeds=5, spread=0.003)
    assert get_verdict(skill, skill.variants[1]) == "worse"


def test_variants_with_the_same_forecasts_are_called_equal(tmp_path: Path) -> None:
    for attention in ("full", "probsparse"):
        for seed in (1, 2):
            config = {**configuration(f"attention={attention}"), "seed": seed}
            make_run(tmp_path / f"{attention}-{seed}", config, mse=0.4 + 0.01 * seed)
    task = compared(tmp_path)
    assert get_verdict(task, task.variants[1]) == "equal"
    assert describe_results(task)[0] == "All 2 variants forecast the same: MSE 0.415 ± 0.007."


def test_one_window_one_run_and_one_variant_are_singular(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "a", configuration("pred_len=1"), mse=0.4, windows=1)
    task = compared(tmp_path / "runs")
    facts = make_section(task)["facts"]
    assert facts.startswith("1 test window, ")
    assert facts.endswith("; 1 variant, 1 run.")
    assert "1 run compared by" in render_page("x", [task], [])
