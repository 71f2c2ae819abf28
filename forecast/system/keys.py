"""The table of configuration keys: for each key its limits, the values it takes and what it changes.

Every list of keys in the package is a view of this table: the checks of the command line (`forecast.cli.limits`,
`forecast.cli.overrides`), and each answer to "are these two runs the same?" (`forecast.system.identity`). The table
stands on the lowest floor and imports nothing of the package, because runs, checkpoints, training and reports need it
as much as the command line does.
"""

from dataclasses import dataclass
from enum import StrEnum, auto


class Effect(StrEnum):
    """What a key changes."""

    STATE = auto()
    """The state in a checkpoint (weights, optimizer, scaler): a run can only continue a state of equal settings."""
    RESULT = auto()
    """Weights, forecasts or scores in another way."""
    DATA = auto()
    """How the table is read, split and cut into windows."""
    SOURCE = auto()
    """Which table is read."""
    AFTER = auto()
    """What is computed after training, beside the forecasts that are scored."""
    SPEED = auto()
    """Only the speed and the memory, up to rounding."""
    PLACE = auto()
    """Only where output is written."""
    NAME = auto()
    """Only what a run or a page is called."""
    LOG = auto()
    """Only what is logged and shown."""
    LAUNCH = auto()
    """Only how jobs are started, how many, or whether an earlier run is resumed."""


class Takes(StrEnum):
    """The values that a key takes."""

    TYPE_OF_DEFAULT = auto()
    ANY_TYPE = auto()
    LIST_OR_WORD = auto()
    COUNT_OR_NULL = auto()
    NAME = auto()


@dataclass(frozen=True)
class Key:
    """One row: a key, or a group of keys with one meaning. The row with the longest matching prefix holds for a key."""

    name: str
    effect: Effect
    limits: tuple[int, int] | None = None  # smallest and largest number
    null: bool = False  # null has a meaning although the default is a number
    text: bool = False  # free text, which Hydra's grammar may refuse: quoted before Hydra parses it
    takes: Takes = Takes.TYPE_OF_DEFAULT
    per_machine: bool = False  # may differ between the machines of one run
    variant: bool = False  # tells the variants of a dashboard apart


STATE, RESULT, DATA, SOURCE, AFTER, SPEED, PLACE, NAME, LOG, LAUNCH = Effect

COUNT = (1, 2**31)
COUNT_FROM_0 = (0, 2**31)
UP_TO_A_MILLION = (1, 2**20)

OF_A_RUN = (
    Key("output_root", PLACE, text=True, takes=Takes.NAME, per_machine=True),
    Key("output_dir", PLACE),
    Key("run_group", PLACE),
    Key("run_name", NAME),
    Key("resume", LAUNCH),
    Key("checkpoint", RESULT, text=True),
    Key("refit", AFTER),
    Key("seed", RESULT, limits=(0, 2**32 - 1)),
    Key("compile", SPEED),
)

OF_THE_TASK = (
    Key("features", STATE, variant=True),
    Key("seq_len", STATE, variant=True),
    Key("label_len", STATE),
    Key("pred_len", STATE, variant=True),
    Key("loss", STATE, variant=True),
    Key("levels", AFTER),  # but STATE with loss=quantile: see `identity.effect_of`
    Key("windows_per_epoch", RESULT, null=True),
)

OF_DATA = (
    Key("data", DATA),
    Key("data.name", DATA, variant=True),
    Key("data.path", SOURCE, text=True, per_machine=True),
    Key("data.root", SOURCE, text=True, per_machine=True),
    Key("data.seed", SOURCE),
    Key("data.scaler", STATE),
    Key("data.holidays", STATE),
    Key("data.batch_size", RESULT, limits=UP_TO_A_MILLION),
    Key("data.eval_batch_size", SPEED, limits=UP_TO_A_MILLION, null=True),
    Key("data.windows_per_epoch", RESULT, null=True),
    Key("data.split", DATA, takes=Takes.LIST_OR_WORD),
    Key("data.date_column", DATA, text=True, takes=Takes.ANY_TYPE),
    *(
        Key(f"data.{name}", DATA, text=True)
        for name in (
            "static_path", "future_path", "id_column", "target", "separator", "decimal", "thousands", "date_format",
            "timezone", "freq",
        )
    ),
)  # fmt: skip

OF_THE_MODEL = (
    Key("model", STATE),
    Key("model.d_model", STATE, variant=True),
    Key("model.attention.name", STATE, variant=True),
    Key("model.encoder_layers", STATE, limits=(1, 1_000)),
    Key("model.decoder_layers", STATE, limits=(1, 1_000)),
    *(
        Key(f"model.attention.{slot}.{name}", STATE, takes=Takes.COUNT_OR_NULL)
        for slot in ("encoder", "decoder")
        for name in ("num_features", "conv_kernel")
    ),
    # The model's configuration repeats these.
    *(Key(name, RESULT) for name in ("factor", "sampling", "num_landmarks", "feature_map")),
)

OF_TRAINING = (
    Key("optimizer", STATE),
    Key("optimizer.lr", STATE, limits=(0, 1_000)),
    Key("optimizer.weight_decay", STATE, limits=(0, 1_000)),
    Key("optimizer.fused", SPEED),
    Key("schedule", STATE),
    Key("schedule.warmup", STATE, limits=(0, 1)),
    Key("schedule.final", STATE, limits=(0, 1)),
    Key("schedule.factor", STATE, limits=(0, 1)),
    Key("schedule.full_epochs", STATE, limits=COUNT_FROM_0),
    Key("schedule.patience", STATE, limits=COUNT_FROM_0),
    Key("trainer", RESULT),
    Key("trainer.max_epochs", RESULT, limits=COUNT),
    Key("trainer.gradient_clip_val", RESULT, limits=COUNT_FROM_0, null=True),
    Key("trainer.accumulate_grad_batches", RESULT, limits=UP_TO_A_MILLION),
    Key("trainer.deterministic", RESULT, takes=Takes.ANY_TYPE),
    Key("trainer.accelerator", SPEED),
    Key("trainer.devices", SPEED, takes=Takes.ANY_TYPE),
    Key("trainer.num_nodes", SPEED, limits=(1, 2**16)),
    Key("trainer.strategy", SPEED),
    Key("trainer.log_every_n_steps", LOG, limits=COUNT),
    Key("trainer.enable_model_summary", LOG),
    Key("callbacks", RESULT),
    Key("callbacks.checkpoint.dirpath", PLACE),
    Key("callbacks.epochs.path", PLACE),
    Key("callbacks.checkpoint.every_minutes", RESULT, limits=COUNT_FROM_0),
    Key("callbacks.early_stopping.patience", RESULT, limits=COUNT),
    Key("callbacks.progress", LOG),
    Key("callbacks.progress.refresh_rate", LOG, limits=COUNT_FROM_0),
    Key("logger", LOG),
)

OF_OTHER_COMMANDS = (
    # files that a command writes
    Key("output", PLACE, text=True, takes=Takes.NAME),
    Key("overwrite", PLACE),
    Key("format", RESULT),
    Key("title", NAME, text=True),
    # backtest, evaluate, predict, explain, export
    *(Key(name, RESULT) for name in ("steps", "stride", "refit_every")),
    *(Key(name, RESULT, text=True) for name in ("start", "future", "window")),
    *(Key(name, RESULT) for name in ("horizon", "intervals", "split", "slot", "layer", "head")),
    *(Key(name, RESULT) for name in ("tolerance", "check_windows")),
    # compare, dashboard: which runs, and where they were logged
    Key("runs", SOURCE),
    Key("runs.group", SOURCE, text=True),
    Key("runs.data", SOURCE, text=True),
    Key("project", PLACE, text=True),
    Key("entity", PLACE, text=True),
    Key("mode", PLACE),
    # benchmark, convert
    *(Key(name, RESULT) for name in ("benchmark", "kinds", "device", "precision", "memory")),
    Key("threads", SPEED, takes=Takes.COUNT_OR_NULL),
    Key("repeats", RESULT, limits=UP_TO_A_MILLION),
    Key("chunk", SPEED),
)

OF_HYDRA = (
    Key("hydra", LOG),
    Key("hydra.mode", LAUNCH),
    Key("hydra.launcher", LAUNCH),
    Key("hydra.sweeper", RESULT),
    Key("hydra.sweeper.n_trials", LAUNCH),
    Key("hydra.sweeper.n_jobs", LAUNCH),
    Key("hydra.sweep", PLACE),
    Key("hydra.sweep.dir", PLACE, text=True),
    Key("hydra.run.dir", PLACE, text=True),
)

TABLE = (*OF_A_RUN, *OF_DATA, *OF_THE_TASK, *OF_THE_MODEL, *OF_TRAINING, *OF_OTHER_COMMANDS, *OF_HYDRA)
ROWS = {row.name: row for row in TABLE}


def row_of(key: str) -> Key | None:
    """The row that holds for a dotted key; None for a key that the user added."""
    while key:
        if key in ROWS:
            return ROWS[key]
        key = key.rpartition(".")[0]
    return None
