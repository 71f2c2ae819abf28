"""Load the shared fixtures where tests run: under `pytest -n`, the process that hands tests out imports no library."""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    hands_out_tests = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if not hands_out_tests:
        config.pluginmanager.import_plugin("tests.support.fixtures")
