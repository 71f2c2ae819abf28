"""Training in several processes: messages, sharded weights, random states, and one table and configuration for all."""

import platform
from pathlib import Path
from typing import Any, NamedTuple, cast

import lightning as L
import torch.distributed as dist
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed.fsdp import FSDPModule, fully_shard

from forecast.data import DataModule
from forecast.data.panel import describe_content, digest
from forecast.models import ForecastModel
from forecast.system.errors import ConfigError, DataError
from forecast.system.formatting import shorten
from forecast.system.keys import first_difference, identity


def gather(trainer: L.Trainer, value: Any) -> list[Any]:
    """Return the values of all processes, by rank; tensors should be on the CPU."""
    if trainer.world_size == 1:
        return [value]
    gathered: list[Any] = [None] * trainer.world_size
    dist.all_gather_object(gathered, value)
    return gathered


def shard(model: ForecastModel, trainer: L.Trainer) -> None:
    """Shard the weights if the trainer's strategy is FSDP; a second call does nothing.

    Each layer is one unit, so that its weights are gathered only while it is computed. Layers that share an attention
    form one unit.
    """
    if not isinstance(trainer.strategy, ModelParallelStrategy) or is_sharded(model):
        return
    layers = model.shardable_layers()
    own = [parameter for layer in layers for parameter in layer.parameters()]
    if len(own) == len(set(own)):
        for layer in layers:
            fully_shard(layer)
    fully_shard(model)


def is_sharded(model: ForecastModel) -> bool:
    """Whether each process holds only its shard of the weights."""
    return isinstance(model, FSDPModule)


def load_whole(model: ForecastModel, content: dict[str, Any]) -> ForecastModel:
    """Load a checkpoint's weights into the unsharded `model`, which one process can evaluate alone; return it."""
    weights = content["state_dict"]
    model.load_state_dict({name.removeprefix("model."): value for name, value in weights.items()})
    return model


class Fingerprint(NamedTuple):
    """The machine of a process, its table in words, and its settings that must be equal on all machines."""

    host: str
    table: str
    settings: dict[str, Any]


class RankConsistency(L.Callback):
    """Compare the tables and configurations of all processes before training; describe the table in checkpoints.

    Raises:
        DataError: naming two processes and their tables.
        ConfigError: naming the first key whose value differs.
    """

    def setup(self, trainer: L.Trainer, module: L.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        data = cast(DataModule, module.data)
        self._table = describe_content(data.panel)
        if trainer.world_size > 1:
            compare(gather(trainer, fingerprint(data, dict(module.hparams))))

    def state_dict(self) -> dict[str, Any]:
        return {"table": self._table}


def check_same_table(checkpoint: Path, content: dict[str, Any], data: DataModule) -> None:
    """Raise DataError if the checkpoint's run read another table than `data` has now."""
    before, now = content["callbacks"]["RankConsistency"]["table"], describe_content(data.panel)
    if before != now:
        raise DataError(
            f"{checkpoint}: this run was started with {before}, and {data.title} has {now}: restore the old table, or "
            "leave out resume=auto to start a new run"
        )


def fingerprint(data: DataModule, config: dict[str, Any]) -> Fingerprint:
    """Summarise this process's data and configuration, without the keys that may differ between machines."""
    panel, names = data.panel, shorten(tuple(data.columns), 5)
    table = f"{panel.n_rows:,} rows of {names} from {panel.first_date} to {panel.last_date} with hash {digest(panel)}"
    return Fingerprint(platform.node(), table, identity(config, per_machine=False))


def compare(fingerprints: list[Fingerprint]) -> None:
    """Compare each process with the first; raises the errors of `RankConsistency`."""
    first = fingerprints[0]
    for rank, other in enumerate(fingerprints):
        if other.table != first.table:
            raise DataError(
                f"process 0 reads {first.table} on {first.host}, process {rank} reads {other.table} on {other.host}: "
                "give every process the same table"
            )
        difference = first_difference(first.settings, other.settings)
        if difference is not None:
            key, value, other_value = difference
            raise ConfigError(
                f"process 0 on {first.host} has {key}={value}, process {rank} on {other.host} has {other_value}: "
                "type the same command on every machine"
            )
