"""The figures in the README and in docs/performance.md are those of the committed measurements."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = {name: (ROOT / name).read_text() for name in ("README.md", "docs/performance.md")}


@pytest.fixture(scope="module")
def cpu() -> dict:
    return json.loads((ROOT / "docs" / "benchmarks" / "cpu.json").read_text())


def speed_rows(page: str) -> dict[str, list[str]]:
    """The table of lengths by kind: its cells by the first column."""
    (table,) = re.findall(r"(\| length \|.*?)\n\n", page, re.DOTALL)
    header, _, *rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()]
    assert header == ["length", "probsparse", "linear", "nystrom", "fastformer"]
    return {row[0]: row[1:] for row in rows}


@pytest.mark.parametrize("name", PAGES)
def test_times_faster_than_fused_softmax(name: str, cpu: dict) -> None:
    measured = {
        (f"{int(row['length']):,}", row["kind"]): f"{row['times_full']:.1f}"
        for row in cpu["softmax"]
        if row["role"] == "self"
    }
    for length, cells in speed_rows(PAGES[name]).items():
        kinds = ("probsparse", "linear", "nystrom", "fastformer")
        assert cells == [measured[length, kind] for kind in kinds]


def test_times_faster_than_neuralforecast() -> None:
    steps = json.loads((ROOT / "docs" / "benchmarks" / "peers.json").read_text())["steps"]
    seconds = {(row["case"], row["model"], row["precision"]): row["median"] for row in steps}
    for theirs, ours in (("float32", "float32"), ("bfloat16", "bfloat16"), ("float32", "bfloat16")):
        times = [
            seconds[case, "neuralforecast", theirs] / seconds[case, "ours, probsparse", ours]
            for case in ("96/48/24", "336/168/168")
        ]
        low, high = f"{min(times):.1f}", f"{max(times):.1f}"
        assert f"{low} to {high} times" in PAGES["README.md"] or (
            low == high and f" {low} times" in PAGES["README.md"]
        )


def test_what_the_text_says(cpu: dict) -> None:
    causal = {
        (row["length"], row["kind"]): f"{row['times_full']:.0f}"
        for row in cpu["softmax"]
        if row["role"] == "causal"
    }
    short, long = (
        [causal[length, kind] for kind in ("probsparse", "linear", "fastformer")]
        for length in ("2048", "8192")
    )
    published = [f"{r['times_published']:.1f}" for r in cpu["published"] if r["form"] == "shared"]
    shared, per_query = (
        [f"{row['overlap'][form]:.2f}" for row in cpu["overlap"]]
        for form in ("shared, training", "per_query, training")
    )
    width = [f"{row['float32'] / row['bfloat16']:.1f}" for row in cpu["width"]]
    compiled = f"{cpu['compiled']['compiled'] / cpu['compiled']['eager']:.1f}"
    text = " ".join(PAGES["docs/performance.md"].split())
    for said in (
        "softmax {}, {} and {} times faster at 2,048 and".format(*short),
        "2,048 and {}, {} and {} times at 8,192".format(*long),
        "is {} times faster at 96 steps, {} at 512 and {} at 2,048".format(*published),
        "finds {} at 96, {} at 512, {} at 2,048 steps".format(*shared),
        "as published, {}, {} and {}".format(*per_query),
        "{} times less at d_model 64, {} at 128, {} at 256, {} at 512".format(*width),
        f"took {compiled} times longer compiled",
    ):
        assert said in text


def test_no_measurement_is_a_trial() -> None:
    for path in (ROOT / "docs" / "benchmarks").glob("*.json"):
        assert json.loads(path.read_text())["quick"] is False, path.name


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", PAGES["docs/performance.md"])
    assert links
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []


def test_bytes_sent() -> None:
    def numbers(page: str) -> dict[str, list[str]]:
        rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in page.splitlines()]
        return {row[0]: row[1:] for row in rows if len(row) == 3}

    counted = numbers((ROOT / "docs" / "benchmarks" / "communication.md").read_text())
    told = numbers((ROOT / "docs" / "scaling.md").read_text())
    for line, measured in {
        "parameters": "parameters",
        "`ddp`: all-reduced a step": "a training step: all-reduce",
        "broadcast a step (positions, running means)": "a training step: broadcast",
        "all-reduced by an epoch's validation": "an epoch's validation: all-reduce",
        "by the calibration of intervals": "calibration of the intervals: all-reduce",
        "by the test": "the test: all-reduce",
    }.items():
        assert told[line] == counted[measured], line
    for size in (0, 1):  # a gradient has four bytes; batch normalisation sends the rest
        gradients = 4 * int(counted["parameters"][size].replace(",", ""))
        assert 0 < int(counted["a training step: all-reduce"][size].replace(",", "")) - gradients < 1e4


def test_the_first_table() -> None:
    """Its rows are the ablation's cells, the mean over the seeds that have run."""
    cells = json.loads((ROOT / "docs" / "results" / "ablation.json").read_text())["cells"].values()
    rows = {
        "the last day repeated": ("everything", "seasonal_naive_mse"),
        "a linear map": ("everything", "linear_mse"),
        "`model=informer`, in a small size": ("model=informer seq_len=96", "mse"),
        "the default, `model=residual_informer`": ("everything", "mse"),
    }
    expected, seeds = {}, set()
    for name, (variant, key) in rows.items():
        means = []
        for data, horizon in (("sample", 168), ("load", 168), ("etth1", 96)):
            found = [c for c in cells if (c["data"], c["variant"], c["horizon"]) == (data, variant, horizon)]
            seeds.add(len(found))
            means.append(sum(c[key] for c in found) / len(found))
        expected[name] = [f"{mean:.3f}" for mean in means]
    (table,) = re.findall(r"(\| test MSE.*?)\n\n", PAGES["README.md"], re.DOTALL)
    header, _, *lines = [
        [cell.strip(" *") for cell in line.strip("| ").split("|")] for line in table.splitlines()
    ]
    assert {line[0]: line[1:] for line in lines} == expected
    (count,) = seeds
    assert (f"{count} seeds" if count > 1 else "one seed") in header[0]


@pytest.mark.parametrize(
    "folder", ["", *(path.parent.name for path in (ROOT / "forecast").glob("*/__init__.py"))]
)
def test_the_map_of_the_code_names_every_module(folder: str) -> None:
    """In the section or the row of its folder."""
    page = (ROOT / "docs" / "code.md").read_text()
    if folder:
        sections = [
            section for section in page.split("\n## ") if f"`forecast/{folder}/`" in section.splitlines()[0]
        ]
        page = "\n".join(sections or [line for line in page.splitlines() if f"`{folder}/`" in line])
    modules = {path.stem for path in (ROOT / "forecast" / folder).glob("*.py")} - {"__init__"}
    assert modules - set(re.findall(r"`(\w+)`", page)) == set()
