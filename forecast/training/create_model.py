"""Construction of a model from the group `model`; precision, memory and compilation; its attention and its inputs."""

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

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
from forecast.system.machine import read_cpu
from forecast.system.memory import available
from forecast.training.preparation import AUTO, is_float16

MAX_BUFFER_BYTES = 1 << 32  # largest size of a network's buffers, such as its table of positions
MIN_D_MODEL = 128  # d_model from which bfloat16 products save more time than its casts cost (docs/performance.md)
BYTES_PER_PARAMETER = 16  # float32 weight and gradient, and the two moments of Adam

# Of the settings that `estimate_size` reads, those that a message names: a property of the estimate, not of the keys.
OF_PARAMETERS = ("model.d_model", "model.d_ff", "model.encoder_layers")
OF_ACTIVATIONS = ("data.batch_size", "model.seq_len", "model.pred_len", "model.d_model")

FROM_DATA = ("n_features", "n_targets", "n_time_features", "n_quantiles")  # arguments of a model that are not settings


def model_class(settings: Mapping[str, Any]) -> type[ForecastModel]:
    """Import the class that `model._target_` names.

    Raises ConfigError: it cannot be imported, or is not a subclass of `ForecastModel`.
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
    check_arguments(model_class(settings), settings)
    tree = settings if isinstance(settings, DictConfig) else OmegaConf.create(settings)
    make = instantiate(tree, **roles_of_slots(settings))
    model = make(n_features=n_features, n_targets=n_targets, n_time_features=n_time_features, n_quantiles=n_quantiles)
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


def check_arguments(model: type[ForecastModel], settings: Mapping[str, Any]) -> None:
    """Raise ConfigError for settings that the constructor of a model does not take, or that it lacks."""
    given = [key for key in settings if not key.startswith("_")]
    try:
        inspect.signature(model).bind(**dict.fromkeys([*given, *FROM_DATA]))
    except TypeError as error:
        raise ConfigError(
            f"model: {model.__name__} {error}: set it, or leave out what sets it (model=, an experiment)"
        ) from None


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


class SlotSummary(NamedTuple):
    """The first attention layer of a slot (encoder, decoder, cross or variables)."""

    type: str  # name of the class without `Attention`
    role: str  # self, causal or cross
    queries: int  # tokens that ask
    keys: int  # tokens that are read
    equals_softmax: str  # why the layer computes exact softmax attention at these lengths; empty where it does not

    def __str__(self) -> str:
        return f"{self.type} ({self.role}, {format_tokens(self.role, self.queries, self.keys)} tokens)"


def summarize_attention(model: ForecastModel) -> dict[str, SlotSummary]:
    """Summarise the attention of each slot; empty for a model without attention layers."""
    found: dict[str, SlotSummary] = {}
    for layer in model.attention_layers():
        module = model.get_submodule(layer.name)
        if layer.slot not in found and isinstance(module, Attention):
            queries, keys = len(layer.queries), len(layer.memory)
            reason = module.why_equal_to_softmax(queries, keys) or ""
            found[layer.slot] = SlotSummary(module.type_name(), str(module.role), queries, keys, reason)
    return found


# ---- the hardware


@contextmanager
def computing(network: nn.Module, precision: object, device: torch.device) -> Iterator[torch.dtype]:
    """Move a network to a device and compute there in a precision, as Lightning's trainer does, without gradients.

    Yields the type of the numbers that the network reads.
    """
    mixed = {"bf16": torch.bfloat16, "16": torch.float16}.get(str(precision).partition("-")[0])
    dtype = torch.float64 if str(precision).startswith("64") else torch.float32
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    autocast = torch.autocast(device.type, dtype=mixed, enabled=mixed is not None, cache_enabled=False)
    try:
        network.to(device, dtype)
        with autocast, torch.inference_mode():
            yield dtype
    finally:
        torch.set_default_dtype(default)


def has_gpu(accelerator: str = AUTO) -> bool:
    """Whether an accelerator of a trainer is a GPU with CUDA."""
    return accelerator in (AUTO, "gpu", "cuda") and torch.cuda.is_available()


def keep_precision(saved: Any, otherwise: str = "32-true", accelerator: str = AUTO) -> Any:
    """Return the precision of a checkpoint, or `otherwise` for float16 without a GPU, which float16 needs."""
    return otherwise if is_float16(saved) and not has_gpu(accelerator) else saved


def best_precision(accelerator: str, width: int) -> str:
    """Return bf16-mixed for wide models on hardware with bfloat16 matrix units, else 32-true.

    Float16 is never chosen: it needs a scaled loss, and its range loses gradients.
    """
    if has_gpu(accelerator):
        multiplies_bfloat16 = torch.cuda.get_device_capability() >= (8, 0)
    else:
        runs_on_cpu = accelerator == "cpu" or (accelerator == AUTO and not torch.backends.mps.is_available())
        multiplies_bfloat16 = runs_on_cpu and "amx_bf16" in read_cpu("flags").split()
    return "bf16-mixed" if multiplies_bfloat16 and width >= MIN_D_MODEL else "32-true"


def check_memory(config: DictConfig, data: DataModule) -> None:
    """Raise ConfigError if the model or a batch of the data needs more memory, by a lower bound, than is free.

    The model is constructed in the memory of the machine. A batch is divided among machines and GPUs; the processes of
    a machine without GPUs share its memory.
    """
    batch = min(data.batch_size, data.n_windows.get("train", 1))
    columns = {"n_features": data.n_features, "n_targets": data.n_targets}
    size = model_class(config.model).estimate_size(config.model, **columns)
    trainer, in_machine = config.trainer, available()
    share, at_work = batch / trainer.num_nodes, in_machine
    if has_gpu(trainer.accelerator):  # each device holds its part of the batch
        share, at_work = share / most_gpus(trainer.devices), torch.cuda.mem_get_info()[0]
    bytes_per_activation = 2 if "16" in str(trainer.precision) else 4
    for needed, free, keys in (
        (BYTES_PER_PARAMETER * size.parameters, in_machine, OF_PARAMETERS),
        (bytes_per_activation * share * size.activations + 4 * size.tables, at_work, OF_ACTIVATIONS),
    ):
        if needed > free:
            values = {key: OmegaConf.select(config, key) for key in keys}
            asked = ", ".join(f"{key}={value}" for key, value in values.items() if value is not None)
            raise ConfigError(
                f"{asked} need at least {needed / 2**30:,.1f} GiB of memory, and {free / 2**30:,.1f} GiB are free: "
                "choose smaller values"
            )


def most_gpus(devices: object) -> int:
    """The largest number of GPUs that the setting `trainer.devices` can mean on this machine."""
    count = torch.cuda.device_count()
    return min(devices, count) if isinstance(devices, int) and devices > 0 else count


def compile_where_possible(model: nn.Module, device: torch.device) -> None:
    """Compile the model's forward pass for `device`, in place; without a compiler, warn and leave it as it is.

    PyTorch notices a missing C++ compiler, Triton or setuptools only at the first step. Therefore an addition is
    compiled first, which costs no time that the model would not cost.
    """
    try:
        torch.compile(lambda x: x + 1)(torch.zeros(2, device=device))
    except RuntimeError as error:  # the base class of PyTorch's compiler errors
        reason = str(getattr(error, "inner_exception", error)).strip().splitlines()[0]
        warnings.warn(f"compile=true: no working compiler here ({reason}); training continues uncompiled", stacklevel=2)
    else:
        model.compile()


# ---- inputs


def list_inputs(model: ForecastModel, data: DataModule, *, untrained: bool) -> list[str]:
    """Name what a model reads: `past of NAME`, `past and future of NAME`, `calendar`, `static NAME`.

    `untrained`: whether the warm start alone forecasts. Where it has no `linear_weights`, its inputs are not known, and
    all are named.
    """
    linear, past = model.linear_weights(), past_of_model(model, data.n_features, untrained=untrained)
    known = covariates_of_model(model, data.scaled, untrained=untrained)
    columns = [("past", data.feature_columns[i]) for i in sorted({*data.target_index} | past)]
    columns += [
        ("past and future" if ahead else "past", data.panel.future_covariates[i]) for i, ahead in sorted(known.items())
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

    `untrained`: see `list_inputs`.
    """
    linear = model.linear_weights()
    known = {} if linear is None else covariates_of_linear(linear, scaled)
    if linear is None or not untrained:
        for covariate in range(len(scaled.panel.future_covariates)):
            known[covariate] = known.get(covariate, False) or model.future_calendar
    return known
