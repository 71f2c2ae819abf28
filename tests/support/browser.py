"""Headless Chromium with a page loaded."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
    "disable-component-update", "disable-sync", "window-size=1200,900",
)  # fmt: skip


@contextmanager
def opened(page: Path | str, profile: Path, *flags: str) -> Iterator[Any]:
    """The driver with a file or an address loaded, by Chromium with further flags.

    Skips where there is no Chromium, chromedriver or selenium.
    """
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    for name, program in programs.items():
        if program is None:
            pytest.skip(f"{name} is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = programs["chromium"]
    for flag in (*FLAGS, *flags, f"user-data-dir={profile}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(programs["chromedriver"])
    driver = webdriver.Chrome(options=options, service=service)
    try:
        driver.get(page.as_uri() if isinstance(page, Path) else page)
        yield driver
    finally:
        driver.quit()
