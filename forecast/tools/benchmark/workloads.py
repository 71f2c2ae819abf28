"""Workloads of the benchmark: an attention layer, its mixing, or training steps and inference of a model."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from forecast.attention import Attention
from forecast.attention.base import ROLES
from forecast.system.conf_folders import conf_files
from forecast.system.errors import ConfigError
from forecast.tools.benchmark.timing import Work
from forecast.training.create_model import create_model

NO_MIXING = "no mixing"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class NoMixing(Attention):
    """The lower bound: an attention layer with all its projections that returns the values unchanged."""

    roles = frozenset({"self", "causal"})

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return v


@dataclass(frozen=True)
class Case:
    """One measurement.

    Attributes:
        attention: attention type.
        length: length of the sequences of a layer, or seq_len/label_len/pred_len of a model.
        backward: whether a backward pass follows (for a model: a training step instead of inference).
    """

    attention: str
    length: str
    backward: bool

    @property
    def steps(self) -> int:
        """Length of the layer, or seq_len of the model."""
        return int(self.length.split("/")[0])


def list_cases(config: DictConfig) -> list[Case]:
    """Return the cases of all lengths and of all attention types that can serve the role, by length, then type.

    Raises:
        ConfigError: an attention type, part or length is unknown, or no type can serve the role.
    """
    check_choices(config)
    known = [path.stem for path in conf_files("attention")]
    for attention in config.attention_types:
        if attention not in known:
            raise ConfigError(f"attention_types: {attention} is unknown; choose from {', '.join(known)}")
    lengths = [str(length) for length in config.benchmark.lengths]
    parts = 3 if config.benchmark.name == "model" else 1
    for length in lengths:
        if len(length.split("/")) != parts or not all(p.isdigit() and int(p) > 0 for p in length.split("/")):
            form = (
                "seq_len/label_len/pred_len such as 96/48/24" if parts == 3 else "a whole number such as 512"
            )
            raise ConfigError(f"benchmark.lengths: {length} must be {form}")
    types = [attention for attention in config.attention_types if can_serve_role(config, attention)]
    if not types:
        role = config.benchmark.get("role")
        raise ConfigError(
            f"attention_types: none of {list(config.attention_types)} can serve benchmark.role={role}"
        )
    if config.benchmark.get("part") == "layer" and config.benchmark.role != "cross":
        types.append(NO_MIXING)
    return [
        Case(attention, length, backward)
        for length in lengths
        for attention in types
        for backward in (False, True)
    ]


def check_choices(config: DictConfig) -> None:
    """Check the settings that choose from a list. Raises ConfigError."""
    choices = {
        "device": ("auto", "cpu", "cuda"),
        "precision": tuple(DTYPES),
        "benchmark.part": ("layer", "mixing"),
        "benchmark.role": ROLES,
    }
    for key, allowed in choices.items():
        value = OmegaConf.select(config, key)
        if value is not None and value not in allowed:
            raise ConfigError(f"{key}={value} must be one of {', '.join(allowed)}")
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device=cuda: PyTorch finds no GPU; use device=cpu or device=auto")
    for key in ("attention_types", "benchmark.lengths"):
        values = list(map(str, OmegaConf.select(config, key)))
        if not values or len(set(values)) < len(values):
            raise ConfigError(f"{key}={values} must list at least one value, and each only once")


def can_serve_role(config: DictConfig, attention: str) -> bool:
    role = config.benchmark.get("role")
    return role is None or role in get_attention_factory(config, attention).func.roles


def get_attention_factory(config: DictConfig, attention: str, role: str | None = None) -> Any:
    """Return the attention class with the options of conf/attention/<attention>.yaml, in this role."""
    layer = {**load_type(attention), "role": role or "self"}
    return instantiate(OmegaConf.create({**attention_options(config), "layer": layer}).layer)


def load_type(attention: str) -> dict[str, Any]:
    """Return the class and the options of an attention type, as a constructor."""
    file = next(path for path in conf_files("attention") if path.stem == attention)
    content: Any = OmegaConf.load(file)
    return {**content, "_partial_": True}


def attention_options(config: DictConfig) -> dict[str, Any]:
    """Return the top-level keys that the attention slots refer to."""
    return {key: config[key] for key in ("factor", "sampling", "num_landmarks", "feature_map")}


def batch_size(config: DictConfig, case: Case) -> int:
    """Return the windows in a batch of the model, or the sequences in a batch of the layer."""
    settings = config.benchmark
    return settings.batch_size if settings.name == "model" else max(1, settings.tokens // case.steps)


def make_work(config: DictConfig, case: Case, device: str) -> Work:
    """Create the inputs and weights of a case, and return the function that is timed."""
    torch.manual_seed(0)
    return (make_step if config.benchmark.name == "model" else make_layer_call)(config, case, device)


def make_layer_call(config: DictConfig, case: Case, device: str) -> Work:
    """Return a call of a layer, or of its mixing only, on random numbers."""
    settings, length, batch = config.benchmark, case.steps, batch_size(config, case)
    d_model = settings.n_heads * settings.head_dim
    make_attention = (
        NoMixing
        if case.attention == NO_MIXING
        else get_attention_factory(config, case.attention, settings.role)
    )
    dtype = DTYPES[config.precision]
    layer: Attention = make_attention(d_model, settings.n_heads, role=settings.role).to(device, dtype)
    if settings.part == "mixing":
        shape = (batch, settings.n_heads, length, settings.head_dim)
        inputs = [torch.randn(shape, device=device, dtype=dtype, requires_grad=True) for _ in range(3)]
        call: Callable[[], Tensor] = lambda: layer.mix(*inputs)  # noqa: E731
    else:
        shape = (batch, length, d_model)
        inputs = [torch.randn(shape, device=device, dtype=dtype, requires_grad=True)]
        memory = inputs[0] if settings.role != "cross" else torch.randn_like(inputs[0], requires_grad=True)
        call = lambda: layer(inputs[0], memory)  # noqa: E731
    if not case.backward:
        return torch.no_grad()(call)
    gradient = torch.randn(shape, device=device, dtype=dtype)
    leaves = [*inputs, *layer.parameters()]

    def forward_and_backward() -> None:
        torch.autograd.grad(call(), leaves, gradient, allow_unused=True)

    return forward_and_backward


def make_step(config: DictConfig, case: Case, device: str) -> Work:
    """Return a training step (forward, backward, Adam) or an inference of the configured model, on random numbers."""
    seq_len, label_len, pred_len = (int(part) for part in case.length.split("/"))
    settings, n_time = config.benchmark, 4
    sizes = {"seq_len": seq_len, "label_len": label_len, "pred_len": pred_len}
    types = {"encoder": case.attention, "decoder": case.attention, "cross": "full"}
    attention = {slot: load_type(attention) for slot, attention in types.items()}
    model_settings = {**config.model, **sizes, "attention": attention}
    tree = OmegaConf.create({**attention_options(config), "model": model_settings})
    columns = settings.n_features
    made = create_model(tree.model, n_features=columns, n_targets=columns, n_time_features=n_time)
    model = made.to(device)
    if settings.compile:
        torch._dynamo.reset()  # after eight graphs for one module, torch.compile falls back to eager execution
        model.compile()
    rows = batch_size(config, case)
    past, future = torch.randn(rows, seq_len, columns), torch.randn(rows, pred_len, columns)
    past_time, future_time = torch.rand(rows, seq_len, n_time), torch.rand(rows, pred_len, n_time)
    past, future, past_time, future_time = (x.to(device) for x in (past, future, past_time, future_time))
    dtype = DTYPES[config.precision]
    autocast = nullcontext() if dtype == torch.float32 else torch.autocast(device, dtype)
    if not case.backward:
        model.eval()

        def infer() -> None:
            with torch.no_grad(), autocast:
                model(past, past_time, future_time)

        return infer
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)

    def train_step() -> None:
        optimizer.zero_grad()
        with autocast:
            loss = torch.nn.functional.mse_loss(model(past, past_time, future_time), future)
        loss.backward()
        optimizer.step()

    return train_step
