"""The description of an exported file for its users, with a program that runs it, and its inputs in NumPy.

Imports no torch. The program, which `forecast.export` prints, runs the file without this package. It ends with a
message where the rows are not what the exported file needs, such as dates without the UTC offset that training had.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64

from forecast import __version__
from forecast.data import DataModule
from forecast.data.calendars import OFFSET, UtcOffset
from forecast.data.covariates import MISSING
from forecast.data.files.cells import date_name
from forecast.data.files.columns import SEPARATOR, list_id_columns
from forecast.data.files.read import PARQUET
from forecast.data.files.text import find_parts
from forecast.data.panel import Panel
from forecast.data.time_features import FEATURES, split_code, time_feature_names, time_features
from forecast.data.time_features import NAMES as HOLIDAYS
from forecast.inference.model_data import ModelData, name_keys
from forecast.reports.templates import render
from forecast.system.errors import ConfigError, DataError
from forecast.system.location import is_folder, locate

if TYPE_CHECKING:
    from forecast.inference.model import TrainedModel

TORCH, ONNX_RUNTIME = "torch", "onnxruntime"
ONNX_PACKAGES = ("onnx", "onnxscript", ONNX_RUNTIME)
CalendarFeatures = Float64[np.ndarray, "dates n_time_features"]
Run = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]
"""An exported file as a function from inputs by name to outputs by name, all float64."""

ARGUMENTS = {  # by option of the data: the argument of `pandas.read_csv`, and the value that need not be written
    "skip_rows": ("skiprows", 0), "separator": ("sep", ","), "decimal": ("decimal", "."),
    "thousands": ("thousands", None), "encoding": ("encoding", None), "na_values": ("na_values", []),
}  # fmt: skip

BOOLEANS = {"true": ["yes", "Yes", "YES"], "false": ["no", "No", "NO"]}  # beside those that pandas knows
NUMBERS = {"year": "%Y", "month": "%m", "day": "%d", "hour": "%H", "minute": "%M"}

WINDOWS_PER_EXCEPTION = 1_000  # with ProbSparse, of which one may differ by more than the tolerance

DAY = "(dates + pd.Timedelta(days={ahead})).date"
HOLIDAY = f"np.array([*map(holidays.country_holidays({{country}}).__contains__, {DAY})]) - 0.5"


def metadata_path(path: Path) -> Path:
    """The JSON file with the metadata of an exported file, next to it: model.onnx.json."""
    return path.with_name(f"{path.name}.json")


def describe_export(trained: "TrainedModel") -> dict[str, Any]:
    """The metadata of an exported file, in values that JSON can hold. They are saved in the file and next to it."""
    quantiles, source = trained.quantiles, "trained for"
    if quantiles is None and trained.calibration is not None:
        quantiles, source = trained.calibration.quantiles, "conformal, from validation windows"
    seq_len, pred_len = trained.seq_len, trained.pred_len
    n_targets = len(trained.target_columns)
    names, domain = time_feature_names(trained.freq, trained.holidays), trained.scaler.domain
    of_domain: dict[str, Any] = {}
    if domain.has_transforms:
        graph = "log1p(value), arcsinh((value - location) / shape)"
        how = f"applied to each of feature_columns before the scale, in the graph: {graph}"
        of_domain = {"transforms": list(domain.transforms), "transforms_are": how}
    if domain.has_bounds:
        for name, bounds in (("lower", domain.lower), ("upper", domain.upper)):
            of_domain[name] = [bound if math.isfinite(bound) else None for bound in bounds]
    outputs = {"forecast": ["batch", pred_len, n_targets]}
    if quantiles:
        outputs["quantiles"] = ["batch", pred_len, n_targets, len(quantiles)]
    return {
        "forecast_version": __version__,
        "attention": trained.config["model"]["attention"]["name"],
        "feature_columns": trained.feature_columns,
        "unread_columns": list_unread(trained, trained.feature_columns),
        "target_columns": trained.target_columns,
        "categories": dict(trained.categories),
        "freq": trained.freq,
        "holidays": trained.holidays,
        "calendar": trained.data_state["calendar"],
        "utc_offset": trained.data_state["utc_offset"],
        "timezone": trained.data_state["timezone"],
        "seq_len": seq_len,
        "pred_len": pred_len,
        "time_features": [{"name": one, "pandas": calendar_expression(one, trained.holidays)} for one in names],
        "quantiles": list(quantiles) if quantiles else None,
        "quantiles_are": source if quantiles else None,
        "inputs": describe_inputs(trained, len(names)),
        "outputs": outputs,
        "type": "float64, past and outputs in original units",
        **of_domain,
        **describe_series(trained),
    }


def describe_inputs(trained: "TrainedModel", n_calendar: int) -> dict[str, list[int | str]]:
    """The shapes of the inputs: the windows, the scale of their series, and what else the model reads."""
    state, seq_len, pred_len = trained.data_state, trained.seq_len, trained.pred_len
    n_features, n_future = len(trained.feature_columns), len(state["future_covariates"])
    n_transformed = n_features if trained.scaler.domain.has_transforms else 0
    always = {
        "past": (seq_len, n_features), "past_time": (seq_len, n_calendar), "future_time": (pred_len, n_calendar),
        "center": (n_features + n_future,), "scale": (n_features + n_future,),
    }  # fmt: skip
    if_any = {
        "location": (n_transformed,), "shape": (n_transformed,),
        "future_covariates": (seq_len + pred_len, n_future), "known": (seq_len + pred_len, len(known_steps(trained))),
        "static": (len(state["static_features"]),),
    }  # fmt: skip
    sizes = always | {name: size for name, size in if_any.items() if size[-1]}
    return {name: ["batch", *size] for name, size in sizes.items()}


def known_steps(trained: "TrainedModel") -> dict[str, int]:
    """The number of known steps of each future covariate that has a mask, in the order of the masks."""
    state = trained.data_state
    steps = zip(state["future_covariates"], state["known_steps"], strict=True)
    return {name: n for name, n in steps if n is not None}


def list_unread(trained: "TrainedModel", names: Sequence[str]) -> list[str]:
    """Those of these columns that the model does not read: any number can stand for them."""
    from forecast.inference.forecasters import choose_forecaster  # imports torch

    read = {*choose_forecaster(trained).columns_read(), *trained.target_columns}
    return [name for name in names if name not in read]


def describe_series(trained: "TrainedModel") -> dict[str, Any]:
    """The columns beside those of the windows, and the scale of each trained series by its id ("" for a table)."""
    state = trained.data_state
    scales = {
        part: np.concatenate([state["scaler"][part], state["future_scaler"][part]], axis=1).tolist()
        for part in ("center", "scale")
    }
    if trained.scaler.domain.has_transforms:
        scales |= {part: state["scaler"][part].tolist() for part in ("location", "shape")}
    return {
        "id_column": name_keys(trained.config["data"], state)["id_column"],
        "future_covariates": state["future_covariates"],
        "unread_covariates": list_unread(trained, state["future_covariates"]),
        "as_of": state["as_of"],
        "known_steps": known_steps(trained),
        "static_features": static_expressions(state["static"]),
        "scaler": trained.config["data"]["scaler"],
        "scaled_columns": [*trained.feature_columns, *state["future_covariates"]],
        "scale_is": "the graph computes (value - center) / scale; center and scale have one number for each of "
        "scaled_columns; for a new series, compute them from its own rows as the scaler does",
        "series": {
            name: {part: values[s] for part, values in scales.items()}
            for s, name in enumerate(state["ids"])
            if state["has_scale"][s]
        },
    }


def static_expressions(encoding: Mapping[str, Any]) -> list[dict[str, str]]:
    """Each static feature as an expression in pandas; `static` is a DataFrame with one row per series."""
    found: list[tuple[str, str]] = []
    for column, how in encoding.items():
        values = f"static[{column!r}]"
        for text in how.get("texts", ()):
            is_text = f"{values}.astype(str) == {text!r}"
            expression = f"{values}.isna() | ({is_text})" if text == MISSING else is_text
            found.append((f"{column}={text}", expression))
        if "texts" not in how:
            divisor = "np.inf" if math.isinf(how["deviation"]) else repr(how["deviation"])
            found.append((column, f"({values} - {how['mean']!r}) / {divisor}"))
    return [{"name": name, "pandas": expression} for name, expression in found]


def calendar_expression(name: str, country: str | None) -> str:
    """A time feature as an expression of the DatetimeIndex `dates`; one of a holiday needs the package `holidays`."""
    if name in FEATURES:
        attribute, least, span = FEATURES[name]
        read = "dates.isocalendar().week" if attribute == "week" else f"dates.{attribute}"
        return f"({read} - {least}) / {span} - 0.5" if least else f"{read} / {span} - 0.5"
    code, subdivision = split_code(str(country))
    return HOLIDAY.format(country=f"{code!r}, {subdivision!r}", ahead=HOLIDAYS[name])


def read_inputs(
    about: Mapping[str, Any],
    panel: Panel,
    calendar: CalendarFeatures,
    series: Int64[np.ndarray, " windows"],
    origins: Int64[np.ndarray, " windows"],
) -> dict[str, np.ndarray]:
    """The values, the calendar features and the future covariates of windows, in float64; NaN where one is missing.

    The other inputs of an exported file are scales, static features and masks of known steps.

    Args:
        panel: the columns of the model, in original units. Its grid reaches `pred_len` steps beyond each origin.
        calendar: the `calendar_features` of the grid.
        series, origins: of each window, the number of its series and the first row that it forecasts.
    """
    seq_len, steps = about["seq_len"], np.arange(-about["seq_len"], about["pred_len"])
    rows = origins[:, None] + steps
    places = (panel.grid_starts - panel.starts)[series][:, None] + rows
    time = calendar[places]
    inputs = {
        "past": np.array(panel.values[rows[:, :seq_len]], dtype=np.float64),
        "past_time": time[:, :seq_len],
        "future_time": time[:, seq_len:],
    }
    if names := about["future_covariates"]:
        given = np.full((*rows.shape, len(panel.future_columns)), np.nan)
        is_there = rows < panel.stops[series][:, None]
        if panel.future is not None:
            given[is_there] = panel.future[rows[is_there]]
        before, after = given[:, :seq_len, : len(names)], given[:, seq_len:, panel.ahead_index]
        inputs["future_covariates"] = np.concatenate([before, after], axis=1)
    return inputs


def calendar_features(about: Mapping[str, Any], grid: pd.DatetimeIndex) -> CalendarFeatures:
    """The calendar features of the dates of a grid."""
    dates = UtcOffset(about["utc_offset"], about["timezone"]).local(grid)
    return time_features(dates, about["freq"], about["holidays"]).astype(np.float64)


def load_onnx(path: Path, threads: int = 0) -> Run:
    """An ONNX file as a function, run by onnxruntime on the CPU; 0 threads: as many as it chooses."""
    import onnxruntime  # an optional package

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, dict(inputs)), strict=True))  # type: ignore[reportReturnType]


def list_missing_packages(packages: Sequence[str] = ONNX_PACKAGES) -> list[str]:
    """Those of the packages that are not installed, by default of the extra `export`."""
    return [package for package in packages if find_spec(package) is None]


def read_test_data(model: ModelData, given: Mapping[str, Any]) -> DataModule:
    """Read the data to compare on, with test rows: those of the training run, or those that are given instead."""
    try:
        data = model.read_data(given)
        model.refuse_absent(data, frozenset())
    except (DataError, OSError) as error:
        if given["path"] is not None:
            raise
        raise DataError(
            f"{error}: before it is written, the file is compared with PyTorch on test windows: "
            "name the data with data.path=FILE"
        ) from None
    if "test" not in data.rows:
        raise ConfigError(f"data.split={given['split']}: there are no test windows to compare on")
    return data


def print_report(path: Path, about: dict[str, Any], checked: dict[str, Any], data: Mapping[str, Any]) -> None:
    """Print the shapes, the result of the comparison and an example program that reads a file as `data` says."""
    lines = [f"written    {path} ({path.stat().st_size / 1e6:.1f} MB) and {metadata_path(path)}"]
    for what in ("inputs", "outputs"):
        shapes = {name: ", ".join(map(str, shape)) for name, shape in about[what].items()}
        lines += [f"{what[:-1]:10} {name} ({shape}) float64" for name, shape in shapes.items()]
    of_series = f", {checked['series']:,} series" if "series" in checked else ""
    lines.append(
        f"compared   with PyTorch on {checked['windows']:,} test windows of {checked['data']}{of_series}; largest "
        f"difference: {checked['largest_difference']:.2g} in scaled units (column {checked['column']})"
    )
    if checked["windows_beyond_tolerance"]:
        lines.append(
            f"           {checked['windows_beyond_tolerance']:,} windows differ by more than "
            f"tolerance={checked['tolerance']:g}: ProbSparse may do so in 1 window of {WINDOWS_PER_EXCEPTION:,}, "
            "because rounding can change its selection of queries"
        )
    print(*lines, "\nA program that runs the file without this package:\n", sep="\n")
    print(write_example(path, about, data))


def write_example(path: Path, about: dict[str, Any], data: Mapping[str, Any]) -> str:
    """A program that forecasts the steps after the end of a file, of one series if there are many.

    It reads my.csv or my.parquet, with one row per step and dates in the time zone of the data, as the data settings of
    the run say.
    """
    if about["as_of"] or about["known_steps"]:
        return "none: with data.as_of or data.known_steps, forecast.predict makes the inputs of the model"
    date, ids = data.get("date_column") or "date", list_id_columns(about["id_column"])
    dates = [date] if isinstance(date, str) else [*date]
    parts = find_parts(dates) if len(dates) > 1 else []
    if {"quarter", "week"} & {*parts}:
        return "none: forecast.predict reads years with quarters or weeks"
    location, arguments = locate(data.get("path")), None
    if not (is_folder(location) or location.suffix in PARQUET):
        given = {name: data[key] for key, (name, usual) in ARGUMENTS.items() if data.get(key) not in (usual, None)}
        if {*about["feature_columns"], *about["future_covariates"]} - {*about["target_columns"]}:
            given |= {f"{value}_values": spellings for value, spellings in BOOLEANS.items()}
        arguments = {"dtype": dict.fromkeys([*ids, *dates, *about["categories"]], "str"), **given}
    has_numbers = "year" in parts and {*parts} <= {*NUMBERS}  # else a column such as day has whole dates
    numbers = " ".join(NUMBERS[str(part)] for part in parts) if has_numbers else ""
    form = data.get("date_format") or re.sub("%H$", "%H:%M", numbers)
    how = f", format={form!r}" if form else ", dayfirst=True" * bool(data.get("day_first"))
    return render(
        Path(__file__).with_name("example.jinja"),
        about=about,
        file=str(path),
        description=str(metadata_path(path)),
        uses_holidays=any("holidays." in feature["pandas"] for feature in about["time_features"]),
        series=next(iter(about["series"])),
        arguments=arguments,
        ids=ids,
        separator=SEPARATOR,
        date=date_name(dates),
        dates=dates,
        has_hours=not data.get("date_format") and numbers[-2:] in ("", "%H"),  # the last text of a date may be an hour
        how=how,
        is_zoned=None not in (about["timezone"], about["utc_offset"]),  # instants, no local times or days
        offset=OFFSET,
        has_ends=data.get("stamp") == "end",
    )
