"""Write a trained model as one file that runs without this package: `python -m forecast.export --help`."""

import warnings
from pathlib import Path

from omegaconf import DictConfig

from forecast.cli import command
from forecast.configuration import check_checkpoint
from forecast.errors import ConfigError
from forecast.files import check_free, whole_file, write_json
from forecast.spread import spread

SUFFIX = {"onnx": ".onnx", "torch_export": ".pt2"}


def export(config: DictConfig) -> None:
    """Trace the forecast, write it under a temporary name, compare that file with PyTorch, and put it in place."""
    check_checkpoint(config)
    if config.format not in SUFFIX:
        raise ConfigError(f"format={config.format} is not one of {', '.join(SUFFIX)}")
    if config.tolerance is None:
        raise ConfigError("tolerance=null: a number is needed, as in tolerance=1e-4")
    if config.tolerance <= 0:
        raise ConfigError(f"tolerance={config.tolerance} must be above 0")
    if config.check_windows is not None and config.check_windows < 1:
        raise ConfigError(f"check_windows={config.check_windows} must be at least 1, or null for all")
    path = Path(config.output or f"model{SUFFIX[config.format]}").expanduser()
    if path.suffix != SUFFIX[config.format]:
        raise ConfigError(
            f"output={path}: format={config.format} needs a name that ends in {SUFFIX[config.format]}"
        )
    beside = path.with_suffix(".json")
    check_free(path, beside, overwrite=config.overwrite)

    # Here and not above, so that --help and --cfg answer without loading torch.
    import torch

    from forecast.data.csvfile import date_name
    from forecast.exported import onnx_file, torch_file
    from forecast.exported.about import describe
    from forecast.exported.difference import allowed_beyond, compare, test_data
    from forecast.exported.graph import ForecastGraph, trace
    from forecast.exported.report import check_result, saying, show
    from forecast.progress import track
    from forecast.trained import load

    warnings.filterwarnings("ignore", message=".*LeafSpec.*")  # torch.export's own use of torch
    file = onnx_file if config.format == "onnx" else torch_file
    file.check_installed()
    trained = load(config.checkpoint)
    trained.check_one_table("export")
    data = test_data(trained, config.data)
    count = len(data.windows["test"])
    chosen = torch.from_numpy(spread(count, config.check_windows or count))
    about = describe(trained)
    with whole_file(beside) as temporary_beside, whole_file(path) as temporary:
        with saying("Tracing the forecast"):
            program = trace(ForecastGraph.of(trained), about["inputs"])
        with saying(f"Writing {path}"):
            file.write(program, temporary, about)
            run = file.load(temporary)
        difference = compare(
            run, trained, data, chosen, config.tolerance, lambda batches: track(batches, "Comparing")
        )
        allowed = allowed_beyond(trained.network, len(chosen))
        checked = check_result(difference, data, about, config.tolerance, allowed=allowed)
        write_json(temporary_beside, {**about, "checked": checked})
    show(path, about, checked, date_name(trained.config["data"].get("date_column", "date")))


if __name__ == "__main__":
    command("export", export)
