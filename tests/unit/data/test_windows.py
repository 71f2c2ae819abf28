import io
from itertools import chain
from math import gcd
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.data import DataModule, Panel, WindowLoader, Windows, csv_data
from forecast.data.files.sources import read_table
from forecast.data.source import count_windows_per_epoch
from forecast.data.split import split_panel, spread_stride
from forecast.system.errors import ConfigError
from tests.support.csv_files import numbers
from tests.support.windows import set_up, windows_over

ROWS, FEATURES, TIMES = 50, 3, 2


def make_windows(count: int = 31, seq_len: int = 7, pred_len: int = 5, targets: tuple[int, ...] = (0, 1, 2)) -> Windows:
    """Every value of row r, column c is 100·r + c, so that a window shows where it came from."""
    values = 100.0 * torch.arange(ROWS)[:, None] + torch.arange(FEATURES)
    time = -100.0 * torch.arange(ROWS)[:, None] - torch.arange(TIMES)
    sizes = {"seq_len": seq_len, "pred_len": pred_len, "target_index": targets}
    return windows_over(values, time, starts=[range(4, 4 + count)], **sizes)


@pytest.mark.parametrize("targets", [(0, 1, 2), (1,), (2, 0)])
def test_a_batch_holds_the_rows_of_its_windows(targets: tuple[int, ...]):
    windows = make_windows(targets=targets)
    index = torch.tensor([30, 0, 0, 11])
    batch = windows.gather(index)
    assert batch.past.shape == (4, 7, 3)
    assert batch.past_time.shape == (4, 7, 2)
    assert batch.future.shape == (4, 5, len(targets))
    assert batch.future_time.shape == (4, 5, 2)
    for place, number in enumerate(index.tolist()):
        past, future = slice(4 + number, 11 + number), slice(11 + number, 16 + number)
        assert torch.equal(batch.past[place], windows.values.tensor[past])
        assert torch.equal(batch.past_time[place], windows.time.calendar.tensor[past])
        assert torch.equal(batch.future[place], windows.values.tensor[future][:, list(targets)])
        assert torch.equal(batch.future_time[place], windows.time.calendar.tensor[future])
    assert torch.equal(batch.index, index)
    assert all(part.is_contiguous() for part in batch)


def served(loader: WindowLoader) -> list[list[int]]:
    return [batch.index.tolist() for batch in loader]


COUNTS, BATCHES, WORLDS = st.integers(1, 34), st.integers(1, 40), st.integers(1, 5)


@pytest.mark.slow
@settings(deadline=None)
@given(COUNTS, BATCHES, WORLDS)
def test_evaluation_counts_every_window_once_over_all_ranks(count: int, batch_size: int, world_size: int):
    windows = make_windows(count=count)
    ranks = [served(WindowLoader(windows, batch_size, rank=r, world_size=world_size)) for r in range(world_size)]
    assert sorted(index for rank in ranks for batch in rank for index in batch) == list(range(count))
    assert len({len(rank) for rank in ranks}) == 1
    single = served(WindowLoader(windows, batch_size))
    assert [sorted(chain.from_iterable(parts)) for parts in zip(*ranks, strict=True)] == single
    assert len(single) == len(WindowLoader(windows, batch_size))


@pytest.mark.slow
@given(COUNTS, st.integers(1, 10), WORLDS, st.integers(0, 2**40), st.integers(0, 5))
def test_training_serves_the_same_batches_to_any_ranks(count: int, share: int, world_size: int, seed: int, epoch: int):
    windows, batch_size = make_windows(count=count), share * world_size
    single = WindowLoader(windows, batch_size, shuffle=True, seed=seed)
    single.sampler.set_epoch(epoch)
    whole = served(single)
    assert sorted(chain.from_iterable(whole)) == list(range(count))
    if count < world_size:
        with pytest.raises(ConfigError):
            WindowLoader(windows, batch_size, shuffle=True, world_size=world_size)
        return
    ranks = []
    for rank in range(world_size):
        loader = WindowLoader(windows, batch_size, shuffle=True, seed=seed, rank=rank, world_size=world_size)
        loader.sampler.set_epoch(epoch)
        ranks.append(served(loader))
        assert len(ranks[-1]) == len(loader)
    kept = count // world_size * world_size
    for number, parts in enumerate(zip(*ranks, strict=True)):
        assert len({len(part) for part in parts}) == 1
        batch = whole[number]
        assert sorted(chain.from_iterable(parts)) == sorted(batch[: kept - number * batch_size])


@given(st.integers(0, 4), st.integers(0, 3))
def test_a_restored_loader_serves_the_rest_of_its_epoch(stop: int, epoch: int):
    whole_epoch, loader, fresh = (WindowLoader(make_windows(), 8, shuffle=True, seed=5) for _ in range(3))
    whole_epoch.sampler.set_epoch(epoch)
    whole = served(whole_epoch)
    loader.sampler.set_epoch(epoch)
    batches = iter(loader)
    for _ in range(stop):
        next(batches)
    state = loader.state_dict()
    with pytest.raises(ConfigError, match="resume with the same data, batch size and seed"):
        WindowLoader(make_windows(), 4, shuffle=True, seed=5).load_state_dict(state)
    fresh.load_state_dict(state)
    assert fresh.state_dict() == state
    fresh.sampler.set_epoch(epoch)
    assert served(fresh) == whole[stop:]
    assert served(fresh) == whole
    fresh.load_state_dict(state)
    fresh.sampler.set_epoch(epoch + 1)
    loader.sampler.set_epoch(epoch + 1)
    assert served(fresh) == served(loader)


@pytest.mark.gpu
def test_windows_on_a_gpu_are_those_on_the_cpu():
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    windows = make_windows(targets=(2,))
    there = WindowLoader(windows.to("cuda"), 8, shuffle=True)
    for mine, other in zip(WindowLoader(windows, 8, shuffle=True), there, strict=True):
        assert all(part.is_cuda for part in other)
        assert all(torch.equal(a, b.cpu()) for a, b in zip(mine, other, strict=True))


def test_windows_of_several_series_never_cross_from_one_to_the_next():
    values = torch.arange(30.0)[:, None]
    starts = [range(3), range(10, 10), range(20, 25)]  # the second series is too short for a window
    windows = windows_over(values, values, starts=starts, seq_len=4, pred_len=2, target_index=[0])
    assert len(windows) == 8
    every = torch.arange(8)
    assert windows.series(every).tolist() == [0, 0, 0, 2, 2, 2, 2, 2]
    assert windows.origins(every).tolist() == [4, 5, 6, 24, 25, 26, 27, 28]
    batch = windows.gather(torch.tensor([7, 2, 3]))
    assert batch.past[..., 0].tolist() == [[24, 25, 26, 27], [2, 3, 4, 5], [20, 21, 22, 23]]
    assert batch.future[..., 0].tolist() == [[28, 29], [6, 7], [24, 25]]


@pytest.mark.parametrize(("per_epoch", "count"), [(None, 31), (10, 10)])
def test_an_epoch_draws_its_windows_by_seed_and_epoch_only(per_epoch: int | None, count: int) -> None:
    def epoch(seed: int, number: int) -> list[int]:
        loader = WindowLoader(make_windows(), 4, shuffle=True, seed=seed, per_epoch=per_epoch)
        loader.sampler.set_epoch(number)
        torch.manual_seed(torch.randint(1000, ()).item())
        before = torch.get_rng_state()
        assert len(loader) == -(-count // 4)
        found = list(chain.from_iterable(served(loader)))
        assert torch.equal(torch.get_rng_state(), before)
        return found

    epochs = [epoch(seed, number) for seed in (5, 6) for number in (0, 1)]
    assert [len({*one}) for one in epochs] == [count] * 4
    assert epoch(5, 1) == epochs[1]
    assert all(epochs.count(one) == 1 for one in epochs)
    assert epochs[0] != sorted(epochs[0])


def test_horizons_are_those_that_the_rows_of_the_windows_hold() -> None:
    values = torch.arange(200.0)[:, None]

    def windows(*starts: range) -> Windows:
        return windows_over(values, values, starts=starts, seq_len=4, pred_len=5, target_index=[0])

    assert windows(range(1)).count_horizons() == 1
    assert windows(range(26)).count_horizons() == 6  # 30 rows
    assert windows(range(26)).count_horizons(5) == 6
    assert windows(range(0, 26, 5)).count_horizons() == 6
    assert windows(range(0, 60, 10)).count_horizons() == 6  # not one overlaps
    assert windows(range(26), range(40, 40), range(60, 61)).count_horizons() == 7


@pytest.mark.parametrize(
    ("rows", "freq", "split", "ends"),
    [
        (17_420, "h", [12, 4, 4], (8640, 11_520, 14_400)),
        (69_680, "15min", [12, 4, 4], (34_560, 46_080, 57_600)),
        (700, "D", [12, 4, 4], (360, 480, 600)),
        (400, "2D", [12, 4, 4], (180, 240, 300)),
        (17_420, "h", [0.7, 0.1, 0.2], (12_194, 13_936, 17_420)),
        (26_304, "h", [0.7, 0.1, 0.2], (18_412, 21_044, 26_304)),
        (100, "MS", [0.6, 0.2, 0.2], (60, 80, 100)),
        (17_420, "h", ["2017-07-01", "2018-01-01 12:00"], (365 * 24, 549 * 24 + 12, 17_420)),
    ],
)
def test_forms_of_split(rows: int, freq: str, split: list, ends: tuple[int, int, int]):
    panel = Panel.of_table(pd.date_range("2016-07-01", periods=rows, freq=freq), np.zeros((rows, 1)), ["x"], freq)
    found = {
        name: tuple(rows.item() for rows in part)
        for name, part in split_panel(panel, split, seq_len=5, season=1).items()
    }
    train, val, test = ends
    assert found == {"train": (0, train), "val": (train, val), "test": (val, test)}


@given(st.integers(1, 10**9), st.integers(1, 10**5), st.integers(1, 9000))
def test_a_stride_leaves_few_windows_and_meets_every_hour(windows: int, most: int, season: int):
    stride = spread_stride(windows, most, season)
    assert -(-windows // stride) <= most
    if windows <= most:
        assert stride == 1
    else:
        assert gcd(stride, season) == gcd(stride, 24 * 7) == 1
        assert stride <= 2 * (-(-windows // most)) + 60


SIZES = {"name": "mine", "seq_len": 20, "pred_len": 6, "split": [0.7, 0.1, 0.2]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    numbers(500).to_csv(tmp_path / "a.csv", index=False)
    return tmp_path / "a.csv"


def ready(path: Path, **options) -> DataModule:
    return set_up(csv_data(path=path, **SIZES | options))


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
def test_nothing_after_the_training_rows_reaches_them(tmp_path: Path, scaler: str, features: str, split: list):
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
    assert all(map(torch.equal, *(data.windows["train"].gather(every) for data in (one, other))))


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
    before = set_up(csv_data(path=tmp_path / "later.csv", **SIZES).with_state(state))
    expected = trained.scaler.transform(torch.from_numpy(read_table(tmp_path / "later.csv").values), series=0).float()
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
