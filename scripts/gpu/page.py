"""The page that `scripts/gpu_check` writes: tables of its measurements."""

from collections.abc import Callable
from typing import Any

from tables import markdown_table

REFERENCE = "full"
Rows = list[dict[str, Any]]


def markdown(report: dict[str, Any]) -> str:
    machine, parts = report["machine"], report["parts"]
    lines = [f"# GPU check: {machine['cuda_device'] or 'no CUDA device'}", ""]
    lines += ["Written by `scripts/gpu_check`. The `.json` file of the same name contains all numbers."]
    if report["quick"]:
        lines += ["", "**Run with `--quick`: sizes too small for a measurement.**"]
    lines += ["", *of_machine(machine), "", "## Parts", ""]
    lines += markdown_table(
        ["part", "outcome", "seconds"],
        [
            [
                name,
                part["status"] + (f": {one_cell(part['why'])}" if "why" in part else ""),
                number(part.get("seconds"), 0),
            ]
            for name, part in parts.items()
        ],
    )
    for name, part in parts.items():
        if write := SECTIONS.get(name if has_results(part) else ""):
            lines += ["", f"## {name[0].upper()}{name[1:]}", "", *write(part)]
    commands = [command for part in parts.values() for command in part.get("commands", [])]
    if commands:
        lines += ["", "## Commands", "", "Run these in the repository with `PYTHONPATH=scripts`:", ""]
        lines += ["```bash", *commands, "```"]
    return "\n".join(lines) + "\n"


def has_results(part: dict[str, Any]) -> bool:
    return bool(part.keys() - {"status", "why", "seconds", "commands"})


def of_machine(machine: dict[str, Any]) -> list[str]:
    words = {
        "date": "date", "cuda_device": "device", "memory_gib": "memory, GiB", "multiprocessors": "multiprocessors",
        "compute_capability": "compute capability", "driver": "driver", "cuda": "CUDA", "cudnn": "cuDNN",
        "cpu_cores": "CPU cores", "threads": "CPU threads of torch", "system": "system", "python": "Python",
    }  # fmt: skip
    rows = [[word, str(machine[key])] for key, word in words.items() if machine.get(key) is not None]
    packages = machine["packages"]
    shown = [name for name in ("torch", "lightning", "hydra-core", "numpy") if name in packages]
    return markdown_table(["machine", ""], rows + [[name, packages[name]] for name in shown])


def of_tests(part: dict[str, Any]) -> list[str]:
    counts = f"{part['n_passed']} passed, {part['n_failed']} failed, {part['n_skipped']} skipped."
    return [counts, *(["", *(f"- {failure}" for failure in part["failures"])] if part["failures"] else [])]


def of_layer(part: dict[str, Any]) -> list[str]:
    """Tables of one layer's mixing: times, speed-up over full attention, peak memory and growth."""
    rows = [row for row in part["rows"] if row["backward"]]
    lines = [
        "Mixing of given q, k and v in one layer: 8 heads of size 64, bfloat16, forward and backward pass. Each length "
        f"has the same total number of tokens: {int(rows[0]['length']) * rows[0]['batch']:,}. Full attention is "
        "PyTorch's scaled_dot_product_attention (FlashAttention if PyTorch selects that kernel).", "",
        "Milliseconds (speed-up over full attention):", "",
        *by_length(rows, lambda row, full: f"{1000 * row['median']:.2f} ({full['median'] / row['median']:.1f}×)"),
        "", "Peak memory beyond the inputs, MiB:", "",
        *by_length(rows, lambda row, full: number(row["peak_mib"], 0)),
        "", "Growth with the length n of one sequence:", "",
    ]  # fmt: skip
    return lines + markdown_table(
        ["attention", "time", "memory", "faster than full from"],
        [
            [
                g["attention"], power(g["time_exponent"]), power(g["memory_exponent"]),
                "" if g["attention"] == REFERENCE else str(g["faster_than_full_from"] or "never here"),
            ]
            for g in part["growth"] if g["backward"]
        ],
    )  # fmt: skip


def power(exponent: float | None) -> str:
    """Write n to an exponent, and nothing where there is none: a control that takes no memory does not grow."""
    told = number(exponent, 2)
    return f"n^{told}" if told else ""


def of_steps(part: dict[str, Any]) -> list[str]:
    rows = [row for row in part["rows"] if row["backward"]]
    sizes = ", ".join(f"{key} {value}" for key, value in part["sizes"].items())
    lines = [
        f"Whole training steps (forward, backward, Adam), batch {rows[0]['batch']}, {sizes}, bfloat16 under autocast; "
        "lengths are seq_len/label_len/pred_len. Milliseconds (windows per second):", "",
        *by_length(rows, lambda row, full: speed(row)), "",
        "Inference, milliseconds (windows per second):", "",
        *by_length([row for row in part["rows"] if not row["backward"]], lambda row, full: speed(row)),
    ]  # fmt: skip
    if any(row["peak_mib"] is not None for row in rows):
        lines += ["", "Peak memory of a step, MiB:", ""]
        lines += by_length(rows, lambda row, full: number(row["peak_mib"], 0))
    return lines


def speed(row: dict[str, Any]) -> str:
    return f"{1000 * row['median']:.2f} ({row['batch'] / row['median']:,.0f})"


def of_profile(part: dict[str, Any]) -> list[str]:
    lines = ["Fractions refer to the time in which the device was busy. TFLOP are counted by PyTorch."]
    for what, profiles in (
        ("a training step", part["steps"]),
        ("forward + backward of the mixing", part["mixing"]),
    ):
        for one in profiles:
            lines += [
                "",
                f"**{one['attention']}**, {one['length']}, {what}: {one['ms']:.2f} ms for {one['tflop']:.3f} TFLOP, "
                f"{one['tflop_per_second']:.1f} TFLOP/s. Busy {percent(one['busy_share'])} of the time; of that, "
                f"matrix products {percent(one['products_share'])}, attention {percent(one['attention_share'])}.", "",
            ]  # fmt: skip
            lines += markdown_table(
                ["kernel", "calls", "ms", "fraction"],
                [
                    [
                        f"`{one_cell(k['name'])}`",
                        number(k["calls"], 1),
                        number(k["ms"], 3),
                        percent(k["share"]),
                    ]
                    for k in one["kernels"]
                ],
            )
    return lines


def of_training(part: dict[str, Any]) -> list[str]:
    first = part["runs"][0]
    what = first["data"] + (
        " (synthetic, because ETTh1.csv was not given or the sizes are small)" * (first["data"] == "sample")
    )
    words = f"{what}, {first['seq_len']} steps → {first['pred_len']}, {first['attention']}, epochs: {first['epochs']}."
    return [words, "", *markdown_table(
        ["precision", "test MSE", "test MAE", "skill", "best baseline", "windows/s", "seconds", "peak MiB"],
        [
            [
                run["precision"], number(run["test"]["mse"], 4), number(run["test"]["mae"], 4),
                number(run["skill"], 3), run["best_baseline"], number(run["windows_per_second"], 0),
                number(run["seconds"], 0), number(run["peak_memory_mb"], 0),
            ]
            for run in part["runs"]
        ],
    )]  # fmt: skip


SECTIONS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "GPU tests": of_tests,
    "layer benchmark, role self": of_layer,
    "layer benchmark, role causal": of_layer,
    "training steps": of_steps,
    "profile of a training step": of_profile,
    "training end to end": of_training,
    "training steps, compiled": of_steps,
}


def by_length(rows: Rows, cell: Callable[[dict[str, Any], dict[str, Any]], str]) -> list[str]:
    """One line per length, one column per attention type; `cell` receives a row and the row of full attention."""
    types = list(dict.fromkeys(row["attention"] for row in rows))
    lines = []
    for length in dict.fromkeys(row["length"] for row in rows):
        here = {row["attention"]: row for row in rows if row["length"] == length}
        full = here.get(REFERENCE, {})
        lines.append([length, *(cell(here[name], full) if name in here else "" for name in types)])
    return markdown_table(["length", *types], lines)


def one_cell(text: str) -> str:
    """Escape text so that it ends neither a cell nor a row of a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def percent(share: float) -> str:
    return f"{100 * share:.0f}%"
