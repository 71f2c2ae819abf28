"""The effect of one setting over tasks and other settings."""

import shutil
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from rich.console import Console

from forecast.evaluation.significance import bootstrap_skill, diebold_mariano
from forecast.reports.compare.factors import Factor, describe_factor, find_factor
from forecast.reports.compare.grouping import group_into_tasks
from forecast.reports.compare.run_folders import find_run_folders, read_runs
from forecast.reports.compare.tables import make_factor_table
from forecast.reports.compare.task import BEST, EQUAL, NOT_SIGNIFICANT, ONE_SEED, get_verdict
from forecast.reports.compare.writers import (
    LATEX,
    MARKDOWN,
    escape_latex,
    escape_markdown,
    fit_terminal,
    format_csv,
    format_tables,
    make_factor_rows,
)
from forecast.system.errors import ConfigError
from tests.support.synthetic_runs import configuration, make_run

WINDOWS = 2000


def make_factor(root: Path, name: str = "attention", score: str = "mse") -> Factor | None:
    tasks = group_into_tasks(read_runs(find_run_folders([str(root)]))[0], score)
    return find_factor(tasks, name, required=True)


def make_grid(
    root: Path, errors: dict[str, float], widths: dict[int, float], horizons: tuple[int, ...], seeds: int = 3
) -> Path:
    """Runs of attention types × widths × horizons × seeds, whose MSE is the product of its factors."""
    luck = np.random.default_rng(3)
    for kind, error in errors.items():
        for width, factor in widths.items():
            for horizon in horizons:
                base = configuration(f"attention={kind}", f"pred_len={horizon}")
                for seed in range(seeds):
                    config = {**base, "seed": seed, "model": {**base["model"], "d_model": width}}
                    mse = error * factor * (1 + 0.002 * luck.normal())
                    folder = root / f"{kind}-{width}-{horizon}-{seed}"
                    make_run(
                        folder, config, mse=mse, windows=WINDOWS, ms_per_window=1.0 + 0.5 * (kind == "full")
                    )
    return root


@pytest.mark.slow
def test_the_effect_is_averaged_over_the_other_settings_and_tasks(tmp_path: Path) -> None:
    make_grid(tmp_path, {"full": 0.40, "linear": 0.44}, {16: 1.0, 32: 0.9}, (24, 48))
    factor = make_factor(tmp_path)
    assert factor is not None
    assert (factor.levels, len(factor.cells), len(factor.tasks)) == (["full", "linear"], 4, 2)
    ratios = [cell.entries["linear"].error / cell.entries["full"].error for cell in factor.cells]
    difference = factor.differences["linear"]
    assert difference.mean == pytest.approx(np.mean(ratios) - 1)
    assert factor.verdict("linear") == "worse"
    assert (factor.average_rank("full"), factor.average_rank("linear")) == (1, 2)
    assert (factor.win_rate("full"), factor.win_rate("linear")) == (1, 0)
    assert factor.skill("full")[0] == pytest.approx(
        1 - np.exp(np.mean([np.log(cell.entries["full"].error / 0.5) for cell in factor.cells]))
    )
    assert factor.relative_cost("linear") == pytest.approx(1 / 1.5)
    assert describe_factor(factor) == [
        "By attention, averaged over 4 comparisons that differ in it alone, in 2 tasks: use full: it has the lowest "
        "error."
    ]
    widths = make_factor(tmp_path, "d_model")
    assert widths is not None
    assert widths.levels == ["32", "16"]


def test_the_variance_is_that_of_the_averaged_relative_losses_of_a_task(tmp_path: Path) -> None:
    """In one task without variance over seeds, it is the Diebold-Mariano variance of the mean over the cells."""
    make_grid(tmp_path, {"full": 0.40, "linear": 0.44}, {16: 1.0, 32: 0.9}, (24,), seeds=2)
    factor = make_factor(tmp_path)
    assert factor is not None
    losses = [
        (cell.entries["linear"].losses - cell.entries["full"].losses) / cell.entries["full"].error
        for cell in factor.cells
    ]
    alone = diebold_mariano(np.mean(losses, axis=0), np.zeros(WINDOWS), 24)
    variance = np.mean([np.var(mean_of_seeds(factor, level), ddof=1) for level in factor.levels])
    assert factor.differences["linear"].variance == pytest.approx(alone.variance + variance * (1 / 2 + 1 / 2))


@pytest.mark.slow
def test_the_fastest_of_the_equivalent_values_is_recommended(tmp_path: Path) -> None:
    make_grid(tmp_path, {"full": 0.40, "linear": 0.4002}, {16: 1.0, 32: 0.9}, (24,))  # full takes longer
    factor = make_factor(tmp_path)
    assert factor is not None
    assert factor.best == "full"
    assert {factor.verdict(level) for level in factor.levels} == {BEST, NOT_SIGNIFICANT}
    (sentence,) = describe_factor(factor)
    assert "use linear: it is the fastest of the 2 equivalent values" in sentence


def mean_of_seeds(factor: Factor, level: str) -> np.ndarray:
    """The relative error of each seed, averaged over the cells."""
    errors = [np.array(cell.entries[level].values("mse")) for cell in factor.cells]
    return np.mean([of_cell / of_cell.mean() for of_cell in errors], axis=0)


def test_the_seeds_of_a_skill_are_drawn_in_all_comparisons_alike() -> None:
    """Errors that are equal in all data sets have the interval of one of them."""
    errors = np.array([0.4, 0.44, 0.5, 0.41])
    one, three = (bootstrap_skill([errors] * sets, np.ones(sets), same_seeds=True) for sets in (1, 3))
    assert three == pytest.approx(one)
    _, low, high = bootstrap_skill([errors] * 3, np.ones(3))
    assert one[1] < low < high < one[2]


@pytest.mark.slow  # 180 synthetic runs
def test_equal_values_are_called_different_rarely(tmp_path: Path) -> None:
    """Fifteen pairs of equal types: at most 5% of the verdicts, up to simulation error, call one worse.

    They differ by luck over seeds, most of which both widths of a seed share, as trained models do.
    """
    wrong = 0
    for number in range(15):
        root = tmp_path / str(number)
        luck = np.random.default_rng(number)
        for kind in ("full", "linear"):
            base, of_seeds = configuration(f"attention={kind}"), luck.normal(size=3)
            for width in (16, 32):
                for seed in range(3):
                    config = {**base, "seed": seed, "model": {**base["model"], "d_model": width}}
                    mse = 0.4 * (1 + 0.01 * of_seeds[seed] + 0.002 * luck.normal())
                    make_run(root / f"{kind}-{width}-{seed}", config, mse=mse, windows=200)
        factor = make_factor(root)
        assert factor is not None
        wrong += factor.verdict(factor.levels[1]) == "worse"
    assert wrong <= 2  # binomial(15, 0.05): above 2 with a probability of 3.6%


@pytest.mark.slow
def test_the_win_rate_is_over_comparisons_and_the_average_rank_over_tasks(tmp_path: Path) -> None:
    make_grid(tmp_path, {"full": 0.40, "linear": 0.44}, {16: 1.0, 32: 0.9, 64: 0.8}, (24,))
    make_grid(tmp_path, {"full": 0.44, "linear": 0.40}, {16: 1.0}, (48,))
    factor = make_factor(tmp_path)
    assert factor is not None
    assert (factor.win_rate("full"), factor.average_rank("full")) == (0.75, 1.5)


def test_one_seed_leaves_the_difference_unknown(tmp_path: Path) -> None:
    make_grid(tmp_path, {"full": 0.40, "linear": 0.44}, {16: 1.0, 32: 0.9}, (24,), seeds=1)
    factor = make_factor(tmp_path)
    assert factor is not None
    assert factor.verdict("linear") == ONE_SEED
    assert describe_factor(factor)[0].endswith("full has the lowest error (one seed: unknown).")


def test_a_type_of_one_seed_is_not_tested_against_seeds_without_effect(tmp_path: Path) -> None:
    """Full attention kept the linear model alone with each seed; what a second seed of the other changes is unknown."""
    for width, factor in ((16, 1.0), (32, 0.9)):
        for kind, seeds, error in (("full", 3, 0.44 * factor), ("linear", 1, 0.40 * factor)):
            for seed in range(seeds):
                base = configuration(f"attention={kind}")
                config = {**base, "seed": seed, "model": {**base["model"], "d_model": width}}
                folder = make_run(tmp_path / f"{kind}-{width}-{seed}", config, mse=error, windows=WINDOWS)
                losses = tmp_path / f"{kind}-{width}-0" / "errors_by_window.parquet"
                if seed:
                    shutil.copy(losses, folder)
    found = make_factor(tmp_path)
    assert found is not None
    assert found.verdict("full") == ONE_SEED
    task = found.tasks[0]
    verdicts = {entry.name: get_verdict(task, entry) for entry in task.variants}
    assert sorted(verdicts.values()) == sorted([BEST, ONE_SEED, ONE_SEED, ONE_SEED])


@pytest.mark.slow
def test_values_that_a_comparison_lacks_are_left_out(tmp_path: Path) -> None:
    make_grid(tmp_path, {"full": 0.40, "linear": 0.44}, {16: 1.0, 32: 0.9}, (24,))
    make_grid(tmp_path, {"nystrom": 0.42}, {16: 1.0}, (24,))
    factor = make_factor(tmp_path)
    assert factor is not None
    assert (factor.levels, factor.left_out) == (["full", "linear"], ["nystrom"])
    assert describe_factor(factor)[-1] == "Left out, because some comparisons lack them: nystrom."


def test_one_comparison_is_no_average_and_an_unknown_setting_is_refused(pair: Path) -> None:
    tasks = group_into_tasks(read_runs(find_run_folders([str(pair)]))[0])
    assert find_factor(tasks, "attention") is None
    for name in ("attention", "patch_len"):
        with pytest.raises(ConfigError):
            find_factor(tasks, name, required=True)


@pytest.mark.slow
def test_comparisons_that_make_the_same_forecasts_count_once(tmp_path: Path) -> None:
    make_grid(tmp_path, {"full": 0.40, "linear": 0.44}, {16: 1.0, 32: 0.9}, (24,))
    for folder in list(tmp_path.glob("*-16-*")):
        copy = tmp_path / folder.name.replace("-16-", "-64-")
        shutil.copytree(folder, copy)
        config = yaml.safe_load((copy / "config.yaml").read_text())
        config["model"]["d_model"] = 64
        (copy / "config.yaml").write_text(yaml.safe_dump(config))
    factor = make_factor(tmp_path)
    assert factor is not None
    assert len(factor.cells) == 2


@pytest.mark.slow
def test_values_that_make_the_same_forecasts_are_equivalent(tmp_path: Path) -> None:
    for kind in ("full", "probsparse"):
        for width, mse in ((16, 0.4), (32, 0.3)):
            for seed in range(2):
                config = configuration(f"attention={kind}")
                config = {**config, "seed": seed, "model": {**config["model"], "d_model": width}}
                make_run(tmp_path / f"{kind}-{width}-{seed}", config, mse=mse + 0.001 * seed)
    factor = make_factor(tmp_path)
    assert factor is not None
    assert factor.verdict("probsparse") == EQUAL
    assert describe_factor(factor)[0].endswith("all values make the same forecasts.")


@pytest.mark.slow
def test_ranks_are_tested_from_three_tasks_on(tmp_path: Path) -> None:
    make_grid(tmp_path, {"full": 0.40, "linear": 0.44, "nystrom": 0.42}, {16: 1.0}, (12, 24, 48), seeds=2)
    factor = make_factor(tmp_path)
    assert factor is not None
    assert factor.levels == ["full", "nystrom", "linear"]
    assert factor.critical_difference == pytest.approx(2.343 * np.sqrt(3 * 4 / (6 * 3)), rel=1e-3)
    table = make_factor_table(factor)
    assert [cells[0].text for _, cells in table.rows] == factor.levels
    ranks = [column.key for column in table.columns].index("rank")
    assert [cells[ranks].text for _, cells in table.rows] == ["1.00", "2.00", "3.00"]


@pytest.mark.slow
def test_the_csv_has_the_effect_with_its_interval(tmp_path: Path) -> None:
    make_grid(tmp_path, {"full": 0.40, "linear": 0.44, "nystrom": 0.42}, {16: 1.0}, (12, 24, 48), seeds=2)
    factor = make_factor(tmp_path)
    assert factor is not None
    table = pd.read_csv(StringIO(format_csv(make_factor_rows(factor)))).set_index("attention")
    assert list(table.index) == ["full", "nystrom", "linear"]
    low, high = factor.differences["linear"].interval()
    row = table.loc["linear"]
    assert (row["difference_low"], row["difference_high"]) == pytest.approx((low, high))
    assert low < row["difference"] < high
    assert row["verdict"] == factor.verdict("linear")
    assert (row["comparisons"], row["tasks"], row["average_rank"]) == (3, 3, 3.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention", "patch_len"])  # begins as the key of a column that is left out
def test_a_narrow_terminal_leaves_out_columns(tmp_path: Path, name: str) -> None:
    make_grid(tmp_path, {"probsparse": 0.40, "gated_delta": 0.44}, {16: 1.0, 32: 0.9}, (24,), seeds=2)
    factor, console = make_factor(tmp_path), Console(width=80)
    assert factor is not None
    table = fit_terminal(make_factor_table(replace(factor, name=name)), console)
    assert console.measure(table, options=console.options.update_width(1000)).maximum <= 80
    headings = [column.header for column in table.columns]
    assert headings[:4] == [name, "verdict", "vs best", "95 % interval"]
    assert "average rank" not in headings


@pytest.mark.slow
def test_the_tables_for_papers_have_the_factor_as_the_page_has_it(tmp_path: Path) -> None:
    make_grid(tmp_path, {"full": 0.40, "linear": 0.44}, {16: 1.0, 32: 0.9}, (24,))
    factor = make_factor(tmp_path)
    assert factor is not None
    table = make_factor_table(factor)
    markdown, latex = format_tables(MARKDOWN, [], factor), format_tables(LATEX, [], factor)
    for _, cells in table.rows:
        texts = [cell.text for cell in cells]
        row = [escape_markdown(text) for text in texts]
        assert (
            f"| {' | '.join([f'**{row[0]}**' if row[0] == factor.best else row[0], *row[1:]])} |" in markdown
        )
        assert " & ".join(map(escape_latex, texts[1:])) + r" \\" in latex
    for sentence in describe_factor(factor):
        assert escape_markdown(sentence) in markdown
        assert escape_latex(sentence) in latex
