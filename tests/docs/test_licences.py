"""docs/licences.md lists every dependency with its version in constraints.txt and its licence."""

import importlib.machinery
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def licences() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("licences", str(ROOT / "scripts" / "licences"))
    spec = importlib.util.spec_from_loader("licences", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_the_page_is_current(licences: ModuleType) -> None:
    page = (ROOT / "docs" / "licences.md").read_text()
    assert licences.make_page(page) == page, "run scripts/licences"
    assert "\n- torch 2." in page


def test_an_unknown_licence_is_refused_and_one_of_the_page_is_kept(licences: ModuleType) -> None:
    assert licences.find_licence("nowhere", "1.0", {"nowhere 1.0": "MIT"}) == "MIT"
    with pytest.raises(licences.UnknownLicence, match=r"^nowhere 1\.0: no licence is known"):
        licences.find_licence("nowhere", "1.0", {"nowhere 0.9": "MIT"})
