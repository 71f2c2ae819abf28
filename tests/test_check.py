"""`python -m forecast.check`: what it says of files with known faults, and that its suggested command runs."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from forecast.baselines import FittedBaselines, score
from forecast.check import check
from forecast.cli import command, main
from forecast.train import train
from tests.commands import ROOT
from tests.helpers import write_csv

TINY = (
    "model.d_model=8", "model.n_heads=2", "model.d_ff=8", "trainer.max_epochs=1", "+trainer.limit_train_batches=2",
    "callbacks.progress.refresh_rate=0", "logger=[]",
)  # fmt: skip


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, *overrides: str) -> int | str | None:
    """The command within this process; give its exit status."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["check", *overrides])
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    try:
        command("check", check)
    except SystemExit as exit:
        return exit.code
    return 0


def found(folder: Path) -> dict:
    return json.loads((folder / "check.json").read_text())


def table(rows: int, freq: str, period: int, start: str = "2021-03-01") -> pd.DataFrame:
    random = np.random.default_rng(rows)
    t = np.arange(rows)
    dates = pd.date_range(start, periods=rows, freq=freq)
    load = 100 + 10 * np.sin(2 * np.pi * t / period) + 2 * random.normal(size=rows)
    return pd.DataFrame({"date": dates, "load": load, "walk": random.normal(size=rows).cumsum()})


def with_gaps() -> pd.DataFrame:
    """Rows 200–249 and 400 missing, three numbers of `load`, one infinite number of `walk`."""
    frame = table(1_000, "h", 24)
    frame.loc[[10, 11, 700], "load"] = np.nan
    frame.loc[20, "walk"] = np.inf
    return frame.drop(index=[*range(200, 250), 400])


def test_from_a_shell(tmp_path: Path) -> None:
    write_csv(tmp_path / "my.csv", rows=400)
    arguments = [sys.executable, "-m", "forecast.check", "data.path=my.csv"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    result = subprocess.run(arguments, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "my.csv: 400 rows × 2 columns, every h, 2024-01-01 to 2024-01-17 15:00" in result.stdout
    assert "24 rows (a day): strong" in result.stdout
    assert found(tmp_path)["command"] in result.stdout
    assert Image.open(tmp_path / "check.png").width > 1_000
    again = subprocess.run(arguments, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert again.returncode == 2
    assert again.stderr == "error: check.png: is there already: give another output, or overwrite=true\n"


def test_the_real_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, etth1, data_root: Path) -> None:
    assert (
        run(monkeypatch, tmp_path, "data=etth1", f"data.root={data_root}", "seq_len=48", "pred_len=24") == 0
    )
    content = found(tmp_path)
    assert (content["rows"], content["freq"], content["gaps"]["missing_rows"]) == (17_420, "h", 0)
    assert {name: part["windows"] for name, part in content["split"].items()} == etth1.n_windows
    frame = pd.read_csv(data_root / "ETTh1.csv")
    training, test = frame[:8_640], frame[11_520:14_400]
    for column in content["columns"]:
        name = column["name"]
        assert column["mean"] == pytest.approx(frame[name].mean())
        expected = (test[name].mean() - training[name].mean()) / training[name].std(ddof=0)
        assert column["drift"] == pytest.approx(expected)
    assert [season["rows"] for season in content["seasons"]] == [24]
    fitted = FittedBaselines.fit(etth1)
    for name, rule in fitted.rules().items():
        expected = score(rule, etth1, fitted.new_errors(etth1))[0].scores()
        assert content["rules"]["scores"][name] == pytest.approx(
            {s: expected[s] for s in ("mse", "mae", "mase")}
        )


def test_gaps_are_counted_and_mended(monkeypatch, tmp_path: Path, capsys) -> None:
    with_gaps().to_csv(tmp_path / "my.csv", index=False)
    assert run(monkeypatch, tmp_path, "data.path=my.csv") == 0
    content, out = found(tmp_path), capsys.readouterr().out
    gaps = content["gaps"]
    assert (gaps["missing_rows"], gaps["stretches"], gaps["missing_numbers"]) == (51, 2, 4)
    assert gaps["longest"] == {"first": "2021-03-09T08:00:00", "last": "2021-03-11T09:00:00", "rows": 50}
    assert gaps["places"][0] == ["load", "2021-03-01T10:00:00"]
    assert content["refused_for_gaps"]
    assert content["suggested"]["data.fill"] == "previous"
    assert "training refuses this as it is" in out
    assert "2021-03-09 08:00 to 2021-03-11 09:00 (50 rows)" in out
    options = ("data.path=my.csv", "data.fill=zero", "overwrite=true")
    assert run(monkeypatch, tmp_path, *options) == 0
    assert not found(tmp_path)["refused_for_gaps"]
    assert "data.fill=zero" in found(tmp_path)["command"]


def test_useless_columns_are_left_out(monkeypatch, tmp_path: Path, capsys) -> None:
    frame = table(1_000, "h", 24).assign(flat=7.0, empty=np.nan)
    frame["late"] = frame["load"].where(frame.index > 30)
    frame["begun"] = frame["load"].where(frame.index >= 300, 0)
    frame.loc[[5, 900], "walk"] = 1e6
    frame.loc[500:540, "load"] = 111.0
    frame.to_csv(tmp_path / "my.csv", index=False)
    assert run(monkeypatch, tmp_path, "data.path=my.csv") == 0
    content = found(tmp_path)
    assert content["suggested"]["data.columns"] == ["load", "walk", "begun"]
    assert "data.fill" not in content["suggested"]  # the columns that are left have no gap
    facts = {column["name"]: column for column in content["columns"]}
    assert facts["flat"]["notes"] == ["constant"]
    assert facts["empty"]["notes"] == ["empty"]
    assert facts["late"]["leading_missing"] == 31
    assert facts["begun"]["leading_zeros"] == 300
    assert facts["walk"]["outliers"] == 2
    assert (facts["load"]["longest_run"], facts["load"]["run_from"]) == (41, "2021-03-21T20:00:00")
    assert (
        "without flat (constant), empty (empty), late (no number in its first 31 rows"
        in capsys.readouterr().out
    )


def with_late_columns(count: int) -> pd.DataFrame:
    """`count` columns, of which c3 begins after 31 rows and c7 after 12; c9 lacks one number."""
    load = table(500, "h", 24)
    columns = {f"c{i}": load["load"] * (i + 1) for i in range(count)}
    frame = pd.DataFrame({"date": load["date"], **columns})
    frame.loc[:30, "c3"] = np.nan
    frame.loc[:11, "c7"] = np.nan
    frame.loc[50, "c9"] = np.nan
    return frame


def test_zeros_are_not_advised_for_columns_that_begin_late(monkeypatch, tmp_path: Path, capsys) -> None:
    """With so many columns no command can list those to keep."""
    with_late_columns(30).to_csv(tmp_path / "my.csv", index=False)
    assert run(monkeypatch, tmp_path, "data.path=my.csv") == 0
    content, out = found(tmp_path), capsys.readouterr().out
    assert content["command"] is None
    assert content["unfillable"] == ["c3", "c7"]
    assert content["suggested"]["data.fill"] == "previous"  # for c9
    assert "fill=zero" not in out
    assert "python -m forecast.train" not in out
    advice = "c3, c7: no number in the first 31 rows: cut the first 31 rows, or leave the columns out (data.columns)"
    assert f"training refuses this: {advice}; what follows leaves them out" in out
    with_late_columns(30)[31:].to_csv(tmp_path / "my.csv", index=False)  # as advised
    assert run(monkeypatch, tmp_path, "data.path=my.csv", "overwrite=true") == 0
    assert "data.fill=previous" in found(tmp_path)["command"]


def test_zeros_are_not_advised_for_a_target_that_begins_late(monkeypatch, tmp_path: Path, capsys) -> None:
    with_late_columns(10).to_csv(tmp_path / "my.csv", index=False)
    assert run(monkeypatch, tmp_path, "data.path=my.csv", "data.target=c3") == 0
    assert found(tmp_path)["command"] is None
    assert found(tmp_path)["unfillable"] == ["c3"]
    assert "c3: no number in the first 31 rows" in capsys.readouterr().out
    options = ("data.path=my.csv", "data.target=c3", "data.fill=zero", "overwrite=true")
    assert run(monkeypatch, tmp_path, *options) == 0
    assert "data.fill=zero" in found(tmp_path)["command"]  # as asked


def test_a_failure_leaves_neither_file(monkeypatch, tmp_path: Path, capsys) -> None:
    table(300, "h", 24).to_csv(tmp_path / "my.csv", index=False)
    for part in ("content.content", "picture.draw", "files.write_json"):
        with monkeypatch.context() as patch:
            module, name = part.split(".")
            where = "forecast.files" if module == "files" else f"forecast.diagnosis.{module}"

            def fail(*_: object) -> None:
                raise OSError("no space left")

            patch.setattr(f"{where}.{name}", fail)
            assert run(patch, tmp_path, "data.path=my.csv") == 2
        assert "no space left" in capsys.readouterr().err
        assert [path.name for path in tmp_path.iterdir()] == ["my.csv"]


def test_steps_of_seconds(monkeypatch, tmp_path: Path, capsys) -> None:
    table(500, "10s", 36).to_csv(tmp_path / "my.csv", index=False)
    assert run(monkeypatch, tmp_path, "data.path=my.csv") == 0
    assert "500 rows × 2 columns, every 10s, 2021-03-01 to 2021-03-01 01:23:10" in capsys.readouterr().out


def write_german(path: Path) -> None:
    frame = table(1_500, "15min", 96).rename(columns={"date": "Zeit", "load": "Last, MW", "walk": "Ziel[1]"})
    frame["Zeit"] = frame["Zeit"].dt.strftime("%d.%m.%Y %H:%M")
    frame["still"] = 1
    frame.to_csv(path, index=False, sep=";", decimal=",")


FILES = {
    "gaps": (with_gaps, ()),
    "monthly": (lambda: table(60, "MS", 12), ()),
    "business days": (lambda: table(300, "B", 5), ("data.target=load",)),
    "twelve rows": (lambda: table(12, "h", 24), ()),
    "too long a wish": (lambda: table(300, "h", 24), ("seq_len=500", "pred_len=96", "label_len=400")),
    "german": (
        None, ("data.separator=;", "data.decimal=,", "data.date_column=Zeit", "data.target=Ziel[1]",
               "data.date_format=%d.%m.%Y %H:%M", "seq_len=24", "pred_len=8"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_the_suggested_command_runs(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make, options = FILES[name]
    if make is None:
        write_german(tmp_path / "my file.csv")
    else:
        make().to_csv(tmp_path / "my file.csv", index=False)
    assert run(monkeypatch, tmp_path, "data.path=my file.csv", *options) == 0
    content = found(tmp_path)
    python, _, module, *arguments = shlex.split(content["command"])
    assert (python, module) == ("python", "forecast.train")
    monkeypatch.setattr(sys, "argv", ["train", *arguments, *TINY])
    main("train", train)
    (path,) = tmp_path.glob("runs/*/metrics.json")
    metrics = json.loads(path.read_text())
    suggested, rules = content["suggested"], content["rules"]
    assert (metrics["seq_len"], metrics["pred_len"]) == (suggested["seq_len"], suggested["pred_len"])
    for rule, scores in metrics["baselines"].items():  # what is to beat is what training reports
        assert rules["scores"][rule]["mse"] == pytest.approx(scores["mse"], rel=1e-6)


def test_what_fits_is_suggested_in_place_of_what_does_not(monkeypatch, tmp_path: Path, capsys) -> None:
    table(300, "h", 24).to_csv(tmp_path / "my.csv", index=False)
    assert run(monkeypatch, tmp_path, "data.path=my.csv", "pred_len=96") == 0
    content = found(tmp_path)
    assert content["pred_len"] == 96
    assert content["split"]["val"]["windows"] == 0
    assert content["suggested"]["pred_len"] == 30  # rows of the validation part
    assert "TOO SHORT" in capsys.readouterr().out


def test_many_columns_stay_readable(monkeypatch, tmp_path: Path, capsys) -> None:
    frame = table(500, "h", 24)
    many = pd.DataFrame({f"c{i}": frame["load"] * (i + 1) for i in range(321)})
    many.loc[3, "c200"] = 1e9
    many.insert(0, "date", frame["date"])
    many.to_csv(tmp_path / "my.csv", index=False)
    assert run(monkeypatch, tmp_path, "data.path=my.csv") == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) < 55
    assert "c200" in out
    assert "... and 305 more" in out
    assert len(found(tmp_path)["columns"]) == 321


@pytest.mark.parametrize(
    ("spoil", "options", "message"),
    [
        (lambda f: f.assign(load="much"), (), "my.csv, line 2, column 'load': 'much' is not a number"),
        (
            lambda f: f.iloc[[0, 1, 1, 2, 3]],
            (),
            "my.csv, line 4, column 'date': 2021-03-01 01:00:00 is in line 3",
        ),
        (lambda f: f[:4], (), "4 rows leave none for the test part"),
        (lambda f: f, ("data.target=lod",), "data.target=lod is not a column: there are load, walk"),
        (lambda f: f, ("features=MS",), "features=MS needs data.target, one of: load, walk"),
        (lambda f: f, ("output=check.doc",), "output=check.doc: the picture must end in .png, .svg, .pdf"),
        (lambda f: f, ("output=null",), "output=null: a name is needed"),
        (lambda f: f, ("data.split=test",), "data.split=test is one part"),
    ],
)
def test_other_mistakes_end_in_one_line(spoil, options, message, monkeypatch, tmp_path: Path, capsys) -> None:
    spoil(table(100, "h", 24)).to_csv(tmp_path / "my.csv", index=False)
    assert run(monkeypatch, tmp_path, "data.path=my.csv", *options) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert [path.name for path in tmp_path.iterdir()] == ["my.csv"]
