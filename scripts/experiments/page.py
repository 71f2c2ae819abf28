"""The tables in the pages of docs/, each between `<!--table NAME-->` and `<!--end-->`; NAME is one of `VIEWS`."""

import csv
import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from experiments import cells as declared
from experiments.store import Store
from experiments.studies import EQUAL_TYPES
from forecast.reports.compare.task import mean_and_std
from forecast.system.files import atomic_file
from tables import list_rows, markdown_table, milliseconds, pivot

Group = dict[str, Any]
KEYS = ("data", "variant", "horizon", "attention")
NOT_RUN, LINEAR = "–", "linear baseline"
OURS = (
    "full attention", "`model=mlp`", "`model=mlp loss=mae`", "with `seq_len=1440`", "of both by validation",
)  # fmt: skip
SHOWN = ("DUET (2024)", "PatchTST (2023)", "DLinear (2023)", "Informer (2021)")
"""Published models of which the page shows the errors; docs/results/published.json has more."""
CSV_KEYS = {
    "mse": "test_mse", "mse_std": "test_mse_std", "mae": "test_mae", "validation_mse": "validation_mse",
    "validation_mse_std": "validation_mse_std", "linear_mse": "linear_mse", "seasonal_naive_mse": "seasonal_naive_mse",
    "published_mse": "test_mse_published_scale", "published_linear_mse": "linear_mse_published_scale",
    "best_epoch": "tested_epoch", "seconds": "seconds", "peak_memory_mb": "peak_mib",
}  # fmt: skip
"""Columns of the CSV file of a table, beside `KEYS` and the number of seeds."""
BEST = 5
"""Models of others that a ranking shows, beside ours and those that are trained on the data of a task alone."""
TRAINED = (
    "DLinear", "N-BEATS", "PatchTST", "crossformer", "deepar", "iTransformer", "tft", "tide", "xLSTM-Mixer", "FFM",
    "TFT", "DeepAR", "LightGBM", "CatBoost", "Seasonal Naive",
)  # fmt: skip


class Results:
    """The results of all tables in a folder of documentation."""

    def __init__(self, docs: Path) -> None:
        self.docs = docs
        self.published = json.loads((docs / "results" / "published.json").read_text())

    def store(self, table: str) -> Store:
        given = declared.TABLES[table]
        return Store(self.docs / given.folder / f"{table}.json", given.list_cells(table, self.docs))

    def groups(self, table: str, **where: Any) -> list[Group]:
        """Return a group for each setting of a training table: its facts, and means over the seeds that have run."""
        store, found = self.store(table), {}
        for cell in store.cells:
            facts = {key: cell.facts[key] for key in KEYS}
            if all(facts[key] == value for key, value in where.items()):
                found.setdefault(tuple(facts.values()), (facts, []))[1].append(store.row(cell))
        return [summarise(facts, rows) for facts, rows in found.values()]

    def group(self, table: str, **where: Any) -> Group:
        """Return the only group with these facts, or an empty one."""
        found = self.groups(table, **where)
        return found[0] if len(found) == 1 else {}

    def rows(self, table: str, start: str) -> list[Group]:
        """Return the rows of all benchmarks whose names start with this text, each with its name."""
        return merge_rows(self.store(table), start)


def merge_rows(store: Store, start: str) -> list[Group]:
    cells = store.content["cells"].items()
    return [{**row, "cell": name} for name, cell in cells if name.startswith(start) for row in cell["result"]]


def summarise(facts: Group, rows: Sequence[Group | None]) -> Group:
    ran = [row for row in rows if row is not None]
    group = {**facts, "seeds": len(ran), "planned": len(rows)}
    for key in CSV_KEYS:
        values = [float(row[key]) for row in ran if row.get(key) is not None]
        if values:
            group[key], group[f"{key}_std"] = mean_and_std(values)
    return group


def score(value: float | None) -> str:
    """Three decimals, as in papers, or four for small errors."""
    return NOT_RUN if value is None or math.isnan(value) else f"{value:.{3 if value >= 0.1 else 4}f}"


def text(group: Group) -> str:
    """Return mean ± sample standard deviation of the test MSE, and the number of seeds if some have not run."""
    deviation, few = group["mse_std"], group["seeds"] < group["planned"]
    spread = "" if math.isnan(deviation) else f" ± {deviation:.{3 if group['mse'] >= 0.1 else 4}f}"
    return f"{score(group['mse'])}{spread}" + f" ({group['seeds']} seed{'s' * (group['seeds'] > 1)})" * few


def change(group: Group, reference: float) -> str:
    return f"{100 * (group['mse'] / reference - 1):+.1f}%".replace("-", "−")


def show_overview(results: Results) -> list[str]:
    """List the tables in one paragraph."""
    shown = []
    for table in (*declared.TRAINING, *declared.KEPT):
        rows, planned = (store := results.store(table)).rows(), len(store.cells)
        link = f"[{table}](results/{table}.csv)" if rows else table
        shown.append(f"{link} {len(rows)}/{planned} ({sum(row['seconds'] for row in rows) / 3600:.1f}h)")
    return [f"{', '.join(shown)}."]


def list_beside(results: Results, data: str) -> list[Group]:
    """Return the errors of our models and of published ones by horizon."""
    table = {"etth1": "ett", "etth2": "ett", "weather": "weather"}.get(data, "ettm")
    scale = "published_" if data == "weather" else ""
    rows = []
    for place, horizon in enumerate(declared.HORIZONS):
        full = results.group(table, data=data, horizon=horizon, attention="full", variant="")
        mlp = results.group(table, data=data, horizon=horizon, variant=declared.YARDSTICK)
        absolute = f"{declared.YARDSTICK} {declared.SUGGESTED.get(data)} loss=mae"
        of_losses = results.group("losses", data=data, horizon=horizon, variant=absolute)
        longest = results.group(table, data=data, horizon=horizon, variant=declared.LONGEST)
        pair = [group for group in (of_losses, longest) if "validation_mse" in group]
        validated = min(pair, key=lambda group: group["validation_mse"]) if len(pair) == 2 else {}
        groups = (full, mlp, of_losses, longest, validated)
        ours = [group.get(f"{scale}mse") for group in groups]
        values = dict(zip((*OURS, LINEAR), [*ours, full.get(f"{scale}linear_mse")], strict=True))
        values |= {name: results.published["opents"][name][data][place] for name in SHOWN}
        rows += [{"MSE": name, "data": data, "horizon": horizon, "value": value} for name, value in values.items()]
    return rows


def show_published(results: Results) -> list[str]:
    """Show means over the horizons."""
    found: dict[tuple[str, str], list[float]] = {}
    for data in ("etth1", "etth2", "ettm1", "ettm2", "weather"):
        for row in list_beside(results, data):
            value = math.nan if row["value"] is None else row["value"]
            found.setdefault((row["MSE"], data), []).append(value)
    means = [{"MSE": name, "data": data, "value": sum(each) / len(each)} for (name, data), each in found.items()]
    return pivot(means, "MSE", "data", lambda row: score(row["value"]))


def show_horizons(results: Results) -> list[str]:
    rows = [row for data in ("ettm1", "weather") for row in list_beside(results, data)]
    shown = (OURS[0], *OURS[2:], LINEAR, SHOWN[0])
    rows = [row for row in rows if row["MSE"] in shown and row["value"] is not None]
    rows = [{**row, "MSE": f"{row['data']}, {row['MSE']}"} for row in rows]
    return pivot(rows, "MSE", "horizon", lambda row: score(row["value"]))


def show_load(results: Results) -> list[str]:
    rows = results.groups("load", attention="full")
    return pivot(rows, "data", "horizon", lambda row: f"{text(row)} ({change(row, row['linear_mse'])})")


def show_attention(results: Results) -> list[str]:
    """Show the default model with each attention type, and the difference from the control `none`."""
    rows = [row for row in results.groups("load") if row["seeds"]]
    without = {(row["data"], row["horizon"]): row["mse"] for row in rows if row["attention"] == "none"}
    rows = [
        {**row, "task": f"{row['data']}, {row['horizon']}"} for row in rows if (row["data"], row["horizon"]) in without
    ]
    return pivot(
        rows, "attention", "task",
        lambda row: f"{text(row)} ({change(row, without[row['data'], row['horizon']])})",
    )  # fmt: skip


def show_tasks(results: Results) -> list[str]:
    """Show the mean error over seeds by type, for each task and tested length."""
    store, errors = results.store("tasks"), {}
    for cell in store.cells:
        if (row := store.row(cell)) is not None:
            for key, error in row.items():
                if key.startswith("mse_"):
                    column = f"{cell.facts['data']}, {key.removeprefix('mse_')} tokens"
                    errors.setdefault((cell.facts["attention"], column), []).append(error)
    rows = [
        {"attention": attention, "task": column, "mse": np.mean(found), "seeds": len(found)}
        for (attention, column), found in errors.items()
    ]
    return pivot(
        rows, "attention", "task",
        lambda row: score(row["mse"]) + f" ({row['seeds']} seeds)" * (row["seeds"] > 1),
    )  # fmt: skip


def show_lengths(results: Results) -> list[str]:
    """Show the change from `none` by type and length: the mean of the data sets, its 95% interval, and the wins.

    Only data sets of which all types have run count, so that all rows of a column have the same.
    """
    found: dict[tuple[str, str], dict[str, Group]] = {}
    for row in results.groups("lengths"):
        if row["seeds"]:
            found.setdefault((row["variant"], row["data"]), {})[row["attention"]] = row
    ratios: dict[tuple[str, str], list[float]] = {}
    for (variant, _), types in found.items():
        if len(types) == len(declared.ALL_TYPES):
            without = types.pop("none")["mse"]
            for attention, row in types.items():
                ratios.setdefault((attention, variant), []).append(math.log(row["mse"] / without))
    rows = [
        {"attention": attention, "settings": f"`{variant}`", "ratios": each}
        for (attention, variant), each in ratios.items()
    ]
    return pivot(rows, "attention", "settings", lambda row: describe_ratios(row["ratios"]))


def show_maps(results: Results) -> list[str]:
    """Show how far the maps of the encoder are from uniform attention, and their effective rank."""
    rows = [
        dict(zip(("data", "attention"), row["case"].split("/"), strict=True)) | row
        for row in results.store("maps").rows()
    ]

    def show(row: Group) -> str:
        numbers, tokens = row["numbers"], row["tokens"]
        (differs,) = (value for name, value in numbers.items() if name.endswith("differs from uniform"))
        return f"{differs:.0%}, rank {numbers['effective rank']:.1f} of {tokens}"

    return pivot(rows, "attention", "data", show)


def show_verdicts(results: Results) -> list[str]:
    """Show the highest share of significant tests between types, by data set and by the number of seeds."""
    shares: dict[tuple[str, str], list[float]] = {}
    for row in results.store("verdicts").rows():
        for name, share in row.items():
            if name.count("/") == 3:  # two types, the number of seeds, and whether both types have the same
                _, other, count, which = name.split("/")
                types = "equal types" if other in EQUAL_TYPES else f"softmax attention and `{other}`"
                types = f"`{row['case']}`: {types}, {which} seeds"
                shares.setdefault((types, f"{count} seeds"), []).append(share)
    rows = [{"types": types, "seeds": seeds, "shares": each} for (types, seeds), each in shares.items()]
    return pivot(rows, "types", "seeds", lambda row: f"{max(row['shares']):.1%}")


def describe_ratios(ratios: Sequence[float]) -> str:
    """Return the geometric mean of ratios, given by their logarithms, its 95% interval and the number below 1."""
    mean, half = np.mean(ratios), stats.t.ppf(0.975, len(ratios) - 1) * stats.sem(ratios)
    mean, low, high = (f"{100 * math.expm1(x):+.1f}".replace("-", "−") for x in (mean, mean - half, mean + half))
    return f"{mean}% [{low}, {high}], {sum(ratio < 0 for ratio in ratios)} of {len(ratios)}"


def show_ablation(results: Results) -> list[str]:
    first = {row["data"]: row["mse"] for row in results.groups("ablation", variant=declared.EVERYTHING)}
    rows = sorted(results.groups("ablation"), key=lambda row: declared.ABLATION.index(row["variant"]))
    rows = [{**row, "changed": f"`{row['variant']}`"} for row in rows]
    return pivot(rows, "changed", "data", lambda row: f"{score(row['mse'])} ({change(row, first[row['data']])})")


def show_covariates(results: Results) -> list[str]:
    columns = (
        ("linear, with", declared.EVERYTHING, "linear_mse"), ("default, without", declared.WITHOUT, "mse"),
        ("with", declared.EVERYTHING, "mse"),
        ("`auto`", declared.TRANSFORM, "rmse_raw"), ("`model=mlp`, with", declared.PERCEPTRON, "mse"),
        ("`auto`", f"{declared.PERCEPTRON} {declared.TRANSFORM}", "rmse_raw"),
    )  # fmt: skip
    return markdown_table(["MSE", *(name for name, _, _ in columns)], list_covariates(results, columns))


def show_past_columns(results: Results) -> list[str]:
    columns = (
        ("linear baseline", declared.PAST, "linear_rmse_raw"), ("default", declared.PAST, "rmse_raw"),
        ("`model=mlp`", f"{declared.PERCEPTRON} {declared.PAST}", "rmse_raw"),
    )  # fmt: skip
    published = results.published["timexer"]
    lines = [[data, *scores, score(published[data])] for data, *scores in list_covariates(results, columns)]
    return markdown_table(["MSE", *(name for name, _, _ in columns), "TimeXer, published"], lines)


def list_covariates(results: Results, columns: Sequence[tuple[str, str, str]]) -> list[list[str]]:
    """Return a line for each data set: the MSE of each variant, or that of an RMSE in original units.

    The MSE of a transformed run is that of transformed values. Naive forecasts do not depend on the transform, so their
    errors give the scale of the standardised values.
    """
    cells = results.store("covariates").content["cells"]

    def show(data: str, variant: str, key: str) -> str:
        row, plain = (cells.get(f"{data}/{each}/24/full/s1") for each in (variant, declared.EVERYTHING))
        if row is None or plain is None:
            return NOT_RUN
        if key.endswith("mse"):
            return score(row[key])
        return score(row[key] ** 2 * plain["naive_mse"] / row["naive_rmse_raw"] ** 2)

    names = [group["data"] for group in results.groups("covariates", variant=columns[0][1])]
    return [[data, *(show(data, variant, key) for _, variant, key in columns)] for data in names]


def show_recall(results: Results) -> list[str]:
    columns = {"settings": lambda row: f"`{row['variant']}`", "attention": "attention", "MSE": text}
    return list_rows(results.groups("recall"), columns)


def show_paper(results: Results) -> list[str]:
    def published(row: Group) -> float:
        return results.published["informer2020"][f"{row['data']}/{row['variant']}/{row['horizon']}"][0]

    columns = {
        "data": lambda row: f"{row['data']} {row['variant']} {row['horizon']}",
        "MSE": text,
        "published": lambda row: score(published(row)),
        LINEAR: lambda row: score(row["linear_mse"]),
    }
    return list_rows([row for row in results.groups("informer2020") if row["seeds"]], columns)


def show_faithful(results: Results) -> list[str]:
    """Show each seed beside the same seed without a change."""
    rows = [{**row, "test MSE": f"`{row['variant']}`"} for row in results.store("faithful").rows()]
    ours = {row["seed"]: row["mse"] for row in rows if row["variant"] == declared.TOWARDS_PUBLISHED[0]}
    rows = [{**row, "seed": f"seed {row['seed']}", "ours": ours[row["seed"]]} for row in rows]
    return pivot(rows, "test MSE", "seed", lambda row: f"{score(row['mse'])} ({change(row, row['ours'])})", NOT_RUN)


def show_ranking(table: str, *metrics: str) -> Callable[[Results], list[str]]:
    """Show the best models, those trained on the data alone, and ours in bold."""

    def show(results: Results) -> list[str]:
        with (results.docs / "benchmarks" / f"{table}.csv").open(newline="") as file:
            rows = [{**row, "place": place} for place, row in enumerate(csv.DictReader(file), 1)]
        columns: dict[str, Any] = {
            f"rank of {len(rows)}": lambda row: str(row["place"]),
            "model": lambda row: f"**{row['model']}**" if row["ours"] == "True" else row["model"],
        }
        for metric in metrics:
            columns[metric] = lambda row, metric=metric: f"{float(row[metric]):.3f}"
        shown = [row for row in rows if row["place"] <= BEST or row["ours"] == "True" or row["model"] in TRAINED]
        return list_rows(shown, columns)

    return show


def show_peers(value: Callable[[Group], str]) -> Callable[[Results], list[str]]:
    return lambda results: pivot(results.store("peers-accuracy").rows(), "forecaster", "task", value, "–")


def show_times(start: str, down: str) -> Callable[[Results], list[str]]:
    return lambda results: compare_times(results.rows("cpu", start), down)


def list_layers(results: Results) -> list[Group]:
    """Return the times of layers, full attention first, without the mixing of the type `none`, which does nothing."""
    rows = [{**row, "length": f"{row['length']}, {row['part']}"} for row in results.rows("cpu", "layers")]
    rows = [row for row in rows if (row["attention"], row["part"]) != ("none", "mixing")]
    return sorted(rows, key=lambda row: row["attention"] != "full")


def show_layers(width: int) -> Callable[[Results], list[str]]:
    return lambda results: compare_times([row for row in list_layers(results) if row["width"] == width], "attention")


def show_speed_up(results: Results) -> list[str]:
    """Show the speed-up over full attention by width, length and part, up to 2,048 tokens."""
    rows = [row for row in list_layers(results) if not row["length"].startswith("8192")]
    rows = [{**row, "place": f"{row['width']}: {row['length']}"} for row in rows]
    full = {row["place"]: row["median"] for row in rows if row["attention"] == "full"}
    rows = [row for row in rows if row["attention"] != "full"]
    return pivot(rows, "attention", "place", lambda row: f"{full[row['place']] / row['median']:.1f}", "–")


def compare_times(rows: list[Group], down: str) -> list[str]:
    """Show milliseconds by length, with the speed-up over full attention or the published algorithm."""
    full = {row["length"]: row["median"] for row in rows if row[down] in ("full", "published")}

    def show(row: Group) -> str:
        return f"{milliseconds(row)} ({full[row['length']] / row['median']:.1f}×)"

    return pivot(rows, down, "length", show, "–")


def show_growth(cell: str) -> Callable[[Results], list[str]]:
    """Show milliseconds and MiB by length, with the exponents of both for one sequence."""

    def show(results: Results) -> list[str]:
        growth = results.store("cpu").content["cells"].get(cell, {"growth": []})["growth"]
        exponents = {row["attention"]: row for row in growth if row["backward"]}
        rows = []
        for row in results.rows("cpu", cell):
            found = exponents[row["attention"]]
            memory = found.get("memory_exponent")
            name = f"{row['attention']}, n^{found['time_exponent']:.2f}"
            name += "" if memory is None else f", n^{memory:.2f}"
            rows.append({**row, "type": name, "length": row["length"].split("/")[0]})
        return pivot(rows, "type", "length", lambda row: f"{milliseconds(row)} / {row['peak_mib']:,.0f}")

    return show


def show_width(results: Results) -> list[str]:
    rows = results.rows("cpu", "width")
    rows = [dict(zip(("_", "d_model", "precision"), row["cell"].split("/"), strict=True)) | row for row in rows]
    return pivot(rows, "precision", "d_model", milliseconds)


def show_steps(results: Results) -> list[str]:
    rows = [row for row in results.rows("peers", "steps") if row["model"] != "transformers"]
    rows = [{**row, "ms": f"{row['model']}, {row['precision']}"} for row in rows]
    return pivot(rows, "ms", "case", milliseconds)


VIEWS: dict[str, Callable[[Results], list[str]]] = {
    "overview": show_overview,
    "published": show_published,
    "horizons": show_horizons,
    "load": show_load,
    "attention": show_attention,
    "tasks": show_tasks,
    "lengths": show_lengths,
    "maps": show_maps,
    "verdicts": show_verdicts,
    "ablation": show_ablation,
    "covariates": show_covariates,
    "past columns": show_past_columns,
    "recall": show_recall,
    "informer2020": show_paper,
    "faithful": show_faithful,
    "fev_bench": show_ranking("fev_bench", "SQL", "seconds"),
    "fev_tables": show_ranking("fev_tables", "SQL"),
    "gift_eval": show_ranking("gift_eval", "CRPS", "MASE"),
    "peers, MSE": show_peers(lambda row: score(row["mse"])),
    "peers, CPU seconds": show_peers(lambda row: f"{row['cpu_seconds']:,.0f}"),
    "cpu, layers of 64": show_layers(64),
    "cpu, layers of 512": show_layers(512),
    "cpu, causal": show_times("causal", "attention"),
    "cpu, published": show_times("published", "form"),
    "cpu, speed-up": show_speed_up,
    "cpu, growth": show_growth("growth"),
    "cpu, look-back": show_growth("look-back"),
    "cpu, width": show_width,
    "peers, steps": show_steps,
}
LAYERS = "Mixing of q, k and v in bfloat16, 8 heads of size 64; every batch has the same number of tokens."
GPU_SECTIONS = {
    "layers, self": ("Self-attention", LAYERS),
    "layers, causal": ("Causal attention", LAYERS),
    "steps": ("Training steps", "The size of the paper, batch 32, bfloat16, by seq_len/label_len/pred_len."),
    "compiled": ("Compiled training steps", "The same steps with `compile=true`."),
}


def make_gpu_page(store: Store) -> str:
    """Return the page of `scripts/gpu_check`."""
    cells, machine = store.content["cells"], store.content["machines"][-1]
    lines = [
        f"# GPU: {machine['device']}", "",
        "`scripts/gpu_check` writes this page; the JSON file of the same name has all numbers and versions. Times are",
        "milliseconds of forward and backward pass, with the speed-up over PyTorch's fused softmax attention (full).",
        f"{machine['system']}, torch {machine['versions']['torch']}, CUDA {machine['cuda']}.",
    ]  # fmt: skip
    if "tests" in cells:
        lines += ["", f"GPU tests: {cells['tests']['passed']} passed, {cells['tests']['skipped']} skipped."]
    for start, (title, note) in GPU_SECTIONS.items():
        if rows := merge_rows(store, start):
            lines += ["", f"## {title}", "", note, "", *compare_times(rows, "attention")]
            last = [row for row in rows if row["length"] == rows[-1]["length"] and row.get("peak_mib") is not None]
            peaks = ", ".join(f"{row['attention']} {row['peak_mib']:,.0f}" for row in last)
            lines += ["", f"Peak MiB beyond the inputs at {rows[-1]['length']}: {peaks}."] if peaks else []
    if runs := [{**cell, "precision": name[9:]} for name, cell in cells.items() if name.startswith("training")]:
        columns = {
            "precision": "precision",
            "test MSE": lambda run: score(run["mse"]),
            "windows/s": lambda run: f"{run['windows_per_second']:,.0f}",
        }
        lines += ["", "## Training", "", "ETTh1, 48/48/24, two epochs at the size of the paper.", ""]
        lines += list_rows(runs, columns)
    return "\n".join(lines) + "\n"


def update(page: str, results: Results) -> str:
    """Return a page with the tables of the results."""

    def replace(match: re.Match[str]) -> str:
        return "\n".join([match[1], "", *VIEWS[match[2]](results), "", "<!--end-->"])

    return re.sub(r"(<!--table (.*?)-->)\n.*?<!--end-->", replace, page, flags=re.DOTALL)


def make_csv(groups: Sequence[Group]) -> str:
    """Return the means over the seeds, one line for each setting that has run."""
    shown = [key for key in CSV_KEYS if any(key in group for group in groups)]
    lines = [[*KEYS, "seeds", *(CSV_KEYS[key] for key in shown)]]
    for group in groups:
        if group["seeds"]:
            values = [f"{group[key]:.6g}" if not math.isnan(group.get(key, math.nan)) else "" for key in shown]
            lines.append([*(str(group[key]) for key in KEYS), str(group["seeds"]), *values])
    return "".join(",".join(line) + "\n" for line in lines)


def make_files(docs: Path) -> dict[Path, str]:
    """Return the content of every file that is made from the results: pages with tables, and CSV files."""
    results = Results(docs)
    pages = {path: path.read_text() for path in sorted(docs.rglob("*.md"))}
    files = {path: update(page, results) for path, page in pages.items() if "<!--table " in page}
    for path in (docs / "benchmarks").glob("gpu-*.json"):
        files[path.with_suffix(".md")] = make_gpu_page(Store(path, []))
    for table in (*declared.TRAINING, *declared.KEPT):
        groups = results.groups(table)
        if any(group["seeds"] for group in groups):
            files[docs / "results" / f"{table}.csv"] = make_csv(groups)
    return files


def write_pages(docs: Path) -> None:
    for path, content in make_files(docs).items():
        with atomic_file(path) as temporary:
            temporary.write_text(content)
