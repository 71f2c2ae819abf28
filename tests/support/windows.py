"""Windows over tensors, without a file, and all windows of a split."""

from collections.abc import Sequence

import torch
from torch import Tensor

from forecast.data import Batch, DataModule, Windows
from forecast.data.step_features import StepFeatures, TensorRows


def windows_over(
    values: Tensor, time: Tensor, *, starts: Sequence[range], seq_len: int, pred_len: int,
    target_index: Sequence[int], first_rows: Sequence[int] | None = None,
) -> Windows:  # fmt: skip
    n_series = len(starts)
    features = StepFeatures(TensorRows(time), torch.zeros(n_series, dtype=torch.int64), None, torch.zeros(n_series, 0))
    return Windows(
        TensorRows(values), features, starts=starts, seq_len=seq_len, pred_len=pred_len,
        first_rows=torch.tensor(first_rows if first_rows is not None else [0] * n_series),
        target_index=list(target_index),
    )  # fmt: skip


def every(data: DataModule, split: str) -> Batch:
    return data.windows[split].gather(torch.arange(data.n_windows[split]))


def set_up(data: DataModule) -> DataModule:
    """The data with their windows."""
    data.setup()
    return data
