"""Body of `python -m forecast.benchmark`: time and peak memory of attention types."""

from pathlib import Path

import torch
from omegaconf import DictConfig

from forecast.system.memory import keep_freed_memory
from forecast.tools.benchmark import measure_cases, print_results, save_results


def benchmark(config: DictConfig) -> None:
    """Measure every attention type at every length. Print a table, and save JSON, CSV and a picture."""
    keep_freed_memory()
    if config.threads:
        torch.set_num_threads(config.threads)
    device = config.device if config.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    rows = measure_cases(config, device)
    save_results(Path(config.output_dir), config, rows, device)
    print_results(Path(config.output_dir), config, rows, device)
