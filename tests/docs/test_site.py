"""The site is built without a broken link, and its pages load nothing from the network."""

import re
import subprocess
from pathlib import Path
from time import monotonic

import pytest

from tests.support.browser import opened

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


def test_links_of_the_first_page(site: Path) -> None:
    links = re.findall(r"<a [^>]*href=\"?([^\s\">#]+\.\w+)", (site / "index.html").read_text())
    assert {"comparing.html", "security.html", "data.html", "quickstart.ipynb"} <= set(links)
    local = [link for link in links if not re.match(r"https?:", link)]
    assert [link for link in local if not (site / link).exists()] == []


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


def test_the_reference_has_the_docstrings(site: Path) -> None:
    assert "Forecast the steps after the end of" in (site / "reference" / "python.html").read_text()
    text = (site / "reference" / "attention.html").read_text()
    modules = [*(ROOT / "forecast" / "attention").glob("*.py")]
    names = [
        name for path in modules for name in re.findall(r"^class (\w+Attention)\(", path.read_text(), re.M)
    ]
    assert len(names) >= 8
    assert [name for name in names if f'.{name}"' not in text and f".{name}>" not in text] == []


def test_the_search_works_without_a_server(site: Path, tmp_path: Path) -> None:
    with opened(site / "index.html", tmp_path / "profile") as driver:
        field = driver.find_element("css selector", "input.md-search__input")
        driver.execute_script("arguments[0].focus()", field)
        field.send_keys("conformal")
        found, end = [], monotonic() + 30
        while not found and monotonic() < end:
            found = driver.find_elements("css selector", ".md-search-result__link")
        assert any("forecasting.html" in link.get_attribute("href") for link in found)
        script = (
            "return [...document.querySelectorAll('[src], link[href]')].map(part => part.src || part.href)"
        )
        loaded = driver.execute_script(script)
        assert len(loaded) > 3
        assert [url for url in loaded if not url.startswith(("file:", "data:"))] == []
