"""The site is built without a broken link, and its pages load nothing from the network."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\s\"'>]+)"
)
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
    assert LOADED.findall("<link rel=stylesheet href=https://fonts.example/a.css>") == [
        "https://fonts.example/a.css"
    ]
    found = [(page.name, url) for page in site.rglob("*.html") for url in LOADED.findall(page.read_text())]
    found += [
        (sheet.name, url)
        for sheet in site.rglob("*.css")
        for url in re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^)\"';]+)", sheet.read_text())
    ]
    assert found == []
