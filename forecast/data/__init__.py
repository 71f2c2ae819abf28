"""Data: from a CSV file or a generated set to scaled windows."""

from forecast.data.csv import CsvData
from forecast.data.download import DownloadedData
from forecast.data.frame import FrameData, read_frame
from forecast.data.load import LoadData
from forecast.data.module import ForecastData
from forecast.data.recall import RecallData
from forecast.data.sample import SampleData
from forecast.data.series import SeriesData, SeriesFrame
from forecast.data.stored import StoreData
from forecast.data.table import Table, read_table
from forecast.data.windows import Batch, WindowLoader, Windows

__all__ = [
    "Batch",
    "CsvData",
    "DownloadedData",
    "ForecastData",
    "FrameData",
    "LoadData",
    "RecallData",
    "SampleData",
    "SeriesData",
    "SeriesFrame",
    "StoreData",
    "Table",
    "WindowLoader",
    "Windows",
    "read_frame",
    "read_table",
]
