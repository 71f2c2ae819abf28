"""Sentences of the page about significant and other differences."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from forecast.reports.compare.findings import answer, describe_results, describe_test, is_baseline_better
from forecast.reports.compare.grouping import find_reference, group_into_tasks
from forecast.reports.compare.number_format import join_names
from forecast.reports.compare.page import make_section, render_page
from forecast.reports.compare.run_folders import find_run_folders, read_runs
from forecast.reports.compare.tables import make_cost_table
from forecast.reports.compare.task import Task, get_verdict
from forecast.reports.compare.writers import (
    LATEX,
    MARKDOWN,
    escape_latex,
    format_csv,
    format_tables,
    make_rows,
    print_tables,
)
from forecast.system.formatting import shorten
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
NOT_SIGNIFICANT = "No significant difference from the best variant: linear (lowest adjusted p: "
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
    findings = describe_results(task)
    assert (findings[0] == answer(task)) == bool(answer(task))
    best, test, _, *more = findings
    few = windows < 1000  # no test of the baseline, or 2 degrees of freedom for 6 tests
    assert more == ["The difference of full from that baseline is not significant."] * few
    assert (best == "full has the lowest MSE: 0.400 ± 0.000.") == (not answer(task))
    assert (
        " ".join(findings).count("full has the lowest MSE") + best.count("Use full: it has the lowest MSE")
        == 1
    )
    assert test.startswith(sentence)
    (row,) = (line for line in format_tables(MARKDOWN, [task]).splitlines() if line.startswith("| linear |"))
    assert (" †" in row) == (verdict != "worse")


@pytest.mark.parametrize(
    ("errors", "sentence"),
    [
        ((0.4, 0.45), "Every variant has a lower error than the best baseline, linear baseline (MSE 0.500)."),
        ((0.6, 0.7), "Every variant is worse than the best baseline, linear baseline (MSE 0.500): use the baseline."),
        ((0.4, 0.7), "1 of 2 variants has a lower error than the best baseline, linear baseline (MSE 0.500)."),
        (
            (0.4, 0.5),
            "1 of 2 variants has a lower error than the best baseline, linear baseline (MSE 0.500), and 1 equals it.",
        ),
        ((0.5 + 1e-9, 0.5), "full = linear equals the best baseline, linear baseline (MSE 0.500)."),
        ((0.4,), "full has a lower error than the best baseline, linear baseline (MSE 0.500)."),
        ((0.7,), "full is worse than the best baseline, linear baseline (MSE 0.500): use the baseline."),
    ],
)  # fmt: skip
def test_sentences_on_the_best_baseline(tmp_path: Path, errors: tuple[float, ...], sentence: str) -> None:
    for attention, mse in zip(("full", "linear"), errors, strict=False):
        make_run(tmp_path / attention, configuration(f"attention={attention}"), mse=mse)
    assert describe_results(compared(tmp_path))[-1] == sentence


def test_that_every_run_kept_its_linear_model_is_the_only_finding(tmp_path: Path, capsys) -> None:
    for attention in ("full", "linear"):
        make_run(tmp_path / attention, configuration(f"attention={attention}"), mse=0.5, best_epoch=0)
    task = compared(tmp_path)
    (note,) = describe_results(task)
    assert note.startswith("2 of 2 runs kept only the linear model: ")
    assert note in format_tables(MARKDOWN, [task])
    assert escape_latex(note) in format_tables(LATEX, [task])
    print_tables([task], [])
    assert capsys.readouterr().out.startswith(note)


def test_runs_that_kept_only_their_linear_model_are_counted(tmp_path: Path, capsys) -> None:
    for attention, epoch in {"full": 0, "linear": 4, "nystrom": 0}.items():
        mse = 0.4 + 0.01 * epoch
        make_run(tmp_path / attention, configuration(f"attention={attention}"), mse=mse, best_epoch=epoch)
    task = compared(tmp_path)
    note = describe_results(task)[-1]
    assert note.startswith("2 of 3 runs kept ")
    assert [entry.name for entry in task.variants] == ["full = nystrom (linear model alone)", "linear"]
    assert [find_reference(task, name) for name in ("nystrom", "linear")] == [
        entry.name for entry in task.variants
    ]
    print_tables([task], [])
    assert note in (printed := capsys.readouterr().out)
    assert "full = nystrom (linear model alone)" in printed


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
        (800, ["all but one of their 24 steps", "(Bonferroni): 1 of variants, 6 of variants and baselines"]),
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
    assert format_tables(MARKDOWN, [task]).splitlines()[5].startswith("| linear | 1 | 0.500 † |")
    assert "+25.0 % – | – |" in format_tables(MARKDOWN, [task]).splitlines()[5]
    assert get_verdict(task, task.baselines[-1]) == "worse"
    print_tables([task], [])
    assert "one seed: unknown" in capsys.readouterr().out


@pytest.mark.slow
def test_a_difference_that_seeds_explain_is_not_significant(tmp_path: Path) -> None:
    luck = two_variants(tmp_path / "luck", windows=1000, other=0.45, seeds=4, spread=0.06)
    assert get_verdict(luck, luck.variants[1]) == "no significant difference"
    low, high = luck.relative_interval(luck.variants[1])
    assert low < 0 < 0.125 < high
    skill = two_variants(tmp_path / "skill", windows=1000, other=0.45, seeds=5, spread=0.003)
    assert get_verdict(skill, skill.variants[1]) == "worse"


def with_costs(root: Path, variants: dict[str, tuple[float, float]], seeds: int = 4, **more: Any) -> Task:
    """Variants with an MSE and a time of inference; seeds change the MSE by 0.0001."""
    for attention, (mse, milliseconds) in variants.items():
        for seed in range(seeds):
            config = {**configuration(f"attention={attention}"), "seed": seed}
            folder = root / f"{attention}-{seed}"
            make_run(folder, config, mse=mse + 1e-4 * seed, windows=2000, ms_per_window=milliseconds, **more)
    return compared(root)


@pytest.mark.slow
def test_variants_with_the_same_forecasts_are_one_row(tmp_path: Path, capsys) -> None:
    task = with_costs(tmp_path, {"full": (0.4, 2.0), "probsparse": (0.4, 1.0), "linear": (0.45, 0.5)})
    assert [entry.name for entry in task.variants] == ["full = probsparse", "linear"]
    assert describe_results(task)[1] == "full and probsparse make the same forecasts and are shown as one."
    print_tables([task], [])
    for text in (
        format_tables(MARKDOWN, [task]),
        format_tables(LATEX, [task]),
        format_csv(make_rows([task])),
        capsys.readouterr().out,
        render_page("x", [task], []),
    ):
        assert text.count("full = probsparse") >= 1
    costs = make_cost_table(task)
    assert [cells[0].text for _, cells in costs.rows] == ["full", "probsparse", "linear"]
    assert format_csv(make_rows([task])).count("\n") == 1 + 2 + len(task.baselines)


@pytest.mark.parametrize(
    ("variants", "expected"),
    [
        (
            {"full": (0.4, 2.0), "linear": (0.45, 1.0)},
            "Use full: it has the lowest MSE, 0.400 ± 0.000 (2 ms a window).",
        ),
        (
            {"full": (0.4, 2.0), "linear": (0.4001, 1.0), "nystrom": (0.45, 0.5)},
            "Use linear: it is the fastest of the 2 equivalent variants (1 ms a window). "
            "full has the lowest MSE, 0.400 ± 0.000; the difference is +0.0 % [",
        ),
        (
            {"full": (0.4, 1.0), "linear": (0.4001, 2.0)},
            "Use full: it has the lowest MSE, 0.400 ± 0.000, and is the fastest of the 2 equivalent variants "
            "(1 ms a window).",
        ),
        (
            {"full": (0.4, 2.0), "probsparse": (0.4, 1.0)},
            "Use probsparse: all variants make the same forecasts",
        ),
        (
            {"full": (0.6, 2.0), "linear": (0.7, 1.0)},
            "The best baseline, linear baseline (MSE 0.500), is better than every variant: use the baseline. "
            "Of the variants, use full: it has the lowest MSE",
        ),
    ],
)
def test_the_answer(tmp_path: Path, variants: dict[str, tuple[float, float]], expected: str, capsys) -> None:
    task = with_costs(tmp_path, variants)
    assert answer(task).startswith(expected)
    assert describe_results(task)[0] == answer(task)
    print_tables([task], [])
    assert capsys.readouterr().out.startswith(answer(task))
    assert expected.split("(")[0] in format_tables(MARKDOWN, [task])


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (
            {"full": [2.0, 2.2], "linear": [1.0, 1.9]},
            "Use linear: it is the fastest of the 2 equivalent variants",
        ),
        ({"full": [2.0, 2.2], "linear": [1.0, 2.1]}, "Equivalent, and not measurably faster: linear."),
        ({"full": [1.0, 1.1], "linear": [1.2, 2.1]}, "and is the fastest of the 2 equivalent variants"),
    ],
)
def test_a_variant_is_faster_if_all_its_runs_are(
    times: dict[str, list[float]], expected: str, tmp_path: Path
) -> None:
    for attention, of_runs in times.items():
        for seed, time in enumerate(of_runs):
            config = {**configuration(f"attention={attention}"), "seed": seed}
            mse = (0.4 if attention == "full" else 0.4001) + 1e-4 * seed
            make_run(tmp_path / f"{attention}-{seed}", config, mse=mse, windows=2000, ms_per_window=time)
    assert expected in answer(compared(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ({"full": 0.40, "none": 0.50}, "Attention is worth +20.0 % ["),
        (
            {"full": 0.50, "none": 0.40},
            "Attention is worth nothing here: full, the best other variant, is worse than none.",
        ),
        ({"full": 0.40, "linear": 0.50}, None),
    ],
)
def test_what_attention_is_worth(errors: dict[str, float], expected: str | None, tmp_path: Path) -> None:
    task = with_costs(tmp_path, {name: (error, 1.0) for name, error in errors.items()})
    found = [sentence for sentence in describe_results(task) if sentence.startswith("Attention is worth")]
    assert [sentence.startswith(str(expected)) for sentence in found] == ([] if expected is None else [True])
    assert not any("not significant" in sentence for sentence in found)


def test_a_type_that_equals_softmax_is_named(tmp_path: Path) -> None:
    whole = {
        "type": "ProbSparse",
        "role": "self",
        "queries": 14,
        "keys": 14,
        "equals_softmax": "keeps every query",
    }
    some = {**whole, "equals_softmax": ""}
    for attention, slots in {
        "probsparse": {"encoder": whole},
        "nystrom": {"encoder": whole, "decoder": some},
    }.items():
        make_run(
            tmp_path / attention, configuration(f"attention={attention}"), mse=0.4, attention_slots=slots
        )
    named = [line for line in describe_results(compared(tmp_path)) if "softmax" in line]
    assert len(named) == 1
    assert named[0].startswith("probsparse computes softmax attention at these lengths")
    assert "encoder: keeps every query" in named[0]


@pytest.mark.parametrize(
    "variants", [{"full": 0.6, "linear": 0.7}, {"full": 0.6, "linear": 0.6}, {"full": 0.6}]
)
def test_that_a_baseline_is_better_is_said_once(tmp_path: Path, variants: dict[str, float]) -> None:
    task = with_costs(tmp_path, {name: (mse, 1.0) for name, mse in variants.items()})
    assert is_baseline_better(task)
    assert " ".join(describe_results(task)).count("linear baseline (MSE 0.500)") == 1
    assert " ".join(describe_results(task)).count("use the baseline") == 1


def test_a_baseline_that_is_equal_to_the_variants_is_named(tmp_path: Path) -> None:
    for attention in ("full", "linear"):
        make_run(tmp_path / attention, configuration(f"attention={attention}"), mse=0.5)
        file = tmp_path / attention / "errors_by_window.parquet"
        windows = pd.read_parquet(file)
        windows.assign(model_mse=windows["linear_mse"]).to_parquet(file)
    findings = describe_results(compared(tmp_path))
    assert findings[0].startswith(
        "The best baseline, linear baseline (MSE 0.500), is equal to the best variant. "
    )
    assert " ".join(findings).count("linear baseline") == 1


def test_a_variant_that_may_be_much_worse_is_inconclusive(tmp_path: Path) -> None:
    task = two_variants(tmp_path, windows=1000, other=0.41, seeds=3, spread=0.06)
    assert get_verdict(task, task.variants[1]) == "no significant difference"
    assert answer(task).startswith("full has the lowest MSE")
    assert answer(task).endswith(
        "; no variant is known to be the best."
        " Inconclusive: linear may be worse by more than 5 %. More seeds or more test windows narrow the interval."
    )


def test_a_baseline_that_may_be_better_is_named_before_the_answer(tmp_path: Path) -> None:
    for attention, mse in (("full", 0.51), ("linear", 0.53)):
        for seed in range(3):
            config = {**configuration(f"attention={attention}"), "seed": seed}
            make_run(tmp_path / f"{attention}-{seed}", config, mse=mse + 0.06 * (seed - 1), windows=1000)
    findings = describe_results(compared(tmp_path))
    assert findings[0].startswith(
        "The best baseline, linear baseline (MSE 0.500), has a lower error than every variant (no significant "
        "difference). full has the lowest MSE, "
    )
    assert " ".join(findings).count("linear baseline") == 1


def test_names_that_contain_a_comma_are_separated_by_semicolons() -> None:
    assert join_names(["full", "linear"]) == "full, linear"
    assert shorten(["full, d_model=16", "linear", "none"], 2) == "full, d_model=16; linear and 1 more"


def test_one_seed_gives_no_answer(tmp_path: Path) -> None:
    assert answer(two_variants(tmp_path, windows=1000, other=0.5, seeds=1)) == ""


@pytest.mark.slow
def test_one_window_one_run_and_one_variant_are_singular(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "a", configuration("pred_len=1"), mse=0.4, windows=1)
    task = compared(tmp_path / "runs")
    facts = make_section(task)["facts"]
    assert facts.startswith("1 test window, ")
    assert facts.endswith("; 1 variant, 1 run.")
    assert "1 run compared by" in render_page("x", [task], [])
