"""Construction of a model from the configuration's group `model`; its attention layers and the inputs that it reads."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, OmegaConf
from torch import nn
from torch.overrides import TorchFunctionMode

from forecast.attention import Attention
from forecast.data import DataModule
from forecast.data.scaled_panel import ScaledPanel
from forecast.linear.covariate_steps import covariates_of_linear
from forecast.models import ForecastModel
from forecast.system.errors import ConfigError
from forecast.system.formatting import format_tokens

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


@dataclass(frozen=True)
class SlotSummary:
    """The first attention layer of a slot (encoder, decoder, cross or variables).

    type: name of the class without `Attention`.
    role: self, causal or cross.
    queries, keys: numbers of tokens.
    equals_softmax: why the layer computes exact softmax attention at these lengths; empty where it does not.
    """

    type: str
    role: str
    queries: int
    keys: int
    equals_softmax: str

    def __str__(self) -> str:
        return f"{self.type} ({self.role}, {format_tokens(self.role, self.queries, self.keys)} tokens)"


def summarize_attention(model: ForecastModel) -> dict[str, SlotSummary]:
    """Summarise the attention of each slot; empty for a model without attention layers."""
    found: dict[str, SlotSummary] = {}
    for layer in model.attention_layers():
        module = model.get_submodule(layer.name)
        if layer.slot not in found and isinstance(module, Attention):
            queries, keys = len(layer.query_steps), len(layer.memory_steps)
            reason = module.why_equal_to_softmax(queries, keys) or ""
            found[layer.slot] = SlotSummary(module.type_name(), str(module.role), queries, keys, reason)
    return found


def describe_equal_to_softmax(slots: dict[str, SlotSummary]) -> str:
    """One sentence on the slots whose attention equals softmax at these lengths; empty where there is none."""
    reasons = [
        f"{slot}: {one.type} {one.equals_softmax}" for slot, one in slots.items() if one.equals_softmax
    ]
    return (
        f"these layers compute exact softmax attention, as attention=full does ({', '.join(reasons)})"
        if reasons
        else ""
    )


# ---- inputs


def list_inputs(model: ForecastModel, data: DataModule, *, untrained: bool) -> list[str]:
    """Name what a model reads: `past of NAME`, `past and future of NAME`, `calendar`, `static NAME`.

    Args:
        model: the model, with its warm start.
        data: its data.
        untrained: whether the warm start alone forecasts. Where it has no `linear_weights`, its inputs are not known,
            and all are named.
    """
    linear, past = model.linear_weights(), past_of_model(model, data.n_features, untrained=untrained)
    known = covariates_of_model(model, data.scaled, untrained=untrained)
    columns = [("past", data.feature_columns[i]) for i in sorted({*data.target_index} | past)]
    columns += [
        ("past and future" if ahead else "past", data.panel.future_covariates[i])
        for i, ahead in sorted(known.items())
    ]
    # an indicator of a category is named by the column of the file
    read = [f"{part} of {data.panel.indicators.get(column, column)}" for part, column in columns]
    if linear is None or not untrained:
        read += ["calendar", *(f"static {column}" for column in data.panel.static.columns)]
    return list(dict.fromkeys(read))


def past_of_model(model: ForecastModel, n_features: int, *, untrained: bool) -> set[int]:
    """The numbers of the columns, beside the targets, whose past a model reads; see `list_inputs`."""
    linear = model.linear_weights()
    past = set() if linear is None else {position % n_features for position in linear.past_index.tolist()}
    if linear is None or not untrained:
        past |= set(() if model.tokens == "independent" else range(n_features))
    return past


def covariates_of_model(model: ForecastModel, scaled: ScaledPanel, *, untrained: bool) -> dict[int, bool]:
    """The numbers of the future covariates that a model reads, and whether it reads them after the forecast origin.

    Args:
        model, untrained: see `list_inputs`.
        scaled: its data, scaled.
    """
    linear = model.linear_weights()
    known = {} if linear is None else covariates_of_linear(linear, scaled)
    if linear is None or not untrained:
        for covariate in range(len(scaled.panel.future_covariates)):
            known[covariate] = known.get(covariate, False) or model.future_calendar
    return known
