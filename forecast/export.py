"""Write a trained model as one ONNX file that runs without this package: `forecast export --help`."""

from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from forecast.cli.compose import check_checkpoint
from forecast.cli.main import main_without_run_folder
from forecast.system.errors import ConfigError, NotInstalled
from forecast.system.files import atomic_file, check_output_files, output_file, write_json
from forecast.system.progress import status

if TYPE_CHECKING:
    from forecast.inference.model import TrainedModel


def export(config: DictConfig) -> None:
    """Trace the forecast, write it to a temporary file, compare that file with PyTorch, and move it into place."""
    from forecast.data.time_features import choose_evenly_spaced
    from forecast.inference.model_data import read_model_data
    from forecast.tools.export import metadata

    check_checkpoint(config)
    if config.tolerance <= 0:
        raise ConfigError(f"tolerance={config.tolerance} must be above 0")
    path = output_file(config.output, ".onnx")
    beside = metadata.metadata_path(path)
    check_output_files(path, beside, overwrite=config.overwrite)
    if missing := metadata.list_missing_packages():
        raise NotInstalled("forecast.export", "export", missing[0])
    data = metadata.read_test_data(read_model_data(config.checkpoint), config.data)
    import torch  # a file is refused before

    from forecast.inference.model import load
    from forecast.tools.export.graph import ForecastGraph, compare_with_pytorch, trace_forecast, write_onnx

    trained = load(config.checkpoint)
    data = trained.data(data)
    count = len(data.windows["test"])
    chosen = torch.from_numpy(choose_evenly_spaced(count, config.check_windows or count))
    about = metadata.describe_export(trained)
    with atomic_file(beside) as temporary_beside, atomic_file(path) as temporary:
        with status("Tracing the forecast"):
            program = trace_forecast(ForecastGraph(trained), about["inputs"])
        with status(f"Writing {path}"):
            write_onnx(program, temporary, about)
            run = metadata.load_onnx(temporary)
        checked = compare_with_pytorch(run, trained, about, data, chosen, config.tolerance)
        write_json(temporary_beside, {**about, "checked": checked})
    metadata.print_report(path, about, checked, describe_reading(trained, data.panel.grid.name))


def describe_reading(trained: "TrainedModel", date_column: object) -> dict[str, Any]:
    """The settings of reading the data of training, with names that were found by their content."""
    from forecast.data.files.header import DEFAULT_NAMES
    from forecast.inference.model_data import keep_date_order, name_keys

    reading = trained.config["data"]
    reading = {**name_keys(reading, trained.data_state), **reading}
    reading = keep_date_order(reading, trained.data_state["day_first"])
    if reading.get("date_column") in DEFAULT_NAMES and date_column:
        reading = {**reading, "date_column": date_column}
    return reading


if __name__ == "__main__":
    main_without_run_folder("export")
