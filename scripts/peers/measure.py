"""Measure everything, then show and save it: `scripts/benchmark_peers` runs this inside the environment it made."""

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

    from forecast.benchmark_report import hardware
    from forecast.errors import ForecastError
    from forecast.resources import keep_freed_memory

    from . import accuracy, page, timings

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    sizes = options.sizes
    results: dict[str, Any] = {
        "command": command(options),
        "hardware": hardware("cpu"),
        "versions": {name: version(name) for name in ("forecast", "neuralforecast", "transformers", "torch")}
        | {"python": platform.python_version()},
        "steps": [],
        "layers": [],
        "accuracy": [],
    }
    for length in sizes.lengths:
        progress(f"training steps {length}")
        results["steps"] += timings.training_steps(sizes, length, options.repeats)
    for length, landmarks in itertools.product(sizes.layer_lengths, sizes.landmarks):
        progress(f"Nyström self-attention, length {length:,}, {landmarks} landmarks")
        results["layers"] += timings.nystrom_layers(sizes, length, landmarks, options.repeats)
    if options.train:
        given = sizes, options.data_root, options.epochs
        try:
            for precision in accuracy.PRECISIONS:
                progress(f"training on ETTh1: ours, {precision}")
                results["accuracy"].append(accuracy.ours(*given, precision))
            progress("training on ETTh1: neuralforecast's, then transformers'")
            for row in accuracy.peers(*given):
                progress(f"trained {row['model']}'s")
                results["accuracy"].append(row)
        except (ForecastError, OSError) as error:
            sys.exit(f"error: {error}")
    page.show(results)
    page.save(options.out, results)
    progress(f"saved in {options.out}")


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
