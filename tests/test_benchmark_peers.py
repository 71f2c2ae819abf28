"""`scripts/benchmark_peers`: its command line, what it leaves behind when it cannot go on, and its page.

The peers themselves are not installed where the tests run.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from peers.options import parse
from peers.page import page, save, sections
from tables import markdown_table

ROOT = Path(__file__).parent.parent
SCRIPT = str(ROOT / "scripts" / "benchmark_peers")
OFFLINE = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}


def timing(case: str, model: str, precision: str, median: float) -> dict[str, object]:
    seconds = {"median": median, "fastest": median / 2, "slowest": median * 2}
    return {"case": case, "model": model, "precision": precision, **seconds}


RESULTS = {
    "command": "scripts/benchmark_peers --train",
    "quick": False,
    "hardware": {"device": "a CPU", "threads": 2, "system": "Linux", "torch": "2", "python": "3"},
    "versions": {"forecast": "1.2.3", "neuralforecast": "4.5.6"},
    "steps": [
        timing("96/48/24", "neuralforecast", "float32", 1.2),
        timing("96/48/24", "neuralforecast", "bfloat16", 0.6),
        timing("96/48/24", "ours, probsparse", "float32", 0.3),
        timing("336/168/168", "neuralforecast", "float32", 4.0),
        timing("336/168/168", "ours, full", "bfloat16", 0.5),
    ],
    "layers": [
        timing("512, 32 landmarks", "transformers", "float32", 0.03),
        timing("512, 32 landmarks", "ours", "float32", 0.06),
    ],
    "accuracy": [
        {
            "model": "transformers", "precision": "float32", "parameters": 12345678, "test_mse": 0.5774,
            "test_mae": 0.5496,
        }
    ],
}  # fmt: skip


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Begin it with an empty place for temporary folders: `folder`/tmp."""
    (folder / "tmp").mkdir()
    return subprocess.Popen(
        [sys.executable, SCRIPT, *arguments], cwd=folder, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(folder / "tmp"), **environment},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--repeats", "0"], "0 is not a whole number of at least 1"),
        (["--epochs", "two"], "two is not a whole number of at least 1"),
        (["--quick"], "--quick needs --out"),
        (["--fast"], "unrecognized arguments: --fast"),
    ],
)
def test_mistakes_are_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        parse(arguments)
    assert exit.value.code == 2
    assert message in capsys.readouterr().err


def test_results_land_in_the_docs_unless_told_otherwise() -> None:
    assert parse([]).out == ROOT / "docs" / "benchmarks"
    assert parse(["--out", "here"]).out == Path.cwd() / "here"


def test_help_answers_without_an_environment(tmp_path: Path) -> None:
    process = run(tmp_path, "--help")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "--data-root FOLDER" in out
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("kept", [False, True])
def test_a_failed_install_ends_in_one_line(kept: bool, tmp_path: Path) -> None:
    arguments = ["--env", "kept"] if kept else []
    process = run(tmp_path, "--out", "out", *arguments, **OFFLINE)
    _, err = process.communicate(timeout=200)
    assert process.returncode == 2
    (line,) = (line for line in err.splitlines() if line.startswith("error: "))
    assert "this project cannot be installed: " in line
    assert err.endswith(line + "\n")
    assert not list((tmp_path / "tmp").iterdir())
    assert not (tmp_path / "out").exists()
    assert (tmp_path / "kept" / "pyvenv.cfg").exists() == kept


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing_behind(sent: signal.Signals, tmp_path: Path) -> None:
    """While pip waits for an index that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(100)
        index = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        environment = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": index, "NO_PROXY": "127.0.0.1"}
        process = run(tmp_path, "--out", "out", **environment)
        connection, _ = silent.accept()
        with connection:
            assert list((tmp_path / "tmp").glob("peers-*/env/pyvenv.cfg"))
            time.sleep(0.2)
            process.send_signal(sent)
            _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err.splitlines()[-1] == "error: stopped before the end; no results were written"
    assert "Traceback" not in err
    assert not list((tmp_path / "tmp").iterdir())
    assert not (tmp_path / "out").exists()


def test_other_folders_are_not_taken_for_environments(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    process = run(tmp_path, "--env", "mine")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "mine holds other files" in err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_times_are_compared_within_a_case() -> None:
    steps, layers, scores = sections(RESULTS)
    assert [row[-1] for row in steps.rows] == ["1.00", "2.00", "4.00", "1.00", "8.00"]
    assert steps.rows[2][:5] == ["96/48/24", "ours, probsparse", "float32", "300.0", "150.0 – 600.0"]
    assert [row[-1] for row in layers.rows] == ["1.00", "0.50"]
    assert scores.rows == [["transformers", "float32", "12,345,678", "0.577", "0.550"]]


def test_scores_are_left_out_where_nothing_was_trained() -> None:
    titles = [section.title for section in sections({**RESULTS, "accuracy": []})]
    assert len(titles) == 2
    assert "Test scores" not in titles


def test_times_and_scores_lie_apart(tmp_path: Path) -> None:
    save(tmp_path, {**RESULTS, "accuracy": []})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["peers.json", "peers.md"]


def test_the_page_is_whole(tmp_path: Path) -> None:
    save(tmp_path / "new", RESULTS)
    written = (tmp_path / "new" / "peers-trained.md").read_text()
    assert written == page(RESULTS)
    names = ["peers-trained.json", "peers-trained.md"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == names
    assert json.loads((tmp_path / "new" / names[0]).read_text()) == RESULTS
    assert "a CPU, 2 threads" in written
    assert "forecast 1.2.3, neuralforecast 4.5.6" in written
    tables = [line for line in written.splitlines() if line.startswith("|")]
    assert len(tables) == 8 + 2 * 3  # rows; a header and its rule a table
    for section in sections(RESULTS):
        assert section.notes in written
        assert all(len(row) == len(section.header) for row in section.rows)
        assert markdown_table(section.header, section.rows)[0] in tables
