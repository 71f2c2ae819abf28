"""The figures in the README and in docs/performance.md are those of the committed measurements."""

import json
import re
from pathlib import Path

import pytest

import module_tables
from results.result import score

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    ROOT / "data/README.md",
]
PAGES = {name: (ROOT / name).read_text() for name in ("README.md", "docs/performance.md")}


@pytest.fixture(scope="module")
def cpu() -> dict:
    return json.loads((ROOT / "docs" / "benchmarks" / "cpu.json").read_text())


def speed_rows(page: str) -> dict[str, list[str]]:
    """Cells of the table of speed-ups, by length."""
    (table,) = re.findall(r"(\| length \|.*?)\n\n", page, re.DOTALL)
    header, _, *rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()]
    assert header == ["length", "probsparse", "linear", "nystrom", "fastformer"]
    return {row[0]: row[1:] for row in rows}


def test_times_faster_than_fused_softmax(cpu: dict) -> None:
    measured = {
        (f"{int(row['length']):,}", row["attention"]): f"{row['times_full']:.1f}"
        for row in cpu["softmax"]
        if row["role"] == "self"
    }
    types = ("probsparse", "linear", "nystrom", "fastformer")
    for length, cells in speed_rows(PAGES["docs/performance.md"]).items():
        assert cells == [measured[length, attention] for attention in types]
    times = [float(measured["2,048", attention]) for attention in types]
    assert f"is {min(times):.0f} to {max(times):.0f} times faster" in " ".join(PAGES["README.md"].split())


def test_times_faster_than_neuralforecast() -> None:
    steps = json.loads((ROOT / "docs" / "benchmarks" / "peers.json").read_text())["steps"]
    seconds = {(row["case"], row["model"], row["precision"]): row["median"] for row in steps}
    text = " ".join(PAGES["README.md"].split())
    for theirs, ours in (("float32", "float32"), ("bfloat16", "bfloat16"), ("float32", "bfloat16")):
        times = [
            seconds[case, "neuralforecast", theirs] / seconds[case, "ours, probsparse", ours]
            for case in ("96/48/24", "336/168/168")
        ]
        low, high = f"{min(times):.1f}", f"{max(times):.1f}"
        assert f"{low} to {high} times" in text or (low == high and f" {low} times" in text)


def test_figures_beside_other_libraries_on_the_same_rows() -> None:
    cells = json.loads((ROOT / "docs" / "benchmarks" / "peers-accuracy.json").read_text())["cells"]
    mse = {key.replace("`model=mlp`", "mlp"): score(row["mse"]) for key, row in cells.items()}
    cost = {key: (f"{row['cpu_seconds']:,.0f}", f"{row['peak_mib']:.0f}") for key, row in cells.items()}
    scored = {key: f"{mse[key]} after {cost[key][0]}" for key in cells if "mlp" not in key}
    linear = score(cells["epf-pjm/`model=mlp`"]["baselines"]["linear"]["mse"])
    text = " ".join(PAGES["docs/performance.md"].split())
    for sentence in (
        f"On the prices of NP, `model=mlp` has {mse['epf-np/mlp']}, TFT {scored['epf-np/TFT']} CPU seconds",
        f"and with the lowest MAE, BiTCN {mse['epf-np/BiTCN']}, LightGBM {mse['epf-np/LightGBM']}, and TimeXer",
        f"the next day's columns, {mse['epf-np/TimeXer']}.",
        f"`model=mlp` has {mse['epf-de/mlp']} after {cost['epf-de/`model=mlp`'][0]} CPU seconds, "
        f"and TFT {scored['epf-de/TFT']}.",
        f"`model=mlp` has {mse['gefcom/mlp']} and LightGBM {mse['gefcom/LightGBM']}.",
        f"TFT, NHITS ({mse['epf-de/NHITS']}) and TSMixerx ({mse['epf-de/TSMixerx']}) are ahead",
        "{} CPU seconds on NP and {} MiB".format(*cost["epf-np/LightGBM"]),
        "`model=mlp` takes {} and {} MiB".format(*cost["epf-np/`model=mlp`"]),
        f"On PJM its MSE is {mse['epf-pjm/LightGBM']}",
        f"The linear baseline has {linear} there",
        "The default model takes {} CPU seconds on NP, with {}.".format(
            cost["epf-np/default model"][0], mse["epf-np/default model"]
        ),
        f"the default model on PJM ({mse['epf-pjm/default model']})",
        f"on ETTm1, `model=patch_encoder` has {scored['ettm1/`model=patch_encoder`']} CPU seconds",
        f"PatchTST {scored['ettm1/PatchTST']} and LightGBM {scored['ettm1/LightGBM']}.",
        f"On weather it has {scored['weather/`model=patch_encoder`']} CPU seconds",
        f"PatchTST {scored['weather/PatchTST']} and LightGBM {scored['weather/LightGBM']}.",
    ):
        assert sentence in text
    for task in dict.fromkeys(key.partition("/")[0] for key in cells):
        errors = {key: row["mse"] for key, row in cells.items() if key.startswith(f"{task}/")}
        others = {"epf-pjm": "default model", **dict.fromkeys(("ettm1", "weather"), "`model=patch_encoder`")}
        best = others.get(task, "`model=mlp`")
        assert errors[f"{task}/{best}"] == pytest.approx(min(errors.values()), rel=1e-4)  # equal on BE
        kept = [name for name in errors if name.endswith("/default model") and cells[name]["best_epoch"] == 0]
        assert bool(kept) == (task in ("epf-be", "epf-fr", "ettm1"))


def test_figures_in_the_text_of_the_performance_page(cpu: dict) -> None:
    causal = {
        (row["length"], row["attention"]): f"{row['times_full']:.0f}"
        for row in cpu["softmax"]
        if row["role"] == "causal"
    }
    short, long = (
        [causal[length, attention] for attention in ("probsparse", "linear", "fastformer")]
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
    for sentence in (
        "`fastformer` are {}, {} and {} times faster at 2,048 tokens and".format(*short),
        "tokens and {}, {} and {} times faster at 8,192".format(*long),
        "is {} times faster at 96 steps, {} at 512 and {} at 2,048".format(*published),
        "finds {} of them at 96, {} at 512 and {} at 2,048 steps".format(*shared),
        "as published, finds {}, {} and {}".format(*per_query),
        "is {}× faster than in float32 at d_model 64, {}× at 128, {}× at 256 and {}× at 512".format(*width),
        f"took {compiled} times longer compiled",
    ):
        assert sentence in text


def test_no_committed_measurement_was_made_with_quick() -> None:
    for path in (ROOT / "docs" / "benchmarks").glob("*.json"):
        if path.stem not in (
            "fev_bench",
            "fev_tables",
            "gift_eval",
            "peers-accuracy",
        ):  # their scripts have no option --quick
            assert json.loads(path.read_text())["quick"] is False, path.name


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_anchors_exist(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text()):
        file = page.parent / target if target else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), f"{target}#{anchor}"


def anchors(file: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub forms them."""
    headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_named_in_a_page_exist(page: Path) -> None:
    named = re.findall(r"`((?:forecast|conf|scripts|tests|docs)/[\w./-]+)`", page.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_bytes_sent() -> None:
    def numbers(page: str) -> dict[str, list[str]]:
        rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in page.splitlines()]
        return {row[0]: row[1:] for row in rows if len(row) == 3}

    counted = numbers((ROOT / "docs" / "benchmarks" / "communication.md").read_text())
    documented = numbers((ROOT / "docs" / "scaling.md").read_text())
    for line, measured in {
        "parameters": "parameters",
        "`ddp`: all-reduce per training step": "training step: all-reduce",
        "broadcast per training step (positions, running means)": "training step: broadcast",
        "all-gather per validation": "validation: all-gather",
        "all-reduce of the interval calibration": "calibration of the intervals: all-reduce",
        "all-reduce of the test": "test: all-reduce",
    }.items():
        assert documented[line] == counted[measured], line
    for size in (0, 1):  # a gradient has four bytes; batch normalisation sends the rest
        gradients = 4 * int(counted["parameters"][size].replace(",", ""))
        assert 0 < int(counted["training step: all-reduce"][size].replace(",", "")) - gradients < 1e4


def test_the_table_of_models() -> None:
    """The rows are means over the seeds of the ablation that have run."""
    cells = json.loads((ROOT / "docs" / "results" / "ablation.json").read_text())["cells"].values()
    rows = {
        "seasonal naive, a day or a week": ("everything", "seasonal_naive_mse"),
        "linear baseline": ("everything", "linear_mse"),
        "`model=informer`, small": ("model=informer seq_len=96", "mse"),
        "default, `model=residual_informer`": ("everything", "mse"),
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


def test_the_tables_of_modules_are_up_to_date() -> None:
    """One row for each module, with the first line of its docstring; scripts/module_tables.py writes them."""
    page = module_tables.PAGE.read_text()
    assert "| `informer` | The Informer" in page
    assert module_tables.update(page) == page
