from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st

from forecast.cli.compose import compose_command, describe_keys, read_comments
from forecast.cli.overrides import parse, quote, unknown_flag, values_of
from forecast.system.errors import ConfigError
from forecast.system.formatting import read_mapping, write_mapping
from forecast.system.hydra_internals import parse_arguments
from tests.support.configurations import COMMANDS

pytestmark = pytest.mark.slow


@example("(a) [b] {c}: $d;")
@example("/tmp/a=b/c,d.csv")
@example("C:\\data\\my folder\\")
@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1))
def test_any_text_survives_quoting(text: str) -> None:
    quoted = text[0] == text[-1] and text[0] in "'\"" and len(text) > 1
    if quoted or text in ("null", "???") or text.startswith("${"):
        return
    (override,) = OverridesParser.create().parse_overrides([quote(f"data.path={text}", sweep=False)])
    assert override.value() == text


def test_a_value_in_quotes_is_one_value_of_a_sweep() -> None:
    typed = """data.target='south [bikes, both ways]',"a, b",it's"""
    (parsed,) = parse([quote(typed, sweep=True)])
    assert [value.text for value in values_of(parsed)] == ["south [bikes, both ways]", "a, b", "it's"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ('data.fill={"wv (m/s)": zero}', {"wv (m/s)": "zero"}),
        ("data.fill={température: zero}", {"température": "zero"}),
        ("data.lower={it's: 0, 'a, b': 1.5}", {"it's": 0, "a, b": 1.5}),
        ("data.lower={Grid load: 0}", {"Grid load": 0}),  # Hydra reads it itself
    ],
)
def test_mappings_take_any_column_name(typed: str, meant: dict[str, Any]) -> None:
    (override,) = parse([quote(typed, sweep=False)])
    assert read_mapping(override.value()) == meant


@pytest.mark.parametrize("name", ["load", "Grid load", "wv (m/s)", "a: b", "température", "12", '"x"', "null"])
def test_a_written_mapping_is_read_again(name: str) -> None:
    assert read_mapping(write_mapping(name, 0)) == {name: 0}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_key_in_the_help_of_a_command_has_a_comment(command: str) -> None:
    lines = compose_command(command, []).hydra.help.template.splitlines()
    assert "${" not in "".join(lines)
    assert sum(line.startswith("  ") for line in lines) > 5
    assert max(map(len, lines)) <= 120


def test_comments_of_a_file_are_read_by_key(tmp_path: Path) -> None:
    path = tmp_path / "any.yaml"
    path.write_text(
        "# A comment on the file.\n"
        "plain: 1\n"
        'mark: "#"       # one # two\n'
        "long: null      # first line,\n"
        "                # second line\n"
        "# Not a continuation.\n"
        "group:          # of keys\n"
        "  inner: []     # within\n"
        "other: 2        # after\n"
    )
    assert read_comments(path) == {
        "mark": "one # two",
        "long": "first line, second line",
        "group": "of keys",
        "group.inner": "within",
        "other": "after",
    }


@pytest.mark.parametrize(("typed", "default"), [([], "336"), (["model=informer"], "96"), (["seq_len=48"], "48")])
def test_defaults_are_those_of_the_chosen_options(typed: list[str], default: str) -> None:
    row = describe_keys("seq_len", _root_=compose_command("train", typed))
    assert row.startswith("  seq_len             steps of history")
    assert row.endswith(f"(default: {default})")


@pytest.mark.parametrize(
    ("command", "typed", "meant"),
    [
        ("train", "--epochs", "trainer.max_epochs=VALUE"),
        ("train", "--batch-size=64", "data.batch_size=64"),
        ("train", "--seed", "seed=VALUE"),
        ("train", "--horizon", "pred_len=VALUE"),
        ("predict", "--horizon", "horizon=VALUE"),
        ("predict", "--file=a-b.csv", "data.path=a-b.csv"),
    ],
)
def test_a_flag_of_other_programs_names_its_key(command: str, typed: str, meant: str) -> None:
    assert parse_arguments([typed, "3"]).unknown == [typed]
    assert unknown_flag(typed, compose_command(command, [])).endswith(f": write {meant}")


@pytest.mark.parametrize(
    ("command", "typed", "meant"),
    [("train", "epochs=3", "trainer.max_epochs"), ("predict", "run=runs/A", "checkpoint")],
)
def test_a_key_of_other_programs_names_the_key(command: str, typed: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=rf"did you mean {meant}\?"):
        compose_command(command, [typed])
