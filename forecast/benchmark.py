"""Measure time and peak memory of attention types, as a layer or a model: `forecast benchmark --help`."""

from pathlib import Path

from omegaconf import DictConfig

from forecast.cli.main import main_with_run_folder
from forecast.system.memory import keep_freed_memory


def benchmark(config: DictConfig) -> None:
    """Measure every attention type at every length. Print a table, and save JSON, CSV and a picture."""
    import torch

    from forecast.tools.benchmark import measure_cases, report_results

    keep_freed_memory()
    if config.threads:
        torch.set_num_threads(config.threads)
    device = config.device if config.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    rows = measure_cases(config, device)
    report_results(Path(config.output_dir), config, rows, device)


if __name__ == "__main__":
    main_with_run_folder("benchmark", can_resume=False)
