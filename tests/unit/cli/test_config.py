"""Every file in conf/ composes, and the classes that it names can be created with its keys."""

import inspect
from collections.abc import Iterator
from copy import deepcopy

import pytest
import torch
from hydra.utils import get_class, get_method, instantiate
from omegaconf import DictConfig, OmegaConf

from forecast.cli.compose import compose_config
from forecast.cli.overrides import options
from forecast.system.errors import CONF
from forecast.system.keys import without_hydra
from forecast.training.build import resolve_settings
from forecast.training.create_model import create_model
from tests.support.configurations import (
    FRAGMENTS,
    GROUPS,
    choices,
    compose_choice,
    composed_once,
    options_of,
)
from tests.support.long_variants import every_nth
from tests.support.models import ATTENTION_TYPES

pytestmark = pytest.mark.slow


def targets(config: DictConfig, prefix: str = "") -> Iterator[tuple[str, DictConfig]]:
    """The nodes with a `_target_`, by their keys."""
    for key, value in config.items():
        if isinstance(value, DictConfig):
            if "_target_" in value:
                yield f"{prefix}{key}", value
            yield from targets(value, f"{prefix}{key}.")


def parameters(target: str) -> dict[str, inspect.Parameter]:
    """The parameters of a function, or of a class's constructor and the constructors of its base classes."""
    try:
        made = get_class(target)
        signatures = [
            inspect.signature(cls.__init__).parameters for cls in made.__mro__ if "__init__" in vars(cls)
        ]
    except ValueError:
        signatures = [inspect.signature(get_method(target)).parameters]
    return {name: p for parameters in reversed(signatures) for name, p in parameters.items()}


def check_constructors(config: DictConfig) -> int:
    """Assert that every class and function takes the keys that it is given; return their number."""
    OmegaConf.resolve(config)
    seen = list(targets(config))
    for name, node in seen:
        known = parameters(node._target_)
        if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values()) and "Logger" in node._target_:
            continue  # passed to the service of the logger
        unknown = {key for key in map(str, node) if not key.startswith("_")} - set(known)
        assert not unknown, f"{name}: {node._target_} does not take {unknown}"
        whole = {key for key, p in known.items() if p.annotation is float and type(node.get(key)) is int}
        assert not whole, f"{name}: {whole} would take no fraction: write 1.0, not 1"
    return len(seen)


def test_the_choices_contain_every_option_of_every_group() -> None:
    assert {"attention", "data", "experiment", "logger", "model", "optimizer", "schedule", "trainer"} <= set(
        GROUPS
    )
    chosen = {override for _, overrides in choices() for override in overrides}
    expected = {
        f"{group}=[{option}]" if group == "logger" else f"{group}={option}"
        for group in GROUPS
        for option in options_of(group)
    }
    assert len(expected) > 45
    assert expected <= chosen


@pytest.mark.parametrize(("group", "option"), sorted(FRAGMENTS))
def test_every_fragment_is_used(group: str, option: str) -> None:
    files = [p for p in (CONF / group).rglob("*.yaml") if p != CONF / group / f"{option}.yaml"]
    assert any(option in p.read_text() for p in files)


@pytest.mark.parametrize(("command", "overrides"), list(choices()), ids=str)
def test_every_option_composes_with_keys_that_its_constructors_take(
    command: str, overrides: tuple[str, ...]
) -> None:
    config = without_hydra(compose_choice(command, overrides))
    config.output_dir = ""
    assert check_constructors(config) >= (8 if command == "train" else 1)


@pytest.mark.parametrize("option", every_nth(options("attention"), 2))
@pytest.mark.parametrize("model", options("model"))
def test_every_model_is_made_with_every_attention(model: str, option: str) -> None:
    config = deepcopy(composed_once(f"model={model}"))
    config.model.attention = composed_once(f"attention={option}").model.attention
    if "share_layers" in config.model:
        config.model.share_layers = True
    made = create_model(config.model, n_features=3, n_targets=2, n_time_features=4)
    past, past_time = torch.randn(2, config.seq_len, 3), torch.randn(2, config.seq_len, 4)
    assert made(past, past_time, torch.randn(2, 24, 4)).shape == (2, 24, 2)
    roles = {layer.slot: made.get_submodule(layer.name).role for layer in made.attention_layers()}
    expected = {"encoder": "self", "decoder": "self" if option == "nystrom" else "causal", "cross": "cross"}
    assert roles.items() <= expected.items()


@pytest.mark.parametrize("option", options_of("data"))
def test_every_data_module_is_made(option: str) -> None:
    config = compose_config(
        f"data={option}", *(["data.path=x.csv"] if option in ("csv", "long", "store") else [])
    )
    data = instantiate(config.data)
    assert data.name == option
    assert (data.seq_len, data.pred_len) == (336, 24)


@pytest.mark.parametrize("optimizer", options("optimizer"))
@pytest.mark.parametrize("schedule", options("schedule"))
def test_every_schedule_drives_every_optimizer(optimizer: str, schedule: str) -> None:
    config = deepcopy(composed_once(f"optimizer={optimizer}", "optimizer.lr=0.5"))
    config.schedule = composed_once(f"schedule={schedule}").schedule
    config = resolve_settings(config).config
    made = instantiate(config.optimizer)([torch.nn.Parameter(torch.zeros(1))])
    plan = instantiate(config.schedule)(made, 100)
    assert plan["scheduler"].optimizer is made
    assert 0 < made.param_groups[0]["lr"] <= 0.5


@pytest.mark.parametrize(
    "option", every_nth([o for o in options("experiment") if o.startswith("informer2020/ett")], 6)
)
def test_the_papers_settings(option: str) -> None:
    config = compose_config(f"experiment={option}")
    assert check_constructors(config) >= 8
    data, features, horizon = option.removeprefix("informer2020/").split("_")
    assert (config.data.name, config.features, config.pred_len) == (data, features.upper(), int(horizon))
    assert (config.model.d_model, config.model.d_ff, config.model.n_heads) == (512, 2048, 8)
    assert (config.optimizer.lr, config.data.batch_size, config.trainer.max_epochs) == (1e-4, 32, 6)
    text = (CONF / "experiment" / f"{option}.yaml").read_text()
    assert "Published Informer" in text


@pytest.mark.parametrize("option", [o for o in options("experiment") if o.startswith("compare_attention")])
def test_the_comparison_sweeps_over_every_attention_type(option: str) -> None:
    config = compose_choice("train", (f"experiment={option}",))
    assert set(config.hydra.sweeper.params.attention.split(",")) == set(options("attention"))
    assert len(config.hydra.sweeper.params.seed.split(",")) >= 3
    assert config.model.match == "parameters"
    assert config.seq_len // config.model.patch_len > 100


@pytest.mark.parametrize("cross", [name for name, kind in ATTENTION_TYPES.items() if "cross" in kind.roles])
def test_cross_attention_of_another_type(cross: str) -> None:
    config = compose_config(
        "attention=fastformer", f"cross={cross}", "num_landmarks=3", "factor=2", "feature_map=relu"
    )
    layer = create_model(config.model, n_features=3, n_targets=2, n_time_features=4).decoder[0].cross
    assert (type(layer).__name__.lower(), layer.role) == (f"{cross.replace('_', '')}attention", "cross")
    for knob, value in {"num_landmarks": 3, "factor": 2, "feature_map": "relu"}.items():
        assert getattr(layer, knob, value) == value


def test_an_experiment_keeps_the_attention_that_is_asked_for() -> None:
    config = compose_config("experiment=informer2020/etth1_m_24", "attention=full")
    assert config.model.attention.name == "full"
    assert config.factor == 3


@pytest.mark.parametrize(
    ("given", "label_len"), [([], 48), (["seq_len=24"], 24), (["seq_len=24", "label_len=6"], 6)]
)
def test_the_label_is_at_most_as_long_as_the_past(given: list[str], label_len: int) -> None:
    assert compose_config(*given).label_len == label_len
