"""Construction of a model from the configuration's group `model`."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, OmegaConf
from torch import nn
from torch.overrides import TorchFunctionMode

from forecast.models import ForecastModel
from forecast.system.errors import ConfigError

MAX_BUFFER_BYTES = 1 << 32
"""Largest size of a network's buffers, such as its table of positions."""

FROM_DATA = ("n_features", "n_targets", "n_time_features", "n_quantiles")
"""Arguments of a model that are not settings."""


def model_class(settings: Mapping[str, Any]) -> type[ForecastModel]:
    """Import the class that `model._target_` names.

    Raises:
        ConfigError: it cannot be imported, or is not a subclass of `ForecastModel`.
    """
    target = settings["_target_"]
    try:
        found = get_object(target)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"model._target_={target}: {' '.join(str(error).split())}") from error
    if not (isinstance(found, type) and issubclass(found, ForecastModel)):
        raise ConfigError(
            f"model._target_={target}: it is not a subclass of forecast.models.ForecastModel; derive your model from it"
        )
    return found


def create_model(
    settings: DictConfig | dict[str, Any],
    *,
    n_features: int,
    n_targets: int,
    n_time_features: int,
    n_quantiles: int = 1,
) -> ForecastModel:
    """Construct a model with its settings and the sizes that follow from the data.

    Raises:
        ConfigError: `model._target_` is not a subclass of `ForecastModel`, or does not take one of the settings, or
            the slot `variables` has an attention type and no layer reads over variables.
        ValueError: the model refuses a size.
    """
    check_settings(model_class(settings), settings)
    tree = settings if isinstance(settings, DictConfig) else OmegaConf.create(settings)
    make = instantiate(tree, **roles_of_slots(settings))
    model = make(
        n_features=n_features, n_targets=n_targets, n_time_features=n_time_features, n_quantiles=n_quantiles
    )
    check_variables(model, settings)
    return model


def roles_of_slots(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the role of the attention in each slot, as settings beside those of `model.attention`."""
    slots = settings.get("attention") or {}
    places = {slot: slots[slot] for slot in ("encoder", "decoder", "cross") if slot in slots}
    roles: dict[str, Any] = {
        slot: {"role": get_object(layer["_target_"]).role_in(slot)} for slot, layer in places.items()
    }
    if "variables" in slots:
        attention = get_object(slots["variables"]["encoder"]["_target_"])
        roles["variables"] = {"encoder": {"role": attention.role_in("variables")}}
    return {"attention": roles} if roles else {}


def check_settings(model: type[ForecastModel], settings: Mapping[str, Any]) -> None:
    """Raise ConfigError for settings that the constructor of a model does not take, or that it lacks."""
    parameters = inspect.signature(model).parameters
    several = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    named = {name: each for name, each in parameters.items() if each.kind not in several}
    missing = [
        f"model.{name}"
        for name, each in named.items()
        if each.default is each.empty and name not in (*settings, *FROM_DATA)
    ]
    if missing:
        raise ConfigError(
            f"{', '.join(missing)}: {model.__name__} has no default for this option: set it, or give the class a "
            "default"
        )
    unknown = [f"model.{key}" for key in settings if not key.startswith("_") and key not in named]
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    if unknown and not takes_any:
        raise ConfigError(
            f"{', '.join(unknown)}: {model.__name__} has no such option: leave it out; if size= or an "
            "experiment sets it, leave that or model= out"
        )


def check_variables(model: ForecastModel, settings: Mapping[str, Any]) -> None:
    """Raise ConfigError for an attention type of layers over variables if the model has no such layer."""
    slots = (settings.get("attention") or {}).get("variables")
    if slots and all(layer.slot != "variables" for layer in model.attention_layers()):
        raise ConfigError(
            f"variables={slots['types']['encoder']}: no layer of this model reads over variables: set "
            "model=patch_encoder model.tokens=axes and at least model.encoder_layers=2, or leave variables= out"
        )


class WithoutRandomValues(TorchFunctionMode):
    """Draw no random values: on the device `meta` that imports PyTorch's compiler, which takes seconds."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in (torch.Tensor.normal_, torch.Tensor.uniform_):
            return args[0]
        return func(*args, **(kwargs or {}))


def fits(make: Callable[[], nn.Module], weights: Mapping[str, torch.Tensor]) -> bool:
    """Whether a network has these weights and buffers of an allowed size, without allocating its memory."""
    with torch.device("meta"), WithoutRandomValues():
        network = make()
    if sum(buffer.nbytes for buffer in network.buffers()) >= MAX_BUFFER_BYTES:
        return False
    try:
        network.load_state_dict(weights, assign=True)
    except RuntimeError:  # other names, or other shapes
        return False
    return True
