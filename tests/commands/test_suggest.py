"""`suggest=true`: training with the settings that `forecast.check` suggests for the data."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf

from forecast import fit
from tests.support.commands import PLAIN, only, run_command
from tests.support.csv_files import numbers

BRIEF = (
    "logger=[]", "trainer.max_epochs=1", "windows_per_epoch=16", "callbacks.progress.refresh_rate=0", PLAIN
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five weeks of quarter hours, whose suggested model is not the default one."""
    folder = tmp_path_factory.mktemp("suggested")
    numbers(35 * 96, ("load", "price"), "15min").to_csv(folder / "load.csv", index=False)
    return folder


def train(folder: Path, *overrides: str) -> int | str | None:
    given = ("data=csv", "data.path=load.csv", "suggest=true", *BRIEF)
    return run_command("train", folder, *given, *overrides)


def test_suggested_settings_are_taken_unless_they_are_typed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = "output_root=first"
    assert train(folder, root, "pred_len=24", "label_len=12", "attention=linear", "model.d_model=8") == 0
    config = OmegaConf.load(only(folder, "first/*/config.yaml"))
    assert config.model._target_ == "forecast.models.PatchEncoder"
    assert (config.pred_len, config.label_len, config.model.d_model) == (24, 12, 8)
    assert config.model.attention.name == "linear"
    said = capsys.readouterr().err
    assert "suggested: model=patch_encoder  (for columns that are forecast from their own past" in said
    assert f"suggested: seq_len={config.seq_len}  (" in said
    assert "suggested: data.batch_size=" in said
    assert "suggested: attention" not in said
    assert "suggest: false" in only(folder, "first/*/config.yaml").read_text()


OWN = "has its own settings; leave suggest=true out"


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (("-m", "pred_len=4,8"), "suggest=true: pred_len decides the suggested settings; give it one value"),
        (("checkpoint=runs/x",), f"suggest=true: checkpoint=runs/x {OWN}"),
        (
            ("pred_len=999",),
            "load.csv: the val split needs 999 rows (seq_len=720, pred_len=999), and there are 336",
        ),
    ],
)
def test_what_cannot_be_suggested_is_refused(
    folder: Path, capsys, overrides: tuple[str, ...], says: str
) -> None:
    assert train(folder, "output_root=refused", *overrides) == 2
    assert f"error: {says}" in capsys.readouterr().err
    assert not (folder / "refused").exists()


def test_fit_takes_suggested_settings_too_and_leaves_out_useless_columns(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    frame = pd.read_csv("load.csv", index_col="date", parse_dates=True)
    frame["row"], frame["sky"] = np.arange(len(frame)), np.resize(["sun", "rain", "fog"], len(frame))
    brief = (*BRIEF, "output_root=fitted", "model=mlp", "seq_len=24")
    config = fit(frame, pred_len=8, suggest=True, overrides=brief).config
    assert (config["model"]["_target_"], config["seq_len"]) == ("forecast.models.ResidualMLP", 24)
    assert config["data"]["drop"] == ["row"]
    assert config["data"]["past_covariates"] == ["sky"]
