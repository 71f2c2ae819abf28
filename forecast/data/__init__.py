"""Data: from a file, a DataFrame or a generated set to scaled windows."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forecast.data.files.sources import read_frame, read_table
    from forecast.data.module import (
        DataModule,
        csv_data,
        downloaded_data,
        frame_data,
        load_data,
        long_data,
        recall_data,
        sample_data,
        store_data,
    )  # fmt: skip
    from forecast.data.panel import Panel
    from forecast.data.windows import Batch, WindowLoader, Windows

__all__ = [
    "Batch", "DataModule", "Panel", "WindowLoader", "Windows", "csv_data", "downloaded_data", "frame_data", "load_data",
    "long_data", "read_frame", "read_table", "recall_data", "sample_data", "store_data",
]  # fmt: skip

# the modules of the names that `module` does not define
ELSEWHERE = {"Panel": "panel", "read_frame": "files.sources", "read_table": "files.sources"}
ELSEWHERE |= dict.fromkeys(("Batch", "WindowLoader", "Windows"), "windows")


def __getattr__(name: str) -> Any:
    """Import a name on first access, so that files are read without importing PyTorch."""
    if name not in __all__:
        raise AttributeError(f"module 'forecast.data' has no attribute {name!r}")
    return getattr(importlib.import_module(f"forecast.data.{ELSEWHERE.get(name, 'module')}"), name)
