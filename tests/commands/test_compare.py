import re
from pathlib import Path

import pandas as pd
import pytest
from omegaconf import OmegaConf

from forecast import compare as command
from forecast.reports.compare.tables import make_short_table
from forecast.reports.tables import escape_latex, escape_markdown, write_latex, write_markdown
from tests.support.commands import run_command
from tests.support.synthetic_runs import compare as compare_folder
from tests.support.synthetic_runs import configuration, make_run, make_variants

FILES = ["comparison.csv", "comparison.html", "comparison.md", "comparison.pdf", "comparison.tex"]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_the_page_and_the_tables_are_written_and_existing_files_kept(pair: Path, tmp_path: Path, capsys) -> None:
    make_run(tmp_path / "runs" / "stopped", configuration(), mse=1.0)
    (tmp_path / "runs" / "stopped" / "metrics.json").unlink()
    (tmp_path / "comparison.tex").write_text("mine")
    assert run_command("compare", tmp_path, "runs") == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert files(tmp_path) == ["comparison.tex"]
    given = ["runs=[runs]", "title='Load, next day'", "overwrite=true"]
    assert run_command("compare", tmp_path, *given) == 0
    out = capsys.readouterr().out
    assert files(tmp_path) == FILES
    said = ("sample, 24 steps ahead", "linear baseline", "0.415 ± 0.007", "excluded: stopped: did not finish")
    assert all(text in out for text in said)
    assert out.splitlines()[-1].startswith("saved comparison.html")
    page = (tmp_path / "comparison.html").read_text()
    assert "<h1>Load, next day</h1>" in page
    assert "<code>stopped</code>: did not finish" in page
    assert str(tmp_path) not in page
    assert list(pd.read_csv(tmp_path / "comparison.csv")["name"])[:3] == ["full", "linear", "linear baseline"]
    assert (tmp_path / "comparison.md").read_text().startswith("## sample, 24 steps ahead")
    assert (tmp_path / "comparison.tex").read_text().startswith("% Needs")
    charts = page.count('class="plot"')
    assert (tmp_path / "comparison.pdf").read_bytes().count(b"/Type /Page ") == charts > 3


@pytest.mark.parametrize(
    ("mse", "facts", "page", "last"),
    [
        (0.4, {}, "", "forecast predict checkpoint=FOLDER/1"),
        (0.6, {}, "", " baseline=linear"),
        (0.4, {"validation_quantile_loss": [0.0, 1.0]}, " score=crps", "checkpoint=FOLDER/0"),
    ],
    ids=["the model is best", "a baseline is best", "trained quantiles are compared by CRPS"],
)
def test_the_last_line_after_a_sweep_forecasts_with_what_is_best(
    mse: float, facts: dict[str, list[float]], page: str, last: str, tmp_path: Path, capsys
) -> None:
    for seed in (0, 1):
        own = {"validation_mse": 1.0 - seed, **{name: values[seed] for name, values in facts.items()}}
        config = {**configuration(), "seed": seed}
        make_run(tmp_path / str(seed), config, mse=mse + 1e-4 * seed, windows=1000, **own)  # type: ignore[reportArgumentType]
    command.show_sweep(tmp_path)
    *_, comparison, best = capsys.readouterr().out.splitlines()
    assert comparison.endswith(f"{tmp_path}{page}")
    assert best.endswith(last.replace("FOLDER", str(tmp_path)))
    assert best.startswith("forecast with linear baseline:  forecast predict ") == (mse > 0.5)


def run_here(folder: Path, **changed: object) -> None:
    config = {
        "runs": [str(folder / "runs")], "output": str(folder / "comparison.html"), "overwrite": False, "title": "x",
        "score": "mse", "reference": "best",
    }  # fmt: skip
    command.compare(OmegaConf.create(config | changed))


def test_either_all_files_are_written_or_none(pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        # not encodable: the second file fails
        patch.setattr("forecast.reports.compare.tables.format_csv", lambda rows: "\udc00")
        with pytest.raises(UnicodeEncodeError):
            run_here(tmp_path)
    assert files(tmp_path) == []
    run_here(tmp_path)
    assert files(tmp_path) == FILES


def test_the_paper_tables(tmp_path: Path) -> None:
    for name, mse, mae, ms in (("full", 0.40, 0.5, 9.0), ("linear", 0.45, 0.4, 1.0)):
        make_variants(tmp_path, {name: mse}, mae=mae, ms_per_window=ms)
    (task,) = compare_folder(tmp_path)
    table = make_short_table(task)
    rows = [line for line in write_markdown(table).splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {len(table.columns) + 1}
    assert rows[2].startswith("| **full** | **lowest** | 2 | **0.400 ± 0.000** | – | – | – | 0.500")
    assert rows[3].startswith("| linear | worse | 2 | 0.450 ± 0.000 | +12.5% |")
    assert "| **0.400 ± 0.000** |" in rows[3]  # the lowest MAE
    assert rows[4].startswith("| *linear baseline* | worse | – | 0.500 |")
    latex = write_latex(table)
    body = latex[latex.index(r"\midrule") : latex.index(r"\bottomrule")].splitlines()[1:-1]
    assert {line.count(" & ") for line in body} == {len(table.columns) - 1}
    assert body[0].startswith(r"    \textbf{full} & \textbf{lowest} & 2 & \textbf{0.400 $\pm$ 0.000} &")
    assert latex.isascii()


def test_names_are_escaped_in_the_paper_tables() -> None:
    assert escape_latex(r"a_b & 50% {x} \y ~ ^ < #$") == (
        r"a\_b \& 50\% \{x\} \textbackslash{}y \textasciitilde{} \textasciicircum{} $<$ \#\$"
    )
    assert escape_markdown("a|b *c* <i> [d](e)\nf") == r"a\|b \*c\* \<i\> \[d\](e) f"


def test_crps_ranks_where_every_run_has_it(tmp_path: Path) -> None:
    make_variants(tmp_path / "runs", {"full": 0.4, "linear": 0.45})
    assert run_here(tmp_path, score="crps") is None
    markdown = (tmp_path / "comparison.md").read_text()
    assert markdown.splitlines()[4].startswith("| variant | verdict | seeds | CRPS | vs best | 95% interval | p |")
    assert "lowest CRPS" in markdown


def test_no_name_is_a_formula_in_the_table_of_a_comparison(tmp_path: Path) -> None:
    for number, name in enumerate(("=1+1", "@x", "-2", "plain")):
        config = configuration("attention=full")
        config["model"]["attention"]["name"] = name
        make_run(tmp_path / "runs" / f"run{name}", config, mse=0.5 + number, attention=name)
    assert run_command("compare", tmp_path, "runs=[runs]") == 0
    table = pd.read_csv(tmp_path / "comparison.csv")
    assert {"'=1+1", "'@x", "'-2", "plain"} <= set(table["name"])
    assert table["skill"].dtype == float
