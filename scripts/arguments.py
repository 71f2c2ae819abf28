"""Types of command-line arguments, and an argument of several scripts. Standard library only."""

import argparse
from pathlib import Path


def positive(text: str) -> int:
    """Convert a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return int(text)


def folder(text: str) -> Path:
    """Convert a path to an absolute one."""
    return Path(text).expanduser().absolute()


def add_environment(parser: argparse.ArgumentParser) -> None:
    """Add the argument of scripts that install other libraries."""
    parser.add_argument(
        "--env",
        type=folder,
        metavar="FOLDER",
        help="create the environment in this folder and keep it, or reuse it",
    )
