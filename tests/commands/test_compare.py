"""The command `python -m forecast.compare` and its files."""

import os
import re
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from omegaconf import OmegaConf

from forecast import compare as command
from forecast.reports.compare.grouping import group_into_tasks
from forecast.reports.compare.run_folders import find_run_folders, read_runs
from forecast.reports.compare.tables import NOTE, make_short_table
from forecast.reports.compare.writers import LATEX, MARKDOWN, escape_latex, escape_markdown, format_tables
from tests.support.commands import ROOT
from tests.support.fork_server import run_python
from tests.support.synthetic_runs import configuration, make_many, make_run

FILES = ["comparison.csv", "comparison.html", "comparison.md", "comparison.tex"]


def compare(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return run_python(["-m", "forecast.compare", *arguments], cwd=folder, env=env)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_the_page_and_the_tables_are_written_and_named(pair: Path, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "stopped", configuration(), mse=1.0)
    (tmp_path / "runs" / "stopped" / "metrics.json").unlink()
    result = compare(tmp_path, "runs", "title=Load, next day")
    assert result.returncode == 0, result.stderr
    assert files(tmp_path) == FILES
    for text in (
        "sample, 24 steps ahead",
        "full",
        "linear baseline",
        "0.415 ± 0.007",
        "excluded: stopped: did not finish",
    ):
        assert text in result.stdout
    assert result.stdout.splitlines()[-1].startswith("saved comparison.html")
    page = (tmp_path / "comparison.html").read_text()
    assert "<h1>Load, next day</h1>" in page
    assert "<code>stopped</code>: did not finish" in page
    assert str(tmp_path) not in page


def test_crps_ranks_where_it_is_the_score(pair: Path, tmp_path: Path) -> None:
    result = compare(tmp_path, "runs", "score=crps")
    assert result.returncode == 0, result.stderr
    markdown = (tmp_path / "comparison.md").read_text()
    assert "| CRPS |" in markdown
    headings = re.findall(r"<th[^>]*>.*?</th>", (tmp_path / "comparison.html").read_text(), flags=re.DOTALL)
    names = [re.sub("<[^>]*>", "", heading).strip() for heading in headings]
    assert [name.partition(" ")[0] for name in names[2:5]] == [
        "seeds",
        "CRPS",
        "vs",
    ]  # the test is of this score
    assert "lowest CRPS" in markdown
    windows = tmp_path / "runs" / "full-1" / "errors_by_window.parquet"
    pd.read_parquet(windows).drop(columns="model_crps").to_parquet(windows)
    result = compare(tmp_path, "runs", "score=crps", "overwrite=true")
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)


@pytest.mark.parametrize("mse", [0.4, 0.6])
def test_the_last_line_after_a_sweep_forecasts_with_what_is_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mse: float
) -> None:
    for seed in (0, 1):
        config = {**configuration(), "seed": seed}
        make_run(tmp_path / str(seed), config, mse=mse + 1e-4 * seed, windows=1000, validation_mse=1.0 - seed)
    command.show_sweep(tmp_path)
    last = capsys.readouterr().out.splitlines()[-1]
    if mse < 0.5:
        assert last.endswith(f"python -m forecast.predict checkpoint={tmp_path}/1")
    else:
        assert last.startswith("forecast with linear baseline:  python -m forecast.predict ")
        assert last.endswith(" baseline=linear")


def test_a_sweep_of_trained_quantiles_is_compared_by_crps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (0, 1):
        make_run(
            tmp_path / str(seed), {**configuration(), "seed": seed}, mse=0.4, windows=1000,
            validation_mse=1.0 - seed, validation_quantile_loss=float(seed),
        )  # fmt: skip
    command.show_sweep(tmp_path)
    *_, page, best = capsys.readouterr().out.splitlines()
    assert page.endswith(f"{tmp_path} score=crps")
    assert best.endswith(f"{tmp_path}/0")


def test_existing_files_are_replaced_only_with_overwrite(pair: Path, tmp_path: Path) -> None:
    (tmp_path / "comparison.tex").write_text("mine")
    refused = compare(tmp_path, "runs")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert files(tmp_path) == ["comparison.tex"]
    assert compare(tmp_path, "runs/*", "overwrite=true").returncode == 0
    assert files(tmp_path) == FILES
    assert (tmp_path / "comparison.tex").read_text() != "mine"


def test_either_all_files_are_written_or_none(
    pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {
        "runs": [str(pair)],
        "output": str(tmp_path / "comparison.html"),
        "overwrite": False,
        "title": "x",
        "score": "mse",
        "reference": "best",
        "by": "attention",
        "retime": False,
    }
    with monkeypatch.context() as patch:
        patch.setattr(
            "forecast.reports.compare.writers.format_csv", lambda rows: "\udc00"
        )  # not encodable: the second file fails
        with pytest.raises(UnicodeEncodeError):
            command.compare(OmegaConf.create(config))
    assert files(tmp_path) == []
    command.compare(OmegaConf.create(config))
    assert files(tmp_path) == FILES


def test_an_effect_over_two_comparisons_has_a_file(tmp_path: Path) -> None:
    for attention, mse in {"full": 0.4, "linear": 0.5}.items():
        for width in (16, 32):
            config = configuration(f"attention={attention}", f"model.d_model={width}")
            make_run(tmp_path / "runs" / f"{attention}-{width}", config, mse=mse + width / 1000)
    assert compare(tmp_path, "runs").returncode == 0
    assert files(tmp_path) == ["comparison-by-attention.csv", *FILES]
    assert list(pd.read_csv(tmp_path / "comparison-by-attention.csv")["attention"]) == ["full", "linear"]


def test_the_csv_contains_scores_costs_and_tests(pair: Path, tmp_path: Path) -> None:
    compare(tmp_path, "runs")
    table = pd.read_csv(tmp_path / "comparison.csv").set_index("name")
    (task,) = group_into_tasks(read_runs(find_run_folders([str(pair)]))[0])
    assert list(table.index) == ["full", "linear", "linear baseline", "seasonal naive", "naive"]
    for entry in (*task.variants, *task.baselines):
        assert table.loc[entry.name, "mse"] == pytest.approx(entry.mean("mse"))
        assert table.loc[entry.name, "kind"] == ("baseline" if entry.is_baseline else "variant")
    assert table.loc["linear", "p_adjusted"] == pytest.approx(task.differences["linear"].adjusted_p_value)
    assert table.loc["full", "n_parameters"] == 32000
    assert table["attention"].iloc[:2].tolist() == ["full", "linear"]


def test_the_paper_tables(pair: Path) -> None:
    (task,) = group_into_tasks(read_runs(find_run_folders([str(pair)]))[0])
    markdown = format_tables(MARKDOWN, [task]).splitlines()
    table = [line for line in markdown if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {len(make_short_table(task).columns)}
    assert table[2].startswith("| full | 2 | **0.415 ± 0.007** |")
    assert table[4].startswith("| *linear baseline* | – | 0.500 |")
    latex = format_tables(LATEX, [task])
    body = latex[latex.index(r"\midrule") : latex.index(r"\bottomrule")].splitlines()[1:-1]
    assert {line.count(" & ") for line in body} == {len(make_short_table(task).columns) - 2}
    assert all(line.endswith(r" \\") for line in body)
    assert body[0].startswith(r"    full & 2 & \textbf{0.415 $\pm$ 0.007} &")
    assert latex.count("{") == latex.count("}")
    assert latex.isascii()


def test_the_best_of_each_column_is_bold(tmp_path: Path) -> None:
    for name, mse, mae, ms in (("full", 0.40, 0.5, 9.0), ("linear", 0.45, 0.4, 1.0)):
        config = configuration(f"attention={name}")
        make_run(tmp_path / name, config, mse=mse, mae=mae, ms_per_window=ms)
    (task,) = group_into_tasks(read_runs(find_run_folders([str(tmp_path)]))[0])
    full, linear = format_tables(MARKDOWN, [task]).splitlines()[4:6]
    assert full.startswith("| full | 1 | **0.400** | 0.500 | **0.200** | – | – | 9 |")
    assert linear.startswith("| linear | 1 | 0.450 † | **0.400** | 0.1000 | +12.5 % – | – | **1** |")
    body = format_tables(LATEX, [task]).splitlines()
    (full,), (linear,) = ([line for line in body if line.startswith(f"    {n} ")] for n in ("full", "linear"))
    assert r"\textbf{0.400} & 0.500 & \textbf{0.200} & -- & -- & 9 &" in full
    assert r" & \textbf{0.400} & 0.1000 & " in linear
    assert r" & \textbf{1} & " in linear
    assert "Bold: best variant of the column" in NOTE


def test_names_are_escaped_in_the_paper_tables() -> None:
    assert escape_latex(r"a_b & 50% {x} \y ~ ^ < #$") == (
        r"a\_b \& 50\% \{x\} \textbackslash{}y \textasciitilde{} \textasciicircum{} $<$ \#\$"
    )
    assert escape_markdown("a|b *c* <i> [d](e)\nf") == r"a\|b \*c\* \<i\> \[d\](e) f"


@pytest.mark.slow
@pytest.mark.parametrize(("widths", "seeds"), [(8, 5), pytest.param(40, 1, marks=pytest.mark.long)])
@pytest.mark.long
def test_two_hundred_runs(tmp_path: Path, widths: int, seeds: int) -> None:
    assert len(make_many(tmp_path / "runs", widths=widths, seeds=seeds)) == 200
    result = compare(tmp_path, "runs")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "comparison.html").stat().st_size < 15e6
