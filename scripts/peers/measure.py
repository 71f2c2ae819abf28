"""Measure, print and save the comparison. `scripts/benchmark_peers` runs this module in the environment it creates."""

import argparse
import itertools
import logging
import platform
import sys
import warnings
from importlib.metadata import version
from typing import Any

from .options import command, parse


def main() -> None:
    options = parse()
    import torch

    from forecast.system.errors import ForecastError
    from forecast.system.memory import keep_freed_memory

    from . import page

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    try:
        results = measure(options)
    except (ForecastError, OSError) as error:
        sys.exit(f"error: {error}")
    page.show(results)
    page.save(options.out, results)
    progress(f"saved in {options.out}")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure times, or scores with --train."""
    from forecast import __version__
    from forecast.tools.benchmark.measurement import describe_hardware

    from . import accuracy, timings

    sizes = options.sizes
    config, data = accuracy.load_data(options.data_root) if options.train else (None, None)
    names = ("neuralforecast", "transformers", "torch")
    results: dict[str, Any] = {
        "command": command(options),
        "quick": options.quick,
        "hardware": describe_hardware("cpu"),
        "versions": {
            "forecast": __version__,
            **{name: version(name) for name in names},
            "python": platform.python_version(),
        },
        "steps": [],
        "layers": [],
        "accuracy": [],
    }
    if config is not None and data is not None:
        for precision in accuracy.PRECISIONS:
            progress(f"training on ETTh1: ours, {precision}")
            results["accuracy"].append(accuracy.ours(sizes, options.data_root, options.epochs, precision))
        progress("training on ETTh1: neuralforecast and transformers")
        results["accuracy"] += accuracy.peers(sizes, config, data, options.epochs)
        return results
    for length in sizes.lengths:
        progress(f"training steps {length}")
        results["steps"] += timings.training_steps(sizes, length, options.repeats)
    for length, landmarks in itertools.product(sizes.layer_lengths, sizes.landmarks):
        progress(f"Nyström self-attention, length {length:,}, {landmarks} landmarks")
        results["layers"] += timings.nystrom_layers(sizes, length, landmarks, options.repeats)
    return results


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
