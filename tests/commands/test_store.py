"""The commands on a store: what they do on the file that it was made from."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.support.commands import answer, only, train_here, workplace


def numbers(content: dict) -> dict[str, float]:
    """Every number of the scores, by its place, but coverages: a truth that lies on a bound may fall on either side."""
    kept = {key: content[key] for key in ("test", "baselines", "skill", "intervals")}
    found = pd.json_normalize(kept).iloc[0].dropna().to_dict()
    return {key: value for key, value in found.items() if not key.endswith("coverage")}


def test_forecasts_of_covariates_and_their_missing_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run with `data.as_of`, its scores and its forecasts, from a store and from its file."""
    frame = pd.read_csv(workplace(tmp_path) / "load.csv")
    random = np.random.default_rng(0)
    frame = frame.assign(told=frame["temperature"] + random.normal(size=len(frame)))
    frame[["temperature", "told"]] = frame[["temperature", "told"]].mask(random.random((len(frame), 2)) < 0.2)
    frame["told"] = frame["told"].where(frame.index < len(frame) - 9, frame.index)
    frame.assign(load=frame["load"].mask(frame.index >= 290)).to_csv(tmp_path / "a.csv", index=False)
    ahead = frame.loc[290:, ["date", "told"]]
    ahead.assign(told=ahead["told"] + 9).to_csv(tmp_path / "ahead.csv", index=False)
    frame[:290].to_csv(tmp_path / "past.csv", index=False)
    for name in ("a", "past"):
        assert answer(monkeypatch, "convert", tmp_path, f"data.path={name}.csv") == 0
    roles = ("data.columns=[load]", "data.future_covariates=[temperature]", "data.as_of={temperature: told}")
    scores, forecasts, told = [], [], []
    for data in ("csv", "store"):
        given = (f"data={data}", f"data.path=a.{data}", *roles, "attention=full", "data.known_steps=4")
        more = ("logger=[]", "trainer.max_epochs=1", f"output_root={data}")
        assert train_here(monkeypatch, tmp_path, *given, *more) == 0
        run = only(tmp_path, f"{data}/*")
        scores.append(numbers(json.loads((run / "metrics.json").read_text())))
        base = (f"checkpoint={only(tmp_path, 'csv/*')}", "levels=[80]", "overwrite=true")
        for kept, *given in (
            (forecasts, f"data.path=a.{data}"),
            (told, f"data.path=past.{data}", "future=ahead.csv"),
        ):
            assert answer(monkeypatch, "predict", tmp_path, *base, *given) == 0
            kept.append(pd.read_csv(tmp_path / "forecast.csv", index_col="date"))
    assert scores[1] == pytest.approx(scores[0], rel=1e-3, abs=1e-4)
    pd.testing.assert_frame_equal(*forecasts, rtol=0, atol=1e-3)
    pd.testing.assert_frame_equal(*told, rtol=0, atol=1e-3)
    assert not np.allclose(told[0]["load"], forecasts[0]["load"])
