"""The tables of `scripts/reproduce`. A cell is one run of `python -m forecast.train`. Imports no torch.

Cells are ordered by seed first, so that an interrupted table has all cells of one seed before any cell of the next.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from results.settings import (
    ABLATION,
    ATTENTION_TYPES,
    AXIS_TYPES,
    FEWER,
    FLAT_HEAD,
    HORIZONS,
    LOSSES,
    PAPER_HORIZONS,
    PERCEPTRON,
    RECALL,
    SEEDS,
    SETTINGS,
    SIZES,
    STRIDE_TASKS,
    SUGGESTED_LENGTH,
    TIME_STRIDES,
    TRANSFORM,
    VARIANTS,
    WINDOW_LENGTHS,
    WINDOWS,
    WITH_COVARIATES,
    WITHOUT,
    YARDSTICK,
)


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
    def forecaster(self) -> str:
        """The attention type, or the model without attention."""
        return f"`{PERCEPTRON}`" if PERCEPTRON in self.variant.split() else self.attention

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


def sizes() -> Iterator[Cell]:
    """Yield sizes and input lengths of an encoder with a flat head, and a perceptron on the suggested lengths."""
    for seed in SEEDS[:2]:
        for variant, names in SIZES.items():
            for name in names:
                yield changed(cell("sizes", name, 96, "full", seed, variant), "model=patch_encoder")
        for name in ("ettm1", "weather"):
            yield cell("sizes", name, 96, "full", seed, f"{SUGGESTED_LENGTH[name]} {YARDSTICK}")


def suggested(table: str, names: tuple[str, ...]) -> Iterator[Cell]:
    """Yield all attention types with the settings that `forecast.check` suggests, and a perceptron beside them."""
    for seed in SEEDS:
        for attention in (*ATTENTION_TYPES, "gated_delta"):
            for name in names:
                for length in HORIZONS:
                    made = cell(table, name, length, attention, seed)
                    yield changed(made, "model=patch_encoder", SUGGESTED_LENGTH[name])
        for name in names:
            for length in HORIZONS:
                yield changed(cell(table, name, length, "full", seed, YARDSTICK), SUGGESTED_LENGTH[name])


def losses() -> Iterator[Cell]:
    """Yield an encoder with a flat head, and a perceptron, trained with other losses."""
    for seed in SEEDS[:2]:
        for name, seq_len in SUGGESTED_LENGTH.items():
            for length in HORIZONS:
                for loss in LOSSES:
                    encoder = f"model=patch_encoder {seq_len} {loss}".strip()
                    yield cell("losses", name, length, "full", seed, encoder)
    for name, seq_len in SUGGESTED_LENGTH.items():
        for length in HORIZONS:
            for loss in LOSSES[:2]:
                yield cell("losses", name, length, "full", SEEDS[0], f"{YARDSTICK} {seq_len} {loss}".strip())


def axes() -> Iterator[Cell]:
    """Yield an encoder whose layers over time and over variables have different attention types."""
    for seed in SEEDS[:2]:
        for attention in AXIS_TYPES:
            for variables in AXIS_TYPES:
                variant = f"model=patch_encoder seq_len=720 model.tokens=axes variables={variables}"
                yield cell("axes", "weather", 96, attention, seed, variant)


def changed(made: Cell, *overrides: str) -> Cell:
    """Return a cell with other overrides and the same name."""
    return replace(made, overrides=merged(*made.overrides, *overrides))


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


def strides() -> Iterator[Cell]:
    """Yield the default model with a time embedding for every step of the past, or for several steps."""
    for seed in SEEDS:
        for name, horizon in STRIDE_TASKS:
            for variant in TIME_STRIDES:
                yield cell("strides", name, horizon, "full", seed, variant)


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
    "strides": tuple(strides()),
    "sizes": tuple(sizes()),
    "losses": tuple(losses()),
    "axes": tuple(axes()),
    "informer2020": tuple(informer2020()),
    "ettm": tuple(suggested("ettm", ("ettm1", "ettm2"))),
    "electricity": tuple(horizons("electricity", ("electricity",))),
    "weather": tuple(suggested("weather", ("weather",))),
}
