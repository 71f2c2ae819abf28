"""Command line of scripts/benchmark_peers, and the sizes that it selects. Standard library only."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from arguments import add_environment, folder, positive

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Sizes:
    """Sizes of the models and of their inputs; the defaults are those of the Informer paper."""

    d_model: int = 512
    n_heads: int = 8
    d_ff: int = 2048
    dropout: float = 0.05
    batch_size: int = 32
    lengths: tuple[str, ...] = ("96/48/24", "336/168/168")  # seq_len/label_len/pred_len
    layer_lengths: tuple[int, ...] = (512, 2048, 8192)
    layer_tokens: int = 4096  # tokens per batch: the batch size is tokens / length, at least 1
    landmarks: tuple[int, ...] = (32, 64)


TRAINED = Sizes(d_model=128, d_ff=512)
"""Sizes for --train: with the width of the paper, a univariate model takes half an hour per epoch on two cores."""

QUICK = Sizes(
    d_model=16,
    n_heads=2,
    d_ff=32,
    batch_size=3,
    lengths=("24/12/6",),
    layer_lengths=(64, 128),
    layer_tokens=128,
    landmarks=(8,),
)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the options; `sizes` follows from --quick and --train."""
    parser = argparse.ArgumentParser(
        prog="scripts/benchmark_peers",
        description="Compare the Informer of this project with those of neuralforecast and transformers, and its "
        "Nyström attention with that of transformers: time training steps in turn in one process, or train the models "
        "(--train). The packages are installed in an environment that is removed afterwards.",
    )
    parser.add_argument(
        "--train",
        action="store_true",
        help="train the Informers on ETTh1 (all columns, 48/48→24, d_model 128) and compare test scores instead",
    )
    parser.add_argument(
        "--epochs", type=positive, default=3, metavar="N", help="epochs of --train (default: 3)"
    )
    parser.add_argument(
        "--data-root", type=folder, default=ROOT / "data", metavar="FOLDER",
        help="folder of ETTh1.csv, which is downloaded if it is missing (default: data)",
    )  # fmt: skip
    parser.add_argument(
        "--repeats", type=positive, metavar="N", help="timed rounds (default: 7; with --quick: 1)"
    )
    parser.add_argument("--threads", type=positive, default=2, metavar="N", help="CPU threads (default: 2)")
    parser.add_argument("--quick", action="store_true", help="small sizes, to test the script; needs --out")
    add_environment(parser)
    parser.add_argument(
        "--out", type=folder, metavar="FOLDER",
        help="folder for peers.json and peers.md, or peers-trained.* (default: docs/benchmarks)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.quick and options.out is None:
        parser.error("--quick needs --out FOLDER, so that it does not replace real measurements")
    options.out = options.out or ROOT / "docs" / "benchmarks"
    options.repeats = options.repeats or (1 if options.quick else 7)
    options.sizes = QUICK if options.quick else TRAINED if options.train else Sizes()
    return options


def command(options: argparse.Namespace) -> str:
    """Return the command that repeats the measurement, without the folders of this machine."""
    words = ["scripts/benchmark_peers", f"--threads {options.threads} --repeats {options.repeats}"]
    words += ["--quick"] if options.quick else []
    words += [f"--train --epochs {options.epochs}"] if options.train else []
    return " ".join(words)
