"""`python -m forecast.compare` as a user runs it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from omegaconf import OmegaConf

from forecast import compare as command
from forecast.comparison import papers
from forecast.comparison.papers import in_latex, in_markdown
from forecast.comparison.runs import find, read_all
from forecast.comparison.tasks import tasks
from tests.comparison.made import configuration, make_many, make_run

FILES = ["comparison.csv", "comparison.html", "comparison.md", "comparison.tex"]


def compare(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "forecast.compare", *arguments], cwd=folder, capture_output=True, text=True,
        timeout=200, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_writes_the_page_and_the_tables_and_says_so(pair: Path, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "stopped", configuration(), mse=1.0)
    (tmp_path / "runs" / "stopped" / "metrics.json").unlink()
    result = compare(tmp_path, "runs", "title=Load, next day")
    assert result.returncode == 0, result.stderr
    assert files(tmp_path) == FILES
    for text in (
        "sample, 24 steps ahead",
        "full",
        "linear map",
        "0.415 ± 0.007",
        "left out: stopped: did not finish",
    ):
        assert text in result.stdout
    assert result.stdout.splitlines()[-1].startswith("saved comparison.html")
    page = (tmp_path / "comparison.html").read_text()
    assert "<h1>Load, next day</h1>" in page
    assert "<code>stopped</code>: did not finish" in page
    assert str(tmp_path) not in page


def test_existing_files_are_kept_unless_told_otherwise(pair: Path, tmp_path: Path) -> None:
    (tmp_path / "comparison.tex").write_text("mine")
    refused = compare(tmp_path, "runs")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "comparison.tex: is there already" in refused.stderr
    assert files(tmp_path) == ["comparison.tex"]
    assert compare(tmp_path, "runs/*", "overwrite=true").returncode == 0
    assert files(tmp_path) == FILES
    assert (tmp_path / "comparison.tex").read_text() != "mine"


def test_all_files_or_none(pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {
        "runs": [str(pair)],
        "output": str(tmp_path / "comparison.html"),
        "overwrite": False,
        "title": "x",
    }
    with monkeypatch.context() as patch:
        patch.setattr(papers, "latex", lambda tasks: "\udc00")  # cannot be encoded: the last file fails
        with pytest.raises(UnicodeEncodeError):
            command.compare(OmegaConf.create(config))
    assert files(tmp_path) == []
    command.compare(OmegaConf.create(config))
    assert files(tmp_path) == FILES


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name the runs to compare"),
        (["nowhere"], "nowhere: there is no such folder"),
        (["empty/notes.txt"], "no finished run in empty/notes.txt (no folders)"),
        (["runs/full-1", "output=page.pdf"], "the page is an HTML file"),
        (["empty"], "no finished run in empty (empty: not a run folder)"),
        (["stopped"], "no finished run in stopped (stopped: did not finish)"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(
    pair: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").touch()
    make_run(tmp_path / "stopped", configuration(), mse=1.0)
    (tmp_path / "stopped" / "metrics.json").unlink()
    result = compare(tmp_path, *arguments)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert files(tmp_path) == []


def test_the_csv_has_every_number(pair: Path, tmp_path: Path) -> None:
    compare(tmp_path, "runs")
    table = pd.read_csv(tmp_path / "comparison.csv").set_index("name")
    (task,) = tasks(read_all(find([str(pair)]))[0])
    assert list(table.index) == ["full", "linear", "linear map", "seasonal naive", "naive"]
    for entry in (*task.variants, *task.baselines):
        assert table.loc[entry.name, "mse"] == pytest.approx(entry.mean("mse"))
        assert table.loc[entry.name, "kind"] == ("baseline" if entry.is_baseline else "variant")
    assert table.loc["linear", "p_adjusted"] == pytest.approx(task.differences["linear"].adjusted)
    assert table.loc["full", "n_parameters"] == 32000
    assert table["attention"].iloc[:2].tolist() == ["full", "linear"]


def test_the_tables_for_papers(pair: Path) -> None:
    (task,) = tasks(read_all(find([str(pair)]))[0])
    markdown = papers.markdown([task]).splitlines()
    table = [line for line in markdown if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {len(papers.HEADINGS) + 1}
    assert table[2].startswith("| full | 2 | **0.415 ± 0.007** |")
    assert table[4].startswith("| *linear map* | – | 0.500 |")
    latex = papers.latex([task])
    body = latex[latex.index(r"\midrule") : latex.index(r"\bottomrule")].splitlines()[1:-1]
    assert {line.count(" & ") for line in body} == {len(papers.HEADINGS) - 1}
    assert all(line.endswith(r" \\") for line in body)
    assert body[0].startswith(r"    full & 2 & \textbf{0.415 $\pm$ 0.007} &")
    assert latex.count("{") == latex.count("}")
    assert latex.isascii()


def test_the_best_of_each_column_is_bold(tmp_path: Path) -> None:
    for name, mse, mae, ms in (("full", 0.40, 0.5, 9.0), ("linear", 0.45, 0.4, 1.0)):
        folder = make_run(tmp_path / name, configuration(f"attention={name}"), mse=mse, ms_per_window=ms)
        content = json.loads((folder / "metrics.json").read_text())
        content["test"]["mae"] = mae
        (folder / "metrics.json").write_text(json.dumps(content))
    (task,) = tasks(read_all(find([str(tmp_path)]))[0])
    full, linear = papers.markdown([task]).splitlines()[4:6]
    assert full.startswith("| full | 1 | **0.400** | 0.500 | **0.200** | – | 9 |")
    assert linear.startswith("| linear | 1 | 0.450 | **0.400** | 0.1000 | 0.001 | **1** |")
    body = papers.latex([task]).splitlines()
    (full,), (linear,) = ([line for line in body if line.startswith(f"    {n} ")] for n in ("full", "linear"))
    assert r"\textbf{0.400} & 0.500 & \textbf{0.200} & -- & 9 &" in full
    assert r" & \textbf{0.400} & 0.1000 & " in linear
    assert r" & \textbf{1} & " in linear
    assert "bold: the best variant of each column" in papers.NOTE


def test_names_are_text_in_the_tables_for_papers() -> None:
    assert in_latex(r"a_b & 50% {x} \y ~ ^ < #$") == (
        r"a\_b \& 50\% \{x\} \textbackslash{}y \textasciitilde{} \textasciicircum{} $<$ \#\$"
    )
    assert in_markdown("a|b *c* <i> [d](e)\nf") == r"a\|b \*c\* \<i\> \[d\](e) f"


def test_help_loads_no_pandas() -> None:
    code = (
        "import runpy, sys; sys.argv = ['compare', '--help']\n"
        "try: runpy.run_module('forecast.compare', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'pandas', 'plotly', 'jinja2'} & set(sys.modules)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "python -m forecast.compare RUNS" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("widths", "seeds"), [(8, 5), (40, 1)])
def test_two_hundred_runs(tmp_path: Path, widths: int, seeds: int) -> None:
    assert len(make_many(tmp_path / "runs", widths=widths, seeds=seeds)) == 200
    result = compare(tmp_path, "runs")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "comparison.html").stat().st_size < 15e6
