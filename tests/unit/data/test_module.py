import io
from pathlib import Path

import pytest
import torch

from forecast.data import DataModule, csv_data
from forecast.data.files.sources import read_table
from forecast.data.source import count_windows_per_epoch
from tests.support.csv_files import numbers

SIZES = {"name": "mine", "seq_len": 20, "pred_len": 6, "split": [0.7, 0.1, 0.2]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    numbers(500).to_csv(tmp_path / "a.csv", index=False)
    return tmp_path / "a.csv"


def ready(path: Path, **options) -> DataModule:
    data = csv_data(path=path, **SIZES | options)
    data.setup()
    return data


def test_every_row_of_validation_and_test_is_a_first_target_once(path: Path):
    data = ready(path)
    rows_of = {split: range(int(first[0]), int(last[0])) for split, (first, last) in data.rows.items()}
    assert rows_of == {"train": range(350), "val": range(350, 400), "test": range(400, 500)}
    for split, rows in rows_of.items():
        windows = data.windows[split]
        first_targets = windows.origins(torch.arange(len(windows))).tolist()
        begin = rows.start if split != "train" else 20
        assert first_targets == list(range(begin, rows.stop - 6 + 1))


@pytest.mark.parametrize(
    ("scaler", "features", "split"),
    [
        ("standard", "M", [0.7, 0.1, 0.2]),
        ("minmax", "S", [0.7, 0.1, 0.2]),
        ("robust", "MS", ["2021-03-15 14:00", "2021-03-17 16:00"]),
        ("asinh", "S", [0.7, 0.1, 0.2]),
    ],
)
def test_nothing_after_the_training_rows_reaches_them(
    tmp_path: Path, scaler: str, features: str, split: list
):
    frame = numbers(500)
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.iloc[350:, 1:] = frame.iloc[350:, 1:] * 1e6 + 1e6
    frame.to_csv(tmp_path / "b.csv", index=False)
    options = {"features": features, "target": "load", "split": split}
    options |= {"transform": scaler} if scaler == "asinh" else {"scaler": scaler}
    one, other = ready(tmp_path / "a.csv", **options), ready(tmp_path / "b.csv", **options)
    assert one.rows["train"][1].tolist() == [350]
    assert all(map(torch.equal, one.scaler.tensors, other.scaler.tensors))
    every = torch.arange(one.n_windows["train"])
    for mine, its in zip(
        one.windows["train"].gather(every), other.windows["train"].gather(every), strict=True
    ):
        assert torch.equal(mine, its)


def test_a_checkpoint_keeps_the_scaler(tmp_path: Path, path: Path):
    trained = ready(path)
    file = io.BytesIO()
    torch.save(trained.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    frame = numbers(300)
    frame.iloc[:, 1:] += 1000.0
    frame.to_csv(tmp_path / "later.csv", index=False)
    after = ready(tmp_path / "later.csv")
    assert not torch.equal(after.scaler.center, trained.scaler.center)
    after = after.with_state(state)
    before = csv_data(path=tmp_path / "later.csv", **SIZES)
    before = before.with_state(state)
    before.setup()
    expected = trained.scaler.transform(
        torch.from_numpy(read_table(tmp_path / "later.csv").values), series=0
    ).float()
    for data in (before, after):
        assert torch.equal(data.scaler.center, trained.scaler.center)
        assert torch.equal(data.target_scaler.scale, trained.target_scaler.scale)
        assert torch.equal(data.windows["test"].values.tensor, expected)


def test_a_stride_of_evaluation_windows_keeps_the_last(path: Path):
    data = ready(path, eval_stride=4, windows_per_epoch=50)
    test = data.windows["test"]
    assert test.origins(torch.arange(len(test))).tolist() == list(range(494, 399, -4))[::-1]
    assert data.n_windows["train"] == 350 - 20 - 6 + 1
    assert sum(len(batch.index) for batch in data.loader("train")) == 50


@pytest.mark.parametrize(
    ("asked", "count", "taken"),
    [(None, 90_000, 90_000), (50, 40, 40), (50, 90, 50), ("auto", 300, 300), ("auto", 28_000, 4_096),
     ("auto", 70_000, 10_000), ("auto", 9_000_000, 100_000)],
)  # fmt: skip
def test_an_epoch_takes_so_many_windows(asked: int | str | None, count: int, taken: int) -> None:
    assert count_windows_per_epoch(asked, count, has_future=False) == taken
