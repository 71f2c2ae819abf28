import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forecast.reports.compare.page import render_page
from forecast.reports.compare.run_folders import find_run_folders, read_runs
from forecast.reports.compare.task import group_into_tasks
from tests.support.browser import opened
from tests.support.synthetic_runs import configuration, make_run

ATTACK = "<img src=x onerror='window.attacked=1'></script><script>window.attacked=1</script>"
OTHERS = [
    '"><img src=x onerror="window.attacked=1">', "<svg onload=window.attacked=1>", "javascript:window.attacked=1",
    '<a href="javascript:window.attacked=1">a</a>', "%{x}<extra>{{ 7*7 }}${run_name}", "<b>bold</b><br>&lt;i&gt;",
]  # fmt: skip


class Browser:
    """Headless Chromium without access to the network."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path) -> "Browser":
        self.driver.get_log("browser")
        self.driver.get(path.as_uri())
        deadline = time.monotonic() + 60
        while not self.run("return document.documentElement.dataset.ready"):
            assert time.monotonic() < deadline, self.driver.get_log("browser")
            time.sleep(0.05)
        return self

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    profile = tmp_path_factory.mktemp("profile")
    with opened("about:blank", profile, "hide-scrollbars", "proxy-server=127.0.0.1:9") as driver:
        yield Browser(driver)


def written(runs: Path, path: Path, title: str = "Comparison") -> Path:
    finished, excluded = read_runs(find_run_folders([str(runs)]))
    tasks = group_into_tasks(finished)
    path.write_text(render_page(title, tasks, excluded))
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page of two tasks: three attention types with two seeds, and one run with another horizon."""
    root = tmp_path_factory.mktemp("page")
    for kind, mse, ms in (("full", 0.40, 3.0), ("linear", 0.45, 1.0), ("nystrom", 0.55, 2.0)):
        config = configuration(f"attention={kind}")
        for seed in (1, 2):
            made = {**config, "seed": seed, "data": {**config["data"], "seed": seed}}
            name = f"{kind}-{seed}"
            make_run(root / "runs" / name, made, mse=mse + 0.001 * seed, ms_per_window=ms, variables=("HUFL", "OT"))
    make_run(root / "runs" / "other", configuration("pred_len=12"), mse=0.3)
    return written(root / "runs", root / "comparison.html")


def test_every_chart_is_drawn_without_errors_or_requests(browser: Browser, path: Path) -> None:
    browser.open(path)
    assert browser.driver.get_log("browser") == []
    drawn = browser.run(
        "return [...document.querySelectorAll('figure')].map((f) => "
        "[f.querySelector('h4').textContent, f.querySelectorAll('.trace.scatter path').length])"
    )
    expected = [
        "Difference from full", "Accuracy against cost", "Training curves", "Error by horizon step",
        "Forecasts of the same test windows",
    ]  # fmt: skip
    assert [heading for heading, _ in drawn][-len(expected) :] == expected
    assert all(paths > 0 for _, paths in drawn)
    assert browser.run("return performance.getEntriesByType('resource').map((e) => e.name)") == []


def test_tables_are_sorted_by_clicking_a_heading(browser: Browser, path: Path) -> None:
    browser.open(path)
    table = [t for t in browser.all("table") if t.find_element("tag name", "caption").text.startswith("Test")][1]

    def order() -> list[str]:
        return [cell.text for cell in table.find_elements("css selector", "tbody th")]

    def press(heading: str) -> str | None:
        (button,) = [b for b in table.find_elements("css selector", "thead button") if b.text == heading]
        browser.run("arguments[0].click()", button)
        return button.find_element("xpath", "..").get_attribute("aria-sort")

    by_mse = ["full", "linear", "linear baseline", "nystrom", "seasonal naive", "naive"]
    assert order() == by_mse
    assert press("MSE") == "descending"
    assert order() == by_mse[::-1]
    assert press("MSE") == "ascending"
    assert order() == by_mse
    assert press("skill") == "ascending"
    assert order() == by_mse[::-1]
    for _ in range(2):
        press("seeds")  # baselines have none: they come last, both ways
        assert set(order()[3:]) == {"linear baseline", "seasonal naive", "naive"}
    press("variant")
    assert order() == sorted(by_mse)
    assert len(table.find_elements("css selector", "[aria-sort]")) == 1


def test_names_that_contain_scripts_are_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    config = configuration("attention=full")
    evil = {**config, "loss": ATTACK, "data": {**config["data"], "target": ATTACK}}
    evil["model"] = {**evil["model"], "attention": {**evil["model"]["attention"], "name": ATTACK}}
    make_run(tmp_path / "runs" / "good", config, mse=0.4, variables=("OT", ATTACK, *OTHERS))
    make_run(tmp_path / "runs" / "evil<b>", evil, mse=0.5, variables=("OT", ATTACK, *OTHERS), attention=ATTACK)
    make_run(tmp_path / "runs" / "failed", config, mse=0.5)
    (tmp_path / "runs" / "failed" / "metrics.json").unlink()
    (tmp_path / "runs" / "failed" / "error.txt").write_text(ATTACK)
    path = written(tmp_path / "runs", tmp_path / "page.html", title=ATTACK)
    text = path.read_text()
    assert ATTACK not in text
    assert text.count("</script>") == 3  # the data, the library, its loader
    browser.open(path)
    assert browser.driver.get_log("browser") == []
    assert browser.run("return window.attacked") is None
    assert browser.all("img, main script") == []
    assert browser.driver.title == ATTACK
    assert browser.all("h1")[0].text == ATTACK
    shown = browser.run("return [...document.querySelectorAll('tbody th')].map((cell) => cell.textContent)")
    assert f"{ATTACK}, loss={ATTACK}, target={ATTACK}" in shown
    assert not [name for name in OTHERS if "<" in name and name in text]
    # names are escaped, so they do nothing even without the Content-Security-Policy
    bare = tmp_path / "bare.html"
    bare.write_text(re.sub(r'<meta http-equiv="Content-Security-Policy".*?>', "", text))
    browser.open(bare)
    browser.run("document.querySelectorAll('button, summary').forEach((part) => part.click())")
    assert browser.run("return window.attacked") is None
    assert browser.all("img, svg a, a[href^=javascript]") == []


def test_the_browser_refuses_other_scripts(browser: Browser, path: Path) -> None:
    browser.open(path)
    browser.run("s = document.createElement('script'); s.textContent = 'window.attacked = 1'; document.body.append(s)")
    assert browser.run("return window.attacked") is None
    (refused,) = browser.driver.get_log("browser")
    assert "Content Security Policy" in refused["message"]
