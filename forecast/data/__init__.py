"""Data: from a file, a DataFrame or a generated set to scaled windows."""

from forecast.data.files.file_source import read_table
from forecast.data.files.frame_source import read_frame
from forecast.data.loader import WindowLoader
from forecast.data.module import DataModule
from forecast.data.panel import Panel
from forecast.data.sources import (
    csv_data,
    downloaded_data,
    frame_data,
    load_data,
    long_data,
    recall_data,
    sample_data,
    store_data,
)
from forecast.data.windows import Batch, Windows

__all__ = [
    "Batch",
    "DataModule",
    "Panel",
    "WindowLoader",
    "Windows",
    "csv_data",
    "downloaded_data",
    "frame_data",
    "load_data",
    "long_data",
    "read_frame",
    "read_table",
    "recall_data",
    "sample_data",
    "store_data",
]
