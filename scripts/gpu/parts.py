"""The parts of `scripts/gpu_check`. Each runs commands of the project and reads the files that they write."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from .runner import NoTimeLeft, PartFailed, Runner

PAPER = ("model.d_model=512", "model.n_heads=8", "model.d_ff=2048", "benchmark.batch_size=32")
GPU_TESTS = ("tests/system/test_gpu.py", "tests/unit/data/test_windows.py")
"""The files with tests that need a CUDA device."""
COMPILED = ("full", "probsparse", "linear")
"""The attention types whose training steps are compiled, which takes half a minute for each."""
STEPS = ("336/168/168", "96/48/24", "720/336/720")  # the most informative first


def etth1_folder(given: Path | None) -> Path | None:
    """Return the given folder if it contains ETTh1.csv, else None."""
    return given.resolve() if given and (given / "ETTh1.csv").is_file() else None


def tests(runner: Runner) -> dict[str, Any]:
    """Run the GPU tests; return the counts and the names of the failed tests."""
    junit = runner.scratch / "junit.xml"
    command = (
        "-m", "pytest", *GPU_TESTS, "-m", "gpu", "-n", "4", "-p", "no:cacheprovider", f"--junitxml={junit}",
    )  # fmt: skip
    runner.python(*command, ok=(0, 1), seconds=240)
    cases = list(ElementTree.parse(junit).getroot().iter("testcase"))
    failed = [c for c in cases if c.find("failure") is not None or c.find("error") is not None]
    skipped = [c for c in cases if c.find("skipped") is not None]
    found: dict[str, Any] = {
        "n_passed": len(cases) - len(failed) - len(skipped),
        "n_failed": len(failed),
        "n_skipped": len(skipped),
        "failures": [f"{case.get('classname')}::{case.get('name')}: {first_line(case)}" for case in failed],
    }
    if failed:
        found |= {"status": "failed", "why": f"{len(failed)} tests failed"}
    return found


def first_line(case: ElementTree.Element) -> str:
    told = case.find("failure")
    told = case.find("error") if told is None else told
    return "" if told is None else (told.get("message") or "").split("\n")[0][:200]


def layer_self(runner: Runner) -> dict[str, Any]:
    return layer(runner, "self", (1024, 4096, 16_384, 65_536, 131_072))


def layer_causal(runner: Runner) -> dict[str, Any]:
    return layer(runner, "causal", (1024, 4096, 16_384, 65_536))


def layer(runner: Runner, role: str, lengths: tuple[int, ...]) -> dict[str, Any]:
    """Benchmark the mixing, forward and backward. All lengths have the same number of tokens."""
    if runner.quick:
        lengths = (64, 256)
    return runner.benchmark(
        "benchmark.part=mixing", f"benchmark.role={role}", "precision=bfloat16",
        f"benchmark.lengths=[{','.join(map(str, lengths))}]", f"benchmark.tokens={lengths[-1]}",
    )  # fmt: skip


def steps(runner: Runner) -> dict[str, Any]:
    return runner.benchmark(
        "benchmark=model", f"benchmark.lengths=[{','.join(windows(runner))}]", *model_sizes(runner)
    )


def compiled_steps(runner: Runner) -> dict[str, Any]:
    """Benchmark compiled training steps, one length at a time; if one fails, the earlier lengths are kept."""
    found: dict[str, Any] = {"rows": []}
    for length in windows(runner):
        try:
            some = runner.benchmark(
                "benchmark=model", "benchmark.compile=true", "memory=false", f"benchmark.lengths=[{length}]",
                f"attention_types=[{','.join(COMPILED)}]", *model_sizes(runner),
            )  # fmt: skip
            found |= {"rows": found["rows"] + some["rows"], "sizes": some["sizes"]}
        except (NoTimeLeft, PartFailed) as error:
            if not found["rows"]:
                raise
            status = "failed" if isinstance(error, PartFailed) else "passed"
            return found | {"status": status, "why": f"ended at {length}: {str(error) or 'no time left'}"}
    return found


def windows(runner: Runner) -> tuple[str, ...]:
    """Return seq_len/label_len/pred_len of the training steps."""
    return ("24/12/6",) if runner.quick else STEPS


def model_sizes(runner: Runner) -> tuple[str, ...]:
    small = ("model.d_model=16", "model.n_heads=2", "model.d_ff=32", "benchmark.batch_size=4")
    return ("precision=bfloat16", *(small if runner.quick else PAPER))


def profile(runner: Runner) -> dict[str, Any]:
    """Profile a training step of probsparse, and the mixing of every attention type."""
    length = 64 if runner.quick else 4096
    step = ("benchmark=model", f"benchmark.lengths=[{windows(runner)[0]}]", "attention_types=[probsparse]")
    mixing = ("benchmark.part=mixing", f"benchmark.lengths=[{length}]", f"benchmark.tokens={32 * length}")
    path = runner.scratch / "profile.json"
    found = {}
    for name, overrides in (
        ("steps", (*step, *model_sizes(runner))),
        ("mixing", (*mixing, "precision=bfloat16")),
    ):
        runner.python("-m", "gpu.profile", str(path), f"device={runner.device}", *overrides)
        found[name] = json.loads(path.read_text())
    return found


def train(runner: Runner) -> dict[str, Any]:
    """Train in float32 and in bfloat16 with the settings of the paper, on ETTh1 or else on the sample data set."""
    small = runner.quick or runner.device == "cpu"
    settings = ["experiment=informer2020/etth1_m_24", "attention=probsparse", "logger=[]"]
    settings += ["data=sample"] if runner.data_root is None or small else [f"data.root={runner.data_root}"]
    settings += [
        f"trainer={'gpu' if runner.device == 'cuda' else 'cpu'}",
        f"trainer.max_epochs={1 if small else 2}",
    ]
    if small:
        settings += ["seq_len=12", "label_len=6", "pred_len=5", "data.batch_size=1024"]
        settings += ["model.d_model=8", "model.n_heads=2", "model.d_ff=8"]
    runs = []
    for precision in ("bf16-mixed",) if runner.device == "cpu" else ("32-true", "bf16-mixed"):
        folder = runner.scratch / f"train-{precision}"
        runner.python(
            "-m", "forecast.train", *settings, f"trainer.precision={precision}",
            "callbacks.progress.refresh_rate=0", output_root=folder,
        )  # fmt: skip
        (path,) = folder.glob("*/metrics.json")
        runs.append(json.loads(path.read_text()))
    if runner.data_root is not None:
        runner.commands = [c.replace(str(runner.data_root), "FOLDER") for c in runner.commands]
    return {"runs": runs}
