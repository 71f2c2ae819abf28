"""Time and memory of attention types and of training steps, on the CPU and on a CUDA device. Needs an idle machine."""

import json
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from experiments.cells import Cell
from experiments.run import CellFailed, Context
from experiments.store import Row

EFFICIENT = "attention_types=[probsparse,linear,nystrom,fastformer,gated_delta]"
PAPER = ("benchmark=model", "model.d_model=512", "model.n_heads=8", "model.d_ff=2048", "benchmark.batch_size=32")
STEPS = ("336/168/168", "96/48/24", "720/336/720")
COMPILED = ("benchmark.compile=true", "memory=false", "attention_types=[full,probsparse,linear]")
"""Compiling takes half a minute for each attention type."""
GPU_TESTS = ("tests/system/test_gpu.py", "tests/unit/data/test_windows.py")
"""The files with tests that need a CUDA device. They compare every attention type with the CPU, forward and backward,
train in bfloat16 and with DDP on one device, and compile."""


def time_mixing(role: str, tokens: int, *lengths: int) -> tuple[str, ...]:
    """Return the overrides that time the mixing of one layer, forward and backward."""
    shown = ",".join(map(str, lengths))
    settings = (f"benchmark.role={role}", f"benchmark.lengths=[{shown}]", f"benchmark.tokens={tokens}")
    return ("benchmark.part=mixing", *settings)


DEFAULT_MODEL = ("benchmark=model", "model=residual_informer", "benchmark.batch_size=4")
CPU = {
    "layers": ("benchmark.widths=[64,512]", "benchmark.lengths=[512,2048,8192]", "repeats=3"),
    "look-back": (
        *DEFAULT_MODEL, "repeats=5",
        f"benchmark.lengths=[{','.join(f'{steps}/48/24' for steps in (1024, 2048, 4096, 8192, 16_384))}]",
    ),
    **{f"causal/{length}": (*time_mixing("causal", max(4096, length), length), "repeats=9", "memory=false")
       for length in (2048, 8192)},
    "growth": (EFFICIENT, *time_mixing("self", 32_768, 2048, 8192, 32_768), "repeats=3"),
    "long": (EFFICIENT, "benchmark=model", "benchmark.lengths=[16384/720/720]", "benchmark.batch_size=1", "repeats=1"),
    **{f"width/{width}/{precision}": (
        *PAPER, f"model.d_model={width}", f"model.d_ff={4 * width}", f"precision={precision}", "memory=false",
        "benchmark.lengths=[96/48/24]", "attention_types=[probsparse]", "repeats=9")
       for width in (64, 128, 256, 512) for precision in ("float32", "bfloat16")},
}  # fmt: skip
CUDA = ("device=cuda", "precision=bfloat16")
GPU = {
    "layers, self": (*CUDA, *time_mixing("self", 131_072, 1024, 4096, 16_384, 65_536, 131_072)),
    "layers, causal": (*CUDA, *time_mixing("causal", 65_536, 1024, 4096, 16_384, 65_536)),
    **{f"steps/{length}": (*CUDA, *PAPER, f"benchmark.lengths=[{length}]") for length in STEPS},
    **{f"compiled/{length}": (*CUDA, *PAPER, f"benchmark.lengths=[{length}]", *COMPILED) for length in STEPS},
    **{f"training/{precision}": (
        "experiment=informer2020/etth1_m", "pred_len=24", "attention=probsparse", "logger=[]", "data.root=ROOT",
        "trainer=gpu",
        "trainer.max_epochs=2", f"trainer.precision={precision}", "callbacks.progress=null")
       for precision in ("32-true", "bf16-mixed")},
}  # fmt: skip


def list_cells(table: str) -> list[Cell]:
    if table == "peers":
        return [Cell(table, "steps", ())]
    if table == "cpu":
        return [*(Cell(table, name, overrides) for name, overrides in CPU.items()), Cell(table, "published", ())]
    return [Cell(table, "tests", GPU_TESTS), *(Cell(table, name, overrides) for name, overrides in GPU.items())]


def run_benchmark(cell: Cell, context: Context) -> Row:
    """Run `forecast.benchmark`, or what else a cell measures, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        if cell.name == "tests":
            return run_tests(context, Path(folder))
        if not cell.overrides:
            out = Path(folder, "result.json")
            context.python("-m", "experiments.compared", cell.name, str(context.threads), str(out))
            return {"result": json.loads(out.read_text())}
        command = "train" if cell.name.startswith("training") else "benchmark"
        given = [override.replace("=ROOT", f"={context.root}", 1) for override in cell.overrides]
        context.python("-m", f"forecast.{command}", *given, f"output_root={folder}")
        (path,) = Path(folder).glob("*/metrics.json" if command == "train" else "*/benchmark.json")
        content = json.loads(path.read_text())
        if command == "train":
            keys = ("epochs", "windows_per_second", "seconds", "peak_memory_mb")
            return {**{key: content[key] for key in keys}, "mse": content["test"]["mse"], "mae": content["test"]["mae"]}
        return {"result": [row for row in content["rows"] if row["backward"]], "growth": content["growth"]}


def run_tests(context: Context, folder: Path) -> Row:
    """Run the GPU tests. Raises CellFailed with the names of those that failed."""
    report = folder / "junit.xml"
    options = ("-m", "gpu", "-n", "4", "-p", "no:cacheprovider", f"--junitxml={report}")
    try:
        context.python("-m", "pytest", *GPU_TESTS, *options)
    except CellFailed:
        if not report.exists():
            raise
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    if bad:
        names = ", ".join(str(case.get("name")) for case in bad[:5])
        raise CellFailed(f"{len(bad)} of {len(cases)} GPU tests failed: {names}")
    skipped = sum(case.find("skipped") is not None for case in cases)
    return {"passed": len(cases) - skipped, "skipped": skipped}
