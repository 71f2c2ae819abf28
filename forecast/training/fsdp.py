"""Sharding of a model's parameters, gradients and optimizer state over the processes (`trainer=fsdp`), by FSDP2."""

from typing import Any

import lightning as L
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed.fsdp import FSDPModule, fully_shard

from forecast.models import ForecastModel


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
