"""Data: from a CSV file or a generated set to scaled windows."""

from forecast.data.csv import CsvData
from forecast.data.download import DownloadedData
from forecast.data.module import ForecastData
from forecast.data.sample import SampleData
from forecast.data.table import Table, read_table
from forecast.data.windows import Batch, WindowLoader, Windows

__all__ = [
    "Batch",
    "CsvData",
    "DownloadedData",
    "ForecastData",
    "SampleData",
    "Table",
    "WindowLoader",
    "Windows",
    "read_table",
]
