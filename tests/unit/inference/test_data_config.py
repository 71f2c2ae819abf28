"""Settings of the data of a trained model, and the errors of data that it cannot read."""

from pathlib import Path

import pandas as pd
import pytest

from forecast.data import read_table
from forecast.inference.data_config import choose_data_config, known_columns
from forecast.system.errors import DataError

CSV = {"_target_": "forecast.data.csv_data", "name": "csv", "path": "trained.csv", "columns": None}
LONG = {**CSV, "_target_": "forecast.data.long_data", "id_column": "unique_id", "target": "y"}


@pytest.mark.parametrize("saved", [CSV, LONG], ids=["csv", "long"])
def test_another_file_need_not_have_the_columns_that_training_dropped(saved: dict) -> None:
    chosen = choose_data_config(
        Path("best.ckpt"),
        {**saved, "drop": ["No"], "past_covariates": ["wind"]},
        ["load", "price", "wind"],
        {"path": "new.csv"},
    )
    assert not chosen.get("drop")
    assert chosen["columns"] == ["load", "price"]


@pytest.mark.parametrize(
    ("columns", "options", "problem", "advice"),
    [
        (("load",), {"columns": ["load", "wind"]}, "no column 'wind'; there are 'load'", "(data.columns"),
        (("load",), {"drop": ["No"]}, "no column 'No'; there are 'load'", "(data.drop)"),
        (("load",), {"past_covariates": ["rain"]}, "no column 'rain'; there are 'load'", "(data.past_covariates)"),
        (("load", "text"), {}, "column 'text': 'calm' is not a number", "data.drop"),
        (("load", "text", "words"), {}, "2 columns are not numbers: 'text', 'words'", "data.drop"),
    ],
)  # fmt: skip
def test_a_trained_model_names_no_setting_of_training(
    tmp_path: Path, columns: tuple[str, ...], options: dict, problem: str, advice: str
) -> None:
    frame = pd.DataFrame({"year": 2024, "month": 1, "day": [1, 2, 3]})
    for name in columns:
        frame[name] = 1.5 if name == "load" else "calm"
    frame.to_csv(tmp_path / "new.csv", index=False)
    options["date_column"] = ["year", "month", "day"]
    with pytest.raises(DataError) as in_training:
        read_table(tmp_path / "new.csv", **options)
    assert problem in str(in_training.value)
    assert advice in str(in_training.value)
    with pytest.raises(DataError) as in_prediction, known_columns(Path("runs/a/best.ckpt"), {}):
        read_table(tmp_path / "new.csv", **options)
    assert problem in str(in_prediction.value)
    assert "give the columns that runs/a/best.ckpt was trained on" in str(in_prediction.value)
    assert advice not in str(in_prediction.value)


def test_settings_that_every_command_takes_are_advised_to_a_trained_model(tmp_path: Path) -> None:
    frame = pd.DataFrame({"date": pd.date_range("2024-01-01", periods=3), "load": ["1", "2", "n.a."]})
    frame.to_csv(tmp_path / "new.csv", index=False)
    with (
        pytest.raises(DataError, match=r"name it in data\.na_values"),
        known_columns(Path("best.ckpt"), {}),
    ):
        read_table(tmp_path / "new.csv", columns=["load"])
