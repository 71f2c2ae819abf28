"""The files of `tests/support/malformed`: those that are read or refused, and the settings that messages name."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from forecast.cli.overrides import quote
from forecast.data import Panel
from forecast.data.files.sources import FileSource, LongSource
from forecast.system.errors import ForecastError, printable
from tests.support.malformed import files, tables
from tests.support.malformed.case import Case, advised

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("types_unchecked")]


def read(case: Case, folder: Path, advice: tuple[str, ...] = ()) -> Panel:
    """Read the file of a case with its overrides, of which those that the advice names are replaced."""
    typed = [quote(one, sweep=False) for one in case.typed(folder, advice, defaults=("data=csv",))]
    given = {one.key_or_group: one.value() for one in OverridesParser.create().parse_overrides(typed)}
    source = {"csv": FileSource, "long": LongSource}[given.pop("data")]  # type: ignore[reportArgumentType]
    return source(**{key.removeprefix("data."): value for key, value in given.items()}).read()


@pytest.mark.parametrize("case", files.READ, ids=lambda case: case.what)
@pytest.mark.filterwarnings("ignore:.*offset from UTC changes:UserWarning")
def test_an_unusual_file_is_read_as_the_good_one(case: Case, tmp_path: Path) -> None:
    table = read(case, tmp_path)
    assert table.grid.equals(tables.DATES)
    assert table.columns == tables.COLUMNS
    np.testing.assert_array_equal(table.values, tables.VALUES)


@pytest.mark.parametrize("case", files.MISSING, ids=lambda case: case.what)
@pytest.mark.filterwarnings("ignore:.*where clocks went forward:UserWarning")
def test_what_a_file_lacks_stays_missing(case: Case, tmp_path: Path) -> None:
    table = read(case, tmp_path)
    measured = table.values[~np.isnan(table.values)]
    assert 1 <= table.missing.sum() <= 2
    assert tables.VALUES.size - 2 <= measured.size <= tables.VALUES.size
    assert np.isin(measured, tables.VALUES).all()


@pytest.mark.parametrize("case", files.REFUSED, ids=lambda case: case.what)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_malformed_file_is_refused_with_its_reason(case: Case, tmp_path: Path) -> None:
    with pytest.raises(ForecastError) as refused:
        read(case, tmp_path)
    line = f"error: {printable(str(refused.value))}"
    assert case.is_said(line, tmp_path / case.name), line


@pytest.mark.parametrize(("case", "advice"), advised(files.REFUSED))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_settings_that_messages_advise_read_the_file(case: Case, advice: tuple[str, ...], tmp_path: Path) -> None:
    """After the settings of one message, the next message may advise others."""
    for _ in range(3):
        try:
            assert read(case, tmp_path, advice).values.shape[1] >= 1
            return
        except ForecastError as refused:
            advice = (*advice, *replace(case, says=str(refused)).advice[0])
    read(case, tmp_path, advice)
