"""The tables and their cells, those of training runs as overrides of `forecast train`. Standard library only.

Cells are ordered by seed first, so that an interrupted table has all cells of one seed before any cell of the next.
"""

import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
ATTENTION_TYPES = ("full", "probsparse", "linear", "nystrom", "fastformer")
ALL_TYPES = (*ATTENTION_TYPES, "gated_delta", "sliding_window", "uniform", "none")
SEEDS = (1, 2, 3)
HORIZONS = (96, 192, 336, 720)
PAPER_HORIZONS = (24, 48, 168, 336, 720)
FACTS: tuple[str, ...] = ("data", "variant", "horizon", "attention", "seed")


@dataclass(frozen=True)
class Cell:
    """One result of a table.

    Attributes:
        table: name of the table.
        name: key of the result in the file of the table.
        overrides: what the result was computed with; a result with others is out of date.
        facts: columns of the row, such as the data set and the seed.
    """

    table: str
    name: str
    overrides: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


WITH_COVARIATES = {
    "epf-np": ("epf/NP.csv", "OT", "Grid load forecast,Wind power forecast"),
    "epf-pjm": ("epf/PJM.csv", "OT", "System load forecast,Zonal COMED load foecast"),
    "epf-be": ("epf/BE.csv", "OT", "Generation forecast,System load forecast"),
    "epf-fr": ("epf/FR.csv", "OT", "Generation forecast,System load forecast"),
    "epf-de": ("epf/DE.csv", "OT", "Wind power forecast,Ampirion zonal load forecast"),
    "gefcom": ("GEFCom2014-E.csv", "load", "T"),
}
"""File below --root, target and future covariates."""

DATA: dict[str, tuple[str, ...]] = {
    **{
        name: (f"data={name}", "data.root=ROOT", "seq_len=720", "features=M")
        for name in ("etth1", "etth2", "ettm1", "ettm2", "electricity")
    },
    "etth1-joint": ("data=etth1", "data.root=ROOT", "features=M", "model.tokens=joint"),
    "weather": (
        "data=csv", "data.name=weather", "data.path=ROOT/weather.csv", "data.target=OT", "data.split=[0.7,0.1,0.2]",
        "data.freq=10min", "data.duplicates=first", "data.na_values=[-9999]", "seq_len=720", "features=M",
    ),
    "sample": ("data=sample", "seq_len=336", "features=M"),
    "load": ("data=load", "data.holidays=TR", "seq_len=504", "features=S"),
    "load-without-holidays": ("data=load", "seq_len=504", "features=S"),
    "recall": (
        "data=recall", "features=MS", "label_len=336", "model.linear=false", "model.normalize=false", "model.n_heads=2",
        "model.d_model=64", "model.d_calendar=16", "model.dropout=0", "data.eval_batch_size=32",
        "trainer.max_epochs=10", "model.time_stride=1",
    ),
    **{
        name: (
            "data=csv", f"data.name={name}", f"data.path=ROOT/{path}", f"data.target={target}", "features=S",
            f"data.columns=[{target}]", f"data.future_covariates=[{covariates}]", "data.split=[0.7,0.1,0.2]",
            "seq_len=168", "data.eval_stride=1", *(["data.date_column=[Date,Hour]"] if name == "gefcom" else []),
        )
        for name, (path, target, covariates) in WITH_COVARIATES.items()
    },
    "m4-hourly": (
        "data=long", "data.name=m4-hourly", "data.path=ROOT/m4/Hourly-train.csv", "data.melt=true", "data.id_column=V1",
        "data.start=2015-07-01", "data.freq=h", "features=M",
    ),
}  # fmt: skip
"""Overrides for each data set. ROOT stands for the folder of --root."""

EVERYTHING = "everything"
ABLATION = (
    EVERYTHING, "model.linear=false", "model.future_calendar=false", "model.normalize=false", "label_len=0",
    "model.tokens=independent", "model.tokens=joint", "data.holidays=null", "model=informer seq_len=96",
)  # fmt: skip
WITHOUT, FEWER = "data.future_covariates=[]", "windows_per_epoch=5214 data.batch_size=32"
PERCEPTRON, TRANSFORM = "model=mlp", "data.transform=auto"
COVARIATES = (EVERYTHING, WITHOUT, FEWER, PERCEPTRON, TRANSFORM, f"{PERCEPTRON} {TRANSFORM}")
PAST = f"{TRANSFORM} features=MS data.columns=null {WITHOUT}"
"""The other columns are read up to the forecast origin only."""
ALONE = "seq_len=336 model.tokens=independent"
FLAT = {
    "residual_informer": "seq_len=336",
    "mlp": f"model=mlp {ALONE} windows_per_epoch=8000",
    "patch_encoder": f"model=patch_encoder {ALONE}",
}
PATCHES_OF_A_DAY = frozenset(("ett", "windows", "recall", "ablation", "covariates"))
"""Tables that were made with `model.patch_len=24`, the default of their time."""
SUGGESTED = {"ettm1": "seq_len=480", "ettm2": "seq_len=480", "weather": "seq_len=720"}
"""The input length that `forecast.check` suggests for steps below an hour: five days, at most 720 steps."""
YARDSTICK = "model=mlp model.tokens=independent windows_per_epoch=8000"
"""A perceptron that reads the same windows."""
LONGEST = f"{YARDSTICK} loss=mae seq_len=1440"
"""A longer input, which was tried when test errors of linear models were visible."""

REAL = ("m4-hourly", "etth1", "ettm1", "weather", *WITH_COVARIATES, "load")
"""Data sets on which attention types are compared by length: measured ones, and one generated load."""

SMALL_INFORMER = (
    "model.d_model=32", "model.n_heads=4", "model.d_ff=128", "optimizer.lr=1e-3", "trainer.max_epochs=3",
    "windows_per_epoch=4096", "data.eval_stride=5", "data.eval_batch_size=256",
)  # fmt: skip
TOWARDS_PUBLISHED = (
    "faithful=false", "sampling=per_query", "ranking=published", "lazy=sum", "model.mix_heads=true",
    "model.drop_weights=true", "faithful=true", "ranking=norm",
)  # fmt: skip


def merge(*overrides: str) -> tuple[str, ...]:
    """Return one override per key: the last value, at the position of the first."""
    return tuple({override.partition("=")[0]: override for override in overrides}.values())


def make_cell(table: str, data: str, horizon: int, attention: str, seed: int, variant: str = "", *more: str) -> Cell:
    """Return a cell of the default model. `variant` has overrides that are a part of the name, `more` has others."""
    facts = dict(zip(FACTS, (data, variant, horizon, attention, seed), strict=True))
    name = "/".join(part for part in (data, variant, str(horizon), attention, f"s{seed}") if part)
    changes = () if variant == EVERYTHING else variant.split()
    own = (f"pred_len={horizon}", f"attention={attention}", f"seed={seed}")
    overrides = merge("model=residual_informer", *DATA[data], *own, *changes, *more)
    if table in PATCHES_OF_A_DAY and "model=residual_informer" in overrides:
        overrides = (*overrides, "model.patch_len=24")
    return Cell(table, name, overrides, facts)


def make_grid(
    table: str,
    tasks: Iterable[tuple[str, int]],
    attention_types: tuple[str, ...] = ("full",),
    variants: tuple[str, ...] = ("",),
    seeds: tuple[int, ...] = SEEDS,
    more: Callable[[str, str], tuple[str, ...]] = lambda data, attention: (),
) -> list[Cell]:
    """Return a cell for each seed, task (data set and horizon), variant and attention type."""
    return [
        make_cell(table, data, horizon, attention, seed, variant, *more(data, attention))
        for seed, (data, horizon), variant, attention in product(seeds, list(tasks), variants, attention_types)
    ]


def list_recall() -> list[Cell]:
    """The attention type is used in all slots that it can serve, including cross-attention."""
    types = {
        "seq_len=336": ("full",),
        "seq_len=672": ("full",),
        "seq_len=2688": (*ATTENTION_TYPES, "gated_delta"),
        "seq_len=2688 feature_map=taylor": ("linear",),
    }
    return [
        cell
        for seed, (variant, names) in product(SEEDS, types.items())
        for cell in make_grid(
            "recall", [("recall", 336)], names, (variant,), (seed,),
            lambda data, attention: () if attention == "fastformer" else (f"cross={attention}",),
        )
    ]  # fmt: skip


def list_load() -> list[Cell]:
    """All attention types a week ahead and on `sample` a day ahead; full attention for the rest."""
    tasks = [("sample", 24), ("sample", 168), ("load", 168)]
    rest = [("load", 24), ("load-without-holidays", 24), ("load-without-holidays", 168)]
    return [
        cell
        for seed in SEEDS
        for cell in (*make_grid("load", tasks, ALL_TYPES, seeds=(seed,)), *make_grid("load", rest, seeds=(seed,)))
    ]


def list_ablation() -> list[Cell]:
    """Not all data sets have holidays, or several variables."""
    cells = make_grid("ablation", [("sample", 168), ("load", 168), ("etth1", 96)], variants=ABLATION)
    return [
        cell
        for cell in cells
        if cell.facts["variant"] != "data.holidays=null" or cell.facts["data"] == "load"
        if not cell.facts["variant"].startswith("model.tokens") or cell.facts["data"] != "load"
    ]


def list_suggested(table: str, names: tuple[str, ...]) -> list[Cell]:
    """All attention types with the settings that `forecast.check` suggests, and a perceptron beside them."""
    cells = []
    for seed in SEEDS:
        for attention, name, horizon in product((*ATTENTION_TYPES, "gated_delta"), names, HORIZONS):
            settings = ("model=patch_encoder", SUGGESTED[name])
            cells.append(make_cell(table, name, horizon, attention, seed, "", *settings))
        cells += [
            make_cell(table, name, horizon, "full", seed, YARDSTICK, SUGGESTED[name])
            for name, horizon in product(names, HORIZONS)
        ]
    return cells


def list_lengths() -> list[Cell]:
    """All attention types with equal parameters, on windows of more and more tokens of four steps.

    The shorter windows come first, and without the linear model, which would hide the attention. Only the shortest
    windows have more than one seed, so that two cores take less than twelve hours, by the runs so far.
    """
    settings = (
        "match=parameters", "model.patch_len=4", "model.n_heads=2", "model.d_calendar=16", "model.dropout=0.1",
        "windows_per_epoch=2048", "trainer.max_epochs=4", "data.batch_size=32", "data.eval_stride=13",
    )  # fmt: skip
    long = [(name, 24 if name.startswith("epf") else 48) for name in REAL if name != "m4-hourly"]
    every = [("m4-hourly", 48), *long]
    parts = [("false", 96, SEEDS), ("false", 336, SEEDS[:1]), ("false", 720, SEEDS[:1]), ("true", 96, SEEDS[:1])]
    return [
        cell
        for seed, (linear, tokens, seeds) in product(SEEDS, parts)
        if seed in seeds
        for cell in make_grid(
            "lengths", every if tokens == 96 else long, ALL_TYPES,
            (f"seq_len={4 * tokens} model.linear={linear}",), (seed,), lambda data, attention: settings,
        )
    ]  # fmt: skip


def make_paper_cell(table: str, data: str, features: str, horizon: int, seed: int, variant: str, *more: str) -> Cell:
    """Return a cell with the settings of the Informer paper; `variant` is a part of the name, `more` has overrides."""
    overrides = (
        f"experiment=informer2020/{data}_{features.lower()}", f"pred_len={horizon}", "data.root=ROOT",
        "attention=probsparse", f"seed={seed}", *more,
    )  # fmt: skip
    facts = dict(zip(FACTS, (data, variant, horizon, "probsparse", seed), strict=True))
    return Cell(table, f"{data}/{variant}/{horizon}/probsparse/s{seed}", overrides, facts)


def list_paper() -> list[Cell]:
    """The settings of the Informer paper. ETTh1 S, with 930 GFLOP per step, is trained in bfloat16."""
    return [
        make_paper_cell("informer2020", data, features, horizon, seed, features, *more)
        for seed, data, features, horizon in product(SEEDS, ("etth1", "etth2"), "MS", PAPER_HORIZONS)
        for more in [("trainer.precision=bf16-mixed",) if (data, features) == ("etth1", "S") else ()]
    ]


def list_faithful() -> list[Cell]:
    """ETTh1 a day ahead with a smaller Informer: ours, each change towards the authors' code alone, and all of them."""
    return [
        make_paper_cell("faithful", "etth1", "M", 24, seed, variant, *SMALL_INFORMER, variant)
        for seed, variant in product(SEEDS, TOWARDS_PUBLISHED)
    ]


KEPT = ("flat", "strides", "sizes", "losses", "axes")
"""Tables by which settings were selected: their cells are those of their files."""
TRAINING: dict[str, list[Cell]] = {
    "ett": make_grid("ett", product(("etth1", "etth2"), HORIZONS), ATTENTION_TYPES),
    "load": list_load(),
    "windows": make_grid(
        "windows", [("etth1", 96), ("etth2", 96), ("load", 168), ("etth1-joint", 96)], ATTENTION_TYPES,
        tuple(f"seq_len={steps}" for steps in (336, 720, 1440, 2880)), SEEDS[:1],
    ),
    "recall": list_recall(),
    "ablation": list_ablation(),
    "covariates": [
        *make_grid(
            "covariates", [(name, 24) for name in WITH_COVARIATES], variants=COVARIATES, seeds=SEEDS[:1]
        ),
        *make_grid(
            "covariates", [(name, 24) for name in WITH_COVARIATES if name != "gefcom"],
            variants=(f"{PERCEPTRON} {PAST}", PAST), seeds=SEEDS[:1],
        ),
    ],
    "informer2020": list_paper(),
    "faithful": list_faithful(),
    "lengths": list_lengths(),
    "ettm": [
        *list_suggested("ettm", ("ettm1", "ettm2")),
        *make_grid("ettm", product(("ettm1", "ettm2"), HORIZONS), variants=(LONGEST,), seeds=SEEDS[:1]),
    ],
    "electricity": make_grid("electricity", product(("electricity",), HORIZONS), ATTENTION_TYPES),
    "weather": list_suggested("weather", ("weather",)),
}  # fmt: skip


# ---- the tables of all kinds


class Table(NamedTuple):
    """A table: where its cells are listed and run, the folder of its file, and packages that this project lacks."""

    module: str
    run: str
    folder: str = "benchmarks"
    packages: tuple[str, ...] = ()

    def list_cells(self, name: str, docs: Path = ROOT / "docs") -> list[Cell]:
        if name in TRAINING:
            return TRAINING[name]
        if name in KEPT:
            rows = json.loads((docs / self.folder / f"{name}.json").read_text())["cells"]
            facts = {key: {fact: row[fact] for fact in FACTS} for key, row in rows.items()}
            return [Cell(name, key, tuple(row["overrides"]), facts[key]) for key, row in rows.items()]
        return self.load("list_cells")(name)

    def load(self, function: str):
        return getattr(importlib.import_module(f"experiments.{self.module}"), function)


TABLES = {
    **dict.fromkeys((*TRAINING, *KEPT), Table("training", "run_training", "results")),
    **dict.fromkeys(("fev_bench", "fev_tables", "gift_eval"), Table("leaderboard", "run_task")),
    "peers-accuracy": Table("peers", "run_forecaster", packages=("lightgbm", "neuralforecast")),
    "peers": Table("benchmarks", "run_benchmark", packages=("neuralforecast",)),
    "cpu": Table("benchmarks", "run_benchmark"),
    "tasks": Table("tasks", "run_task", "results"),
    **dict.fromkeys(("intervals", "maps", "series", "serve", "verdicts"), Table("studies", "run_study")),
    "sample_paths": Table("sample_paths", "run_sample_paths"),
}
