"""The comparison page in a browser: charts, sorting, print, colours, and names that contain HTML."""

import base64
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from forecast.reports.compare.factors import find_factor
from forecast.reports.compare.grouping import group_into_tasks
from forecast.reports.compare.page import render_page
from forecast.reports.compare.run_folders import find_run_folders, read_runs
from tests.support.long_variants import every_nth
from tests.support.synthetic_runs import configuration, make_run

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="chromium and chromedriver are not installed"
)
ATTACK = "<img src=x onerror='window.attacked=1'></script><script>window.attacked=1</script>"


class Browser:
    """Headless Chromium without access to the network."""

    def __init__(self, profile: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for flag in (
            "headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync",
            "disable-background-networking", "disable-component-update", "hide-scrollbars",
            f"user-data-dir={profile}", "proxy-server=127.0.0.1:9",
        ):  # fmt: skip
            options.add_argument(f"--{flag}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))

    def open(self, path: Path, width: int = 1200, scheme: str = "light") -> "Browser":
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
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
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def colour(self, selector: str, what: str) -> str:
        return self.one(selector).value_of_css_property(what)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.driver.quit()


def written(runs: Path, path: Path, title: str = "Comparison") -> Path:
    finished, excluded = read_runs(find_run_folders([str(runs)]))
    tasks = group_into_tasks(finished)
    path.write_text(render_page(title, tasks, excluded, find_factor(tasks, "attention")))
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
            make_run(
                root / "runs" / name, made, mse=mse + 0.001 * seed, ms_per_window=ms, variables=("HUFL", "OT")
            )
    make_run(root / "runs" / "other", configuration("pred_len=12"), mse=0.3)
    return written(root / "runs", root / "comparison.html")


def test_every_chart_is_drawn_without_errors_or_requests(browser: Browser, path: Path) -> None:
    browser.open(path)
    assert browser.driver.get_log("browser") == []
    charts = browser.run(
        "return [...document.querySelectorAll('figure')].map((f) => ["
        "f.dataset.task, f.dataset.chart, f.querySelectorAll('.trace.scatter path').length])"
    )
    first, last = ["differences", "errors", "cost"], ["curves", "steps", "variables", "forecasts"]
    kinds = {"0": [*first, *last], "1": [*first, "cumulative", *last]}  # task 0 has one variant
    assert [(task, kind) for task, kind, _ in charts] == [(t, kind) for t in "01" for kind in kinds[t]]
    assert all(paths > 0 for *_, paths in charts)
    assert browser.run("return performance.getEntriesByType('resource').map((e) => e.name)") == []
    assert all(figure.find_element(By.TAG_NAME, "figcaption").text for figure in browser.all("figure"))
    legend = browser.all("figure[data-task='1'][data-chart='forecasts'] .legend li")
    assert [item.text[1:] for item in legend] == [
        "true values",
        "full",
        "linear",
        "nystrom",
        "linear baseline",
    ]


def test_the_effect_of_attention_and_the_cost_by_tokens(browser: Browser, tmp_path: Path) -> None:
    """Three tasks, two lengths and three attention types: differences, ranks and the scaling of the cost."""
    costs = {"full": 2, "linear": 1, "nystrom": 1}  # exponents
    for horizon in (12, 24, 48):
        for number, (kind, power) in enumerate(costs.items()):
            for seq_len in (96, 192):
                config = configuration(f"attention={kind}", f"pred_len={horizon}", f"seq_len={seq_len}")
                for seed in (1, 2):
                    make_run(
                        tmp_path / "runs" / f"{kind}-{seq_len}-{horizon}-{seed}", {**config, "seed": seed},
                        mse=0.4 + 0.02 * number + 0.001 * seed, windows=100, ms_per_window=(seq_len / 96) ** power,
                        attention_slots={"encoder": {"role": "self", "queries": seq_len, "keys": seq_len}},
                    )  # fmt: skip
    browser.open(written(tmp_path / "runs", tmp_path / "page.html"))
    assert browser.driver.get_log("browser") == []
    traces = 'return document.querySelector(\'figure[data-task="%s"][data-chart="%s"] .plot\').data'
    differences = browser.run(traces % ("factor", "differences"))
    assert [trace["name"] for trace in differences] == ["linear", "nystrom"]
    assert differences[0]["x"] == [pytest.approx(100 * 0.02 / 0.4015, rel=1e-3)]
    ranks = browser.run(traces % ("factor", "ranks"))
    assert [(trace["name"], trace["x"]) for trace in ranks] == [
        ("full", [1]),
        ("linear", [2]),
        ("nystrom", [3]),
    ]
    colours = {trace["name"]: trace["marker"]["color"] for trace in ranks}
    of_task = browser.run(traces % (0, "errors"))
    assert {t["marker"]["color"] for t in of_task if t.get("name", "").startswith("linear,")} == {
        colours["linear"]
    }
    lines = {t["name"]: t["y"] for t in browser.run(traces % (0, "scaling")) if t.get("name")}
    assert lines == {"full": [1, 4], "linear": [1, 2], "nystrom": [1, 2]}
    axis = traces.removesuffix(".data") % (0, "scaling") + ".layout.yaxis.ticktext"
    assert browser.run(axis) == ["1", "2"]
    caption = browser.one("figure[data-task='0'][data-chart=scaling] figcaption").text
    assert "linear: faster than full from 192 tokens on; no clear difference at 96." in caption


def test_the_charts_show_the_numbers(browser: Browser, path: Path) -> None:
    browser.open(path)
    traces = 'return document.querySelectorAll(\'figure[data-task="1"][data-chart="%s"] .plot\')[0].data'
    front, *points = browser.run(traces % "cost")
    assert [(p["name"], p["x"], p["y"]) for p in points] == [
        ("full", [3], [0.4015]), ("linear", [1], [pytest.approx(0.4515)]), ("nystrom", [2], [pytest.approx(0.5515)]),
    ]  # fmt: skip
    assert front["x"] == [1, 3]  # nystrom is beaten by linear in both
    truth, *forecasts = browser.run(traces % "forecasts")
    assert [f["name"] for f in forecasts] == ["full", "linear", "nystrom", "linear baseline"]
    assert len(truth["x"]) == 72 + 24
    assert {len(f["x"]) for f in forecasts} == {24}
    curves = browser.run(traces % "curves")
    assert [trace["name"] for trace in curves] == ["full", "full", "linear", "linear", "nystrom", "nystrom"]
    assert curves[0]["x"] == [1, 2, 3]


def test_choices_redraw_the_chart(browser: Browser, path: Path) -> None:
    browser.open(path)
    figure = "figure[data-task='1'][data-chart='%s']"

    def drawn(kind: str, what: str) -> Any:
        return browser.run(f'return document.querySelector("{figure % kind} .plot").{what}')

    before = drawn("forecasts", "data[0].x[0]")
    Select(browser.one(f"{figure % 'forecasts'} select[data-choice=window]")).select_by_index(2)
    assert drawn("forecasts", "data[0].x[0]") > before
    Select(browser.one(f"{figure % 'cost'} select")).select_by_visible_text("parameters")
    assert drawn("cost", "layout.xaxis.title.text").startswith("parameters")
    chip = next(chip for chip in browser.all(".chips[data-task='1'] button") if chip.text.endswith(" linear"))
    chip.click()
    assert chip.get_attribute("aria-pressed") == "false"
    assert [trace["name"] for trace in drawn("steps", "data")] == ["full", "nystrom", "linear baseline"]
    chip.click()
    assert len(drawn("steps", "data")) == 4


def test_tables_are_sorted_by_clicking_a_heading(browser: Browser, path: Path) -> None:
    browser.open(path)
    table = [
        t for t in browser.all("table") if t.find_element(By.TAG_NAME, "caption").text.startswith("Test")
    ][1]

    def order() -> list[str]:
        return [cell.text for cell in table.find_elements(By.CSS_SELECTOR, "tbody th")]

    def press(heading: str) -> str | None:
        (button,) = [b for b in table.find_elements(By.CSS_SELECTOR, "thead button") if b.text == heading]
        browser.run("arguments[0].click()", button)
        return button.find_element(By.XPATH, "..").get_attribute("aria-sort")

    by_mse = ["full", "linear", "linear baseline", "nystrom", "seasonal naive", "naive"]
    assert order() == by_mse
    assert press("MSE") == "descending"
    assert order() == by_mse[::-1]
    assert press("MSE") == "ascending"
    assert order() == by_mse
    assert press("skill") == "ascending"
    assert order() == by_mse[::-1]
    press("seeds")  # baselines have none: they come last, both ways
    assert set(order()[3:]) == {"linear baseline", "seasonal naive", "naive"}
    assert press("seeds") == "descending"
    assert set(order()[3:]) == {"linear baseline", "seasonal naive", "naive"}
    press("variant")
    assert order() == sorted(by_mse)
    assert len(table.find_elements(By.CSS_SELECTOR, "[aria-sort]")) == 1


def test_a_variant_without_forecasts_is_named_in_the_caption(
    browser: Browser, pair: Path, tmp_path: Path
) -> None:
    for seed in (1, 2):
        (pair / f"full-{seed}" / "forecasts.parquet").unlink()
    browser.open(written(pair, tmp_path / "page.html"))
    assert browser.driver.get_log("browser") == []
    traces = browser.run(
        "return document.querySelector('figure[data-chart=forecasts] .plot').data.map((t) => t.name)"
    )
    assert traces == ["true values", "linear", "linear baseline"]
    figure = browser.one("figure[data-chart=forecasts]")
    assert [item.text[1:] for item in figure.find_elements(By.CSS_SELECTOR, ".legend li")] == traces
    assert figure.find_element(By.TAG_NAME, "figcaption").text.endswith(
        "Not shown, because their run folders have no forecasts.parquet: full."
    )


def test_names_that_contain_scripts_are_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    config = configuration("attention=full")
    evil = {**config, "loss": ATTACK, "data": {**config["data"], "target": ATTACK}}
    evil["model"] = {**evil["model"], "attention": {**evil["model"]["attention"], "name": ATTACK}}
    make_run(tmp_path / "runs" / "good", config, mse=0.4, variables=("OT", ATTACK))
    make_run(tmp_path / "runs" / "evil<b>", evil, mse=0.5, variables=("OT", ATTACK), attention=ATTACK)
    make_run(tmp_path / "runs" / "failed", config, mse=0.5)
    (tmp_path / "runs" / "failed" / "metrics.json").unlink()
    (tmp_path / "runs" / "failed" / "error.txt").write_text(ATTACK)
    path = written(tmp_path / "runs", tmp_path / "page.html", title=ATTACK)
    text = path.read_text()
    assert ATTACK not in text
    assert text.count("</script>") == 6  # three of data, the library, its loader, the charts
    browser.open(path)
    assert browser.driver.get_log("browser") == []
    assert browser.run("return window.attacked") is None
    assert browser.all("img, main script") == []
    assert browser.driver.title == ATTACK
    assert browser.one("h1").text == ATTACK
    shown = browser.run("return [...document.querySelectorAll('tbody th')].map((cell) => cell.textContent)")
    assert f"{ATTACK}, loss={ATTACK}, target={ATTACK}" in shown
    assert browser.run(
        "return [...document.querySelectorAll('.chips button')].some((b) => b.textContent.includes(arguments[0]))",
        ATTACK,
    )
    options = [
        option.get_attribute("textContent") for option in browser.all("select[data-choice=variable] option")
    ]
    assert options == ["OT", ATTACK]
    axis = browser.run(
        "return document.querySelector(\"figure[data-chart='variables'] .ytick:nth-child(2) text\").textContent"
    )
    assert axis.endswith("…")
    assert ATTACK.startswith(axis[:-1])
    # names are escaped, so they do nothing even without the Content-Security-Policy
    bare = tmp_path / "bare.html"
    bare.write_text(re.sub(r'<meta http-equiv="Content-Security-Policy".*?>', "", text))
    browser.open(bare)
    assert browser.run("return window.attacked") is None
    assert browser.all("img") == []


def test_the_browser_refuses_other_scripts(browser: Browser, path: Path) -> None:
    browser.open(path)
    browser.run(
        "const s = document.createElement('script'); s.textContent = 'window.attacked = 1'; document.body.append(s)"
    )
    assert browser.run("return window.attacked") is None
    (refused,) = browser.driver.get_log("browser")
    assert "Content Security Policy" in refused["message"]


@pytest.mark.parametrize("scheme", every_nth(["light", "dark"], 2))
def test_the_page_fits_a_narrow_screen(browser: Browser, path: Path, scheme: str) -> None:
    browser.open(path, width=390, scheme=scheme)
    assert browser.run("return document.documentElement.scrollWidth") == 390
    edges = browser.run(
        "return [...document.querySelectorAll('figure, .scroll, .plot svg, caption span')]"
        ".map((e) => e.getBoundingClientRect().right)"
    )
    assert max(edges) <= 390
    assert browser.run(
        "return [...document.querySelectorAll('.scroll')].some((e) => e.scrollWidth > e.clientWidth)"
    )


def test_both_colour_schemes_and_the_switch(browser: Browser, path: Path) -> None:
    white, dark = "rgba(255, 255, 255, 1)", "rgba(20, 25, 31, 1)"
    paper = "return document.querySelector('.plot').layout.paper_bgcolor"
    browser.open(path, scheme="light")
    assert (browser.colour("body", "background-color"), browser.run(paper)) == (white, "#ffffff")
    browser.open(path, scheme="dark")
    assert (browser.colour("body", "background-color"), browser.run(paper)) == (dark, "#14191f")
    browser.one("#theme").click()
    assert (browser.colour("body", "background-color"), browser.run(paper)) == (white, "#ffffff")


def test_printing_uses_light_colours_and_restores_the_page(browser: Browser, path: Path) -> None:
    browser.open(path, scheme="dark")
    browser.run(
        "addEventListener('beforeprint', () => { const p = document.querySelector('.plot');"
        "window.printed = [p.layout.paper_bgcolor, p.layout.width, document.querySelector('details').open] })"
    )
    pdf = base64.b64decode(
        browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    )
    assert pdf.startswith(b"%PDF")
    assert 4 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 20
    assert browser.run("return window.printed") == ["#ffffff", 680, True]
    assert browser.run("return document.querySelector('.plot').layout.paper_bgcolor") == "#14191f"
    assert not browser.run("return document.querySelector('details').open")


def test_a_chart_is_saved_with_its_legend(browser: Browser, path: Path, tmp_path: Path) -> None:
    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    browser.open(path)
    press = "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    browser.run(press, browser.one("figure[data-task='1'][data-chart='steps'] .modebar-btn"))
    saved, deadline = tmp_path / "steps.svg", time.monotonic() + 30
    while not (saved.exists() and saved.read_text().endswith("</svg>")) and time.monotonic() < deadline:
        time.sleep(0.05)
    drawing = saved.read_text()
    assert drawing.startswith("<svg")
    assert all(f">{name}<" in drawing for name in ("full", "linear", "nystrom", "linear baseline"))
