"""Times and memory of attention types in one layer or in a whole model."""

import ctypes
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import groupby, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from hydra.utils import instantiate
from matplotlib.figure import Figure
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from torch import Tensor

from forecast.attention import Attention
from forecast.attention.base import ROLES
from forecast.reports.figures import add_legend, save, style_axis, subplots
from forecast.reports.plots import attention_colour
from forecast.reports.tables import Cell, Column, Table, print_lines, print_table
from forecast.system.errors import ConfigError, check_choice, check_count
from forecast.system.files import atomic_file, write_json
from forecast.system.keys import ATTENTION_OPTIONS
from forecast.system.location import conf_files
from forecast.system.machine import describe_machine
from forecast.system.memory import read_status, release_unused, reset_peak
from forecast.system.progress import bar
from forecast.training.create_model import create_model

Work = Callable[[], object]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
REFERENCE = "full"
PARTS = ("mixing", "layer")
Row = dict[str, Any]


def time_in_turn(works: Sequence[Work], repeats: int) -> list[Row]:
    """Time every function once per round, after one warm-up call, so that a slower machine slows all of them.

    Returns the seconds of one call of each: `median`, `fastest` and `slowest` of the rounds.
    """
    for work in works:
        work()
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for work, times in zip(works, seconds, strict=True):
            synchronize()
            start = time.perf_counter()
            work()
            synchronize()
            times.append(time.perf_counter() - start)
    statistic = {"median": statistics.median, "fastest": min, "slowest": max}
    return [{name: of(times) for name, of in statistic.items()} for times in seconds]


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def measure_peak_memory(make_work: Callable[[], Work], *, cuda: bool) -> float:
    """Return the MiB that one call adds to the memory of its inputs, or NaN where this cannot be measured.

    On CUDA, the allocator counts. On Linux, it is the peak of the resident memory during the call minus the resident
    memory before it, after a warm-up call. Call this function in a process of `start_memory_processes`, where each
    tensor has its own memory mapping.
    """
    work = make_work()
    work()
    release_unused()
    if cuda:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    if sys.platform != "linux":
        return math.nan
    reset_peak()
    before = read_status("VmRSS")
    work()
    return max(0.0, (read_status("VmHWM") - before) / 1024)


def start_memory_processes(threads: int) -> ProcessPoolExecutor:
    """Start a fresh process for each call, which returns freed tensors to the system, so that its memory is exact."""
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])  # imports PyTorch once
    return ProcessPoolExecutor(1, context, map_every_tensor, (threads,), max_tasks_per_child=1)


def map_every_tensor(threads: int) -> None:
    """Allocate every large tensor with mmap, also those below the default threshold of malloc."""
    torch.set_num_threads(threads)
    if sys.platform == "linux":
        mmap_threshold, kib64 = -3, 64 * 1024
        ctypes.CDLL(None).mallopt(mmap_threshold, kib64)


def fit_growth(rows: Sequence[Row]) -> list[Row]:
    """Return, for every attention type, part, width and direction, the exponents b of time and memory ≈ a·length^b.

    They are those of one sequence, of least squares on logarithms; NaN for one length, or where nothing was measured.
    """

    def exponent(each: list[Row], measured: str) -> float:
        if len(each) < 2 or not all(row[measured] > 0 for row in each):
            return math.nan
        lengths = [math.log(int(row["length"].split("/")[0])) for row in each]
        values = [math.log(row[measured] / row["batch"]) for row in each]
        return statistics.linear_regression(lengths, values).slope

    groups: dict[tuple[str, str, int, bool], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["attention"], row["part"], row["width"], row["backward"]), []).append(row)
    keys = "attention", "part", "width", "backward", "time_exponent", "memory_exponent"
    found = ((*key, exponent(each, "median"), exponent(each, "peak_mib")) for key, each in groups.items())
    return [dict(zip(keys, values, strict=True)) for values in found]


class Case(NamedTuple):
    attention: str
    part: str  # layer, its mixing alone, or model
    width: int  # of a position (d_model)
    length: str  # of the sequences of a layer, or seq_len/label_len/pred_len of a model
    backward: bool  # whether a backward pass follows (for a model: a training step instead of inference)

    @property
    def steps(self) -> int:
        """Length of the layer, or seq_len of the model."""
        return int(self.length.split("/")[0])


def list_cases(config: DictConfig) -> list[Case]:
    """Return the cases of all attention types that can serve the role, by width, length and direction.

    Raises ConfigError: an attention type, part, width or length is unknown, or no type can serve the role.
    """
    check_choices(config)
    settings, of_model = config.benchmark, config.benchmark.name == "model"
    lengths = [str(length) for length in settings.lengths]
    for length in lengths:
        numbers = length.split("/")
        if len(numbers) != (3 if of_model else 1) or not all(n.isdigit() and int(n) > 0 for n in numbers):
            form = "seq_len/label_len/pred_len such as 96/48/24" if of_model else "a whole number such as 512"
            raise ConfigError(f"benchmark.lengths: {length} must be {form}")
    role, asked = settings.get("role"), read_types(config)
    types = [one for one in asked if not role or role in get_attention_factory(config, one, role).func.roles]
    if not types:
        raise ConfigError(f"attention_types: none of {asked} can serve benchmark.role={role}")
    parts = ["model"] if of_model else [settings.part] if settings.part else list(PARTS)
    widths, heads = ([config.model.d_model], 1) if of_model else (list(settings.widths), settings.n_heads)
    check_count("benchmark.n_heads", heads)
    if wrong := [width for width in widths if not isinstance(width, int) or width < 1 or width % heads]:
        raise ConfigError(f"benchmark.widths: {wrong[0]} must be a multiple of benchmark.n_heads={heads}")
    return [
        Case(attention, part, width, length, backward)
        for width, length, backward, part, attention in product(widths, lengths, (False, True), parts, types)
    ]


def read_types(config: DictConfig) -> list[str]:
    """Return the attention types to measure. Raises ConfigError for an unknown one."""
    known = [path.stem for path in conf_files("attention")]
    for attention in config.attention_types or ():
        check_choice("attention_types", attention, known)
    return known if config.attention_types is None else list(config.attention_types)


def check_choices(config: DictConfig) -> None:
    """Check the settings that choose from a list. Raises ConfigError."""
    devices, precisions = ("auto", "cpu", "cuda"), tuple(DTYPES)
    choices = {"device": devices, "precision": precisions, "benchmark.part": PARTS, "benchmark.role": ROLES}
    for key, allowed in choices.items():
        if (value := OmegaConf.select(config, key)) is not None:
            check_choice(key, value, allowed)
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device=cuda: PyTorch finds no GPU; use device=cpu or device=auto")
    for key in ("attention_types", "benchmark.lengths", "benchmark.widths"):
        if (values := OmegaConf.select(config, key)) is not None and not values:
            raise ConfigError(f"{key}=[] must list at least one value")


def get_attention_factory(config: DictConfig, attention: str, role: str) -> Any:
    """Return the attention class with the options of conf/attention/<attention>.yaml, in this role."""
    options = {key: config[key] for key in ATTENTION_OPTIONS}
    return instantiate(OmegaConf.create({**options, "layer": {**load_type(attention), "role": role}}).layer)


def load_type(attention: str) -> dict[str, Any]:
    """Return the class and the options of an attention type, as a constructor."""
    file = next(path for path in conf_files("attention") if path.stem == attention)
    content: Any = OmegaConf.to_container(OmegaConf.load(file))
    return {**content, "_partial_": True}


def batch_size(config: DictConfig, case: Case) -> int:
    settings = config.benchmark
    return settings.batch_size if settings.name == "model" else max(1, settings.tokens // case.steps)


def make_work(config: DictConfig, case: Case, device: str) -> Work:
    """Create the inputs and weights of a case, and return the function that is timed."""
    torch.manual_seed(0)
    return (make_step if config.benchmark.name == "model" else make_layer_call)(config, case, device)


def make_layer_call(config: DictConfig, case: Case, device: str) -> Work:
    """Return a call of a layer, or of its mixing only, on random numbers."""
    settings, length, batch = config.benchmark, case.steps, batch_size(config, case)
    make_attention = get_attention_factory(config, case.attention, settings.role)
    dtype = DTYPES[config.precision]
    layer: Attention = make_attention(case.width, settings.n_heads, role=settings.role).to(device, dtype)
    if case.part == "mixing":
        shape = (batch, settings.n_heads, length, layer.head_dim)
        inputs = [torch.randn(shape, device=device, dtype=dtype, requires_grad=True) for _ in range(3)]
        call: Callable[[], Tensor] = lambda: layer.mix(*inputs)  # noqa: E731
    else:
        shape = (batch, length, case.width)
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
    tree = OmegaConf.create({**{key: config[key] for key in ATTENTION_OPTIONS}, "model": model_settings})
    columns = settings.n_features
    model = create_model(tree.model, n_features=columns, n_targets=columns, n_time_features=n_time).to(device)
    if settings.compile:
        torch._dynamo.reset()  # after eight graphs for one module, torch.compile falls back to eager execution
        model.compile()
    rows = batch_size(config, case)
    lengths = seq_len, pred_len
    past, future = (torch.randn(rows, length, columns).to(device) for length in lengths)
    past_time, future_time = (torch.rand(rows, length, n_time).to(device) for length in lengths)
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


def measure_cases(config: DictConfig, device: str) -> list[Row]:
    """Return one row per case: seconds (median, fastest, slowest), peak MiB, batch."""
    cases = list_cases(config)
    measured = {case.attention for case in cases}
    if omitted := [attention for attention in read_types(config) if attention not in measured]:
        print(f"omitted: {', '.join(omitted)} cannot serve benchmark.role={config.benchmark.role}")
    settings = config.copy()
    OmegaConf.resolve(settings)  # the process that measures memory gets plain values
    groups = [[*group] for _, group in groupby(cases, lambda case: (case.width, case.length, case.backward))]
    rows = []
    with (
        bar(len(groups), "Measuring", " passes") as progress,
        start_memory_processes(torch.get_num_threads()) as processes,
    ):
        for group in groups:
            direction = "forward and backward" if group[0].backward else "forward"
            progress.set_description(f"Length {group[0].length}, {direction}")
            timings = time_in_turn([make_work(settings, case, device) for case in group], settings.repeats)
            for case, timing in zip(group, timings, strict=True):
                cuda, make = device == "cuda", partial(make_work, settings, case, device)
                row = {**case._asdict(), "batch": batch_size(settings, case), **timing, "peak_mib": math.nan}
                if settings.memory:
                    measure = partial(measure_peak_memory, make, cuda=cuda)
                    row["peak_mib"] = measure() if cuda else processes.submit(measure).result()
                rows.append(row)
            progress.update()
    return rows


def growth_figure(rows: pd.DataFrame, title: str) -> Figure:
    """Draw time and peak memory of one sequence, forward and backward, against its length, with logarithmic axes.

    Each part and width of the layer has a row of its own.
    """
    lengths = rows["length"].astype(str).str.split("/").str[0].astype(int)
    rows = rows.assign(n=lengths).loc[rows["backward"]]
    units = {"median": "seconds", "peak_mib": "MiB"}
    measured = {column: unit for column, unit in units.items() if np.any(rows[column] > 0)}
    types = list(map(str, rows["attention"].unique()))
    groups = list(rows.groupby(["part", "width"], sort=False))
    size = (5.5 * len(measured), 4.4 * len(groups))
    figure, axes = subplots(len(groups), len(measured), figsize=size, squeeze=False)
    panels = product(groups, measured.items())
    for axis, ((of, group), (column, unit)) in zip(axes.flat, panels, strict=True):
        part, width = of  # type: ignore[reportGeneralTypeIssues]
        for attention, points in group.groupby("attention", sort=False):
            colour, values = attention_colour(str(attention), types), points[column] / points["batch"]
            axis.plot(points["n"], values, marker="o", markersize=3.5, label=attention, color=colour)
        label = f"{unit} a sequence, {part} of width {width}"
        axis.set(xscale="log", yscale="log", xlabel="length", ylabel=label)
        axis.set_xticks(sorted(rows["n"].unique()), sorted(rows["n"].unique()), minor=False)
        axis.minorticks_off()
        style_axis(axis, which="both")
    add_legend(figure, axes[0, 0], title)
    return figure


def report_results(folder: Path, config: DictConfig, rows: list[Row], device: str) -> None:
    """Write benchmark.csv, benchmark.png and benchmark.json; print a table for each direction, and the growth."""
    settings, hardware, growth = config.benchmark, describe_machine(device), fit_growth(rows)
    what = "training steps" if settings.name == "model" else f"{settings.role}-attention"
    title, table = f"{what}, {config.precision}, {hardware['device']}", pd.DataFrame(rows)
    with atomic_file(folder / "benchmark.csv") as temporary:
        table.to_csv(temporary, index=False)
    save(growth_figure(table, title), folder / "benchmark.png")
    content = {"hardware": hardware, "rows": rows, "growth": growth}
    content["config"] = OmegaConf.to_container(config, resolve=True)
    write_json(folder / "benchmark.json", content)
    console = Console(highlight=False, markup=False)
    for direction, backward in (("forward", False), ("forward + backward", True)):
        measured = [row for row in rows if row["backward"] == backward]
        print_table(make_table(f"{title}: {direction}", measured), console)
    lines = [
        f"{row['attention']}, {row['part']} of width {row['width']}: time grows as n^{row['time_exponent']:.2f}"
        + ("" if math.isnan(memory := row["memory_exponent"]) else f", memory as n^{memory:.2f}")
        for row in growth
        if row["backward"] and not math.isnan(row["time_exponent"])
    ]
    print_lines(console, [*lines, f"saved in {folder}"])


COLUMNS = (
    "attention type", "part", "width", "length", "batch", "ms", "fastest – slowest", "× full", "peak MiB"
)  # fmt: skip


def make_table(title: str, rows: list[Row]) -> Table:
    """Return milliseconds, speed relative to full attention and memory of the cases of one direction."""

    def place(row: Row) -> tuple[str, ...]:
        return tuple(str(row[key]) for key in ("part", "width", "length"))

    full = {place(row): row["median"] for row in rows if row["attention"] == REFERENCE}
    made = []
    for row in rows:
        median, *range_of_times = (f"{1000 * row[key]:.1f}" for key in ("median", "fastest", "slowest"))
        texts = [
            *place(row), str(row["batch"]), median, " – ".join(range_of_times),
            f"{full.get(place(row), math.nan) / row['median']:.2f}", f"{row['peak_mib']:.0f}",
        ]  # fmt: skip
        made.append(("", [Cell.from_text(row["attention"]), *map(Cell, texts)]))
    return Table(title, [Column(name, name) for name in COLUMNS], made)
