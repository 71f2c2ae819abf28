"""The example program that `forecast.export` prints: it runs the exported file without this package."""

from pathlib import Path
from typing import Any

RUNTIMES = {
    ".onnx": (
        "import onnxruntime",
        'forecast = onnxruntime.InferenceSession({path!r}).run(["forecast"], inputs)[0]',
    ),
    ".pt2": (
        "import torch",
        "model = torch.export.load({path!r}).module()\n"
        "tensors = {{name: torch.from_numpy(value) for name, value in inputs.items()}}\n"
        'window = [tensors.pop(name) for name in ("past", "past_time", "future_time")]\n'
        "with torch.no_grad():\n"
        '    forecast = model(*window, **tensors)["forecast"].numpy()',
    ),
}
"""By the ending of the file: the import, and the lines that compute the array `forecast`."""


def write_example(path: Path, about: dict[str, Any], date_column: str) -> str:
    """A program that forecasts the steps after the end of a CSV file, of one series if there are many."""
    library, call = RUNTIMES[path.suffix]
    features = ",\n        ".join(feature["pandas"] for feature in about["time_features"])
    extra = "\nimport holidays" if "holidays." in features else ""
    many = "series" in about
    return f"""\
import json
from pathlib import Path

import numpy as np
import pandas as pd
{library}{extra}

about = json.loads(Path({str(path.with_suffix(".json"))!r}).read_text())
{read_series(about, date_column) if many else read_table(date_column)}
future = pd.date_range(past.index[-1], periods=about["pred_len"] + 1, freq=about["freq"])[1:]


def time_features(dates):
    return np.stack([
        {features},
    ], axis=1).astype("float64")


inputs = {{
    "past": past.to_numpy("float64")[None],  # one window, or more
    "past_time": time_features(past.index)[None],
    "future_time": time_features(future)[None],
}}
{add_series_inputs(about) if many else ""}{call.format(path=str(path))}
print(pd.DataFrame(forecast[0], index=future, columns=about["target_columns"]))"""


def read_table(date_column: str) -> str:
    return f"""\
table = pd.read_csv("my.csv", index_col={date_column!r}, parse_dates=True)
past = table[about["feature_columns"]].tail(about["seq_len"])  # in data units"""


def read_series(about: dict[str, Any], date_column: str) -> str:
    """The rows of one series; rows without values hold future covariates alone."""
    ids = about["id_column"]
    if ids is None:
        return f"""\
name = ""  # the only series
table = pd.read_csv("my.csv", index_col={date_column!r}, parse_dates=True)
past = table[about["feature_columns"]].dropna().tail(about["seq_len"])  # in data units"""
    return f"""\
name = {next(iter(about["series"]))!r}  # the series to forecast
table = pd.read_csv("my.csv", dtype={{{ids!r}: str}}, parse_dates=[{date_column!r}])
table = table[table[{ids!r}] == name].set_index({date_column!r})
past = table[about["feature_columns"]].dropna().tail(about["seq_len"])  # in data units"""


def add_series_inputs(about: dict[str, Any]) -> str:
    """The lines that add the inputs of a model of many series."""
    lines = [
        'inputs["center"] = np.array([about["series"][name]["center"]])',
        'inputs["scale"] = np.array([about["series"][name]["scale"]])',
    ]
    if about["as_of"] or about["known_steps"]:
        lines += add_known_covariates(about)
    elif "future_covariates" in about["inputs"]:
        lines += [
            'known = table.loc[past.index.append(future), about["future_covariates"]]  # in data units',
            'inputs["future_covariates"] = known.to_numpy("float64")[None]',
        ]
    if "static" in about["inputs"]:
        features = ",\n    ".join(feature["pandas"] for feature in about["static_features"])
        lines += [
            "static = table.head(1)",
            f'inputs["static"] = np.stack([\n    {features},\n], axis=1).astype("float64")',
        ]
    return "\n".join(lines) + "\n"


def add_known_covariates(about: dict[str, Any]) -> list[str]:
    """The lines that add future covariates that are forecasts over the horizon, or known for some steps of it."""
    names = about["future_covariates"]
    lines = [
        'before = table.loc[past.index, about["future_covariates"]].to_numpy("float64")  # in data units',
        f'after = table.reindex(future)[{[about["as_of"].get(name, name) for name in names]!r}].to_numpy("float64")',
    ]
    if about["known_steps"]:
        limits = [
            (names.index(name), min(steps, about["pred_len"])) for name, steps in about["known_steps"].items()
        ]
        lines += [
            f'known = np.ones((about["seq_len"] + about["pred_len"], {len(limits)}))',
            f"for mask, (column, steps) in enumerate({limits!r}):  # later steps repeat the last known one",
            "    after[steps:, column] = after[steps - 1, column]",
            '    known[about["seq_len"] + steps :, mask] = 0',
            'inputs["known"] = known[None]',
        ]
    return [*lines, 'inputs["future_covariates"] = np.concatenate([before, after])[None]']
