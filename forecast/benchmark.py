"""Time and peak memory of attention kinds, one layer or a whole model: `python -m forecast.benchmark --help`."""

from pathlib import Path

from omegaconf import DictConfig

from forecast.cli import main


def benchmark(config: DictConfig) -> None:
    """Measure every kind at every length; print a table, save JSON, CSV and a picture."""
    # Here and not above, so that --help and --cfg answer without loading torch.
    import torch

    from forecast import benchmark_report
    from forecast.resources import keep_freed_memory

    keep_freed_memory()
    if config.threads:
        torch.set_num_threads(config.threads)
    device = config.device if config.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    rows = benchmark_report.measure(config, device)
    benchmark_report.save(Path(config.output_dir), config, rows, device)
    benchmark_report.show(Path(config.output_dir), config, rows, device)


if __name__ == "__main__":
    main("benchmark", benchmark)
