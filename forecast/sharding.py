"""One model's parameters, gradients and optimizer shared out over the processes (`trainer=fsdp`), by FSDP2."""

from pathlib import Path

import lightning as L
from lightning.pytorch.strategies import ModelParallelStrategy
from torch import nn
from torch.distributed.fsdp import FSDPModule, fully_shard

from forecast.checkpoint import load_checkpoint
from forecast.model.layers import DecoderLayer, EncoderLayer


def shard(model: nn.Module, trainer: L.Trainer) -> None:
    """Leave each process its share of the weights, where the trainer's strategy says so; a second call does nothing.

    Layer by layer: a layer's whole weights exist only while it is computed. Layers that share an attention are one.
    """
    if not isinstance(trainer.strategy, ModelParallelStrategy) or isinstance(model, FSDPModule):
        return
    layers = [module for module in model.modules() if isinstance(module, EncoderLayer | DecoderLayer)]
    own = [parameter for layer in layers for parameter in layer.parameters()]
    if len(own) == len(set(own)):
        for layer in layers:
            fully_shard(layer)
    fully_shard(model)


def whole(model: nn.Module, checkpoint: Path) -> nn.Module:
    """`model` with the checkpoint's weights: what one process may compute without the others."""
    state = load_checkpoint(checkpoint)["state_dict"]
    model.load_state_dict({name.removeprefix("model."): weights for name, weights in state.items()})
    return model
