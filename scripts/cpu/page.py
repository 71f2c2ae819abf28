"""The page docs/benchmarks/cpu.md: tables of the measurements of `scripts/benchmark_cpu`."""

from typing import Any

from tables import markdown_table

NOTES = {
    "softmax": """\
Mixing only (q, k and v given), forward and backward pass, float32, 8 heads of size 64. The batch has 4,096 tokens, or
one longer sequence. All attention types have their default options (nystrom with its convolution). `×` is the
speed-up: the time of PyTorch's fused softmax attention divided by the time of the attention type. Causal attention is
compared with fused causal attention.
""",
    "published": """\
ProbSparse self-attention in training mode, factor 5, compared with a direct implementation of the published
algorithm.
""",
    "growth": """\
Time and peak memory of one sequence, forward and backward pass of the mixing. The exponents are those of n^exponent
between the first and the last length.
""",
    "long": """\
One training step of `model=informer` (d_model 64) with batch size 1 in float32: memory in addition to weights and
inputs.
""",
    "overlap": """\
Fraction of the u queries with the largest exact measure that a sampled ranking finds, factor 5. It is measured on the
encoder of a model trained for at most one epoch, over 16 test windows, all heads and all layers.
""",
    "step": """\
Milliseconds of one training step (forward, backward, Adam) of the Informer at the size of the paper, batch 32,
probsparse, grouped by operator with PyTorch's profiler. The time of the whole step is measured without the profiler.
""",
    "width": """\
Milliseconds of one training step, 96/48/24, batch 32, probsparse, 8 heads, d_ff = 4 · d_model.
""",
    "compiled": """\
One training step with d_model 512, eager and compiled with `torch.compile`.
""",
    "windows": """\
Time to load all training windows of ETTh1 in batches of 32 without a model, compared with an epoch of training in
bfloat16 at the size of the paper.
""",
}


def page(results: dict[str, Any]) -> str:
    hardware = results["hardware"]
    lines = [
        "# On the CPU",
        "",
        f"`{results['command']}` on {hardware['device']}, {hardware['threads']} threads, torch {hardware['torch']}, "
        f"{hardware['system']}. Variants that are compared are timed in turn. Times are medians.",
    ]
    if results["quick"]:
        lines += ["", "**Run with `--quick`: sizes too small for a measurement.**"]
    for name, (title, table) in {
        "softmax": ("Compared with fused softmax", softmax),
        "published": ("Compared with ProbSparse as published", published),
        "growth": ("Growth with length", growth),
        "long": ("A very long window", long),
        "overlap": ("Accuracy of the sampled ranking", overlap),
        "step": ("A training step", step),
        "width": ("bfloat16 by model width", width),
        "compiled": ("Compiled", compiled),
        "windows": ("Loading windows", windows),
    }.items():
        lines += ["", f"## {title}", "", NOTES[name], *table(results[name])]
    return "\n".join(lines) + "\n"


def softmax(rows: list[dict[str, Any]]) -> list[str]:
    cells = [
        [row["role"], f"{int(row['length']):,}", row["attention"], ms(row), f"{row['times_full']:.1f}"] for row in rows
    ]  # fmt: skip
    return markdown_table(["role", "length", "attention", "ms", "×"], cells)


def published(rows: list[dict[str, Any]]) -> list[str]:
    cells = [[f"{row['length']:,}", row["form"], ms(row), f"{row['times_published']:.1f}"] for row in rows]
    return markdown_table(["length", "sampling", "ms", "×"], cells)


def growth(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    lengths = list(dict.fromkeys(row["length"] for row in found["rows"]))
    cells = []
    for fit in found["growth"]:
        rows = [row for row in found["rows"] if row["attention"] == fit["attention"]]
        if fit["backward"]:
            exponents = [f"{fit['time_exponent']:.2f}", f"{fit['memory_exponent']:.2f}"]
            each = [f"{1000 * r['median'] / r['batch']:.1f} / {r['peak_mib'] / r['batch']:.0f}" for r in rows]
            cells.append([fit["attention"], *each, *exponents])
    header = ["attention", *(f"{int(n):,}: ms / MiB" for n in lengths), "time exponent", "memory exponent"]
    return markdown_table(header, cells)


def long(rows: list[dict[str, Any]]) -> list[str]:
    cells = [[row["length"], row["attention"], f"{row['peak_mib']:,.0f}", ms(row)] for row in rows]
    return markdown_table(["seq/label/pred", "attention", "peak MiB", "ms"], cells)


def overlap(rows: list[dict[str, Any]]) -> list[str]:
    forms = list(rows[0]["overlap"])
    cells = [
        [row["data"], f"{row['length']:,}", *(f"{row['overlap'][form]:.2f}" for form in forms)]
        for row in rows
    ]
    return markdown_table(["data", "length", *forms], cells)


def step(rows: list[dict[str, Any]]) -> list[str]:
    groups = list(rows[0]["groups"])
    cells = [
        [
            row["length"], row["precision"], f"{row['ms']:.0f}",
            *(f"{row['groups'][group]:.0f}" for group in groups), f"{row['faults']:,.0f}",
        ]
        for row in rows
    ]  # fmt: skip
    return markdown_table(["seq/label/pred", "precision", "step, ms", *groups, "page faults"], cells)


def width(rows: list[dict[str, Any]]) -> list[str]:
    cells = [
        [
            str(row["d_model"]),
            *(f"{1000 * row[p]:.0f}" for p in ("float32", "bfloat16")),
            f"{row['float32'] / row['bfloat16']:.2f}",
        ]
        for row in rows
    ]
    return markdown_table(["d_model", "float32, ms", "bfloat16, ms", "×"], cells)


def compiled(row: dict[str, Any]) -> list[str]:
    times = [f"{1000 * row[form]:.0f}" for form in ("eager", "compiled")]
    header = ["seq/label/pred", "precision", "eager, ms", "compiled, ms", "×"]
    return markdown_table(
        header, [[row["length"], row["precision"], *times, f"{row['eager'] / row['compiled']:.2f}"]]
    )


def windows(found: dict[str, float]) -> list[str]:
    header = ["windows", "batches", "loading, s", "training, s", "fraction"]
    served, trained = found["seconds"], found["training_seconds"]
    counts = [f"{found['windows']:,}", f"{found['batches']:,}"]
    return markdown_table(
        header, [[*counts, f"{served:.3f}", f"{trained:.0f}", f"{100 * served / trained:.2f}%"]]
    )


def ms(row: dict[str, Any]) -> str:
    return f"{1000 * row['median']:.1f}"
