import inspect
from collections.abc import Iterator
from copy import deepcopy

import pytest
import torch
from hydra.utils import get_class, get_method, instantiate
from omegaconf import DictConfig, OmegaConf

from forecast.attention import FullAttention
from forecast.cli.compose import compose_command, compose_config
from forecast.cli.overrides import options
from forecast.system.keys import without_hydra
from forecast.training.create_model import create_model, roles_of_slots
from tests.support.configurations import choices, compose_choice, composed_once
from tests.support.long_variants import every_nth
from tests.support.models import ATTENTION_TYPES

pytestmark = pytest.mark.slow


def targets(config: DictConfig, prefix: str = "") -> Iterator[tuple[str, DictConfig]]:
    for key, value in config.items():
        if isinstance(value, DictConfig):
            if "_target_" in value:
                yield f"{prefix}{key}", value
            yield from targets(value, f"{prefix}{key}.")


def parameters(target: str) -> dict[str, inspect.Parameter]:
    """The parameters of a function, or of a class's constructor and the constructors of its base classes."""
    try:
        made = get_class(target)
        signatures = [inspect.signature(cls.__init__).parameters for cls in made.__mro__ if "__init__" in vars(cls)]
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


@pytest.mark.parametrize(("command", "overrides"), list(choices()), ids=str)
def test_every_option_composes_with_keys_that_its_constructors_take(command: str, overrides: tuple[str, ...]) -> None:
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


@pytest.mark.parametrize(("option", "horizon"), [("etth1_m", 24), ("etth1_s", 720), ("etth2_m", 168), ("etth2_s", 48)])
def test_the_papers_settings(option: str, horizon: int) -> None:
    config = compose_config(f"experiment=informer2020/{option}", f"pred_len={horizon}")
    assert check_constructors(config) >= 8
    data, features = option.split("_")
    assert (config.data.name, config.features, config.pred_len) == (data, features.upper(), horizon)
    lengths = {"etth1_m": (48, 48, 3), "etth1_s": (720, 336, 5), "etth2_m": (336, 336, 5), "etth2_s": (96, 96, 5)}
    assert (config.seq_len, config.label_len, config.factor) == lengths[option]
    assert config.model.encoder_layers == (3 if option == "etth2_m" else 2)
    assert (config.model.d_model, config.model.d_ff, config.model.n_heads) == (512, 2048, 8)
    assert (config.optimizer.lr, config.data.batch_size, config.trainer.max_epochs) == (1e-4, 32, 6)


@pytest.mark.parametrize("faithful", [False, True])
def test_faithful_is_the_algorithm_of_the_authors(faithful: bool) -> None:
    config = compose_config("experiment=informer2020/etth1_m", f"faithful={faithful}", "model.d_model=16")
    assert config.trainer.precision == ("32-true" if faithful else "auto")
    model = create_model(config.model, n_features=3, n_targets=3, n_time_features=4)
    layers = {each.slot: model.get_submodule(each.name) for each in model.attention_layers()}
    names = ("sampling", "ranking", "lazy", "mix_heads", "drop_weights")
    found = {slot: tuple(getattr(layer, name, None) for name in names) for slot, layer in layers.items()}
    published = ("per_query", "published", "sum") if faithful else ("shared", "measure", "mean")
    assert found == {
        "encoder": (*published, False, faithful),
        "decoder": (*published, faithful, faithful),
        "cross": (None, None, None, False, faithful),
    }
    assert compose_config("faithful=true", "sampling=shared").sampling == "shared"


@pytest.mark.parametrize("option", [o for o in options("experiment") if o.startswith("compare_attention")])
def test_the_comparison_sweeps_over_every_attention_type(option: str) -> None:
    config = compose_choice("train", (f"experiment={option}",))
    assert config.hydra.sweeper.params.attention.split(",") == options("attention")
    assert len(config.hydra.sweeper.params.seed.split(",")) >= 3
    assert config.model.match == "parameters"
    assert config.seq_len // config.model.patch_len > 100


@pytest.mark.parametrize(("given", "label_len"), [([], 48), (["seq_len=24"], 24), (["seq_len=24", "label_len=6"], 6)])
def test_the_label_is_at_most_as_long_as_the_past(given: list[str], label_len: int) -> None:
    assert compose_config(*given).label_len == label_len


# ---- attention, as the model receives it

SLOTS = ("encoder", "decoder", "cross")
KNOBS = {
    "factor": 3, "sampling": "per_query", "num_landmarks": 7, "attention_window": 5, "ranking": "norm",
    "lazy": "sum", "feature_map": "taylor",
}  # fmt: skip


def test_a_type_of_a_users_own_fills_each_slot_it_can_serve(tmp_path, monkeypatch):
    """One file that names a class and its options is an option of every group of attention."""
    (tmp_path / "attention").mkdir()
    target = "forecast.attention.NystromAttention"
    (tmp_path / "attention" / "mine.yaml").write_text(f"_target_: {target}\npinv_iterations: 2\n")
    monkeypatch.setenv("FORECAST_CONF", str(tmp_path))
    slots = compose_command("train", ["attention=mine", "cross=mine", "variables=mine"]).model.attention
    expected = {"_target_": target, "pinv_iterations": 2, "_partial_": True}
    assert all(slots[slot] == expected for slot in SLOTS)
    assert slots.variables.encoder == expected
    assert slots.name == "mine-cross-mine"


@pytest.mark.parametrize("name", ATTENTION_TYPES)
def test_three_slots(name):
    conf = compose_config(f"attention={name}", *(f"{key}={value}" for key, value in KNOBS.items()))
    slots = conf.model.attention
    assert slots.name == name
    attention_type = ATTENTION_TYPES[name]
    decoder_role = "causal" if "causal" in attention_type.roles else "self"
    roles = roles_of_slots(conf.model)["attention"]
    made = {slot: instantiate(slots[slot], **roles[slot])(d_model=24, n_heads=4) for slot in SLOTS}
    assert {type(made["encoder"]), type(made["decoder"])} == {attention_type}
    assert type(made["cross"]) is FullAttention
    assert [layer.role for layer in made.values()] == ["self", decoder_role, "cross"]
    for knob, value in KNOBS.items():
        for slot in ("encoder", "decoder"):
            assert getattr(made[slot], knob, value) == value
    x = torch.randn(2, 11, 24)
    assert all(layer(x, x).shape == x.shape for layer in made.values())


@pytest.mark.parametrize(
    ("slot", "name"),
    [("encoder", "linear"), ("encoder", "fastformer"), ("decoder", "probsparse"), ("cross", "full"), ("cross", "none")],
)
def test_a_slot_of_another_type(slot, name):
    """The other slots stay, no option of the replaced type is left, and the name says which slot differs."""
    usual = compose_config("attention=fastformer").model.attention
    mixed = compose_config("attention=fastformer", f"{slot}={name}").model.attention
    alone = compose_config(f"attention={name}", f"cross={name if slot == 'cross' else 'full'}").model.attention
    assert mixed[slot] == alone[slot]
    assert all(mixed[other] == usual[other] for other in SLOTS if other != slot)
    is_usual = name == ("full" if slot == "cross" else "fastformer")
    assert mixed.name == ("fastformer" if is_usual else f"fastformer-{slot}-{name}")


@pytest.mark.parametrize("name", ["fastformer", "full", "nystrom"])
def test_layers_over_variables_of_another_type(name):
    """The option is that of the encoder, and the name says the type unless it is the encoder's."""
    alone = compose_config(f"attention={name}", "num_landmarks=7").model.attention
    mixed = compose_config("attention=fastformer", f"variables={name}", "num_landmarks=7").model.attention
    assert mixed.variables.encoder == alone.encoder
    assert mixed.encoder == compose_config("attention=fastformer").model.attention.encoder
    assert mixed.name == ("fastformer" if name == "fastformer" else f"fastformer-variables-{name}")
    both = compose_config("attention=fastformer", "encoder=full", f"variables={name}").model.attention
    assert both.name == "fastformer-encoder-full" + ("" if name == "full" else f"-variables-{name}")
    assert "variables" not in alone
