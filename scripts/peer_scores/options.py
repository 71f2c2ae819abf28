"""The command line of `scripts/peers_accuracy`. Standard library only."""

import argparse
from collections.abc import Sequence

from arguments import add_environment, folder
from peer_scores.forecasters import FORECASTERS
from peer_scores.tasks import TASKS
from results.settings import ROOT


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(
        prog="scripts/peers_accuracy",
        description="Train this project, LightGBM and models of neuralforecast on the same rows and covariates, one "
        "thread each, and score them on the same test windows. Finished results are kept in peers-accuracy.json; the "
        "same command runs those that are missing. The packages are installed in an environment of their own.",
    )
    parser.add_argument(
        "--root",
        type=folder,
        required=True,
        help="folder with epf/NP.csv, ..., GEFCom2014-E.csv, ETTm1.csv, weather.csv",
    )
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--forecasters", nargs="+", choices=FORECASTERS, default=list(FORECASTERS))
    add_environment(parser)
    parser.add_argument(
        "--out", type=folder, metavar="FOLDER", default=ROOT / "docs" / "benchmarks",
        help="folder for peers-accuracy.json and peers-accuracy.md (default: docs/benchmarks)",
    )  # fmt: skip
    return parser.parse_args(arguments)
