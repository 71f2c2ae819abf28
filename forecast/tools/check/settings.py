"""Suggested settings, and the settings that the user chose."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setting:
    key: str
    value: Any
    why: str


@dataclass(frozen=True)
class Asked:
    """What the user chose; None where nothing was.

    Attributes:
        target_typed: whether `target` was typed; some data sets have a default target.
        columns: whether data.columns was typed.
    """

    seq_len: int | None = None
    label_len: int | None = None
    pred_len: int | None = None
    features: str | None = None
    target: str | None = None
    target_typed: bool = False
    season: int | None = None
    batch_size: int | None = None
    fill: str | None = None
    columns: bool = False
    eval_stride: int | None = 1
