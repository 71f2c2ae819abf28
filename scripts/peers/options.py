"""What the command line of scripts/benchmark_peers takes, and the sizes it stands for. Standard library alone."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Sizes:
    """Of the models and of what they are timed on; by default the Informer paper's."""

    d_model: int = 512
    n_heads: int = 8
    d_ff: int = 2048
    dropout: float = 0.05
    batch_size: int = 32
    lengths: tuple[str, ...] = ("96/48/24", "336/168/168")  # seq_len/label_len/pred_len
    layer_lengths: tuple[int, ...] = (512, 2048, 8192)
    layer_tokens: int = 4096  # in all, so the batch is tokens / length, at least 1
    landmarks: tuple[int, ...] = (32, 64)


TRAINED = Sizes(d_model=128, d_ff=512)
"""Of --train: at the paper's width a univariate model would take half an hour an epoch on two cores."""

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
    """The options; `sizes` follows from --quick."""
    parser = argparse.ArgumentParser(
        prog="scripts/benchmark_peers",
        description="Time training steps of neuralforecast's and transformers' Informer and transformers' "
        "Nyströmformer attention beside this project's, in one process, in turn; or train them (--train). "
        "They are installed in an environment that is removed afterwards.",
    )
    parser.add_argument(
        "--train",
        action="store_true",
        help="instead train the Informers on ETTh1 (all columns, 48/48→24, d_model 128) and compare test scores",
    )
    parser.add_argument("--epochs", type=positive, default=3, metavar="N", help="of --train (default: 3)")
    parser.add_argument(
        "--data-root", type=folder, default=ROOT / "data", metavar="FOLDER",
        help="where ETTh1.csv lies, or is downloaded to (default: data)",
    )  # fmt: skip
    parser.add_argument("--repeats", type=positive, metavar="N", help="timed rounds (default: 7; quick: 1)")
    parser.add_argument("--threads", type=positive, default=2, metavar="N", help="CPU threads (default: 2)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to try the script out; needs --out")
    parser.add_argument(
        "--env", type=folder, metavar="FOLDER", help="make the environment here and keep it, or use it again"
    )
    parser.add_argument(
        "--out", type=folder, metavar="FOLDER",
        help="where peers.json and peers.md, or peers-trained.*, go (default: docs/benchmarks)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.quick and options.out is None:
        parser.error("--quick needs --out FOLDER: its numbers must not replace real ones")
    options.out = options.out or ROOT / "docs" / "benchmarks"
    options.repeats = options.repeats or (1 if options.quick else 7)
    options.sizes = QUICK if options.quick else TRAINED if options.train else Sizes()
    return options


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return int(text)


def folder(text: str) -> Path:
    return Path(text).expanduser().absolute()


def command(options: argparse.Namespace) -> str:
    """The command that repeats the measurement, without the places of this machine."""
    words = ["scripts/benchmark_peers", f"--threads {options.threads} --repeats {options.repeats}"]
    words += ["--quick"] if options.quick else []
    words += [f"--train --epochs {options.epochs}"] if options.train else []
    return " ".join(words)
