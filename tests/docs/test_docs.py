"""Figures in the pages are those of the committed measurements, and what pages name exists."""

import json
import re
import runpy
import subprocess
from pathlib import Path

import pytest

from experiments.command import TABLES
from forecast.evaluation.scores import BASELINES, SCORES
from forecast.reports.plots import ATTENTION_TYPES

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/*.txt"), ROOT / "data/README.md"]
README = (ROOT / "README.md").read_text()
TYPES = {*ATTENTION_TYPES} - {"full", "uniform", "none"}


def cells(table: str) -> dict:
    return json.loads((ROOT / "docs" / "benchmarks" / f"{table}.json").read_text())["cells"]


def test_times_faster_than_fused_softmax() -> None:
    """A page quotes the layers of the efficient types, `gated_delta` apart, at both widths of the measurement."""
    rows = [row for row in cells("cpu")["layers"]["result"] if row["length"] == "2048" and row["part"] == "layer"]
    seconds = {(row["attention"], row["width"]): row["median"] for row in rows}
    times = [seconds["full", width] / seconds[name, width] for name in TYPES - {"gated_delta"} for width in (64, 512)]
    quoted = f"{min(times):.1f} to {max(times):.0f} times at 2,048"
    assert quoted in " ".join((ROOT / "docs" / "attention.md").read_text().split())


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_anchors_files_and_commands_of_a_page_exist(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"`((?:forecast|conf|scripts|tests|docs)/[\w./-]+)`", text)
    assert [name for name in named if not (ROOT / name).exists()] == []
    blocks = "".join(re.findall(r"```bash\n(.*?)```", text, re.DOTALL))
    commands = {*re.findall(r"`forecast (\w+)", text), *re.findall(r"^forecast (\w+)", blocks, re.MULTILINE)}
    known = {path.stem for path in (ROOT / "forecast").glob("*.py")} | {"completion", "COMMAND"}
    assert sorted(commands - known) == []
    assert [t for t in re.findall(r"scripts/reproduce ([a-z][\w-]*)", text) if t not in TABLES] == []
    for target, anchor in re.findall(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]+))?\)", text):
        file = page.parent / target if target else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), f"{target}#{anchor}"


def anchors(file: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub forms them."""
    headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_table_of_models() -> None:
    """The rows are means over the seeds that have run: of the default model those of `load`, where it has them."""
    results = ROOT / "docs" / "results"
    ablation, load = (
        json.loads((results / f"{table}.json").read_text())["cells"].values() for table in ("ablation", "load")
    )
    newest = [cell for cell in load if cell["attention"] == "full"]
    rows = {
        "seasonal naive, a day or a week": ("everything", "seasonal_naive_mse"),
        "linear baseline": ("everything", "linear_mse"),
        "`model=informer`, small": ("model=informer seq_len=96", "mse"),
        "default, `model=residual_informer`": ("", "mse"),
    }
    expected, seeds = {}, set()
    for name, (variant, key) in rows.items():
        means = []
        for task in (("sample", 168), ("load", 168), ("etth1", 96)):
            of_task = [cell for cell in (*ablation, *newest) if (cell["data"], cell["horizon"]) == task]
            # on ETTh1 the default model keeps the linear model alone, whatever its patches
            variants = (variant,) if variant or task[0] != "etth1" else ("everything",)
            found = [cell for cell in of_task if cell["variant"] in variants]
            seeds.add(len(found))
            means.append(sum(c[key] for c in found) / len(found))
        expected[name] = [f"{mean:.3f}" for mean in means]
    (table,) = re.findall(r"(\| test MSE.*?)\n\n", README, re.DOTALL)
    header, _, *lines = [[cell.strip(" *") for cell in line.strip("| ").split("|")] for line in table.splitlines()]
    assert {line[0]: line[1:] for line in lines} == expected
    (count,) = seeds
    assert (f"{count} seeds" if count > 1 else "one seed") in header[0]


CONFIGURED = sorted(path.stem for path in ROOT.glob("conf/attention/*.yaml"))
LISTS = [
    ("docs/attention.md", r"^\| `NAME` \|", CONFIGURED),
    ("scripts/wandb_sweep.yaml", r"^  attention: .*\bNAME\b", sorted({*CONFIGURED} - {"none", "uniform"})),
    ("docs/forecasting.md", r"^\| `metrics\.json` \|.*\bNAME\b", SCORES),
    ("docs/forecasting.md", r"forecast predict .*baseline=.*\bNAME\b", [*BASELINES]),
]
"""File, pattern of a line, and the names that it must match in place of NAME."""


@pytest.mark.parametrize(("file", "pattern", "names"), LISTS, ids=lambda given: given if isinstance(given, str) else "")
def test_a_list_of_all_types_scores_or_baselines_leaves_none_out(file: str, pattern: str, names: list[str]) -> None:
    text = (ROOT / file).read_text()
    assert names
    assert [name for name in names if not re.search(pattern.replace("NAME", name), text, re.MULTILINE)] == []


def test_scripts_run_tests_that_exist() -> None:
    scripts = [path for path in (ROOT / "scripts").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    named = {name for path in scripts for name in re.findall(r"tests/[a-z_/]+\.py", path.read_text("utf-8"))}
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


# ---- docs/licences.md lists every dependency with its version and licence


def test_the_page_is_current() -> None:
    make_page = runpy.run_path(str(ROOT / "scripts" / "licences"))["make_page"]
    page = (ROOT / "docs" / "licences.md").read_text()
    assert make_page(page) == page, "run scripts/licences"
    assert "\n- torch 2." in page


# ---- the site

LOADED = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\s\"'>]+)")
"""What a page loads from another host; a link that a reader follows is `<a href>`."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for name in ("material", "mkdocstrings"):
        pytest.importorskip(name, reason="the extra docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run([ROOT / "scripts" / "build_docs", folder], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_every_page_is_in_the_site(site: Path) -> None:
    pages = [*(ROOT / "docs").rglob("*.md")]
    assert pages
    names = [page.relative_to(ROOT / "docs").with_suffix(".html") for page in pages]
    assert [name for name in ["index.html", "changelog.html", *names] if not (site / name).exists()] == []


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    assert LOADED.findall("<link rel=stylesheet href=https://fonts.example/a.css>") == ["https://fonts.example/a.css"]
    found = [(page.name, url) for page in site.rglob("*.html") for url in LOADED.findall(page.read_text())]
    found += [
        (sheet.name, url)
        for sheet in site.rglob("*.css")
        for url in re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^)\"';]+)", sheet.read_text())
    ]
    assert found == []
