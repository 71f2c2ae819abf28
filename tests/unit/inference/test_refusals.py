"""Files that a trained model cannot read, with the text of each message, which advises no setting of training."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from forecast.data import read_table
from forecast.inference.model_data import known_columns
from forecast.system.errors import DataError
from tests.support.csv_files import write
from tests.support.refusals import Refusal

DATE = ["year", "month", "day"]


def both(
    what: str, in_training: str, in_prediction: str, options: dict[str, Any], **columns: Any
) -> list[Refusal]:
    """Three days of a load and of other columns, read in training and by a trained model."""
    days = pd.DataFrame({"year": 2024, "month": 1, "day": [1, 2, 3], "load": 1.5}).assign(**columns)

    def train(folder: Path) -> None:
        read_table(write(folder, days.to_csv(index=False)), date_column=DATE, **options)

    def predict(folder: Path) -> None:
        with known_columns(Path("runs/a/best.ckpt"), {}):
            train(folder)

    return [
        Refusal(f"{what}, in training", in_training, DataError, train),
        Refusal(f"{what}, in prediction", in_prediction, DataError, predict),
    ]


REFUSED = [
    *both("no such column", "table.csv: no column 'wind'; there are 'load' (data.columns)", "table.csv: no column 'wind'; there are 'load'; give the columns that runs/a/best.ckpt was trained on", {"columns": ["load", "wind"]}),
    *both("no such past covariate", "table.csv: no column 'rain'; there are 'load' (data.past_covariates)", "table.csv: no column 'rain'; there are 'load'; give the columns that runs/a/best.ckpt was trained on", {"past_covariates": ["rain"]}),
    *both("a column of text", "table.csv: 1 column of text beside numbers: 'text' ('calm'): set data.drop=[text], or …", "table.csv: 1 column of text beside numbers: 'text' ('calm'); give the columns that runs/a/best.ckpt was trained on", {}, text="calm"),
    *both("a static value that changes", "table.csv, line 3, column 'region': 's', and 'n' above: a static column does not change within a series; name it in data.past_covariates or data.future_covariates", "table.csv, line 3, column 'region': 's', and 'n' above: a static column does not change within a series; give the columns that runs/a/best.ckpt was trained on", {"static_covariates": ["region"]}, region=["n", "s", "n"]),
    *both("text among numbers", "table.csv, line 4, column 'load': 'n.a.' is not a number: correct it, or name it in data.na_values if it is a missing value", "table.csv, line 4, column 'load': 'n.a.' is not a number: correct it, or name it in data.na_values if it is a missing value", {"columns": ["load"]}, load=["1", "2", "n.a."]),
]  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSED, ids=lambda refusal: refusal.what)
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)
