"""docs/benchmarks/cpu.md: what `scripts/benchmark_cpu` measured, in tables."""

from typing import Any

from tables import markdown_table

NOTES = {
    "softmax": """\
Mixing alone (q, k and v given), forward and backward, float32, 8 heads of 64, 4,096 tokens in all or one longer
sequence; every kind in its default form (nystrom with its convolution). `×` is the time of PyTorch's fused softmax
attention divided by the kind's, causal against fused causal.
""",
    "published": """\
ProbSparse self-attention, factor 5, training form, against a plain transcription of the published algorithm.
""",
    "growth": """\
One sequence's time and peak memory, forward and backward of the mixing, fitted as n^exponent from the first length to
the last.
""",
    "long": """\
One training step of `model=informer` (d_model 64) with batch 1, float32: what it adds to the weights and inputs.
""",
    "overlap": """\
Share of the exact measure's top u that a sampled ranking finds, factor 5: the encoder of a model trained for an epoch
at most, 16 test windows, all heads and layers.
""",
    "step": """\
Milliseconds of one training step (forward, backward, Adam) of the Informer at the paper's size, batch 32, probsparse,
by kind of operator as PyTorch's profiler names them; the step's own time is taken without the profiler.
""",
    "width": """\
Milliseconds of one training step, 96/48/24, batch 32, probsparse, 8 heads, d_ff four times d_model.
""",
    "compiled": """\
The same step at d_model 512, as it is and through `torch.compile`.
""",
    "windows": """\
One epoch of ETTh1's training windows at batch 32 with no model, beside the same epoch of training in bfloat16 at the
paper's size.
""",
}


def page(results: dict[str, Any]) -> str:
    hardware = results["hardware"]
    lines = [
        "# On the CPU",
        "",
        f"`{results['command']}` on {hardware['device']}, {hardware['threads']} threads, torch {hardware['torch']}, "
        f"{hardware['system']}. Kinds that are compared are timed in turn; times are medians.",
    ]
    if results["quick"]:
        lines += ["", "**Run with `--quick`: small sizes, which show that everything runs and no more.**"]
    for name, (title, table) in {
        "softmax": ("Against fused softmax", softmax),
        "published": ("Against ProbSparse as published", published),
        "growth": ("Growth with length", growth),
        "long": ("A very long window", long),
        "overlap": ("What sampling costs ProbSparse", overlap),
        "step": ("A training step", step),
        "width": ("bfloat16 by width", width),
        "compiled": ("Compiled", compiled),
        "windows": ("Serving windows", windows),
    }.items():
        lines += ["", f"## {title}", "", NOTES[name], *table(results[name])]
    return "\n".join(lines) + "\n"


def softmax(rows: list[dict[str, Any]]) -> list[str]:
    cells = [
        [row["role"], f"{int(row['length']):,}", row["kind"], ms(row), f"{row['times_full']:.1f}"] for row in rows
    ]  # fmt: skip
    return markdown_table(["role", "length", "kind", "ms", "×"], cells)


def published(rows: list[dict[str, Any]]) -> list[str]:
    cells = [[f"{row['length']:,}", row["form"], ms(row), f"{row['times_published']:.1f}"] for row in rows]
    return markdown_table(["length", "sampling", "ms", "×"], cells)


def growth(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    lengths = list(dict.fromkeys(row["length"] for row in found["rows"]))
    cells = []
    for fit in found["growth"]:
        rows = [row for row in found["rows"] if row["kind"] == fit["kind"]]
        if fit["backward"]:
            exponents = [f"{fit['time_exponent']:.2f}", f"{fit['memory_exponent']:.2f}"]
            each = [f"{1000 * r['median'] / r['batch']:.1f} / {r['peak_mib'] / r['batch']:.0f}" for r in rows]
            cells.append([fit["kind"], *each, *exponents])
    header = ["kind", *(f"{int(n):,}: ms / MiB" for n in lengths), "time exponent", "memory exponent"]
    return markdown_table(header, cells)


def long(rows: list[dict[str, Any]]) -> list[str]:
    cells = [[row["length"], row["kind"], f"{row['peak_mib']:,.0f}", ms(row)] for row in rows]
    return markdown_table(["seq/label/pred", "kind", "peak MiB", "ms"], cells)


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
    header = ["windows", "batches", "serving, s", "training, s", "share"]
    served, trained = found["seconds"], found["training_seconds"]
    counts = [f"{found['windows']:,}", f"{found['batches']:,}"]
    return markdown_table(
        header, [[*counts, f"{served:.3f}", f"{trained:.0f}", f"{100 * served / trained:.2f}%"]]
    )


def ms(row: dict[str, Any]) -> str:
    return f"{1000 * row['median']:.1f}"
