"""Settings that could run code and damaged checkpoints, with the text of each message."""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from forecast.checkpoints.file import load_newest, save_checkpoint
from forecast.cli import safety
from forecast.cli.compose import compose_command
from forecast.system.errors import CheckpointError, ConfigError
from tests.support.refusals import Refusal


def command(what: str, says: str, *overrides: str) -> Refusal:
    def call(folder: Path) -> None:
        safety.check_composed(compose_command("train", list(overrides)))

    return Refusal(what, says, ConfigError, call)


def flag(name: str) -> Refusal:
    """A flag of Hydra that names another place of configurations."""
    typed = {**dict.fromkeys(safety.FLAGS), name: "/elsewhere"}
    says = f"--{name.replace('_', '-')}: settings come only from conf/ and the command line; put a YAML file into conf/"
    return Refusal(name, says, ConfigError, lambda folder: safety.check_flags(Namespace(**typed)))


def endless(folder: Path) -> None:
    repeated = (f"a{n}: {{x: '${{a{n - 1}}}', y: '${{a{n - 1}}}'}}\n" for n in range(1, 40))
    safety.check_targets(OmegaConf.create("a0: {x: 1}\n" + "".join(repeated)), frozenset())


def damaged(change: Callable[[bytes], bytes], *names: str) -> Callable[[Path], None]:
    """The two checkpoints of a run, of which these are damaged."""

    def call(folder: Path) -> None:
        for name in ("last", "last-1"):
            path = folder / "checkpoints" / f"{name}.ckpt"
            save_checkpoint({"forecast_version": "1", "weights": torch.randn(1000)}, path)
            if name in names:
                path.write_bytes(change(path.read_bytes()))
        load_newest(folder)

    return call


def flip(content: bytes) -> bytes:
    """Change a bit of the weights, in the middle of the file."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def cut_short(content: bytes) -> bytes:
    return content[:-30]


REFUSED = [
    command("a search space of a function", "hydra.sweeper.custom_search_space: there is no such key… (--cfg job lists them all)", "search=informer", "hydra.sweeper.custom_search_space=os.system"),
    command("a class that conf/ does not name", "model.attention.encoder._target_=forecast.attention.MineAttention: no file below conf/ names this class; nothing was run. Name a class of your own in a YAML file there, or in the environment variable FORECAST_TARGETS", "model.attention.encoder._target_=forecast.attention.MineAttention"),
    *(flag(name) for name in safety.FLAGS),
    Refusal("a configuration that repeats itself", "the settings repeat themselves without end", ConfigError, endless),
    Refusal("a changed bit in every checkpoint", "checkpoints/last-1.ckpt: the file is damaged, or it is not a checkpoint", CheckpointError, damaged(flip, "last", "last-1")),
    Refusal("every checkpoint cut short", "checkpoints/last-1.ckpt: the file is damaged, or it is not a checkpoint", CheckpointError, damaged(cut_short, "last", "last-1")),
    Refusal("the newest checkpoint cut short", "checkpoints/last.ckpt: the file is damaged, or it is not a checkpoint; resuming from last-1.ckpt instead", UserWarning, damaged(cut_short, "last")),
]  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSED, ids=lambda refusal: refusal.what)
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)
