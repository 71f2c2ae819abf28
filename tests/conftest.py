"""Load the shared fixtures where tests run: under `pytest -n`, the process that hands tests out imports no library."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shape-checks", action="store_true", help="check shapes and types (jaxtyping, beartype)")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    hands_out_tests = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if hands_out_tests:
        return
    if config.getoption("--shape-checks"):
        config.pluginmanager.import_plugin("tests.support.shape_checks")  # before any module of the package
    config.pluginmanager.import_plugin("tests.support.fixtures")
