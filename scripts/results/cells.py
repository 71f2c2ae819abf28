"""The tables of `scripts/reproduce`. A cell is one run of `python -m forecast.train`. Imports no torch.

Cells are ordered by seed first, so that an interrupted table has all cells of one seed before any cell of the next.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ATTENTION_TYPES = ("full", "probsparse", "linear", "nystrom", "fastformer")
SEEDS = (1, 2, 3)
HORIZONS = (96, 192, 336, 720)

WITH_COVARIATES = {
    "epf-np": ("epf/NP.csv", "OT", "Grid load forecast,Wind power forecast"),
    "epf-pjm": ("epf/PJM.csv", "OT", "System load forecast,Zonal COMED load foecast"),
    "epf-be": ("epf/BE.csv", "OT", "Generation forecast,System load forecast"),
    "epf-fr": ("epf/FR.csv", "OT", "Generation forecast,System load forecast"),
    "epf-de": ("epf/DE.csv", "OT", "Wind power forecast,Ampirion zonal load forecast"),
    "gefcom": ("GEFCom2014-E.csv", "load", "T"),
}
"""File below --root, target and future covariates of the data sets that have day-ahead forecasts as covariates."""

SETTINGS: dict[str, tuple[str, ...]] = {
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
        "trainer.max_epochs=10",
    ),
    **{
        name: (
            "data=csv", f"data.name={name}", f"data.path=ROOT/{path}", f"data.target={target}", "features=S",
            f"data.columns=[{target}]", f"data.future_covariates=[{covariates}]", "data.split=[0.7,0.1,0.2]",
            "seq_len=168", "data.eval_stride=1", *(["data.date_column=[Date,Hour]"] if name == "gefcom" else []),
        )
        for name, (path, target, covariates) in WITH_COVARIATES.items()
    },
}  # fmt: skip
"""Overrides for each data set. ROOT stands for the folder of --root."""

WINDOWS = (("etth1", 96), ("etth2", 96), ("load", 168), ("etth1-joint", 96))  # data set, horizon
WINDOW_LENGTHS = (336, 720, 1440, 2880)
RECALL = {
    "seq_len=336": ("full",),
    "seq_len=672": ("full",),
    "seq_len=2688": (*ATTENTION_TYPES, "gated_delta"),
    "seq_len=2688 feature_map=taylor": ("linear",),
}
"""Input steps and other overrides, with the attention types that are run with them."""
ABLATION = (("sample", 168), ("load", 168), ("etth1", 96))
VARIANTS = (
    "everything",
    "model.linear=false",
    "model.future_calendar=false",
    "model.normalize=false",
    "label_len=0",
    "model.tokens=independent",
    "model.tokens=joint",
    "data.holidays=null",
    "model=informer seq_len=96",
)
"""Rows of the ablation: overrides, separated by spaces, that replace those of "everything"."""

WITHOUT = "data.future_covariates=[]"
FEWER = "windows_per_epoch=5214 data.batch_size=32"
PERCEPTRON = "model=mlp"
TRANSFORM = "data.transform=auto"
"""Variants of the data sets of `WITH_COVARIATES`."""

ALONE = "seq_len=336 model.tokens=independent"
AXES = "seq_len=336 model.tokens=axes"
FLAT_HEAD = {
    "seq_len=336": ("full",),
    ALONE: ("full",),
    f"model=mlp {ALONE} windows_per_epoch=8000": ("full",),
    f"model=patch_encoder {ALONE}": ("full", "linear"),
    f"model=patch_encoder {AXES}": ("full",),
}
"""Models of columns that are forecast from their own past, with the attention types that are run with them."""

PAPER_HORIZONS = (24, 48, 168, 336, 720)


@dataclass(frozen=True)
class Cell:
    table: str
    data: str  # a key of SETTINGS
    horizon: int
    attention: str
    seed: int
    overrides: tuple[str, ...]
    variant: str = ""  # other overrides that identify the cell, such as seq_len=1440

    @property
    def name(self) -> str:
        parts = [self.data, self.variant, str(self.horizon), self.attention, f"s{self.seed}"]
        return "/".join(part for part in parts if part)

    @property
    def steps_read(self) -> int:
        """Input steps of a cell whose variant begins with seq_len."""
        return int(self.variant.split()[0].removeprefix("seq_len="))

    @property
    def label(self) -> str:
        """The attention type, and the overrides of the variant except for seq_len."""
        return " ".join([self.attention, *(f"`{change}`" for change in self.variant.split()[1:])])

    def typed(self, root: Path) -> list[str]:
        """Return the overrides with the data folder in place of ROOT."""
        return [override.replace("=ROOT", f"={root}", 1) for override in self.overrides]


def merged(*overrides: str) -> tuple[str, ...]:
    """Return one override per key: the last value, at the position of the first."""
    return tuple({override.partition("=")[0]: override for override in overrides}.values())


def cell(table: str, data: str, horizon: int, attention: str, seed: int, variant: str = "") -> Cell:
    changes = () if variant in ("", "everything") else variant.split()
    overrides = merged(
        "model=residual_informer",
        *SETTINGS[data],
        f"pred_len={horizon}",
        f"attention={attention}",
        f"seed={seed}",
        *changes,
    )
    return Cell(table, data, horizon, attention, seed, overrides, variant)


def horizons(table: str, names: tuple[str, ...], lengths: tuple[int, ...] = HORIZONS) -> Iterator[Cell]:
    """Yield all attention types on several data sets and horizons."""
    for seed in SEEDS:
        for name in names:
            for length in lengths:
                for attention in ATTENTION_TYPES:
                    yield cell(table, name, length, attention, seed)


def windows() -> Iterator[Cell]:
    """Yield all attention types with windows of increasing length, one seed."""
    for name, horizon in WINDOWS:
        for length in WINDOW_LENGTHS:
            for attention in ATTENTION_TYPES:
                yield cell("windows", name, horizon, attention, SEEDS[0], f"seq_len={length}")


def recall() -> Iterator[Cell]:
    """Yield windows without and with the relevant week. The attention type is used in all slots that it can serve,
    including cross-attention."""
    for seed in SEEDS:
        for variant, attention_types in RECALL.items():
            for attention in attention_types:
                made = cell("recall", "recall", 336, attention, seed, variant)
                cross = () if attention == "fastformer" else (f"cross={attention}",)
                yield replace(made, overrides=(*made.overrides, *cross))


def ablation() -> Iterator[Cell]:
    """Yield the default model with full attention, and with one setting changed."""
    for seed in SEEDS:
        for name, horizon in ABLATION:
            for variant in VARIANTS:
                if applies(variant, SETTINGS[name]):
                    yield cell("ablation", name, horizon, "full", seed, variant)


def applies(variant: str, settings: tuple[str, ...]) -> bool:
    """Return whether a variant changes these settings: not all of them have holidays, or several variables."""
    if variant.startswith("data.holidays"):
        return "data.holidays=TR" in settings
    return "features=M" in settings or not variant.startswith("model.tokens")


def informer2020() -> Iterator[Cell]:
    """Yield the settings of the Informer paper (conf/experiment/informer2020). ETTh1 S, with 720 input hours and 930
    GFLOP per step, is trained in bfloat16."""
    for seed in SEEDS:
        for name in ("etth1", "etth2"):
            for features in ("M", "S"):
                for horizon in PAPER_HORIZONS:
                    experiment = f"experiment=informer2020/{name}_{features.lower()}_{horizon}"
                    overrides = (experiment, "data.root=ROOT", "attention=probsparse", f"seed={seed}")
                    if (name, features) == ("etth1", "S"):
                        overrides = (*overrides, "trainer.precision=bf16-mixed")
                    yield Cell("informer2020", name, horizon, "probsparse", seed, overrides, features)


def covariates() -> Iterator[Cell]:
    """Yield the default model without and with future covariates, and other models with them."""
    for name in WITH_COVARIATES:
        for variant in ("everything", WITHOUT, FEWER, PERCEPTRON, TRANSFORM, f"{PERCEPTRON} {TRANSFORM}"):
            yield cell("covariates", name, 24, "full", SEEDS[0], variant)


def flat_head() -> Iterator[Cell]:
    """Yield the default model, a perceptron and an encoder with a flat head on data with steps below one hour."""
    for name in ("ettm1", "weather"):
        for variant, attention_types in FLAT_HEAD.items():
            for attention in attention_types:
                yield cell("flat", name, 96, attention, SEEDS[0], variant)


TABLES: dict[str, tuple[Cell, ...]] = {
    "ett": tuple(horizons("ett", ("etth1", "etth2"))),
    "load": tuple(horizons("load", ("sample", "load", "load-without-holidays"), (24, 168))),
    "windows": tuple(windows()),
    "recall": tuple(recall()),
    "ablation": tuple(ablation()),
    "covariates": tuple(covariates()),
    "flat": tuple(flat_head()),
    "informer2020": tuple(informer2020()),
    "ettm": tuple(horizons("ettm", ("ettm1", "ettm2"))),
    "electricity": tuple(horizons("electricity", ("electricity",))),
    "weather": tuple(horizons("weather", ("weather",))),
}
