"""Windows of `forecast.explain` that are refused."""

from pathlib import Path
from typing import Any

import pytest

from forecast.system.errors import ConfigError
from forecast.tools.explain.window import choose_window
from tests.support.long_files import PRED_LEN, SEQ_LEN, long_frame, long_frame_data
from tests.support.refusals import Refusal


def window(chosen: Any, says: str) -> Refusal:
    """A window of the test split of four series, of which every fourth is scored."""

    def call(folder: Path) -> None:
        sizes = {
            "name": "sales",
            "seq_len": SEQ_LEN,
            "pred_len": PRED_LEN,
            "split": [0.7, 0.1, 0.2],
            "eval_stride": 4,
        }
        data = long_frame_data(long_frame(), **sizes)
        data.setup()
        choose_window(data, "test", chosen)

    return Refusal(f"window={chosen}", says, ConfigError, call)


EXPLANATIONS = [
    window(-1, "window=-1: the test split has the windows 0 to 9 of 4 series, and forecasts begin from 2024-02-02 00:00:00 to 2024-03-13 00:00:00, every day; give first, last, a number or such a date"),
    window(10, "window=10: the test split has the windows 0 to 9 of 4 series, and forecasts begin from 2024-02-02 00:00:00 to 2024-03-13 00:00:00, every day; give first, last, a number or such a date"),
    window("2031-01-01", "window=2031-01-01: the test split has the windows 0 to 9 of 4 series, and forecasts begin from 2024-02-02 00:00:00 to 2024-03-13 00:00:00, every day; give first, last, a number or such a date"),
    window("05/06/2024", "window=05/06/2024 is not a date: write it as 2018-01-31 or 2018-01-31T06:00; or give first, last or a number"),
    window("soon", "window=soon is not a date: write it as 2018-01-31 or 2018-01-31T06:00; or give first, last or a number"),
]  # fmt: skip


@pytest.mark.parametrize("refusal", EXPLANATIONS, ids=lambda refusal: refusal.what)
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)
