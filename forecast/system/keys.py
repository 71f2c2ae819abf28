"""The table of configuration keys, and the settings that identify a run."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum, auto
from pathlib import PurePath
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf


class Effect(StrEnum):
    """The part of a run that a key changes."""

    STATE = auto()
    """The state in a checkpoint (weights, optimizer, scaler). A run can only resume a state with equal settings."""
    RESULT = auto()  # weights, forecasts or scores, but not the layout of the state
    DATA = auto()  # reading, splitting and cutting the data into windows
    SOURCE = auto()  # which data are read
    AFTER = auto()  # results that are computed after training, apart from the scored forecasts
    SPEED = auto()  # only the speed and the memory, up to rounding
    PLACE = auto()  # only where output is written
    NAME = auto()  # only the name of a run or the title of a page
    LOG = auto()  # only logs and terminal output
    LAUNCH = auto()  # only how and how many jobs are started, or whether an earlier run is resumed


class Takes(StrEnum):
    """The type of the values of a key."""

    TYPE_OF_DEFAULT = auto()
    ANY_TYPE = auto()
    LIST_OR_WORD = auto()
    COUNT_OR_NULL = auto()
    NAME = auto()


class Key(NamedTuple):
    """A row of the table, for a key or for a group of keys. For each key, the row with the longest prefix applies."""

    name: str
    effect: Effect
    effect_if: tuple[str, str, Effect] | None = None  # the effect if the key of this name has this value
    limits: tuple[int, int] | None = None  # smallest and largest valid number
    null: bool = False  # null has a meaning although the default is a number
    text: bool = False  # free text, which is quoted before Hydra parses it
    takes: Takes = Takes.TYPE_OF_DEFAULT
    per_machine: bool = False  # may differ between the machines of one run
    set_by: str = ""  # the key to set instead: this one is computed from it
    variant: bool = False  # distinguishes the variants in a dashboard
    as_trained: bool = False  # a trained model reads all data with the value of its training
    one_file: bool = False  # does not apply to another file than that of training


STATE, RESULT, DATA, SOURCE, AFTER, SPEED, PLACE, NAME, LOG, LAUNCH = Effect

COUNT = (1, 2**31)
COUNT_FROM_0 = (0, 2**31)
UP_TO_A_MILLION = (1, 2**20)

RUN_KEYS = (
    Key("output_root", PLACE, text=True, takes=Takes.NAME, per_machine=True),
    Key("output_dir", PLACE, set_by="output_root"),
    Key("run_group", PLACE),
    Key("run_name", NAME),
    *(Key(name, LAUNCH) for name in ("resume", "suggest")),
    Key("checkpoint", RESULT, text=True),
    Key("refit", AFTER),
    Key("pictures", LOG),
    Key("seed", RESULT, limits=(0, 2**32 - 1)),
    Key("compile", SPEED),
)

TASK_KEYS = (
    *(Key(name, STATE, variant=True) for name in ("features", "seq_len", "pred_len", "loss")),
    Key("label_len", STATE),
    Key("levels", AFTER, effect_if=("loss", "quantile", STATE)),  # the model then has outputs for its levels
    Key("windows_per_epoch", RESULT, null=True),
    Key("ema", RESULT, limits=(0, 1), null=True),
)

DATA_KEYS = (
    Key("data", DATA),  # and the fields of `ReadOptions` that are no free text
    Key("data.name", DATA, variant=True),
    Key("data.path", SOURCE, text=True, per_machine=True, one_file=True),
    Key("data.root", SOURCE, text=True, per_machine=True, one_file=True),
    Key("data.seed", SOURCE, as_trained=True),
    *(Key(f"data.{name}", STATE, as_trained=True) for name in ("scaler", "holidays")),
    *(
        Key(f"data.{name}", STATE, takes=Takes.ANY_TYPE, as_trained=True)
        for name in ("fill", "transform", "lower", "upper", "known_steps")
    ),
    Key("data.fill_limit", STATE, limits=COUNT, null=True, as_trained=True),
    Key("data.as_of", STATE, takes=Takes.ANY_TYPE),
    Key("data.batch_size", RESULT, limits=UP_TO_A_MILLION),
    Key("data.eval_batch_size", SPEED, limits=UP_TO_A_MILLION, null=True),
    Key("data.windows_per_epoch", RESULT, null=True),
    Key("data.split", DATA, takes=Takes.LIST_OR_WORD),
    *(Key(f"data.{name}", DATA, text=True, takes=Takes.ANY_TYPE) for name in ("id_column", "date_column")),
    Key("data.calendar", DATA, takes=Takes.ANY_TYPE),
    Key("data.target", DATA, text=True, as_trained=True),
    *(Key(f"data.{name}", DATA, text=True, one_file=True) for name in ("static_path", "future_path", "start")),
    *(
        Key(f"data.{name}", DATA, text=True)
        for name in ("separator", "decimal", "thousands", "date_format", "timezone", "freq", "sheet")
    ),
    *(Key(f"data.{name}", DATA, as_trained=True) for name in ("seq_len", "pred_len", "features", "season")),
    *(Key(f"data.{name}", DATA, one_file=True) for name in ("ids", "rows", "drop", "url", "hash", "by_hand")),
    *(
        Key(f"data.{name}", DATA)
        for name in (
            "eval_stride", "scale_by", "steps", "sort", "duplicates",
            "columns", "future_covariates", "past_covariates", "static_covariates",
        )
    ),
)  # fmt: skip

ATTENTION_OPTIONS = ("factor", "sampling", "ranking", "lazy", "num_landmarks", "attention_window", "feature_map")
"""Top-level keys that the files of conf/attention refer to."""

MODEL_KEYS = (
    Key("model", STATE),
    Key("model.d_model", STATE, variant=True),
    Key("model.attention.name", STATE, variant=True),
    Key("model.encoder_layers", STATE, limits=(1, 1_000)),
    Key("model.decoder_layers", STATE, limits=(1, 1_000)),
    *(
        Key(f"model.attention.{slot}.{name}", STATE, takes=Takes.COUNT_OR_NULL)
        for slot in ("encoder", "decoder", "variables.encoder")
        for name in ("num_features", "conv_kernel")
    ),
    # The model's configuration repeats these.
    *(Key(name, RESULT) for name in (*ATTENTION_OPTIONS, "faithful", "match")),
)

TRAINING_KEYS = (
    Key("optimizer", STATE),
    Key("optimizer.lr", STATE, limits=(0, 1_000)),
    Key("optimizer.weight_decay", STATE, limits=(0, 1_000)),
    Key("optimizer.fused", SPEED),
    Key("schedule", STATE),
    *(Key(f"schedule.{name}", STATE, limits=(0, 1)) for name in ("warmup", "final", "factor")),
    *(Key(f"schedule.{name}", STATE, limits=COUNT_FROM_0) for name in ("full_epochs", "patience")),
    Key("trainer", RESULT),
    Key("trainer.max_epochs", RESULT, limits=COUNT),
    Key("trainer.gradient_clip_val", RESULT, limits=COUNT_FROM_0, null=True),
    Key("trainer.accumulate_grad_batches", RESULT, limits=UP_TO_A_MILLION),
    Key("trainer.deterministic", RESULT, takes=Takes.ANY_TYPE),
    Key("trainer.accelerator", SPEED),
    Key("trainer.devices", SPEED, takes=Takes.ANY_TYPE),
    Key("trainer.num_nodes", SPEED, limits=(1, 2**16)),
    Key("trainer.strategy", SPEED),
    Key("trainer.precision", RESULT),
    Key("trainer.use_distributed_sampler", RESULT),
    Key("trainer.log_every_n_steps", LOG, limits=COUNT),
    Key("trainer.enable_model_summary", LOG),
    Key("callbacks", RESULT),
    Key("callbacks.checkpoint.dirpath", PLACE, set_by="output_root"),
    Key("callbacks.epochs.path", PLACE, set_by="output_root"),
    Key("callbacks.checkpoint.every_minutes", RESULT, limits=COUNT_FROM_0),
    Key("callbacks.early_stopping.patience", RESULT, limits=COUNT),
    *(Key(f"callbacks.{name}", LOG) for name in ("progress", "epochs")),
    Key("callbacks.progress.refresh_rate", LOG, limits=COUNT_FROM_0),
    Key("logger", LOG),
)

BACKTEST_KEYS = (
    *(Key(name, RESULT) for name in ("steps", "stride", "refit_every", "intervals")),
    Key("baselines", RESULT, takes=Takes.LIST_OR_WORD),
    Key("chronos", RESULT, text=True),
    Key("retrain", RESULT, takes=Takes.LIST_OR_WORD),
    Key("fine_tune_epochs", RESULT, limits=COUNT),
)

COMMAND_KEYS = (
    *BACKTEST_KEYS,
    # files that a command writes
    Key("output", PLACE, text=True, takes=Takes.NAME),
    Key("format", PLACE),
    Key("overwrite", PLACE),
    Key("exit_code", PLACE),
    Key("title", NAME, text=True),
    # evaluate, predict, explain, export
    *(Key(name, RESULT, text=True) for name in ("start", "future", "window")),
    *(Key(name, RESULT) for name in ("horizon", "baseline", "split", "slot")),
    Key("tolerance", RESULT),
    Key("hierarchy", RESULT, text=True, takes=Takes.ANY_TYPE),
    Key("samples", RESULT, takes=Takes.COUNT_OR_NULL),
    Key("check_windows", RESULT, takes=Takes.COUNT_OR_NULL),
    Key("importance_windows", RESULT, limits=COUNT_FROM_0),
    # compare, dashboard: which runs, what is compared, and where they were logged
    Key("score", RESULT),
    Key("reference", RESULT, text=True),
    *(Key(name, SOURCE, text=True) for name in ("runs.group", "runs.data")),
    *(Key(name, SOURCE) for name in ("runs", "runs.features", "runs.pred_len")),
    *(Key(name, PLACE, text=True) for name in ("project", "entity")),
    Key("mode", PLACE),
    # serve
    Key("models", SOURCE),
    Key("host", PLACE, text=True),
    Key("port", PLACE, limits=(0, 2**16 - 1)),
    *(Key(name, SPEED, limits=COUNT) for name in ("workers", "timeout")),
    *(Key(f"max_{name}", SPEED, limits=COUNT) for name in ("waiting", "rows", "body_mb")),
    Key("runtime", SPEED),
    # benchmark, convert
    *(Key(name, RESULT) for name in ("benchmark", "attention_types", "device", "precision", "memory")),
    Key("threads", SPEED, takes=Takes.COUNT_OR_NULL),
    Key("repeats", RESULT, limits=UP_TO_A_MILLION),
    Key("chunk", SPEED),
)

HYDRA_KEYS = (
    Key("hydra", LOG),
    *(Key(f"hydra.{name}", LAUNCH) for name in ("mode", "launcher")),
    Key("hydra.sweeper", RESULT),
    *(Key(f"hydra.sweeper.{name}", LAUNCH, limits=COUNT) for name in ("n_trials", "n_jobs")),
    Key("hydra.sweeper.sampler.seed", RESULT, limits=COUNT_FROM_0, null=True),
    Key("hydra.sweep", PLACE),
    *(Key(f"hydra.{name}.dir", PLACE, text=True) for name in ("sweep", "run")),
)

FILE_SOURCES = ("csv", "long", "store")  # values of data.name that stand for a file of the user

TABLE = (*RUN_KEYS, *DATA_KEYS, *TASK_KEYS, *MODEL_KEYS, *TRAINING_KEYS, *COMMAND_KEYS, *HYDRA_KEYS)
ROWS = {row.name: row for row in TABLE}

AS_TRAINED = tuple(row.name.removeprefix("data.") for row in DATA_KEYS if row.as_trained)
"""Settings below `data` that a trained model always takes from its training."""


def row_of(key: str) -> Key | None:
    """The row that applies to a dotted key; None for a key that the user added."""
    while key:
        if key in ROWS:
            return ROWS[key]
        key = key.rpartition(".")[0]
    return None


ALL_EFFECTS = frozenset(Effect)
RUN_EFFECTS = ALL_EFFECTS - {PLACE, LOG, LAUNCH}
"""Effects of the keys that a run and the command that resumes it must have in common."""
VARIANT_EFFECTS = RUN_EFFECTS - {SOURCE, AFTER, NAME}  # effects of the keys that change scores on the same test windows


def effect_of(key: str, config: Mapping[str, Any] | None = None) -> Effect:
    """The effect of a key in a configuration. A key that the user added may change the result."""
    row = row_of(key)
    if row is None:
        return RESULT
    if row.effect_if is not None and config is not None:
        other, value, effect = row.effect_if
        if config.get(other) == value:
            return effect
    return row.effect


def key_of_override(argument: str) -> str:
    return argument.partition("=")[0].lstrip("+~").partition("@")[0].replace("/", ".")


def identifying_overrides(arguments: Sequence[str]) -> list[str]:
    """Select the overrides in which two commands must agree to be the same sweep or search."""
    return sorted(argument for argument in arguments if effect_of(key_of_override(argument)) in RUN_EFFECTS)


def identity(
    config: Mapping[str, Any], effects: Iterable[Effect] = ALL_EFFECTS, *, below: str = "", per_machine: bool = True
) -> dict[str, Any]:
    """Select the settings, by dotted key, whose keys have one of these effects.

    Args:
        below: select only the keys of this group.
        per_machine: whether to select keys that may differ between the machines of one run.
    """
    wanted, found = frozenset(effects), {}
    for key, value in flatten(config):
        row = row_of(key)
        is_compared = per_machine or row is None or not row.per_machine
        if is_compared and key.startswith(f"{below}." if below else "") and effect_of(key, config) in wanted:
            found[key] = value
    return found


def flatten(config: Mapping[str, Any], prefix: str = "", sign: str = ".") -> Iterator[tuple[str, Any]]:
    """Yield the key of every value of nested mappings, joined with `sign`, and the value; {} is a value too."""
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{prefix}{key}{sign}", sign)
        else:
            yield f"{prefix}{key}", value


def name_attention(attention: str, _parent_: Mapping[str, Any]) -> str:
    """Return the name of an attention type, and of each slot of another type: `full-encoder-linear`.

    Args:
        attention: the type in conf/attention.
        _parent_: the slots. `types` holds the type of each; `variables` is like the slots of an encoder.
    """
    types = {**_parent_["types"]}
    usual = {"encoder": attention, "decoder": attention, "cross": "full", "variables": types["encoder"]}
    types["variables"] = _parent_.get("variables", _parent_)["types"]["encoder"]
    return attention + "".join(f"-{slot}-{types[slot]}" for slot in usual if types[slot] != usual[slot])


def without_hydra(config: DictConfig) -> DictConfig:
    """Copy a configuration without Hydra's part. Keys can be added to the copy."""
    copy = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    OmegaConf.set_struct(copy, False)
    return copy


def variant_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that affect the tested forecasts, by dotted key. A setting that is null counts as absent.

    Paths in the run's own folder are omitted. `config` has plain values with resolved interpolations.
    """
    folder = str(config.get("output_dir"))
    settings = {}
    for key, value in identity(config, VARIANT_EFFECTS).items():
        if key == "checkpoint" and value is not None:
            value = "another run's"  # each seed starts from a checkpoint of its own
        is_own_path = isinstance(value, str) and value.startswith(f"{folder}/")
        if value is not None and not is_own_path:
            settings[key] = value
    return settings


def variant_id(config: Mapping[str, Any]) -> str:
    """Return a hash of the settings that change the forecasts, but for the seed: equal for the seeds of a variant.

    It also holds the name of the data file, without its folder. `config` has plain values with resolved interpolations.
    """
    settings = {key: value for key, value in variant_settings(config).items() if key != "seed"}
    settings["data.path"] = PurePath(str(config["data"].get("path"))).name
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:10]


def without_local_paths(config: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Copy a configuration without the keys that name places of files, and with other absolute paths cut to a name."""
    kept = {}
    for name, value in config.items():
        key = f"{above}{name}"
        if isinstance(value, Mapping):
            kept[name] = without_local_paths(value, f"{key}.")
        elif effect_of(key) != PLACE:
            is_path = isinstance(value, str) and PurePath(value).is_absolute()
            kept[name] = PurePath(value).name if is_path else value
    return kept


def first_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """The first key that differs between two identities, with both values; None if they are equal."""
    for key in {**old, **new}:
        if old.get(key) != new.get(key):
            return key, old.get(key), new.get(key)
    return None
