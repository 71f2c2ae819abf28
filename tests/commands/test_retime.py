"""`python -m forecast.compare runs retime=true`: times of runs that ran beside others, measured again."""

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

from tests.support.commands import answer, train_here, workplace

FEW = ("trainer.max_epochs=1", "+trainer.limit_train_batches=3", "logger=[]", "pictures=false")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs that ran at the same time: full attention with two seeds, and quantiles in bfloat16."""
    folder = workplace(tmp_path_factory.mktemp("retime"))
    quantiles = ("attention=linear", "loss=quantile", "trainer.precision=bf16-mixed")
    with pytest.MonkeyPatch.context() as patch:
        for settings in (("attention=full",), ("attention=full", "seed=2"), quantiles):
            assert train_here(patch, folder, *settings, *FEW) == 0
    for file in folder.glob("runs/*/metrics.json"):
        content = json.loads(file.read_text()) | {"finished": "2026-11-25T10:00:00+00:00", "seconds": 60.0}
        file.write_text(json.dumps(content))
    return folder


@pytest.fixture
def place(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "place"))


def read_times(place: Path) -> dict[str, float]:
    """The inference time of each variant in the table."""
    table = pd.read_csv(place / "comparison.csv")
    variants = table[table["kind"] == "variant"]
    return dict(zip(variants["name"], variants["ms_per_window"], strict=True))


def test_times_are_measured_again_and_kept(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(monkeypatch, "compare", place, "runs=[runs]") == 0
    assert "Times of 3 runs cannot be compared" in capsys.readouterr().out
    before = read_times(place)
    assert answer(monkeypatch, "compare", place, "runs=[runs]", "retime=true", "overwrite=true") == 0
    assert "was measured again after training" in capsys.readouterr().out
    saved = [json.loads(file.read_text()) for file in sorted(place.glob("runs/*/times.json"))]
    assert len(saved) == 3
    assert len({one["session"] for one in saved}) == 1
    assert all(one["ms_per_window"] > 0 for one in saved)
    after = read_times(place)
    assert not {*after.values()} & {*before.values()}
    assert {*after.values()} <= {one["ms_per_window"] for one in saved} | {
        sum(one["ms_per_window"] for one in pair) / 2 for pair in pairwise(saved)
    }
    assert answer(monkeypatch, "compare", place, "runs=[runs]", "overwrite=true") == 0
    assert read_times(place) == after
