"""What `forecast.benchmark` runs: an attention layer or its mixing alone, or steps of a whole model."""

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
from forecast.errors import ConfigError
from forecast.paths import CONF
from forecast.timing import Work

FLOOR = "no mixing"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class NoMixing(Attention):
    """The floor: every projection of an attention layer, and the values handed on as they are."""

    roles = frozenset({"self", "causal"})

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return v


@dataclass(frozen=True)
class Case:
    """One thing to measure: a kind at a length, forward alone or forward and backward (a whole training step)."""

    kind: str
    length: str
    backward: bool

    @property
    def steps(self) -> int:
        """The length as a number: the layer's, or the window's of a model."""
        return int(self.length.split("/")[0])


def cases(config: DictConfig) -> list[Case]:
    """Every case that the configuration asks for and a kind can serve, by length, then kind.

    Raises:
        ConfigError: an unknown kind, part or length, or nothing to measure.
    """
    check(config)
    known = sorted(path.stem for path in (CONF / "attention").glob("*.yaml"))
    for kind in config.kinds:
        if kind not in known:
            raise ConfigError(f"kinds: {kind} is unknown; there are {', '.join(known)}")
    lengths = [str(length) for length in config.benchmark.lengths]
    parts = 3 if config.benchmark.name == "model" else 1
    for length in lengths:
        if len(length.split("/")) != parts or not all(p.isdigit() and int(p) > 0 for p in length.split("/")):
            form = (
                "seq_len/label_len/pred_len such as 96/48/24" if parts == 3 else "a whole number such as 512"
            )
            raise ConfigError(f"benchmark.lengths: {length} must be {form}")
    kinds = [kind for kind in config.kinds if serves(config, kind)]
    if not kinds:
        raise ConfigError(f"kinds: none of {list(config.kinds)} serves role {config.benchmark.get('role')}")
    if config.benchmark.get("part") == "layer" and config.benchmark.role != "cross":
        kinds.append(FLOOR)
    return [
        Case(kind, length, backward) for length in lengths for kind in kinds for backward in (False, True)
    ]


def check(config: DictConfig) -> None:
    """Raises ConfigError for settings that name nothing there is."""
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
        raise ConfigError("device=cuda: PyTorch finds no GPU here; leave it out, or device=cpu")
    for key in ("kinds", "benchmark.lengths"):
        values = list(map(str, OmegaConf.select(config, key)))
        if not values or len(set(values)) < len(values):
            raise ConfigError(f"{key}={values} must name at least one, each once")


def serves(config: DictConfig, kind: str) -> bool:
    role = config.benchmark.get("role")
    return role is None or role in made_by(config, kind).func.roles


def made_by(config: DictConfig, kind: str, role: str | None = None) -> Any:
    """What makes the kind's attention, as conf/attention says of the encoder or conf/cross, for the role given."""
    if role == "cross":
        slot = OmegaConf.load(CONF / "cross" / f"{kind}.yaml")
    else:
        slot = OmegaConf.load(CONF / "attention" / f"{kind}.yaml").encoder
    slot._partial_, slot.role = True, role or slot.role
    knobs = {key: config[key] for key in ("factor", "sampling", "num_landmarks", "feature_map")}
    return instantiate(OmegaConf.create({**knobs, "slot": slot}).slot)


def make(config: DictConfig, case: Case, device: str) -> Work:
    """The work of a case, its inputs and weights made."""
    torch.manual_seed(0)
    return (make_step if config.benchmark.name == "model" else make_layer)(config, case, device)


def make_layer(config: DictConfig, case: Case, device: str) -> Work:
    """One call of a layer, or of its mixing alone, on random numbers."""
    settings, length = config.benchmark, case.steps
    batch = max(1, settings.tokens // length)
    d_model = settings.n_heads * settings.head_dim
    make_kind = NoMixing if case.kind == FLOOR else made_by(config, case.kind, settings.role)
    dtype = DTYPES[config.precision]
    layer: Attention = make_kind(d_model, settings.n_heads, role=settings.role).to(device, dtype)
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
    """A training step (forward, backward, Adam) or an inference of the configured model."""
    seq_len, label_len, pred_len = (int(part) for part in case.length.split("/"))
    settings, n_time = config.benchmark, 4
    sizes = {"seq_len": seq_len, "label_len": label_len, "pred_len": pred_len}
    attention = OmegaConf.load(CONF / "attention" / f"{case.kind}.yaml")
    knobs = {key: config[key] for key in ("factor", "sampling", "num_landmarks", "feature_map")}
    tree = OmegaConf.create({**knobs, "model": {**config.model, **sizes, "attention": attention}})
    columns = settings.n_features
    model = instantiate(tree.model)(n_features=columns, n_targets=columns, n_time_features=n_time).to(device)
    if settings.compile:
        torch._dynamo.reset()  # it holds eight graphs of one module's call, and runs what comes after uncompiled
        model.compile()
    rows = settings.batch_size
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
