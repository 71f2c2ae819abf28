"""What the page says in words, of sure and of unsure differences."""

from pathlib import Path

import pytest

from forecast.comparison import page, papers, screen
from forecast.comparison.runs import find, read_all
from forecast.comparison.tables import verdict
from forecast.comparison.tasks import Task, tasks
from tests.comparison.made import configuration, make_run

WEAK = "only very large differences can show"


def compared(root: Path, *, windows: int, other: float) -> Task:
    for kind, mse in (("full", 0.4), ("linear", other)):
        make_run(root / kind, configuration(f"attention={kind}"), mse=mse, windows=windows)
    (task,) = tasks(read_all(find([str(root)]))[0])
    return task


@pytest.mark.parametrize(
    ("windows", "other", "said"),
    [
        (40, 0.5, "too few windows to tell"),  # no test at all
        (200, 0.4005, "too few windows to tell"),  # two degrees of freedom
        (1000, 0.4001, "not told apart"),
        (200, 4.0, "worse"),  # so large that even two show it
        (1000, 0.5, "worse"),
    ],
)
def test_the_verdict_says_where_there_are_too_few_windows(
    tmp_path: Path, windows: int, other: float, said: str
) -> None:
    task = compared(tmp_path, windows=windows, other=other)
    assert verdict(task, task.variants[1]) == said
    sentences = page.findings(task)
    assert any(s.startswith("Too few test windows to tell it from: linear.") for s in sentences) == (
        said[0] == "t"
    )
    assert any(s.startswith("Not told apart from it: linear (p up to") for s in sentences) == (said[0] == "n")
    assert (" †" in papers.markdown([task]).splitlines()[5]) == (said != "worse")


def test_runs_that_are_their_linear_map_alone_are_said(tmp_path: Path, capsys) -> None:
    for kind, epoch in {"full": 0, "linear": 4, "nystrom": 0}.items():
        make_run(tmp_path / kind, configuration(f"attention={kind}"), mse=0.4, best_epoch=epoch)
    found = tasks(read_all(find([str(tmp_path)]))[0])
    (said,) = [s for s in page.findings(found[0]) if "linear map alone" in s]
    assert said.startswith("2 of 3 runs kept the linear map alone: ")
    screen.show(found, [])
    assert said in capsys.readouterr().out


def test_the_note_says_how_little_a_few_horizons_can_show(tmp_path: Path) -> None:
    note = page.test_note(compared(tmp_path / "few", windows=100, other=0.41))
    assert note.startswith(f"The test windows span only 4 horizons: {WEAK}. Each variant's")
    assert "1 cosine term (" in note
    assert note.count("1 degree of freedom") == 1
    note = page.test_note(compared(tmp_path / "some", windows=671, other=0.41))
    assert "6 cosine terms (" in note
    assert "6 degrees of freedom" in note
    assert f"span only 27 horizons: {WEAK}" in note
    assert WEAK not in page.test_note(compared(tmp_path / "many", windows=800, other=0.41))
    assert "fewer than two horizons" in page.test_note(compared(tmp_path / "none", windows=40, other=0.41))


def test_one_is_singular(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "a", configuration("pred_len=1"), mse=0.4, windows=1)
    found = tasks(read_all(find([str(tmp_path / "runs")]))[0])
    assert page.section(found[0])["facts"].startswith("1 test window, ")
    assert "1 run compared by" in page.render("x", found, [])
