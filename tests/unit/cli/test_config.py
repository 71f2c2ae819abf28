"""Every file under conf/ is composed and what it names is made."""

import inspect

import pytest
import torch
from hydra.utils import get_class, get_method, instantiate
from omegaconf import DictConfig, OmegaConf

from forecast.cli.compose import composed
from forecast.cli.overrides import options
from forecast.system.paths import CONF
from forecast.training.precision import resolve_auto

GROUPS = sorted(p.name for p in CONF.iterdir() if p.is_dir() and p.name != "hydra")
FRAGMENTS = {("data", "base/windows"), ("experiment", "informer2020/paper")}  # other files are built on them
CHOICES = [(g, option) for g in GROUPS for option in options(g) if (g, option) not in FRAGMENTS]


def targets(config: DictConfig, prefix: str = ""):
    for key, value in config.items():
        if isinstance(value, DictConfig):
            if "_target_" in value:
                yield f"{prefix}{key}", value
            yield from targets(value, f"{prefix}{key}.")


def parameters(target: str) -> dict[str, inspect.Parameter]:
    """What a constructor takes, its parents' keywords included where it hands them on."""
    try:
        made = get_class(target)
        signatures = [
            inspect.signature(cls.__init__).parameters for cls in made.__mro__ if "__init__" in vars(cls)
        ]
    except ValueError:
        signatures = [inspect.signature(get_method(target)).parameters]
    return {name: p for parameters in reversed(signatures) for name, p in parameters.items()}


def test_there_is_something_to_test() -> None:
    assert {"attention", "data", "experiment", "logger", "model", "optimizer", "schedule", "trainer"} <= set(
        GROUPS
    )
    assert len(CHOICES) > 45


@pytest.mark.parametrize(("group", "option"), sorted(FRAGMENTS))
def test_every_fragment_is_used(group: str, option: str) -> None:
    files = [p for p in (CONF / group).rglob("*.yaml") if p != CONF / group / f"{option}.yaml"]
    assert any(option in p.read_text() for p in files)


@pytest.mark.parametrize(("group", "option"), CHOICES)
def test_every_option_composes_with_keys_that_its_constructors_take(group: str, option: str) -> None:
    command = "benchmark" if group == "benchmark" else "train"
    config = composed(f"{group}={option}" if group != "logger" else f"logger=[{option}]", config_name=command)
    OmegaConf.resolve(config)
    seen = list(targets(config))
    assert len(seen) >= (8 if command == "train" else 1)
    for name, node in seen:
        known = parameters(node._target_)
        if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values()) and "Logger" in node._target_:
            continue  # handed on to the logger's own service
        unknown = {key for key in map(str, node) if not key.startswith("_")} - set(known)
        assert not unknown, f"{name}: {node._target_} does not take {unknown}"


@pytest.mark.parametrize("option", options("attention"))
@pytest.mark.parametrize("model", options("model"))
def test_every_model_is_made_with_every_attention(model: str, option: str) -> None:
    config = composed(f"model={model}", f"attention={option}")
    if "share_layers" in config.model:
        config.model.share_layers = True
    made = instantiate(config.model)(n_features=3, n_targets=2, n_time_features=4)
    past, past_time = torch.randn(2, config.seq_len, 3), torch.randn(2, config.seq_len, 4)
    assert made(past, past_time, torch.randn(2, 24, 4)).shape == (2, 24, 2)
    slots = {slot: config.model.attention[slot].role for slot in ("encoder", "decoder", "cross")}
    assert slots == {
        "encoder": "self",
        "decoder": "self" if option == "nystrom" else "causal",
        "cross": "cross",
    }


@pytest.mark.parametrize("option", [option for group, option in CHOICES if group == "data"])
def test_every_data_module_is_made(option: str) -> None:
    config = composed(f"data={option}", *(["data.path=x.csv"] if option in ("csv", "long", "store") else []))
    data = instantiate(config.data)
    assert data.name == option
    assert (data.seq_len, data.pred_len) == (336, 24)


@pytest.mark.parametrize("optimizer", options("optimizer"))
@pytest.mark.parametrize("schedule", options("schedule"))
def test_every_schedule_drives_every_optimizer(optimizer: str, schedule: str) -> None:
    config = composed(f"optimizer={optimizer}", f"schedule={schedule}", "optimizer.lr=0.5")
    resolve_auto(config, None)
    made = instantiate(config.optimizer)([torch.nn.Parameter(torch.zeros(1))])
    plan = instantiate(config.schedule)(made, 100)
    assert plan["scheduler"].optimizer is made
    assert 0 < made.param_groups[0]["lr"] <= 0.5


@pytest.mark.parametrize("option", [o for o in options("experiment") if o.startswith("informer2020/ett")])
def test_the_papers_settings(option: str) -> None:
    config = composed(f"experiment={option}")
    data, features, horizon = option.removeprefix("informer2020/").split("_")
    assert (config.data.name, config.features, config.pred_len) == (data, features.upper(), int(horizon))
    assert (config.model.d_model, config.model.d_ff, config.model.n_heads) == (512, 2048, 8)
    assert (config.optimizer.lr, config.data.batch_size, config.trainer.max_epochs) == (1e-4, 32, 6)
    text = (CONF / "experiment" / f"{option}.yaml").read_text()
    assert "Published Informer" in text


@pytest.mark.parametrize("cross", options("cross"))
def test_cross_attention_of_another_kind(cross: str) -> None:
    config = composed(
        "attention=fastformer", f"cross={cross}", "num_landmarks=3", "factor=2", "feature_map=relu"
    )
    layer = instantiate(config.model)(n_features=3, n_targets=2, n_time_features=4).decoder[0].cross
    assert (type(layer).__name__.lower(), layer.role) == (f"{cross}attention", "cross")
    for knob, value in {"num_landmarks": 3, "factor": 2, "feature_map": "relu"}.items():
        assert getattr(layer, knob, value) == value


def test_an_experiment_keeps_the_attention_that_is_asked_for() -> None:
    config = composed("experiment=informer2020/etth1_m_24", "attention=full")
    assert config.model.attention.name == "full"
    assert config.factor == 3
