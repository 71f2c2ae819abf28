"""A user's mistake: one line on stderr, exit status 2, nothing half-written."""

import sys
from pathlib import Path

import pandas as pd
import pytest
import torch

from forecast.cli import main
from forecast.configuration import composed
from forecast.train import train
from tests.helpers import TINY, write_csv


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "good.csv"
    write_csv(path, rows=300)
    return path


@pytest.fixture
def fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    """Run `python -m forecast.train` on these overrides and give its one line."""

    def run(*overrides: str) -> str:
        fixed = [*TINY, "logger=[]", "trainer.max_epochs=1", "callbacks.progress.refresh_rate=0"]
        root = (
            [] if any(o.startswith("output_root=") for o in overrides) else [f"output_root={tmp_path}/runs"]
        )
        monkeypatch.setattr(sys, "argv", ["train", *fixed, *root, *overrides])
        monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
        with pytest.raises(SystemExit) as exit:
            main("train", train)
        assert exit.value.code == 2
        error = capsys.readouterr().err
        lines = [line for line in error.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, error
        assert "Traceback" not in error
        assert "-m" in overrides or "became" in lines[0] or not (tmp_path / "runs").exists()
        return lines[0]

    return run


def csv(folder: Path, text: str | bytes) -> str:
    path = folder / "bad.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return f"data.path={path}"


HOURS = [f"2024-01-{1 + h // 24:02d} {h % 24:02d}:00:00" for h in range(300)]


def rows(change: dict[int, str] | None = None, header: str = "date,load") -> str:
    lines = [f"{date},{100 + i % 7}" for i, date in enumerate(HOURS)]
    for number, line in (change or {}).items():
        lines[number - 2] = line  # numbered as in the file, the header being line 1
    return "\n".join([header, *lines]) + "\n"


TABLES = {
    "empty": ("", ["bad.csv", "empty"]),
    "header only": ("date,load\n", ["bad.csv"]),
    "duplicate columns": (rows(header="load,load"), ["load"]),
    "no date column": (rows(header="when,load"), ["date", "when"]),
    "text": (rows({10: f"{HOURS[8]},many"}), ["load", "line 10", "many"]),
    "missing": (rows({11: f"{HOURS[9]},"}), ["load", "line 11", "fill"]),
    "infinite": (rows({12: f"{HOURS[10]},inf"}), ["load", "line 12"]),
    "unparsable date": (rows({13: "yesterday,5"}), ["date", "line 13", "yesterday"]),
    "duplicate date": (rows({14: f"{HOURS[11]},5"}), ["line 14"]),
    "unsorted dates": (rows({15: f"{HOURS[2]},5"}), ["line 15"]),
    "irregular dates": (rows({301: "2024-01-13 11:07:00,5"}), ["line 301"]),
    "too few rows": ("\n".join(rows().splitlines()[:25]) + "\n", ["rows", "needs"]),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(name: str, fails, tmp_path: Path) -> None:
    text, words = TABLES[name]
    line = fails("data=csv", csv(tmp_path, text))
    for word in words:
        assert word in line


def test_a_missing_file(fails) -> None:
    assert "nowhere.csv" in fails("data=csv", "data.path=nowhere.csv")


def test_no_file_given(fails) -> None:
    assert "data.path" in fails("data=csv")


def test_a_missing_target(fails, good: Path) -> None:
    line = fails("data=csv", f"data.path={good}", "data.target=laod")
    assert "laod" in line
    assert "load, temperature" in line


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["attention=probspars"], "did you mean probsparse"),
        (["model.d_modle=8"], "did you mean model.d_model"),
        (["model.d_model=9"], "d_model 9 is not divisible by n_heads 2"),
        (["label_len=13"], "label_len=13 must lie between 0 and seq_len=12"),
        (["seq_len=0"], "seq_len=0"),
        (["pred_len=-3"], "pred_len=-3"),
        (["label_len=-1"], "label_len=-1"),
        (["loss=rmse"], "loss=rmse is unknown; choose one of mse, mae, huber"),
        (["attention=nystrom", "model.attention.decoder.role=causal"], "cannot serve role 'causal'"),
        (["trainer.precision=16-mixed", "trainer.accelerator=cpu"], "trainer.precision=16-mixed needs a GPU"),
        (["trainer.precision=half"], "half"),
        (["resume=always"], "resume=always"),
        (["logger.mode=on"], "logger.mode=on"),
        (["feature_map=cosine", "attention=linear"], "cosine"),
        (["sampling=none"], "none"),
        (["factor=0"], "factor"),
        (["optimizer.lr=-1"], "-1"),
        (["features=X"], "features=X"),
        (["attention=fastformer", "+model.attention.encoder.interacton=add"], "interacton"),
        (["+optimizer.speed=2"], "speed"),
        (["data.scaler=log"], "data.scaler=log"),
        (["data.split=[0.5,0.6]"], "data.split"),
        (["data.batch_size=0"], "data.batch_size=0"),
        (["trainer.max_epochs=0"], "trainer.max_epochs=0"),
    ],
)
def test_settings(overrides: list[str], message: str, fails, good: Path) -> None:
    assert message in fails("data=csv", f"data.path={good}", *overrides)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(fails, good: Path) -> None:
    assert "gpu" in fails("data=csv", f"data.path={good}", "trainer=gpu")


def test_a_finished_run_has_no_epoch_left(fails, good: Path, tmp_path: Path) -> None:
    config = composed(
        *TINY,
        "data=csv",
        f"data.path={good}",
        "logger=[]",
        "trainer.max_epochs=1",
        "callbacks.progress.refresh_rate=0",
    )
    config.output_dir = str(tmp_path / "done")
    train(config)
    again = ["data=csv", f"data.path={good}", f"checkpoint={tmp_path}/done"]
    assert "it has 1 epochs behind it" in fails(*again)
    assert "optimizer.lr=0.001, this run has optimizer.lr=0.5" in fails(*again, "optimizer.lr=0.5")
    assert "data.scaler=standard" in fails(*again, "data.scaler=minmax")
    assert "feature columns are load, temperature" in fails(*again, "data.columns=[load]")
    assert "model.attention.name=probsparse" in fails(*again, "attention=full")


def test_checkpoints(fails, good: Path, tmp_path: Path) -> None:
    data = ["data=csv", f"data.path={good}"]
    assert "no such checkpoint" in fails(*data, "checkpoint=missing.ckpt")
    assert "no checkpoints/last.ckpt" in fails(*data, f"checkpoint={tmp_path}")
    (tmp_path / "text.ckpt").write_text("not a checkpoint")
    assert "cannot be read as a checkpoint" in fails(*data, f"checkpoint={tmp_path}/text.ckpt")
    torch.save({"weights": torch.zeros(3)}, tmp_path / "other.ckpt")
    assert "not written by forecast.train" in fails(*data, f"checkpoint={tmp_path}/other.ckpt")
    whole = (tmp_path / "other.ckpt").read_bytes()
    (tmp_path / "torn.ckpt").write_bytes(whole[: len(whole) // 2])
    assert "cannot be read as a checkpoint" in fails(*data, f"checkpoint={tmp_path}/torn.ckpt")


def test_a_checkpoint_with_code_in_it_is_not_run(fails, good: Path, tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"forecast_version": Hostile()}, tmp_path / "hostile.ckpt")
    line = fails("data=csv", f"data.path={good}", f"checkpoint={tmp_path}/hostile.ckpt")
    assert "cannot be read as a checkpoint" in line
    assert not (tmp_path / "ran").exists()


def test_an_output_folder_that_cannot_be_written(fails, good: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file") in fails(
        "data=csv", f"data.path={good}", f"output_root={tmp_path}/file/runs"
    )


def test_a_loss_that_is_not_finite(fails, tmp_path: Path) -> None:
    frame = pd.DataFrame({"date": HOURS, "load": [1e30 * (-1) ** i for i in range(300)]})
    frame.to_csv(tmp_path / "huge.csv", index=False)
    line = fails("data=csv", f"data.path={tmp_path}/huge.csv", "data.scaler=none")
    assert "the training loss became inf in epoch 0" in line or "became nan in epoch 0" in line
    (folder,) = (tmp_path / "runs").iterdir()
    assert not list(folder.rglob("*.ckpt"))
    assert "the training loss became" in (folder / "error.txt").read_text()
